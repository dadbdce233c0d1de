"""Our own actuators keep what every actuator must keep, and the kit catches those that do not."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from policies.control import Capability
from policies.settings import values
from simulators.plant import Inventory, Order, Outcome, Receipt, Setpoints, Status
from tests.unit.actuators.hooks import hook
from tests.unit.actuators.sites import OPENRLHF, PLAIN, PRIME, SLIME, TRL, VERL, site_of
from tuner.actuators.registry import make
from tuner.kits.actuators import Stage, assert_conforms


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
    there["count"] += any(there["in_force"].get(k) != v for k, v in asked["setpoints"].items())
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
    job.acknowledge({"max_in_flight": 1536, "oversampling_ratio": 1.25})

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

    def restarts() -> int:
        """Once the one under way has ended: it runs beside us."""
        status, deadline = tmp_path / "override.equipoise.status", time.monotonic() + 30.0
        while status.exists() and "running" in status.read_text() and time.monotonic() < deadline:
            time.sleep(0.01)
        return ran.read_text().count("x") if ran.exists() else 0

    stage = Stage(
        lambda: make("config_restart", options, site),
        wish,
        settle=lambda: time.sleep(0.02),
        effects=restarts,
        remembers_tokens=True,
    )
    assert_conforms(stage)


class Memory:
    """An actuator of one number, and the ways to get it wrong."""

    def __init__(self, world: dict[str, int], fault: str) -> None:
        self.world, self.fault, self.token, self.closed = world, fault, 0, False

    name = "memory"

    def capabilities(self) -> tuple[Capability, ...]:
        return (Capability("max_in_flight"),)

    def current(self) -> Setpoints:
        return Setpoints(max_in_flight=self.world["value"] + (self.fault == "shows another"))

    def inventory(self) -> Inventory:
        return Inventory()

    def apply(self, order: Order, now_s: float) -> Receipt:
        asked = values(order.setpoints)
        value = asked.get("max_in_flight")
        refused = self._refused(order, asked)
        if refused:
            return Receipt(order.decision_id, dict.fromkeys(asked, Outcome(Status.REFUSED, refused)))
        if self.fault == "comes late" and value != self.world["value"]:
            self.world["coming"] = int(value or 0)
            return Receipt(order.decision_id, dict.fromkeys(asked, Outcome(Status.PENDING, "on its way")))
        if value != self.world["value"] or self.fault == "acts twice":
            self.world["count"] += 1
            self.world["value"] = int(value or 0)
        reason = "" if self.fault == "gives no reason" else "set"
        said = [] if self.fault == "is silent" else asked
        return Receipt(order.decision_id, dict.fromkeys(said, Outcome(Status.APPLIED, reason)))

    def _refused(self, order: Order, asked: dict[str, Any]) -> str:
        value = asked.get("max_in_flight")
        if self.closed:
            return "closed"
        if order.fencing_token < self.token and self.fault != "forgets tokens":
            return f"token {order.fencing_token} is old"
        self.token = order.fencing_token
        if self.fault == "obeys anything":
            return "" if value is not None and value == value and abs(value) < 1e9 else "no number"
        return "" if set(asked) == {"max_in_flight"} and 0 < (value or 0) < 1e6 else "not mine"

    def close(self) -> None:
        self.closed = self.fault != "never closes"


def memory(fault: str) -> Stage:
    world = {"value": 1536, "count": 0}

    def arrive() -> None:
        world["value"] = world.pop("coming", world["value"])

    return Stage(
        lambda: Memory(world, fault), Setpoints(max_in_flight=512), settle=arrive, effects=lambda: world["count"]
    )


def test_a_users_own_actuator_conforms() -> None:
    assert_conforms(memory("none"))


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("shows another", "applied, and current"),
        ("acts twice", "the same order twice is one order"),
        ("comes late", "an order that was called off came true afterwards"),
        ("gives no reason", "every outcome has a reason"),
        ("is silent", "one outcome for each ordered setpoint"),
        ("forgets tokens", "a fencing token smaller than one seen is refused"),
        ("obeys anything", "must be refused"),
        ("never closes", "a closed actuator does nothing"),
    ],
)
def test_the_kit_catches_an_actuator_that_breaks_a_rule(fault: str, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        assert_conforms(memory(fault))
