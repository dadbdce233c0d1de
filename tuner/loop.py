"""The loop: observe, tick, write, apply, write the answer. One decision a period, until it is told to stop.

    observe -> tick (pure) -> journal the state and the decision -> apply -> journal the receipt

Written before applied: killed anywhere, the loop goes on from its last row, and orders the same leg again.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import inf
from typing import Protocol

from policies.commands import Command, CommandKind
from policies.conduct import noted
from policies.control import Decision
from policies.controller import sane_tick, tick
from policies.rules import Rules
from policies.sanity import sane
from policies.settings import values
from policies.state import State
from simulators.clock import Clock
from simulators.plant import Observation, Order, Outcome, Plant, Receipt, Setpoints, Status
from simulators.snapshot import Note, Snapshot
from tuner.errors import ContractError, LedgerError
from tuner.hearing import overheard
from tuner.journal import Entry, Ledger, encoded_decision, encoded_state

PERIOD_S = 30.0
"""Between two ticks: a few scrapes, and far under any settling time."""


class Inbox(Protocol):
    """Where the API, the command line and the kill file put what people say."""

    def drain(self) -> tuple[Command, ...]: ...

    def put_back(self, commands: tuple[Command, ...]) -> None:
        """They come first at the next drain: the tick that took them was not written."""
        ...


class NoInbox:
    """Nobody speaks."""

    def drain(self) -> tuple[Command, ...]:
        return ()

    def put_back(self, commands: tuple[Command, ...]) -> None:
        return None


class NoLedger:
    """Nothing is written: for studies, whose runs are repeated from their seeds."""

    def commit(self, entry: Entry) -> int:
        return 0

    def answer(self, tick_id: int, receipt: Receipt) -> None:
        return None


@dataclass(frozen=True, slots=True)
class Ticked:
    """One tick as it went."""

    entry: Entry
    state: State
    """What the loop goes on from."""
    tick_id: int | None = None
    """None: it could not be written, so nothing was done and nothing remembered."""
    receipt: Receipt | None = None
    failure: str = ""
    """Why it, or its receipt, could not be written."""
    seconds: float = 0.0
    lag_s: float = 0.0
    """How much later than due it began."""


class Watcher(Protocol):
    """Who looks on: told of each tick, never asked."""

    def ticked(self, ticked: Ticked) -> None: ...


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
    watchers: tuple[Watcher, ...] = ()


def run(parts: Parts, state: State, until_s: float = inf) -> State:
    """Tick once a period until `until_s`, or until a command says stop; the last state."""
    due_s = parts.clock.now_s()
    while True:
        now_s = parts.clock.now_s()
        if now_s >= until_s:
            return state
        ticked = one_tick(parts, state, now_s)
        state = ticked.state
        took_s = parts.clock.now_s() - now_s
        for watcher in parts.watchers:
            watcher.ticked(replace(ticked, seconds=took_s, lag_s=max(0.0, now_s - due_s)))
        if state.stopped:
            return state
        due_s = min(until_s, now_s + parts.period_s)
        parts.clock.wait_until(due_s)


def step(parts: Parts, state: State, now_s: float) -> State:
    """The state after one tick with its effects."""
    return one_tick(parts, state, now_s).state


def one_tick(parts: Parts, state: State, now_s: float) -> Ticked:
    """One tick with its effects. What cannot be written is not done: the state stays, people's words wait."""
    seen, commands = sane(_observed(parts.plant, now_s)), parts.inbox.drain()
    rules, hearing = overheard(parts.rules)
    after, decision = sane_tick(rules, state, seen, commands, now_s)
    entry = Entry(now_s, seen, commands, after, decision, heard=hearing.heard)
    try:
        tick_id = parts.ledger.commit(entry)
    except LedgerError as error:
        stopped = any(command.kind is CommandKind.STOP for command in commands)
        parts.inbox.put_back(tuple(c for c in commands if c.kind is not CommandKind.STOP))
        return Ticked(entry, replace(state, stopped=stopped), failure=str(error))
    if decision.order is None:
        return Ticked(entry, after, tick_id)
    receipt = _applied(parts, decision, decision.order, now_s)
    try:
        parts.ledger.answer(tick_id, receipt)
    except LedgerError as error:
        # Not remembered either, as a replay could not know of it: the same order comes again at the next tick.
        return Ticked(entry, after, tick_id, receipt, str(error))
    return Ticked(entry, noted(after, receipt), tick_id, receipt)


def _observed(plant: Plant, now_s: float) -> Observation:
    """What the plant shows; nothing at all where it fails, and why."""
    try:
        seen: object = plant.observe(now_s)
        why = f"the plant showed {seen!r:.80}, which is no Observation"
    except ContractError:
        raise
    except Exception as error:
        seen, why = None, f"{type(error).__name__}: {error}"
    if isinstance(seen, Observation):
        return seen
    return Observation(now_s, Snapshot({}, notes=(Note("no-observation", why),)), Setpoints())


def _applied(parts: Parts, decision: Decision, order: Setpoints, now_s: float) -> Receipt:
    """The plant's answer; a refusal where it fails, and why."""
    try:
        receipt: object = parts.plant.apply(Order(order, decision.decision_id, parts.fencing_token), now_s)
        why = f"the plant answered {receipt!r:.80}, which is no Receipt"
    except ContractError:
        raise
    except Exception as error:
        receipt, why = None, f"{type(error).__name__}: {error}"
    if isinstance(receipt, Receipt) and all(isinstance(told, Outcome) for told in receipt.outcomes.values()):
        return receipt
    return Receipt(decision.decision_id, dict.fromkeys(values(order), Outcome(Status.REFUSED, why)))


@dataclass(frozen=True, slots=True)
class Difference:
    """A tick that a replay decided otherwise."""

    at_s: float
    was: Decision
    now: Decision
    asked_anew: int = 0
    """Questions to the simulator whose answers the journal does not have."""
    fields: tuple[tuple[str, object, object], ...] = ()
    """What differs in the decision and in the state after it: path, value then, value now."""


def replayed(rules: Rules, entries: Iterable[Entry], start: State | None = None) -> Iterator[Difference]:
    """The ticks that these rules would have decided otherwise, byte for byte. Under the rules that were in force: none.

    What the simulator answered is taken from the entries; what they do not have is asked anew, without a deadline.
    Without the state from before the first entry, that of the first is taken and the comparison begins with the second.
    """
    state = start
    for entry in entries:
        if state is not None:
            under, hearing = overheard(rules, entry.heard)
            after, decision = tick(under, state, entry.seen, entry.commands, entry.at_s)
            then = encoded_decision(entry.decision), encoded_state(entry.state)
            now = encoded_decision(decision), encoded_state(after)
            if now != then:
                rooms = zip(("decision", "state"), then, now, strict=True)
                found = [f for room, was, is_ in rooms for f in _differing(room, json.loads(was), json.loads(is_))]
                yield Difference(entry.at_s, entry.decision, decision, hearing.asked, tuple(found))
        state = entry.state if entry.receipt is None else noted(entry.state, entry.receipt)


def _differing(path: str, was: object, now: object) -> Iterator[tuple[str, object, object]]:
    """Leaves of two JSON values that differ; what only one of them has is None in the other."""
    if isinstance(was, dict) and isinstance(now, dict):
        for key in dict.fromkeys((*was, *now)):
            yield from _differing(f"{path}.{key}", was.get(key), now.get(key))
    elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        for i, (a, b) in enumerate(zip(was, now, strict=True)):
            yield from _differing(f"{path}[{i}]", a, b)
    elif was != now:
        yield path, was, now
