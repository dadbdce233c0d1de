"""What a simulator answered in one tick: an input of its decision, written down beside what was seen.

A child with a deadline answers as the machine lets it. So in one tick each question is asked once, the answer (or why
there was none) goes into the journal with the decision, and a replay takes it from there: late once is late again.

    tick    ── question ──> Hearing ── new ──> engine: a child, or here
    replay  ── question ──> Hearing ── as written; what is not written is asked anew, and counted
"""

import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from reprlib import repr as shortly
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from policies.rules import Rules
from simulators.model import Prediction
from simulators.plant import Setpoints
from tuner.worker import Engine, Here, Question, Simulated


@dataclass(frozen=True, slots=True)
class Heard:
    """The answer to one question: a prediction, or why there is none."""

    asker: str
    setpoints: Setpoints
    prediction: Prediction | None = None
    why: str | None = None

    def __post_init__(self) -> None:
        if (self.prediction is None) == (self.why is None):
            raise ValueError(f"{self.asker} was answered by a prediction or by a reason, not by both or none")


_HEARD = TypeAdapter(tuple[Heard, ...], config=ConfigDict(ser_json_inf_nan="strings"))


class Hearing:
    """An engine for one tick: asked the same again it says the same."""

    def __init__(self, engine: Engine, known: Iterable[Heard] = ()) -> None:
        self._engine, self._known = engine, {(told.asker, told.setpoints): told for told in known}
        self._heard: dict[tuple[str, Setpoints], Heard] = {}
        self.asked = 0
        """Questions that went to the engine."""

    @property
    def heard(self) -> tuple[Heard, ...]:
        """What was answered, in the order of the questions."""
        return tuple(self._heard.values())

    def begin(self) -> None:
        self._engine.begin()

    def ask(self, question: Question) -> Prediction:
        key = (question.asker, question.setpoints)
        told = self._heard[key] = self._heard.get(key) or self._known.get(key) or self._answer(question)
        if told.prediction is None:
            raise ValueError(told.why)
        return told.prediction

    def _answer(self, question: Question) -> Heard:
        self.asked += 1
        try:
            return Heard(question.asker, question.setpoints, self._engine.ask(question))
        except ValueError as error:
            return Heard(question.asker, question.setpoints, why=str(error))


def overheard(rules: Rules, known: Iterable[Heard] = ()) -> tuple[Rules, Hearing]:
    """The rules for one tick, and what hears their simulator; `known`: what it said when the tick was first made."""
    modeller = rules.modeller
    if not isinstance(modeller, Simulated):
        return rules, Hearing(Here(), known)
    hearing = Hearing(modeller.engine, known)
    return replace(rules, modeller=replace(modeller, engine=hearing)), hearing


def packed(heard: tuple[Heard, ...]) -> bytes | None:
    """Deflated, without what has its default; None where nothing was asked."""
    return zlib.compress(_HEARD.dump_json(heard, exclude_defaults=True)) if heard else None


def readable(written: bytes | None) -> list[dict[str, Any]]:
    """The same as data for an export."""
    found: list[dict[str, Any]] = json.loads(_HEARD.dump_json(unpacked(written), exclude_defaults=True))
    return found


def unpacked(written: bytes | None) -> tuple[Heard, ...]:
    """Raises ValueError with the place and the value where the bytes are not what was written."""
    if written is None:
        return ()
    try:
        return _HEARD.validate_json(zlib.decompress(written))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        why = f"{place}={shortly(first['input'])}: {first['msg']}"
    except (zlib.error, TypeError) as error:
        why = str(error)
    raise ValueError(f"what the simulator answered there: {why}")
