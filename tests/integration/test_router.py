"""The router actuator at the real sglang-router and the real smg, in front of small doubles of engines."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from simulators.plant import Mode, Order, Receipt, Setpoints, Status, Topology
from tests.integration.engines import Engine
from tuner.actuators.base import Actuator
from tuner.actuators.registry import make
from tuner.actuators.site import Site
from tuner.kits.actuators import Stage, assert_conforms

SITE = Site(Topology(mode=Mode.OVERLAPPED, gpus_total=128, gpus_per_engine=8))
MODULES = {"smg": "smg.launch_router", "sglang-router": "sglang_router.launch_router"}
HEALTH = ("--health-check-interval-secs", "1", "--health-failure-threshold", "2", "--worker-startup-timeout-secs", "3")


@pytest.fixture(scope="module", params=MODULES)
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The package with its dependencies, away from our own environment."""
    name, folder = str(request.param), tmp_path_factory.mktemp("router")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        pytest.skip(f"{name} does not install here: {done.stderr.strip()[-200:]}")
    return name, folder


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def router(installed: tuple[str, Path], tmp_path: Path) -> Iterator[str]:
    name, folder = installed
    port, metrics = free_port(), free_port()
    listen = ("--host", "127.0.0.1", "--port", str(port), "--prometheus-host", "127.0.0.1", "--prometheus-port")
    command = [sys.executable, "-m", MODULES[name], *listen, str(metrics), *HEALTH]
    environment = os.environ | {"PYTHONPATH": str(folder)}
    with (tmp_path / "router.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        until(lambda: answers(url), "the router to answer")
        yield url
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def answers(url: str) -> bool:
    try:
        return bool(urllib.request.urlopen(url + "/workers", timeout=1).status == 200)
    except OSError:
        return False


def until(happened: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 30.0
    while not happened():
        assert time.monotonic() < deadline, f"waited for {what}"
        time.sleep(0.05)


@pytest.fixture
def engines() -> Iterator[list[Engine]]:
    fleet = [Engine() for _ in range(4)]
    yield fleet
    for engine in fleet:
        engine.die()


def actuator_at(router: str, engines: list[Engine], **options: Any) -> Actuator:
    return make("router", {"url": router, "engines": [e.url for e in engines], "timeout_s": 3.0, **options}, SITE)


def listed(router: str) -> list[str]:
    with urllib.request.urlopen(router + "/workers", timeout=3) as response:
        return [worker["url"] for worker in json.load(response)["workers"]]


def added(router: str, engine: Engine) -> None:
    """By somebody else's hand."""
    body = json.dumps({"url": engine.url}).encode()
    request = urllib.request.Request(router + "/workers", body, {"content-type": "application/json"})
    urllib.request.urlopen(request, timeout=3).close()
    until(lambda: engine.url in listed(router), "the engine to be listed")


def obeyed(actuator: Actuator, count: int, name: str) -> Receipt:
    """The order, again and again as the loop does, until it is no longer pending."""
    order = Order(Setpoints(gpus_generator=8 * count), name, 1)
    deadline = time.monotonic() + 30.0
    while True:
        receipt = actuator.apply(order, time.monotonic())
        if receipt.status is not Status.PENDING or time.monotonic() > deadline:
            return receipt
        time.sleep(0.1)


def reason(receipt: Receipt) -> str:
    return receipt.outcomes["gpus_generator"].reason


def test_it_conforms(router: str, engines: list[Engine]) -> None:
    for engine in engines[:2]:
        added(router, engine)
    stage = Stage(
        lambda: actuator_at(router, engines),
        Setpoints(gpus_generator=24, engines=3),
        illegal=(Setpoints(gpus_generator=20), Setpoints(engines=5), Setpoints(gpus_generator=24, engines=2)),
        settle=lambda: time.sleep(0.2),
        effects=lambda: len(listed(router)),
        site=SITE,
    )
    until(lambda: actuator_at(router, engines).current().engines == 2, "both engines")
    assert_conforms(stage)


def test_engines_are_added_in_the_order_of_the_list_and_drained_from_its_end(
    router: str, engines: list[Engine]
) -> None:
    actuator = actuator_at(router, engines)
    assert actuator.current() == Setpoints(gpus_generator=0, engines=0)
    assert obeyed(actuator, 3, "d1.1").status is Status.APPLIED
    assert set(listed(router)) == {e.url for e in engines[:3]}
    assert actuator.inventory().engines_current == 3
    assert obeyed(actuator, 1, "d2.1").status is Status.APPLIED
    assert actuator.current().engines == 1
    until(lambda: listed(router) == [engines[0].url], "the drained ones to be gone")


def test_a_request_under_way_outlives_the_removal_of_its_engine(router: str, engines: list[Engine]) -> None:
    engines[0].slow_s = 6.0
    actuator = actuator_at(router, engines[:1])
    assert obeyed(actuator, 1, "d1.1").status is Status.APPLIED
    said: list[Any] = []

    def ask() -> None:
        body = json.dumps({"text": "x", "sampling_params": {}, "model": "double"}).encode()
        request = urllib.request.Request(router + "/generate", body, {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=20) as response:
            said.append(json.load(response))

    asking = threading.Thread(target=ask)
    asking.start()
    until(lambda: engines[0].requests > 0, "the request to arrive")
    added(router, engines[1])
    engines[0].healthy = False  # it is the first to go, with its request
    both = actuator_at(router, engines[:2])
    until(lambda: both.inventory().gpus_generator == 8, "the router to call it unhealthy")
    both.apply(Order(Setpoints(engines=1), "d2.1", 1), time.monotonic())
    assert asking.is_alive()
    asking.join(20)
    assert listed(router) == [engines[1].url] or both.current().engines == 1
    assert said[0]["text"] == "double"


def test_a_dead_engine_is_seen_and_is_the_first_to_go(router: str, engines: list[Engine]) -> None:
    actuator = actuator_at(router, engines)
    assert obeyed(actuator, 3, "d1.1").status is Status.APPLIED
    engines[0].die()
    until(lambda: actuator.inventory().engines_current == 2, "the loss to be seen")
    assert obeyed(actuator, 2, "d2.1").status is Status.APPLIED
    until(lambda: set(listed(router)) == {e.url for e in engines[1:3]}, "the dead one to be gone")


def test_an_addition_that_fails_is_taken_out_again_and_said(router: str, engines: list[Engine]) -> None:
    engines[1].healthy = False
    actuator = actuator_at(router, engines, job_timeout_s=5.0)
    receipt = obeyed(actuator, 2, "d1.1")
    assert receipt.status is Status.REFUSED
    assert "1 of 2 engines were turned" in reason(receipt)
    assert actuator.current().engines == 1
    again = actuator.apply(Order(Setpoints(gpus_generator=16), "d1.1", 1), time.monotonic())
    assert "1 of 2 engines were turned" in reason(again)


def test_an_engine_that_was_never_given_the_weights_is_not_added(router: str, engines: list[Engine]) -> None:
    for engine in engines[1:]:
        engine.version = "3"
    actuator = actuator_at(router, engines)
    assert obeyed(actuator, 1, "d1.1").status is Status.APPLIED
    receipt = obeyed(actuator, 2, "d2.1")
    assert receipt.status is Status.REFUSED
    assert "0 stand ready with version 7" in reason(receipt)
    assert "serves 3" in reason(receipt)


def test_an_engine_outside_the_weight_sync_set_stops_everything(router: str, engines: list[Engine]) -> None:
    added(router, engines[3])
    receipt = obeyed(actuator_at(router, engines[:3]), 2, "d1.1")
    assert f"{engines[3].url} serves and is not in the weight-sync set" in reason(receipt)
    assert listed(router) == [engines[3].url]


def test_two_versions_in_service_are_a_publication_under_way(router: str, engines: list[Engine]) -> None:
    actuator = actuator_at(router, engines)
    assert obeyed(actuator, 2, "d1.1").status is Status.APPLIED
    assert not actuator.inventory().syncing
    engines[0].version = "10"
    seen = actuator.inventory()
    assert (seen.syncing, seen.engines_current) == (True, 1)


def test_a_router_that_is_not_there_is_unknown_and_refused(engines: list[Engine]) -> None:
    actuator = actuator_at(f"http://127.0.0.1:{free_port()}", engines)
    assert actuator.current() == Setpoints()
    assert "failed: ConnectionRefusedError" in reason(obeyed(actuator, 1, "d1.1"))
