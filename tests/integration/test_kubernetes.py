"""The Kubernetes actuator by the official client, at a double of the API server (tests/apiserver) over real HTTP."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from simulators.plant import Mode, Order, Receipt, Setpoints, Status, Topology
from tests.apiserver.controllers import Controllers
from tests.apiserver.server import ApiServer, Rule
from tests.servers import certificate
from tuner.actuators.base import Actuator
from tuner.actuators.registry import make
from tuner.actuators.site import Site
from tuner.errors import ConfigError
from tuner.kits.actuators import Stage, assert_conforms

incluster_config = pytest.importorskip(
    "kubernetes.config.incluster_config", reason="the official client is an extra: pip install 'equipoise[kubernetes]'"
)

SITE = Site(Topology(mode=Mode.OVERLAPPED, gpus_total=256, gpus_per_engine=8))
RBAC = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes" / "rbac.yaml"


def role() -> tuple[Rule, ...]:
    """The rights of the manifest that we ship, names of objects aside: they are all that the tests' token has."""
    found = next(document for document in YAML(typ="safe").load_all(RBAC) if document["kind"] == "Role")
    return tuple(Rule(tuple(r["apiGroups"]), tuple(r["resources"]), tuple(r["verbs"])) for r in found["rules"])


ROLE = role()
READER = tuple(Rule(rule.groups, rule.resources, ("get", "list")) for rule in ROLE)
TARGETS: dict[str, dict[str, Any]] = {
    "scale": {"target": "scale"},
    "leaderworkerset": {"target": "leaderworkerset"},
    "raycluster": {"target": "raycluster", "group": "rollout"},
}
COLLECTIONS = {
    "scale": "apis/apps/v1/deployments",
    "leaderworkerset": "apis/leaderworkerset.x-k8s.io/v1/leaderworkersets",
    "raycluster": "apis/ray.io/v1/rayclusters",
}


@dataclass
class World:
    """A namespace with one workload of four replicas, and actuators that scale it."""

    folder: Path
    kind: str
    api: ApiServer = field(default_factory=lambda: ApiServer({"right": ROLE, "reader": READER}))

    def __post_init__(self) -> None:
        self.controllers = Controllers(self.api.store)
        groups = [
            {"groupName": name, "replicas": 4, "minReplicas": 0, "maxReplicas": 10} for name in ("train", "rollout")
        ]
        spec: dict[str, Any] = {"workerGroupSpecs": groups} if self.kind == "raycluster" else {"replicas": 4}
        kind = "RayCluster" if self.kind == "raycluster" else "Workload"
        self.api.store.create(self.key, {"kind": kind, "metadata": {"name": "gen"}, "spec": spec})
        for _ in range(10):
            self.controllers.step()

    @property
    def key(self) -> tuple[str, str, str]:
        return (COLLECTIONS[self.kind], "rl", "gen")

    @property
    def replicas(self) -> int:
        spec = self.api.store.get(self.key)["spec"]
        return int(spec["workerGroupSpecs"][1]["replicas"] if self.kind == "raycluster" else spec["replicas"])

    def set(self, replicas: int) -> None:
        """By somebody else."""
        held = self.api.store.get(self.key)
        spec = held["spec"]["workerGroupSpecs"][1] if self.kind == "raycluster" else held["spec"]
        spec["replicas"] = replicas
        self.api.store.replace(self.key, held)

    def actuator(self, token: str = "right", **options: Any) -> Actuator:
        named = {**TARGETS[self.kind], "namespace": "rl", "name": "gen", "gpus_per_replica": 8, "timeout_s": 5.0}
        return make("kubernetes", {**named, "kubeconfig": self.kubeconfig(token), "identity": "one", **options}, SITE)

    def kubeconfig(self, token: str) -> Path:
        path = self.folder / f"kubeconfig-{token}"
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": self.api.url}}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }
        path.write_text(json.dumps(document), encoding="utf-8")
        return path

    def obeyed(self, actuator: Actuator, order: Order, now_s: float = 1000.0) -> Receipt:
        for look in range(50):
            receipt = actuator.apply(order, now_s + look)
            if receipt.status is not Status.PENDING:
                return receipt
            self.controllers.step()
        return receipt


@pytest.fixture(params=list(TARGETS))
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, str(request.param))
    yield made
    made.api.close()


@pytest.fixture
def deployment(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, "scale")
    yield made
    made.api.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, "raycluster")
    yield made
    made.api.close()


