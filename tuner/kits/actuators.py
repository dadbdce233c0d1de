"""What every actuator must keep, ours or a user's: `assert_conforms(stage)` in a test of your own.

from tuner.kits.actuators import Stage, assert_conforms

def test_my_actuator_conforms(tmp_path) -> None:
    assert_conforms(Stage(make=lambda: MyActuator(tmp_path), legal=Setpoints(max_in_flight=512), settle=let_it_happen))
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from policies.control import Capability
from policies.settings import values
from simulators.plant import Inventory, Order, Receipt, Setpoints, Status
from tuner.actuators.base import Actuator
from tuner.actuators.dry_run import shown
from tuner.actuators.site import Site
from tuner.errors import ActuationError

LOOKS_MAX = 200
"""A change that is not in force after so many looks will never be."""
LATE_LOOKS = 5
"""After an order was called off, for what would come of it all the same."""


def nothing() -> None:
    """The world needs no help."""


def no_count() -> int:
    return 0


@dataclass(frozen=True, slots=True)
class Stage:
    """A world for one actuator: how to make one, what it can do there, and how time passes."""

    make: Callable[[], Actuator]
    """A new one on the same world: as a restarted daemon would make it."""
    legal: Setpoints
    """An order that differs from what is in force and can be obeyed."""
    illegal: tuple[Setpoints, ...] = ()
    """Orders out of bounds or off the lattice, beside those that the kit knows itself."""
    settle: Callable[[], None] = nothing
    """Lets the world do what it was told: one look later."""
    effects: Callable[[], int] = no_count
    """How often something was changed in the world so far."""
    changes: bool = True
    """False for one that only shows what it would do."""
    remembers_tokens: bool = False
    """True where the world itself keeps the largest fencing token, beyond the actuator's life."""
    site: Site = field(default_factory=Site)


def assert_conforms(stage: Stage) -> None:
    """Raises AssertionError with the rule that is broken."""
    before = _describes_itself(stage)
    _refuses(stage)
    _dry_run_changes_nothing(stage)
    _obeys_once(stage)
    _calls_off(stage, before)
    _fences(stage)
    _closes(stage)


def _describes_itself(stage: Stage) -> Setpoints:
    """What is in force at first."""
    actuator = stage.make()
    try:
        assert actuator.name.strip(), "an actuator has a name"
        able = actuator.capabilities()
        assert able, "an actuator turns at least one knob"
        assert all(isinstance(c, Capability) and c.actuation_s >= 0.0 and c.cost_s >= 0.0 for c in able)
        assert len({c.knob for c in able}) == len(able), "one capability a knob"
        before = actuator.current()
        assert isinstance(before, Setpoints)
        assert isinstance(actuator.inventory(), Inventory)
        return before
    finally:
        actuator.close()


def _refuses(stage: Stage) -> None:
    """Out of bounds, of this world or of its own knobs: refused with a reason, and nothing happens."""
    actuator = stage.make()
    try:
        before, effects = actuator.current(), stage.effects()
        for wish in (*stage.illegal, *_senseless(stage.legal)):
            receipt = _applied(actuator, Order(wish, "illegal"), 1.0)
            assert receipt.status is Status.REFUSED, f"{wish} must be refused: {receipt}"
        assert actuator.current() == before, "a refused order changes nothing"
        assert stage.effects() == effects, "a refused order has no effect"
    finally:
        actuator.close()


def _senseless(legal: Setpoints) -> list[Setpoints]:
    """The legal order with one value that no job has; and a knob that no actuator turns."""
    wrong: list[Any] = [-1, float("nan"), float("inf")]
    names = [name for name, value in values(legal).items() if not isinstance(value, bool)]
    return [replace(legal, **{name: value}) for name in names for value in wrong] + [Setpoints(packing=True)]


def _dry_run_changes_nothing(stage: Stage) -> None:
    inner = stage.make()
    said: list[str] = []
    dry = shown(inner, stage.site, said.append)
    try:
        before, effects = inner.current(), stage.effects()
        receipt = _applied(dry, Order(stage.legal, "dry"), 2.0)
        _applied(dry, Order(stage.legal, "dry"), 3.0)
        assert receipt.status is Status.REFUSED, "a dry run never says that it did something"
        assert len(said) == 1, "a dry run says once what it would do"
        assert inner.current() == before
        assert stage.effects() == effects, "a dry run has no effect"
    finally:
        dry.close()


