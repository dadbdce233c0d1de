"""A plant of tests under automatic control, for hours, with all that was decided kept in memory."""

from dataclasses import dataclass, field, replace
from typing import Any

from policies.base import Interval
from policies.commands import ControlMode
from policies.control import Action, Capability, Decision, HoldCode, Policy, Proposal, View
from policies.laws.rate_balance import RateBalance
from policies.rules import Rules
from policies.settings import SPLIT, with_trainer
from policies.state import State
from simulators.clock import VirtualClock
from simulators.plant import Plant, Receipt
from tests.plants import TOPOLOGY
from tuner.journal import Entry
from tuner.loop import NoInbox, Parts, run

HOUR = 3600.0
CAPABILITIES = (Capability(SPLIT, actuation_s=60.0, cost_s=60.0), Capability("max_in_flight"))


@dataclass
class Kept:
    """A ledger in memory."""

    entries: list[Entry] = field(default_factory=list)

    def commit(self, entry: Entry) -> int:
        self.entries.append(entry)
        return len(self.entries)

    def answer(self, tick_id: int, receipt: Receipt) -> None:
        self.entries[tick_id - 1] = replace(self.entries[tick_id - 1], receipt=receipt)

    @property
    def decisions(self) -> list[Decision]:
        return [e.decision for e in self.entries]

    @property
    def moves(self) -> set[str]:
        """Moves that were begun."""
        return {d.decision_id.split(".")[0] for d in self.decisions if d.action is Action.APPLY}

    def codes(self, since_s: float = 0.0) -> set[HoldCode | None]:
        return {d.code for d in self.decisions if d.at_s >= since_s}


def rules(policy: Policy | None = None, **changes: Any) -> Rules:
    base = Rules(policy or RateBalance(), TOPOLOGY, capabilities=CAPABILITIES, gate=None, earn_auto=False)
    return replace(base, **changes)


def driven(
    plant: Plant, hours: float, by: Rules | None = None, state: State | None = None, period_s: float = 30.0
) -> tuple[State, Kept]:
    """The plant under automatic control for so long."""
    kept = Kept()
    start = state or State(mode=ControlMode.AUTO)
    clock = VirtualClock(start.at_s or 0.0)
    parts = Parts(plant, by or rules(), clock, kept, NoInbox(), period_s)
    return run(parts, start, (start.at_s or 0.0) + hours * HOUR), kept


@dataclass(frozen=True)
class WantsThree:
    """Wants three steps, for a gain of 9 %."""

    def decide(self, view: View) -> Proposal:
        return Proposal(with_trainer(view.in_force, TOPOLOGY, 40), "three steps", Interval(0.06, 0.09, 0.12))
