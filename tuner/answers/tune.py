"""The JSON answer of `equipoise tune`. `python -m tuner.answers.tune` makes its schema; a test compares."""

import json
import sys
from pathlib import Path
from typing import Literal

from pydantic import FiniteFloat

from tuner.answers.advise import Frac, Interval, Part, Text, Value

SCHEMA_FILE = Path(__file__).parent / "schema" / "tune.schema.json"


class Trial(Part):
    """One point that was tried."""

    number: int
    state: Text
    """complete, pruned (given up early), fail, running or waiting."""
    point: dict[Text, Value]
    values: list[FiniteFloat]
    """In the order of `objectives`; of a pruned trial the last that was seen."""
    level: int
    """How far its measurement went; -1: not begun."""
    feasible: bool
    why: Text | None
    """Why it failed, or why the job would stand still."""


class Setting(Part):
    name: Text
    now: Value
    found: Value
    low: Value
    high: Value
    """Ends of what does as well within noise; null: unknown."""


class Comparison(Part):
    """A point against what is in force, on cases that nothing was chosen on."""

    point: dict[Text, Value]
    gain_frac: FiniteFloat
    """In useful rollouts per GPU-hour."""
    interval: Interval | None
    """80 % of its mean; of a recording, of one possible job. Null of a single case."""
    cases: dict[Text, FiniteFloat]
    staleness_now: FiniteFloat | None
    staleness_then: FiniteFloat | None
    waste_frac_now: Frac | None
    waste_frac_then: Frac | None
    broken: list[Text]
    """Bounds that it breaks and that are kept today."""


class TunedAnswer(Part):
    """The whole answer of `equipoise tune --json`."""

    schema_version: Literal[1]
    product_version: Text
    headline: Text
    recommended: bool
    """False: keep what is in force."""
    study: Text
    storage: Text
    objectives: list[Text]
    sampler: Text
    seed: int
    policy: Text | None
    trials: list[Trial]
    counts: dict[Text, int]
    levels: list[int]
    """Trials that reached each level of care."""
    lattice_points: int | None
    simulated_runs: int
    wall_s: FiniteFloat
    settings: list[Setting]
    front: list[int]
    """Numbers of the Pareto-best trials, of several objectives."""
    searched_gain: Interval | None
    """Where it was searched: the best of many looks better there than it is."""
    against_now: Comparison | None
    even_split: Comparison | None
    """Half of the GPUs on each side, against what is in force."""
    held_out_scenarios: bool
    """The comparison is on scenarios or possible jobs that the search has not seen, not on seeds alone."""
    importances: dict[Text, Frac]
    fragment: Text
    """The settings found as part of a job file."""


def schema_json() -> str:
    """The JSON Schema of `TunedAnswer` as the package ships it."""
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return json.dumps(dialect | TunedAnswer.model_json_schema(mode="serialization"), indent=2) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_json())
