"""Turns knobs inside the training process: a small file that a hook there reads at its step boundary.

FILE      written by us       {"schema", "sequence", "fencing_token", "decision_id", "setpoints", "base"}
FILE.ack  written by the hook {"schema", "sequence", "step", "setpoints", "refused": {NAME: REASON}}

`setpoints` in FILE are all that were ever ordered, so that a restarted job takes them up again; in the acknowledgement
they are what is in force. `base` is the split at the start. The hooks are under deploy/hooks/.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from policies.control import Capability
from policies.settings import merged, values
from simulators.plant import Change, Inventory, Order, Outcome, Setpoints, Status
from tuner.actuators import files, wire
from tuner.actuators.base import Actuator
from tuner.actuators.guarded import Guarded, Open, Outcomes, Trouble, alike
from tuner.actuators.site import Site, capabilities
from tuner.errors import ActuationError
from tuner.names import FilePath, Knob

SCHEMA = 1
BYTES_MAX = 1 << 16
"""Both files are a few hundred bytes long."""


class Options(BaseModel):
    """`[[actuator]] kind = "control_file"`."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    path: FilePath
    """The control file; its folder must be one that the training process sees, and may write to."""
    knobs: Annotated[tuple[Knob, ...], Field(min_length=1)]
    """The knobs that the hook turns."""
    actuation_s: Annotated[float, Field(ge=0)] = 300.0
    """A prior: half a step or so, until it is measured."""
    patience_s: Annotated[float, Field(gt=0)] = 3600.0
    """Where no hook has answered for so long, the order is withdrawn, and others are refused until one answers."""


def make(options: Options, site: Site) -> Actuator:
    """The job goes on through the change, so nothing is resumed on another number of GPUs."""
    hot = replace(site, topology=replace(site.topology, trainer_resize=None))
    hand = _Letterbox(options, site)
    return Guarded(hand, hot, hand.troubles)


