"""Our own actuators keep what every actuator must keep, and the kit catches those that do not."""

import json
import sys
from pathlib import Path

from simulators.plant import Setpoints
from tests.contracts.actuator_kit import Stage, assert_conforms
from tests.unit.actuators.sites import PLAIN, VERL, site_of
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
