"""The JSON answer of `equipoise whatif`. `python -m tuner.answers.whatif` makes its schema; a test compares."""

import json
import sys
from pathlib import Path
from typing import Literal

from pydantic import FiniteFloat

from tuner.answers.advise import Frac, Interval, Part, Text, Value

SCHEMA_FILE = Path(__file__).parent / "schema" / "whatif.schema.json"


class State(Part):
    """Means over the possible jobs behind the data."""

    step_s: FiniteFloat
    rollouts_per_s: FiniteFloat
    """Trained, per second of wall time."""
    useful_rollouts_per_s: FiniteFloat
    trainer_idle_frac: Frac
    generator_busy_frac: Frac
    staleness_mean: FiniteFloat | None


class Limiter(Part):
    """A limit that, raised alone, makes the job faster."""

    name: Text
    now: FiniteFloat
    raised: FiniteFloat
    gain_frac: FiniteFloat


class Gpus(Part):
    """Whether the question takes GPUs that the job has not, or leaves some to nobody."""

    has: int
    """Of the whole job."""
    used: int
    """Of both sides together, today."""
    asked: int
    """Of both sides together, after the change."""
    more: int
    """`asked` over `has`; below zero: so many would be used by neither side."""


class Residual(Part):
    signal: Text
    measured: FiniteFloat
    predicted: FiniteFloat


class Asked(Part):
    """The whole answer of `equipoise whatif --json`."""

    schema_version: Literal[1]
    product_version: Text
    settings: dict[Text, Value]
    headline: Text
    calibrated: bool
    """False: `headline` says what would allow it, and the rest is null or empty."""
    now: State | None
    then: State | None
    gain_frac: Interval | None
    """In useful rollouts per second, as a share of now."""
    limits: list[Limiter]
    """After the change, the strongest first."""
    illegal: list[Text]
    """Why the job cannot have these settings; empty: nothing known speaks against them."""
    gpus: Gpus | None
    """Null: the sources count no GPUs, or nothing could be calibrated."""
    stopped: Text | None
    """Why the job would stand still."""
    parameters: list[Text]
    unidentified: list[Text]
    """What this job's data do not tell, with the prior that went into the interval."""
    assumed: list[Text]
    """Facts that no source states and that were filled in."""
    weak: list[Text]
    """Why the queueing model should not decide alone; the interval is wider for it, or moved by `simulated`."""
    simulated: Text | None
    """What simulation said of it; null: not needed, or no compiled simulator at hand."""
    residuals: list[Residual]


def schema_json() -> str:
    """The JSON Schema of `Asked` as the package ships it."""
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return json.dumps(dialect | Asked.model_json_schema(mode="serialization"), indent=2) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_json())
