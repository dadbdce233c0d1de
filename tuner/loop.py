"""The loop: observe, tick, write, apply, write the answer. One decision a period, until it is told to stop.

    observe -> tick (pure) -> journal the state and the decision -> apply -> journal the receipt

Written before applied: killed anywhere, the loop goes on from its last row, and orders the same leg again.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf
from typing import Protocol

from policies.conduct import noted
from policies.control import Command, Decision
from policies.controller import tick
from policies.readings import sane
from policies.rules import Rules
from policies.settings import values
from policies.state import State
from simulators.clock import Clock
from simulators.plant import Observation, Order, Outcome, Plant, Receipt, Setpoints, Status
from simulators.snapshot import Note, Snapshot
from tuner.errors import ContractError
from tuner.journal import Entry, Ledger, encoded_decision, encoded_state

PERIOD_S = 30.0
"""Between two ticks: a few scrapes, and far under any settling time."""


class Inbox(Protocol):
    """Where the API, the command line and the kill file put what people say."""

    def drain(self) -> tuple[Command, ...]: ...


class NoInbox:
    """Nobody speaks."""

    def drain(self) -> tuple[Command, ...]:
        return ()


class NoLedger:
    """Nothing is written: for studies, whose runs are repeated from their seeds."""

    def commit(self, entry: Entry) -> int:
        return 0

    def answer(self, tick_id: int, receipt: Receipt) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Parts:
    """What a loop runs on."""

    plant: Plant
    rules: Rules
    clock: Clock
    ledger: Ledger
    inbox: Inbox
    period_s: float = PERIOD_S
    fencing_token: int = 0


def run(parts: Parts, state: State, until_s: float = inf) -> State:
    """Tick once a period until `until_s`, or until a command says stop; the last state."""
    while True:
        now_s = parts.clock.now_s()
        if now_s >= until_s:
            return state
        state = step(parts, state, now_s)
        if state.stopped:
            return state
        parts.clock.wait_until(min(until_s, now_s + parts.period_s))


def step(parts: Parts, state: State, now_s: float) -> State:
    """One tick with its effects."""
    seen, commands = sane(_observed(parts.plant, now_s)), parts.inbox.drain()
    state, decision = tick(parts.rules, state, seen, commands, now_s)
    tick_id = parts.ledger.commit(Entry(now_s, seen, commands, state, decision))
    if decision.order is None:
        return state
    receipt = _applied(parts, decision, decision.order, now_s)
    parts.ledger.answer(tick_id, receipt)
    return noted(state, receipt)


def _observed(plant: Plant, now_s: float) -> Observation:
    """What the plant shows; nothing at all where it fails, and why."""
    try:
        return plant.observe(now_s)
    except ContractError:
        raise
    except Exception as error:
        why = Note("no-observation", f"{type(error).__name__}: {error}")
        return Observation(now_s, Snapshot({}, notes=(why,)), Setpoints())


def _applied(parts: Parts, decision: Decision, order: Setpoints, now_s: float) -> Receipt:
    """The plant's answer; a refusal where it fails, and why."""
    try:
        return parts.plant.apply(Order(order, decision.decision_id, parts.fencing_token), now_s)
    except ContractError:
        raise
    except Exception as error:
        refused = Outcome(Status.REFUSED, f"{type(error).__name__}: {error}")
        return Receipt(decision.decision_id, dict.fromkeys(values(order), refused))


@dataclass(frozen=True, slots=True)
class Difference:
    """A tick that a replay decided otherwise."""

    at_s: float
    was: Decision
    now: Decision


def replayed(rules: Rules, entries: Iterable[Entry], start: State | None = None) -> Iterator[Difference]:
    """The ticks that these rules would have decided otherwise, byte for byte. Under the rules that were in force: none.

    Without the state from before the first entry, that of the first is taken and the comparison begins with the second.
    """
    state = start
    for entry in entries:
        if state is not None:
            after, decision = tick(rules, state, entry.seen, entry.commands, entry.at_s)
            same = encoded_decision(decision) == encoded_decision(entry.decision)
            if not same or encoded_state(after) != encoded_state(entry.state):
                yield Difference(entry.at_s, entry.decision, decision)
        state = entry.state if entry.receipt is None else noted(entry.state, entry.receipt)