def to(replicas: int, name: str = "d7.1", token: int = 3) -> Order:
    return Order(Setpoints(gpus_generator=8 * replicas), name, token)


def reason(receipt: Receipt) -> str:
    return receipt.outcomes["gpus_generator"].reason


def test_it_conforms(world: World) -> None:
    stage = Stage(
        world.actuator,
        Setpoints(gpus_generator=48, engines=6),
        illegal=(Setpoints(gpus_generator=52), Setpoints(gpus_generator=264)),
        settle=world.controllers.step,
        effects=lambda: world.replicas,
        remembers_tokens=True,
        site=SITE,
    )
    assert_conforms(stage)


def test_it_grows_and_shrinks_and_is_in_force_when_the_replicas_are_there_or_gone(world: World) -> None:
    actuator = world.actuator()
    assert actuator.current().gpus_generator == 32
    assert actuator.apply(to(6), 1000.0).status is Status.PENDING
    assert actuator.current().gpus_generator == 32
    assert world.obeyed(actuator, to(6)).status is Status.APPLIED
    assert actuator.current().gpus_generator == 48
    assert actuator.apply(to(2, "d8.1"), 1100.0).status is Status.PENDING
    assert world.obeyed(actuator, to(2, "d8.1"), 1100.0).status is Status.APPLIED
    assert actuator.current().gpus_generator == 16


def test_a_status_that_moves_between_reading_and_writing_is_read_again(world: World) -> None:
    actuator = world.actuator()
    actuator.apply(to(5), 1000.0)
    world.obeyed(actuator, to(5))
    held = world.api.store.get(world.key)
    touch = {"metadata": {}, "status": {**(held.get("status") or {}), "conditions": [{"type": "Available"}]}}
    world.api.before_write += [lambda: None, lambda: world.api.store.replace(world.key, touch, status=True)]
    assert world.obeyed(actuator, to(6, "d8.1"), 1100.0).status is Status.APPLIED
    assert world.replicas == 6


def test_a_rolling_update_is_no_change_of_the_number(deployment: World) -> None:
    """A new image: for some minutes one more is there than the spec says, and nobody has turned a knob."""
    held = deployment.api.store.get(deployment.key)
    for status, engines in (({"updatedReplicas": 2}, 4), ({"updatedReplicas": 2, "readyReplicas": 3}, 3), ({}, 5)):
        told = {"replicas": 5, "readyReplicas": 4, **status}
        deployment.api.store.replace(deployment.key, {"metadata": {}, "status": told}, status=True)
        assert deployment.actuator().current().engines == engines
    assert held["spec"]["replicas"] == 4


def test_replicas_that_somebody_else_sets_meanwhile_are_two_writers(world: World) -> None:
    actuator = world.actuator()
    world.api.before_write += [lambda: None, lambda: world.set(7)]
    receipt = actuator.apply(to(6), 1000.0)
    assert "set replicas of gen from 4 to 7 while we were writing: two writers" in reason(receipt)
    assert world.replicas == 7


def test_replicas_that_somebody_else_sets_back_afterwards_are_not_fought_over(world: World) -> None:
    actuator = world.actuator()
    actuator.apply(to(6), 1000.0)
    world.set(4)
    assert "was set to 6 and is at 4 again: two writers" in reason(actuator.apply(to(6), 1001.0))
    assert world.replicas == 4


def test_an_api_that_is_silent_for_a_moment_does_not_end_a_change(deployment: World) -> None:
    actuator = deployment.actuator(timeout_s=0.2)
    actuator.apply(to(6), 1000.0)
    assert actuator.apply(to(6), 1001.0).status is Status.PENDING
    deployment.api.slow_s = 0.5
    assert actuator.apply(to(6), 1002.0).status is Status.PENDING
    deployment.api.slow_s = 0.0
    assert deployment.obeyed(actuator, to(6), 1003.0).status is Status.APPLIED


def test_the_lease_is_kept_while_a_change_is_under_way(deployment: World) -> None:
    actuator = deployment.actuator(identity="one")
    for now_s in range(1000, 1200, 25):
        assert actuator.apply(to(6), float(now_s)).status is Status.PENDING
    deployment.set(5)
    assert "one holds the lease" in reason(deployment.actuator(identity="two").apply(to(7, "d8.1"), 1200.0))


