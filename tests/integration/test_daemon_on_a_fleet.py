"""`equipoise run` in auto beside an emulated fleet: read through a real Prometheus server, turned by a user's program.

The job is length-x3-in-25-steps after its drift, 48 times as fast; nothing in it is a measurement of hardware.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from policies.control import Action
from tests.fleet.fleet import Fleet
from tests.fleet.server import BINARY, MISSING, prometheus
from tests.fleet.web import served
from tuner.charter import decoded, rules_of
from tuner.journal import viewed
from tuner.loop import replayed
from tuner.scenario_files import load

pytestmark = pytest.mark.skipif(BINARY is None, reason=MISSING)

ROOT = Path(__file__).resolve().parents[2]
ACCELERATION, START_S = 48.0, 6000.0
PATIENCE_S = 240.0
PROGRAM = """\
import json, sys, urllib.request
asked, url = json.load(sys.stdin), sys.argv[1]
if asked["action"] == "apply":
    keys = ("setpoints", "decision_id", "fencing_token")
    body = json.dumps({key: asked[key] for key in keys}).encode()
    told = urllib.request.Request(url + "/settings", body, method="POST")
    outcomes = json.load(urllib.request.urlopen(told))["outcomes"]
else:
    outcomes = {}
shown = json.load(urllib.request.urlopen(url + "/settings"))
print(json.dumps({"outcomes": outcomes, **shown}))
"""
JOB = """\
[job]
name = "emulated"
[topology]
mode = "overlapped"
gpus_total = 256
gpus_per_engine = 8
trainer_gpu_step = 8
trainer_gpus_min = 32
[setpoints]
gpus_trainer = 80
gpus_generator = 176
batch_rollouts = 512
[[source]]
path = "prometheus+{prometheus}"
[[actuator]]
kind = "command"
argv = [{python}, "turn.py", "{fleet}"]
knobs = ["gpus_trainer", "max_in_flight"]
actuation_s = 5
[policy]
mode = "auto"
earn_auto = false
period_s = 1
[guardrails]
auto_data_changing = ["max_in_flight"]
[server]
port = 0
"""


@dataclass
class Scene:
    fleet: Fleet
    folder: Path
    url: str
    process: "subprocess.Popen[str]"

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.url}{path}", timeout=10.0) as answer:
            return answer.read().decode()

    def status(self) -> Any:
        return json.loads(self.get("/api/v1/status"))


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    fleet = Fleet(load("length-x3-in-25-steps").scenario, ACCELERATION, start_s=START_S)
    with ExitStack() as stack:
        fleet_url = stack.enter_context(served(fleet))
        server = stack.enter_context(prometheus(tmp_path / "prometheus", fleet_url, "400ms"))
        (tmp_path / "turn.py").write_text(PROGRAM)
        job = JOB.format(prometheus=server, fleet=fleet_url, python=json.dumps(sys.executable))
        (tmp_path / "job.toml").write_text(job)
        process = subprocess.Popen(
            [sys.executable, "-m", "equipoise", "run", "--job", "job.toml"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        try:
            first = process.stderr.readline()
            yield Scene(fleet, tmp_path, (re.search(r"page=(\S+)", first) or pytest.fail(first))[1], process)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stderr.close()


def until(true: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.5)


def test_it_moves_gpus_for_good_and_journal_page_and_metrics_tell_the_same(scene: Scene) -> None:
    until(lambda: scene.status().get("move") is not None, "no move began")
    ident = scene.status()["move"]["id"]
    until(lambda: scene.status()["move"] is None, "the move did not end")
    told, page, metrics = scene.status(), scene.get("/"), scene.get("/metrics")
    scene.process.send_signal(signal.SIGTERM)
    assert scene.process.wait(60.0) == 0
    with closing(viewed(scene.folder / "equipoise.journal")) as journal:
        entries, rules = list(journal.entries()), rules_of(decoded(journal.charter() or ""))
    orders = [e.decision.order for e in entries if e.decision.action is Action.APPLY]
    assert orders
    final = told["in_force"]
    assert final["gpus_trainer"] < 80, "longer answers need more engines"
    assert final["gpus_trainer"] + final["gpus_generator"] == 256
    assert any(f"{ident} is done" in e.decision.reason for e in entries)
    families = {f.name: f for f in text_string_to_metric_families(metrics)}
    shown = {s.labels["setpoint"]: s.value for s in families["equipoise_setpoint_actual"].samples}
    assert (shown["gpus_trainer"], shown["gpus_generator"]) == (final["gpus_trainer"], final["gpus_generator"])
    assert f"{ident}." in page
    assert list(replayed(rules, entries)) == []
