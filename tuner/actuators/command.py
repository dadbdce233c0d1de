"""Turns knobs by a program of the user's: a decision as JSON on its stdin, an answer as JSON on its stdout.

stdin   {"schema": 1, "action": "apply", "decision_id": "d7.1", "fencing_token": 3, "now_s": 1700000000.0,
         "setpoints": {"max_in_flight": 512}, "in_force": {"max_in_flight": 768}, "settings": {"KEY": VALUE}}
stdout  {"outcomes": {"max_in_flight": {"status": "applied", "reason": "scaled"}}, "in_force": {"max_in_flight": 512}}

`settings` are the framework's own keys, where they are known. With action `current` nothing is to be changed, and
`in_force` is the whole answer, with `inventory` where it is known: {"gpus_trainer": 64, "gpus_generator": 192,
"engines_current": 24, "syncing": false, "steps_done": 0}; the last says how young the job is. Believed is what it
shows, not what `status` says. An order of what is in force already calls off what may still be on its way.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from policies.control import Capability
from policies.settings import merged, values
from simulators.plant import Change, Inventory, Order, Outcome, Setpoints, Status
from tuner.actuators import wire
from tuner.actuators.base import Actuator
from tuner.actuators.dialect import translated
from tuner.actuators.guarded import Guarded, Open, Outcomes, Trouble, alike
from tuner.actuators.process import ask
from tuner.actuators.site import Site, capabilities, owned
from tuner.names import Knob

SCHEMA = 1
PATIENCE_S = 60.0
"""A program that said `pending` is told again after this, or after twice the time that a change takes."""


class Options(BaseModel):
    """`[[actuator]] kind = "command"`."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    argv: Annotated[tuple[str, ...], Field(min_length=1)]
    """The program and its arguments; no shell is between."""
    knobs: Annotated[tuple[Knob, ...], Field(min_length=1)]
    """The knobs that it turns."""
    timeout_s: Annotated[float, Field(gt=0, le=60)] = 30.0
    """Then the program and all its children are killed: what takes longer is begun, and answered with `pending`."""
    change: Change = Change.HOT
    """When a change takes effect: hot, boundary, restart or external."""
    actuation_s: Annotated[float, Field(ge=0)] = 0.0
    """From the order until it is in force."""
    cost_s: Annotated[float, Field(ge=0)] = 0.0
    """What one change costs, in seconds of the whole job's work."""


def make(options: Options, site: Site) -> Actuator:
    hand = _Program(options, site)
    return Guarded(hand, site, hand.troubles)


class _Program:
    """A hand that is somebody else's."""

    def __init__(self, options: Options, site: Site) -> None:
        self._options, self._site = options, site
        self._waiting: tuple[Order, float] | None = None
        """The order that it called pending, and when."""
        self._left = owned(options.knobs)
        """Setpoints of which something may still come: told and not answered for good, or told by a daemon before."""
        self._said = Setpoints()
        """Shown by its last answer: a program that is silent of a setpoint has not changed its mind."""
        self._inventory = Inventory()

    @property
    def name(self) -> str:
        return "command"

    def capabilities(self) -> tuple[Capability, ...]:
        o = self._options
        return capabilities(o.knobs, self._site, Capability("", o.change, o.actuation_s, o.cost_s))

    def troubles(self) -> Iterator[Trouble]:
        _, failure = self._asked({"action": "current"})
        if failure:
            yield Trouble(f"asked what is in force: {failure}")

    def current(self) -> Setpoints:
        answer, failure = self._asked({"action": "current"})
        if failure:
            return Setpoints()
        self._learn(answer)
        return self._said

    def inventory(self) -> Inventory:
        return self._inventory

    def seen_token(self) -> int:
        return 0

    def pending(self, now_s: float) -> Open:
        """An order of what is in force has to reach the program too, where another may be on its way in there."""
        return Open(self._left)

    def turn(self, order: Order, now_s: float) -> Outcomes:
        if self._waits_for(order, now_s):
            return alike(order, Status.PENDING, "the program has been told, and does not show it in force yet")
        self._left |= values(order.setpoints).keys()
        answer, failure = self._asked(self._question(order, now_s))
        if failure:
            return alike(order, Status.REFUSED, failure)
        self._learn(answer)
        outcomes = answer.get("outcomes")
        if not isinstance(outcomes, Mapping):
            return alike(order, Status.REFUSED, "the answer has no `outcomes`")
        result = {
            name: self._judged(name, value, outcomes.get(name)) for name, value in values(order.setpoints).items()
        }
        self._left -= {n for n, o in result.items() if o.status is Status.APPLIED or _refuses(outcomes.get(n))}
        pending = {outcome.status for outcome in result.values()} == {Status.PENDING}
        self._waiting = (order, now_s) if pending else None
        return result

    def _waits_for(self, order: Order, now_s: float) -> bool:
        if self._waiting is None or self._waiting[0] != order:
            return False
        return now_s - self._waiting[1] < max(PATIENCE_S, 2.0 * self._options.actuation_s)

    def _question(self, order: Order, now_s: float) -> Mapping[str, Any]:
        said = translated(self._site, self._site.config, order.setpoints)
        return {
            "action": "apply",
            "decision_id": order.decision_id,
            "fencing_token": order.fencing_token,
            "now_s": now_s,
            "setpoints": values(order.setpoints),
            "in_force": values(merged(self._site.in_force, self._said)),
            "settings": {setting.key: setting.after for setting in said.settings if not said.refused},
        }

    def _asked(self, question: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
        """(the answer, "") or ({}, why there is none)."""
        text = json.dumps({"schema": SCHEMA, **question}, allow_nan=False).encode()
        ended = ask(self._options.argv, text, self._options.timeout_s)
        if ended.failure:
            return {}, ended.failure
        answer, fault = wire.document(ended.stdout)
        return answer, f"{self._options.argv[0]} printed {fault}" if fault else ""

    def _learn(self, answer: Mapping[str, Any]) -> None:
        self._said = merged(self._said, wire.setpoints(answer.get("in_force")))
        if "inventory" in answer:
            self._inventory = wire.inventory(answer["inventory"])

    def _judged(self, name: str, value: object, table: object) -> Outcome:
        """What the program says, held against what it shows."""
        outcome = wire.outcome(table, name)
        shown = values(self._said).get(name)
        if outcome.status is Status.APPLIED and shown != value:
            there = "does not show it in force" if shown is None else f"shows {name}={shown} in force"
            return Outcome(Status.REFUSED, f"the program says applied and {there}")
        return outcome

    def close(self) -> None:
        return


def _refuses(table: object) -> bool:
    """Its own word that nothing will come of it."""
    return isinstance(table, Mapping) and table.get("status") == Status.REFUSED.value
