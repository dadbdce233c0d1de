"""Our own actuators keep what every actuator must keep, and the kit catches those that do not."""

import json
import sys
import time
from pathlib import Path

import pytest

from simulators.plant import Setpoints
from tests.contracts.actuator_kit import Stage, assert_conforms
from tests.unit.actuators.hooks import hook
from tests.unit.actuators.sites import OPENRLHF, PLAIN, PRIME, SLIME, TRL, VERL, site_of
from tuner.actuators.registry import make


def test_the_dry_run_conforms() -> None:
    site = site_of("verl", VERL)
    stage = Stage(lambda: make("dry_run", {}, site), Setpoints(gpus_trainer=48, gpus_generator=208), changes=False)
    assert_conforms(stage)


def test_the_dry_run_conforms_where_no_framework_is_known() -> None:
    stage = Stage(
        lambda: make("dry_run", {"knobs": ["max_in_flight"]}, PLAIN), Setpoints(max_in_flight=512), changes=False
    )
    assert_conforms(stage)


KEEPER = """
import json, sys
state, asked = sys.argv[1], json.load(sys.stdin)
try: there = json.load(open(state))
except FileNotFoundError: there = {"in_force": {"max_in_flight": 1536}, "count": 0}
outcomes = {}
if asked["action"] == "apply":
    there["count"] += 1
    there["in_force"].update(asked["setpoints"])
    outcomes = {k: {"status": "applied", "reason": "done"} for k in asked["setpoints"]}
    json.dump(there, open(state, "w"))
print(json.dumps({"outcomes": outcomes, "in_force": there["in_force"]}))
"""


def test_the_command_conforms(tmp_path: Path) -> None:
    script, state = tmp_path / "keeper.py", tmp_path / "state.json"
    script.write_text(KEEPER, encoding="utf-8")
    options = {"argv": [sys.executable, str(script), str(state)], "knobs": ["max_in_flight"]}
    stage = Stage(
        lambda: make("command", options, PLAIN),
        Setpoints(max_in_flight=512),
        illegal=(Setpoints(max_in_flight=5000),),
        effects=lambda: json.loads(state.read_text())["count"] if state.exists() else 0,
    )
    assert_conforms(stage)


def test_the_control_file_conforms(tmp_path: Path) -> None:
    path = tmp_path / "control.json"
    job = hook("equipoise_control").ControlFile(path)

    def boundary() -> None:
        wanted = job.changed()
        if wanted is not None:
            job.acknowledge(wanted)

    stage = Stage(
        lambda: make("control_file", {"path": path, "knobs": ["max_in_flight", "oversampling_ratio"]}, PLAIN),
        Setpoints(max_in_flight=512, oversampling_ratio=1.5),
        illegal=(Setpoints(max_in_flight=5000), Setpoints(oversampling_ratio=0.5)),
        settle=boundary,
        effects=lambda: json.loads(path.read_text())["sequence"] if path.exists() else 0,
        remembers_tokens=True,
    )
    assert_conforms(stage)


FRAMEWORKS = {
    "verl": (VERL, Setpoints(gpus_trainer=48, gpus_generator=208), "gpus_trainer"),
    "slime": (SLIME, Setpoints(gpus_trainer=32, gpus_generator=224), "gpus_trainer"),
    "openrlhf": (OPENRLHF, Setpoints(gpus_trainer=16, gpus_generator=48), "gpus_trainer"),
    "prime-rl": (PRIME, Setpoints(gpus_trainer=2, gpus_generator=6), "gpus_trainer"),
    "trl": (TRL, Setpoints(max_in_flight=128), "max_in_flight"),
}


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_the_restart_from_configuration_conforms(tmp_path: Path, name: str) -> None:
    config, wish, knob = FRAMEWORKS[name]
    ran, site = tmp_path / "ran", site_of(name, config)
    options = {"override": tmp_path / "override", "restart": ["sh", "-c", f"echo x >> {ran}"], "knobs": [knob]}
    stage = Stage(
        lambda: make("config_restart", options, site),
        wish,
        settle=lambda: time.sleep(0.02),
        effects=lambda: ran.read_text().count("x") if ran.exists() else 0,
        remembers_tokens=True,
    )
    assert_conforms(stage)