def test_a_lease_of_another_controller_is_respected_until_it_runs_out(world: World) -> None:
    assert world.actuator(identity="one").apply(to(6), 1000.0).status is Status.PENDING
    other = world.actuator(identity="two")
    for _ in range(10):
        world.controllers.step()
    assert "one holds the lease equipoise-gen" in reason(other.apply(to(5, "d9.1"), 1010.0))
    assert world.replicas == 6
    assert other.apply(to(5, "d9.1"), 1070.0).status is Status.PENDING


def test_two_that_take_the_lease_at_once_are_told_apart(deployment: World) -> None:
    deployment.actuator(identity="one").apply(to(5), 1000.0)
    for _ in range(10):
        deployment.controllers.step()
    three = deployment.actuator(identity="three")
    deployment.api.before_write.append(lambda: _touched(deployment, "equipoise-gen"))
    receipt = deployment.actuator(identity="two").apply(to(6, "d8.1"), 2000.0)
    assert "another took the lease equipoise-gen just now" in reason(receipt)
    assert deployment.replicas == 5
    assert three.apply(to(6, "d8.2"), 2001.0).status is Status.PENDING


def _touched(world: World, name: str) -> None:
    key = ("apis/coordination.k8s.io/v1/leases", "rl", name)
    world.api.store.replace(key, world.api.store.get(key))


def test_a_closed_daemon_gives_the_lease_back(deployment: World) -> None:
    one = deployment.actuator(identity="one")
    one.apply(to(6), 1000.0)
    one.close()
    for _ in range(10):
        deployment.controllers.step()
    assert deployment.actuator(identity="two").apply(to(5, "d8.1"), 1001.0).status is Status.PENDING


def test_replicas_that_never_become_ready_are_scaled_back(world: World) -> None:
    world.controllers.room = 5
    actuator = world.actuator(ready_timeout_s=20.0)
    receipt = world.obeyed(actuator, to(8), 1000.0)
    assert receipt.status is Status.REFUSED
    assert "5 of 8 replicas in force after 20 s: scaled back to 4" in reason(receipt)
    assert world.replicas == 4
    again = world.actuator(ready_timeout_s=20.0).apply(to(8), 1100.0)
    assert "scaled back to 4" in reason(again)


def test_a_new_daemon_waits_for_the_change_that_the_old_one_began(world: World) -> None:
    world.actuator().apply(to(6), 1000.0)
    other = world.actuator().apply(to(2, "d8.1"), 1001.0)
    assert "has to wait: gpus_generator=48" in reason(other)
    assert world.obeyed(world.actuator(), to(6), 1002.0).status is Status.APPLIED


@pytest.mark.parametrize(
    ("token", "words"), [("reader", "give its role the verb create"), ("stranger", "Unauthorized")]
)
def test_missing_rights_are_said_with_the_verb(deployment: World, token: str, words: str) -> None:
    assert words in reason(deployment.actuator(token).apply(to(6), 1000.0))
    assert deployment.replicas == 4


def test_a_server_that_hangs_or_is_gone_is_unknown_and_refused(deployment: World) -> None:
    actuator = deployment.actuator(timeout_s=0.2)
    deployment.api.slow_s = 1.0
    begun = time.monotonic()
    assert actuator.current() == Setpoints()
    assert time.monotonic() - begun < 5.0
    deployment.api.slow_s = 0.0
    deployment.api.close()
    assert "Kubernetes does not get" in reason(actuator.apply(to(6), 1000.0))


def test_workers_that_are_not_ready_go_first_and_then_the_youngest(cluster: World) -> None:
    store = cluster.api.store
    names = [pod["metadata"]["name"] for pod in store.listed("api/v1/pods", "rl", "ray.io/group=rollout")]
    youngest, idle = names[-1], names[0]
    store.replace(("api/v1/pods", "rl", idle), {"status": {"conditions": []}}, status=True)
    cluster.actuator().apply(to(2), 1000.0)
    group = store.get(cluster.key)["spec"]["workerGroupSpecs"][1]
    assert group["replicas"] == 2
    assert group["scaleStrategy"] == {"workersToDelete": sorted([idle, youngest])}
    assert "scaleStrategy" not in store.get(cluster.key)["spec"]["workerGroupSpecs"][0]


