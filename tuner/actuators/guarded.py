"""The contract's common half: a hand knows how to turn knobs, `Guarded` knows when it must not.

order -> token older than one seen: refused | a knob that is illegal: the whole order is refused, nothing is touched
      -> under way already: pending | failed before: refused again, in the same words
      -> in force already, and nothing else on its way: applied | the rest goes to the hand
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from policies.control import Capability
from policies.settings import values
from simulators.plant import Inventory, Order, Outcome, Receipt, Setpoints, Status
from tuner.actuators.limits import refusals
from tuner.actuators.site import Site
from tuner.errors import ActuationError

Outcomes = Mapping[str, Outcome]


@dataclass(frozen=True, slots=True)
class Failed:
    """What became of a decision that the world would not let come true: what it moved is back where it was."""

    decision_id: str
    why: str


@dataclass(frozen=True, slots=True)
class Open:
    """Setpoints of which another value was ordered and may still come; a new order takes its place."""

    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Trouble:
    """What stands in the way of an order, seen without giving one; with the remedy."""

    said: str
    blocks: bool = True
    """False: it may be gone by the time of an order."""


def no_trouble() -> Iterable[Trouble]:
    return ()


class Hand(Protocol):
    """What differs between actuators. It is asked only for what is legal, and not in force for certain."""

    @property
    def name(self) -> str: ...

    def capabilities(self) -> tuple[Capability, ...]: ...

    def current(self) -> Setpoints: ...

    def inventory(self) -> Inventory: ...

    def seen_token(self) -> int:
        """The largest fencing token that its own medium keeps (a file, an annotation); 0 where it keeps none."""
        ...

    def pending(self, now_s: float) -> Setpoints | Failed | Open:
        """Under way, and not to be replaced before it ends; `Open` where a new order replaces what was.

        A change that failed is told by the look that finds it so: Guarded refuses that decision from then on.
        """
        ...

    def turn(self, order: Order, now_s: float) -> Outcomes:
        """One outcome for each setpoint of the order."""
        ...

    def close(self) -> None: ...


class Guarded:
    """A hand as an Actuator."""

    def __init__(self, hand: Hand, site: Site, look: Callable[[], Iterable[Trouble]] = no_trouble) -> None:
        """`look`: what `troubles` tells."""
        self._hand, self._site, self._look = hand, site, look
        self._token = 0
        self._failed: Failed | None = None
        """The last decision that failed."""
        self._closed = False

    @property
    def name(self) -> str:
        return self._hand.name

    def capabilities(self) -> tuple[Capability, ...]:
        return self._hand.capabilities()

    def current(self) -> Setpoints:
        return self._hand.current()

    def inventory(self) -> Inventory:
        return self._hand.inventory()

    def troubles(self) -> tuple[Trouble, ...]:
        """For `doctor`: is the hand's world there, and may we touch it?"""
        try:
            return tuple(self._look())
        except ActuationError as error:
            return (Trouble(str(error)),)

    def apply(self, order: Order, now_s: float) -> Receipt:
        if self._closed:
            raise ActuationError(f"{self.name}: closed; make it anew from the job file")
        return Receipt(order.decision_id, dict(self._answered(order, now_s)))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._hand.close()

    def _answered(self, order: Order, now_s: float) -> Outcomes:
        asked = values(order.setpoints)
        seen = max(self._token, self._hand.seen_token())
        if order.fencing_token < seen:
            why = f"a newer writer (token {seen}) has this job; token {order.fencing_token} is refused"
            return _all(asked, Status.REFUSED, why)
        self._token = seen = order.fencing_token
        under_way, left = self._under_way(now_s)
        in_force = self._hand.current()
        knobs = tuple(c.knob for c in self._hand.capabilities())
        wrong = refusals(self._site, in_force, order.setpoints, knobs)
        if wrong:
            rest = f"nothing was changed: {next(iter(wrong))} is refused"
            return {name: Outcome(Status.REFUSED, wrong.get(name, rest)) for name in asked}
        if under_way:
            there = values(in_force)
            return {name: _beside(name, value, under_way, there) for name, value in asked.items()}
        return self._turned(order, in_force, left, now_s)

    def _under_way(self, now_s: float) -> tuple[Mapping[str, object], frozenset[str]]:
        """What must not be replaced, and the names of what a new order has to replace."""
        match self._hand.pending(now_s):
            case Failed() as failed:
                self._failed = failed
                return {}, frozenset()
            case Open(names):
                return {}, names
            case settings:
                return values(settings), frozenset()

    def _turned(self, order: Order, in_force: Setpoints, left: frozenset[str], now_s: float) -> Outcomes:
        asked, there = values(order.setpoints), values(in_force)
        fresh = {name: value for name, value in asked.items() if there.get(name) != value or name in left}
        outcomes = dict(_all(asked, Status.APPLIED, "in force already", now_s))
        if not fresh:
            return outcomes
        if self._failed is not None and self._failed.decision_id == order.decision_id:
            return outcomes | _all(fresh, Status.REFUSED, self._failed.why)
        return outcomes | dict(
            self._hand.turn(Order(Setpoints(**fresh), order.decision_id, order.fencing_token), now_s)
        )


def _beside(name: str, value: object, under_way: Mapping[str, object], there: Mapping[str, object]) -> Outcome:
    """The answer for one setpoint while a change is under way that cannot be replaced."""
    if name in under_way:
        same = under_way[name] == value
        return Outcome(Status.PENDING, "under way") if same else _busy(name, under_way)
    return Outcome(Status.APPLIED, "in force already") if there.get(name) == value else _busy(name, under_way)


def _busy(name: str, under_way: Mapping[str, object]) -> Outcome:
    moving = ", ".join(f"{key}={value}" for key, value in under_way.items())
    return Outcome(Status.REFUSED, f"{name} has to wait: {moving} is still under way")


def _all(asked: Mapping[str, object], status: Status, why: str, at_s: float | None = None) -> dict[str, Outcome]:
    return dict.fromkeys(asked, Outcome(status, why, at_s))


def alike(order: Order, status: Status, why: str, at_s: float | None = None) -> Outcomes:
    """The same outcome for every setpoint of an order."""
    return _all(values(order.setpoints), status, why, at_s)
