"""What test_ray.py runs: one cluster, several nodes that are lost and come back, one Serve application of doubles."""

import json
import time
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import ray
from ray import serve
from ray.cluster_utils import Cluster

from simulators.plant import Mode, Order, Receipt, Setpoints, Status, Topology
from tuner.actuators.base import Actuator
from tuner.actuators.registry import make
from tuner.actuators.site import Site
from tuner.kits.actuators import Stage, assert_conforms

SITE = Site(Topology(mode=Mode.OVERLAPPED, gpus_total=16, gpus_per_engine=1))
PORT = 18265
QUICK = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 500,
    "health_check_failure_threshold": 3,
}
"""A lost node is noticed in two seconds."""
WAIT_S = 90.0
GENERATOR = {"num_cpus": 1, "num_gpus": 2, "resources": {"generator": 2}}
"""A node for engines; the trainer's GPUs are taken."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    head = {
        "num_cpus": 2,
        "num_gpus": 0,
        "include_dashboard": True,
        "dashboard_host": "127.0.0.1",
        "dashboard_port": PORT,
        "_system_config": QUICK,
    }
    made = Cluster(initialize_head=True, head_node_args=head)
    made.add_node(num_cpus=1, num_gpus=2, resources={"trainer": 1})
    made.add_node(**GENERATOR)
    ray.init(address=made.address)
    serve.start(proxy_location="Disabled")
    yield made
    serve.shutdown()
    ray.shutdown()
    made.shutdown()


ENGINE = {"num_cpus": 0, "num_gpus": 1, "resources": {"generator": 1}}


@serve.deployment(num_replicas=1, ray_actor_options=ENGINE, graceful_shutdown_timeout_s=1)
class Engine:
    """A double: it generates nothing."""

    def __call__(self) -> str:
        return "double"


@pytest.fixture
def application(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    scaled = getattr(request, "param", True)
    serve.run(Engine.bind(), name="rollout", route_prefix=None, external_scaler_enabled=scaled)
    yield "rollout"
    serve.delete("rollout")


def actuator_of(**options: Any) -> Actuator:
    named = {"url": f"http://127.0.0.1:{PORT}", "application": "rollout", "deployment": "Engine"}
    return make("ray", {**named, "trainer_resource": "trainer", **options}, SITE)


def obeyed(actuator: Actuator, engines: int, name: str) -> Receipt:
    order, deadline = Order(Setpoints(gpus_generator=engines), name, 1), time.monotonic() + WAIT_S
    while True:
        receipt = actuator.apply(order, time.monotonic())
        if receipt.status is not Status.PENDING or time.monotonic() > deadline:
            return receipt
        time.sleep(0.3)


def until(happened: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not happened():
        assert time.monotonic() < deadline, f"waited for {what}"
        time.sleep(0.3)


def reason(receipt: Receipt) -> str:
    return receipt.outcomes["gpus_generator"].reason


def target() -> int:
    """The number of replicas that Serve was told."""
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/api/serve/applications/", timeout=10) as response:
        told = json.load(response)["applications"]["rollout"]["deployments"]["Engine"]["target_num_replicas"]
    return int(told)


def test_it_conforms(application: str) -> None:
    stage = Stage(
        actuator_of,
        Setpoints(gpus_generator=2, engines=2),
        illegal=(Setpoints(engines=3), Setpoints(gpus_generator=17)),
        settle=lambda: time.sleep(0.3),
        effects=target,
        site=SITE,
    )
    assert_conforms(stage)


def test_it_grows_and_shrinks_and_shows_the_living_nodes(application: str) -> None:
    actuator = actuator_of()
    until(lambda: actuator.current().engines == 1, "the first engine")
    seen = actuator.inventory()
    assert (seen.gpus_trainer, seen.gpus_generator, seen.engines_current) == (2, 2, 1)
    assert obeyed(actuator, 2, "d1.1").status is Status.APPLIED
    assert target() == 2
    assert obeyed(actuator, 1, "d2.1").status is Status.APPLIED
    assert actuator.current() == Setpoints(gpus_generator=1, engines=1)


def test_a_node_that_is_lost_and_comes_back_while_a_move_runs(cluster: Cluster, application: str) -> None:
    actuator = actuator_of()
    node = cluster.add_node(**GENERATOR)
    until(lambda: actuator.inventory().gpus_generator == 4, "the new node")
    order = Order(Setpoints(gpus_generator=4), "d1.1", 1)
    assert actuator.apply(order, time.monotonic()).status is Status.PENDING
    cluster.remove_node(node, allow_graceful=False)
    until(lambda: actuator.inventory().gpus_generator == 2, "the loss to be seen")
    assert actuator.apply(order, time.monotonic()).status is Status.PENDING
    refused = actuator.apply(Order(Setpoints(gpus_generator=3), "d2.1", 1), time.monotonic())
    assert "has to wait: gpus_generator=4 is still under way" in reason(refused)
    back = cluster.add_node(**GENERATOR)
    assert obeyed(actuator, 4, "d1.1").status is Status.APPLIED
    assert obeyed(actuator, 1, "d3.1").status is Status.APPLIED
    cluster.remove_node(back)


def test_a_move_whose_node_never_comes_back_is_scaled_back(cluster: Cluster, application: str) -> None:
    actuator = actuator_of(ready_timeout_s=10.0)
    node = cluster.add_node(**GENERATOR)
    until(lambda: actuator.inventory().gpus_generator == 4, "the new node")
    actuator.apply(Order(Setpoints(gpus_generator=4), "d1.1", 1), time.monotonic())
    cluster.remove_node(node, allow_graceful=False)
    receipt = obeyed(actuator, 4, "d1.1")
    assert receipt.status is Status.REFUSED
    assert "of 4 replicas in force after 10 s: scaled back to 1" in reason(receipt)
    until(lambda: actuator.current().engines == 1, "the old number")


def test_more_engines_than_living_gpus_are_refused(application: str) -> None:
    assert "3 engines take 3 GPUs, and living nodes have 2" in reason(obeyed(actuator_of(), 3, "d1.1"))


@pytest.mark.parametrize("application", [False], indirect=True)
def test_an_application_that_scales_itself_is_refused(application: str) -> None:
    assert "is not scaled from outside" in reason(obeyed(actuator_of(), 2, "d1.1"))


def test_an_unknown_deployment_is_unknown_and_refused(application: str) -> None:
    actuator = actuator_of(deployment="Other")
    assert actuator.current() == Setpoints()
    assert "there is no deployment Other in rollout" in reason(obeyed(actuator, 2, "d1.1"))