def test_a_replica_of_several_hosts_goes_whole(tmp_path: Path) -> None:
    world = World(tmp_path, "raycluster")
    held = world.api.store.get(world.key)
    held["spec"]["workerGroupSpecs"][1] |= {"numOfHosts": 2, "replicas": 8}
    world.api.store.replace(world.key, held)
    for pod in world.api.store.listed("api/v1/pods", "rl", "ray.io/group=rollout"):
        world.api.store.delete(("api/v1/pods", "rl", pod["metadata"]["name"]))
    for _ in range(12):
        world.controllers.step()
    actuator = world.actuator()
    assert actuator.current().gpus_generator == 64
    actuator.apply(to(7), 1000.0)
    going = world.api.store.get(world.key)["spec"]["workerGroupSpecs"][1]["scaleStrategy"]["workersToDelete"]
    assert len(going) == 2
    assert len({name.rpartition("-")[0] for name in going}) == 1
    world.api.close()


def test_two_groups_of_one_cluster_are_both_sides_of_a_job_and_know_each_its_own_change(cluster: World) -> None:
    cluster.controllers.room = 5
    generator = cluster.actuator(ready_timeout_s=20.0)
    trainer = cluster.actuator(side="gpus_trainer", group="train")
    assert cluster.obeyed(generator, to(8), 1000.0).status is Status.REFUSED
    shrink = Order(Setpoints(gpus_trainer=16), "d8.1", 3)
    assert trainer.apply(shrink, 1100.0).status is Status.PENDING
    assert "scaled back to 4" in reason(generator.apply(to(8), 1101.0)), "its own failure is not forgotten"
    assert "8 replicas" not in str(trainer.apply(shrink, 1102.0))
    again = cluster.actuator(side="gpus_trainer", group="train")
    assert again.apply(Order(Setpoints(gpus_trainer=24), "d9.1", 3), 1103.0).status is Status.REFUSED


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda spec: spec.update(enableInTreeAutoscaling=True), "Ray's own autoscaler moves its groups"),
        (lambda spec: spec["workerGroupSpecs"][1].update(maxReplicas=5), "outside its minReplicas=0, maxReplicas=5"),
        (
            lambda spec: spec["workerGroupSpecs"][1].update(groupName="other"),
            "no worker group 'rollout'; there are train, other",
        ),
    ],
)
def test_a_group_that_is_not_ours_to_move_is_refused(cluster: World, change: Callable[[Any], None], words: str) -> None:
    held = cluster.api.store.get(cluster.key)
    change(held["spec"])
    cluster.api.store.replace(cluster.key, held)
    assert words in reason(cluster.actuator().apply(to(6), 1000.0))


def test_in_a_pod_its_service_account_is_enough_and_its_token_may_rotate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No kubeconfig, as the manifests deploy it: address by environment, token and authority by files."""
    api = ApiServer({"right": ROLE, "later": ROLE}, certificate(tmp_path))
    world = World(tmp_path, "scale", api)
    (tmp_path / "token").write_text("right")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.pem"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(api.port))
    actuator = world.actuator(kubeconfig=None)
    assert actuator.current().gpus_generator == 32
    (tmp_path / "token").write_text("later")
    del api.roles["right"]
    with monkeypatch.context() as later:
        later.setattr(incluster_config, "datetime", InTwoMinutes)
        assert actuator.current().gpus_generator == 32
        (tmp_path / "token").write_text("")
        later.setattr(InTwoMinutes.datetime, "ahead", timedelta(minutes=4))
        assert "Kubernetes does not get" in reason(actuator.apply(to(6), 1000.0))
    api.close()


class InTwoMinutes:
    """The module `datetime`, as the client will find it then: it reads its token anew once a minute."""

    timedelta = timedelta

    class datetime(datetime):  # noqa: N801
        ahead = timedelta(minutes=2)

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> "InTwoMinutes.datetime":
            return super().now(tz) + cls.ahead


def test_a_section_that_fits_no_cluster_is_refused(tmp_path: Path) -> None:
    options = {"target": "scale", "namespace": "rl", "name": "gen", "gpus_per_replica": 8}
    with pytest.raises(ConfigError, match="no access to Kubernetes"):
        make("kubernetes", {**options, "kubeconfig": tmp_path / "none"}, SITE)
    with pytest.raises(ConfigError, match="group names a RayCluster's worker group"):
        make("kubernetes", {**options, "target": "raycluster"}, SITE)
    with pytest.raises(ConfigError, match=r"name='\.\./secret'"):
        make("kubernetes", {**options, "name": "../secret"}, SITE)
