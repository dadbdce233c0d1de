"""The JSON answer of `equipoise evaluate`. `python -m tuner.answers.evaluate` makes its schema; a test compares."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from tuner.evaluation.scoring import Row
from tuner.evaluation.tasks import Run

SCHEMA_FILE = Path(__file__).parent / "schema" / "evaluate.schema.json"


@dataclass(frozen=True, slots=True)
class Demand:
    """One demand with its floor, its goal and what was reached."""

    name: str
    value: float | None
    """None: no scenario of this evaluation can tell."""
    floor: float
    goal: float
    at_least: bool
    """True: the value must not be smaller; false: not larger."""
    percent: bool
    where: str
    """The scenario that decided it; empty where it is of all."""
    holds: bool | None
    reaches_goal: bool | None
    distance_to_goal: float | None


@dataclass(frozen=True, slots=True)
class Answer:
    """The whole answer of `equipoise evaluate --json`."""

    schema_version: Literal[1]
    product_version: str
    policy: str
    """That the demands are on."""
    seeds: int
    note: str
    demands: tuple[Demand, ...]
    demands_outside_class: tuple[Demand, ...]
    """The same on plants that no model of ours can express."""
    rows: tuple[Row, ...]
    """One policy on one scenario, over its seeds."""
    runs: tuple[Run, ...]


_ANSWER = TypeAdapter(Answer)


def as_json(answer: Answer) -> str:
    """Numbers that are not finite are null."""
    return _ANSWER.dump_json(answer, indent=2).decode()


def schema_json() -> str:
    return json.dumps(_ANSWER.json_schema(mode="serialization"), indent=2) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_json())