class _Letterbox:
    """A hand that leaves a letter, and waits for the answer."""

    def __init__(self, options: Options, site: Site) -> None:
        self._options, self._site = options, site
        self._path = options.path
        self._answer = options.path.with_name(options.path.name + ".ack")
        self._since: tuple[int, float] | None = None
        """The last letter that was answered, and since when a later one waits."""
        self._wrote = 0
        """The last letter of ours."""

    @property
    def name(self) -> str:
        return "control_file"

    def capabilities(self) -> tuple[Capability, ...]:
        usual = Capability("", Change.BOUNDARY, self._options.actuation_s)
        return capabilities(self._options.knobs, self._site, usual)

    def current(self) -> Setpoints:
        try:
            return wire.setpoints(self._read(self._answer).get("setpoints"))
        except ActuationError:
            return Setpoints()

    def inventory(self) -> Inventory:
        return Inventory()

    def troubles(self) -> Iterator[Trouble]:
        files.demand_room(self._path)
        self._read(self._path)
        if not self._read(self._answer):
            said = f"{self._answer} is not there: no hook has begun; import one of deploy/hooks in the training process"
            yield Trouble(said, blocks=False)

    def seen_token(self) -> int:
        try:
            return _count(self._read(self._path), "fencing_token")
        except ActuationError:
            return 0

    def pending(self, now_s: float) -> Open:
        """What an unread letter orders otherwise than it is: an order of what is in force has to withdraw it."""
        try:
            letter, answer = self._read(self._path), self._read(self._answer)
        except ActuationError:
            return Open(frozenset())
        if _count(answer, "sequence") == _count(letter, "sequence"):
            return Open(frozenset())
        there = values(wire.setpoints(answer.get("setpoints")))
        return Open(frozenset(name for name, value in values(_ordered(letter)).items() if there.get(name) != value))

    def turn(self, order: Order, now_s: float) -> Outcomes:
        try:
            return self._written(order, now_s)
        except ActuationError as error:
            return alike(order, Status.REFUSED, str(error))

    def _written(self, order: Order, now_s: float) -> Outcomes:
        letter, answer = self._read(self._path), self._read(self._answer)
        if 0 < self._wrote < _count(letter, "sequence"):
            raise ActuationError(f"{self._path} was written by another since: two controllers on one job; stop one")
        if self._waited_s(letter, answer, now_s) > self._options.patience_s:
            return self._withdrawn(order, letter)
        wanted = merged(_standing(letter, answer), order.setpoints)
        if wanted != _ordered(letter) or order.fencing_token != _count(letter, "fencing_token"):
            letter = self._write(wanted, order, _count(letter, "sequence") + 1)
            self._waited_s(letter, answer, now_s)
        if _count(answer, "sequence") == _count(letter, "sequence"):
            return {
                name: _outcome(name, value, answer, self._answer) for name, value in values(order.setpoints).items()
            }
        due_s = None if self._since is None else self._since[1] + self._options.actuation_s
        return alike(order, Status.PENDING, f"waits in {self._path} for the next step boundary", due_s)

    def _waited_s(self, letter: Mapping[str, Any], answer: Mapping[str, Any], now_s: float) -> float:
        """For how long no letter was answered. A later letter is no new beginning: nobody has read the one before."""
        answered = _count(answer, "sequence")
        if answered == _count(letter, "sequence"):
            self._since = None
            return 0.0
        if self._since is None or self._since[0] != answered:
            self._since = (answered, now_s)
        return now_s - self._since[1]

    def _withdrawn(self, order: Order, letter: Mapping[str, Any]) -> Outcomes:
        """What stands in the file is what is in force; a hook that comes back answers that, and is heard again."""
        if _ordered(letter) != self.current():
            self._write(self.current(), order, _count(letter, "sequence") + 1)
        why = f"no hook has read {self._path} in {self._options.patience_s:.0f} s: the order is withdrawn"
        return alike(order, Status.REFUSED, why)

    def _write(self, wanted: Setpoints, order: Order, sequence: int) -> Mapping[str, Any]:
        letter = {
            "schema": SCHEMA,
            "sequence": sequence,
            "fencing_token": order.fencing_token,
            "decision_id": order.decision_id,
            "setpoints": values(wanted),
            "base": {k: v for k, v in values(self._site.in_force).items() if k in ("gpus_trainer", "gpus_generator")},
        }
        files.write(self._path, json.dumps(letter, indent=1, allow_nan=False).encode() + b"\n")
        self._wrote = sequence
        return letter

    def _read(self, path: Path) -> Mapping[str, Any]:
        """The document of a file; empty where there is none."""
        data = files.read(path, BYTES_MAX)
        if data is None:
            return {}
        document, fault = wire.document(data)
        if fault:
            raise ActuationError(f"{path} is {fault}")
        return document

    def close(self) -> None:
        return


def _count(document: Mapping[str, Any], key: str) -> int:
    value = document.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def _ordered(letter: Mapping[str, Any]) -> Setpoints:
    return wire.setpoints(letter.get("setpoints"))


def _standing(letter: Mapping[str, Any], answer: Mapping[str, Any]) -> Setpoints:
    """What the letter orders, less what the hook refused: else each later order would ask for that again."""
    ordered = _ordered(letter)
    if _count(answer, "sequence") != _count(letter, "sequence") or not answer.get("refused"):
        return ordered
    there = values(wire.setpoints(answer.get("setpoints")))
    return replace(ordered, **{name: there[name] for name in values(ordered) if name in there})


def _outcome(name: str, value: object, answer: Mapping[str, Any], path: Path) -> Outcome:
    """The hook has read the letter: the setpoint is in force, or it says why not, or it is not its to turn."""
    if values(wire.setpoints(answer.get("setpoints"))).get(name) == value:
        return Outcome(Status.APPLIED, "the hook shows it in force")
    refused = answer.get("refused")
    why = refused.get(name) if isinstance(refused, Mapping) else None
    words = (
        why if isinstance(why, str) and why.strip() else f"the hook has read the order and {path} does not show {name}"
    )
    return Outcome(Status.REFUSED, words[: wire.REASON_CHARS_MAX])
