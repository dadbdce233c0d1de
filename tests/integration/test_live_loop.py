"""The whole loop on a live job: a real Prometheus server scrapes the emulated fleet, the controller moves its GPUs."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from policies.commands import ControlMode
from policies.laws.rate_balance import RateBalance
from policies.rules import Rules
from policies.state import State
from tests.fleet.fleet import Fleet
from tests.fleet.hand import FleetHand
from tests.fleet.server import BINARY, MISSING, prometheus
from tests.fleet.web import served
from tuner.journal import Entry
from tuner.live import LivePlant, Stated, source_at
from tuner.loop import NoInbox, NoLedger, Parts, step
from tuner.scenario_files import load

pytestmark = pytest.mark.skipif(BINARY is None, reason=MISSING)

ACCELERATION = 64.0
PATIENCE_S = 120.0
GPUS = 256


class WallClock:
    """A tick takes as long as it takes; the test waits between two."""

    def now_s(self) -> float:
        return time.time()

    def wait_until(self, at_s: float) -> None:
        time.sleep(max(0.0, at_s - time.time()))


@dataclass
class Kept(NoLedger):
    """What was decided, in memory."""

    entries: list[Entry] = field(default_factory=list)

    def commit(self, entry: Entry) -> int:
        self.entries.append(entry)
        return len(self.entries)


@pytest.fixture
def fleet() -> Fleet:
    """A job whose trainer has nearly twice the GPUs that it can use."""
    scenario = load("steady-noise-24h").scenario
    settings = replace(scenario.setpoints, gpus_trainer=120, gpus_generator=136)
    return Fleet(replace(scenario, setpoints=settings), ACCELERATION, start_s=900.0)


@pytest.fixture
def parts(fleet: Fleet, tmp_path: Path) -> Iterator[Parts]:
    topology = fleet.scenario.topology
    with ExitStack() as stack:
        fleet_url = stack.enter_context(served(fleet))
        url = stack.enter_context(prometheus(tmp_path, fleet_url, "300ms"))
        hand = FleetHand(fleet_url, actuation_s=120.0 / ACCELERATION)
        plant = LivePlant([source_at(f"prometheus+{url}")], (hand,), Stated(topology))
        stack.enter_context(closing(plant))
        rules = Rules(RateBalance(), topology, capabilities=hand.capabilities(), gate=None, earn_auto=False)
        yield Parts(plant, rules, WallClock(), Kept(), NoInbox())


def test_a_controller_sees_through_the_server_who_waits_and_moves_gpus_there(fleet: Fleet, parts: Parts) -> None:
    assert isinstance(parts.ledger, Kept)
    state = State(mode=ControlMode.AUTO)
    until_s = time.time() + PATIENCE_S
    while time.time() < until_s and (fleet.in_force()[0].gpus_trainer or 0) > 112:
        state = step(parts, state, time.time())
        time.sleep(0.5)
    settings, there = fleet.in_force()
    assert (settings.gpus_trainer or GPUS) <= 112
    assert (there.gpus_trainer or 0) + (there.gpus_generator or 0) <= GPUS
    ordered = [entry.decision.order for entry in parts.ledger.entries if entry.decision.order is not None]
    assert ordered[0].gpus_trainer == 112, "one step of the lattice, the donor first"
    assert all((order.gpus_trainer or 0) + (order.gpus_generator or 0) <= GPUS for order in ordered)
    waited = [entry.seen.snapshot.get("trainer_wait_s") for entry in parts.ledger.entries]
    assert any(wait is not None and wait > 0.0 for wait in waited)