def _obeys_once(stage: Stage) -> None:
    """The same order twice is one; in the end it is in force, and a new actuator on that world sees so."""
    if not stage.changes:
        return
    actuator, order = stage.make(), Order(stage.legal, "move.1", 5)
    try:
        first = _applied(actuator, order, 10.0)
        assert first.status is not Status.REFUSED, f"a legal order is obeyed: {first}"
        effects = stage.effects()
        again = _applied(actuator, order, 11.0)
        assert again.status is not Status.REFUSED, f"the same order again is the same: {again}"
        assert stage.effects() == effects, "the same order twice is one order"
        _until_in_force(stage, actuator, order)
    finally:
        actuator.close()
    later = stage.make()
    try:
        before = stage.effects()
        _until_in_force(stage, later, order)
        assert stage.effects() == before, "a restarted daemon that orders the same again changes nothing"
    finally:
        later.close()


def _until_in_force(stage: Stage, actuator: Actuator, order: Order) -> None:
    for look in range(LOOKS_MAX):
        receipt = _applied(actuator, order, 12.0 + look)
        assert receipt.status is not Status.REFUSED, f"under way, then refused: {receipt}"
        if receipt.status is Status.APPLIED:
            there, asked = values(actuator.current()), values(stage.legal)
            seen = {name: there.get(name) for name in asked}
            assert seen == asked, f"applied, and current() shows {seen} instead of {asked}"
            return
        stage.settle()
    raise AssertionError(f"still pending after {LOOKS_MAX} looks: {receipt}")


def _calls_off(stage: Stage, before: Setpoints) -> None:
    """An order of what is in force calls off another that is on its way: once it is applied, nothing comes late."""
    there, legal = values(before), values(stage.legal)
    if not stage.changes or not legal.keys() <= there.keys():
        return
    away = Order(Setpoints(**{name: there[name] for name in legal}), "called.1", 5)
    back = Order(stage.legal, "called.0b", 5)
    actuator = stage.make()
    try:
        _applied(actuator, away, 250.0)
        for look in range(LOOKS_MAX):
            if _applied(actuator, back, 251.0 + look / LOOKS_MAX).status is Status.APPLIED:
                break
            stage.settle()
        for _ in range(LATE_LOOKS):
            stage.settle()
        seen = {name: values(actuator.current()).get(name) for name in legal}
        assert seen == legal, f"an order that was called off came true afterwards: {seen}"
    finally:
        actuator.close()


def _fences(stage: Stage) -> None:
    if not stage.changes:
        return
    actuator = stage.make()
    try:
        if not stage.remembers_tokens:
            _applied(actuator, Order(stage.legal, "move.1", 5), 300.0)
        effects = stage.effects()
        old = _applied(actuator, Order(_another(stage.legal), "old", 4), 301.0)
        assert old.status is Status.REFUSED, "a fencing token smaller than one seen is refused"
        assert all("token" in o.reason for o in old.outcomes.values()), f"the refusal names the token: {old}"
        assert stage.effects() == effects, "an order of an old writer has no effect"
    finally:
        actuator.close()


def _another(legal: Setpoints) -> Setpoints:
    name, value = next(iter(values(legal).items()))
    return Setpoints(**{name: (not value) if isinstance(value, bool) else value * 2})


def _closes(stage: Stage) -> None:
    actuator = stage.make()
    actuator.close()
    actuator.close()
    try:
        receipt: Any = actuator.apply(Order(stage.legal, "late", 9), 400.0)
    except ActuationError:
        return
    assert receipt.status is Status.REFUSED, "a closed actuator does nothing"


def _applied(actuator: Actuator, order: Order, now_s: float) -> Receipt:
    """The answer, which speaks of each ordered setpoint; an ActuationError is the only way out."""
    try:
        receipt = actuator.apply(order, now_s)
    except ActuationError as error:
        raise AssertionError(f"{actuator.name} cannot reach its world: {error}") from error
    assert receipt.decision_id == order.decision_id
    assert set(receipt.outcomes) == set(values(order.setpoints)), f"one outcome for each ordered setpoint: {receipt}"
    for outcome in receipt.outcomes.values():
        assert outcome.reason.strip(), f"every outcome has a reason: {receipt}"
    return receipt
