"""The JSON answers as typed models: people script against these keys, so they are added to, never renamed.

Unknown is null. NaN and infinities cannot be represented: every number is a `FiniteFloat`.
The JSON Schema in tuner/answers/schema/ is made from `Answer` (`python -m tuner.answers.advise`); a test compares them.
"""

import json
import sys
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, FiniteFloat

from policies.base import Direction, Severity, Verdict
from simulators.plant import Change, Mode, TrainerResize

SCHEMA_FILE = Path(__file__).parent / "schema" / "advise.schema.json"


def printable(value: object) -> object:
    """Text that any terminal and any JSON reader can take: a log or a file name may hold colours or broken bytes."""
    if not isinstance(value, str):
        return value
    whole = value.encode("utf-8", "backslashreplace").decode()
    return "".join(c if c.isprintable() else " " for c in whole)


Text = Annotated[str, BeforeValidator(printable)]
Frac = Annotated[FiniteFloat, Field(ge=0.0, le=1.0)]
Scalar = FiniteFloat | Text
Value = bool | int | FiniteFloat | Text | None


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Source(Part):
    """One thing that was read."""

    kind: Text
    path: Text
    framework: Text | None
    version: Text | None
    """Of the framework, where the source tells it."""
    rows: int
    first: Text | None
    """Step or ISO time of the first record."""
    last: Text | None


class Job(Part):
    """Facts of the job and the knobs in force; null where no source states them."""

    mode: Mode
    framework: Text | None
    gpus_total: int | None
    gpus_trainer: int | None
    gpus_generator: int | None
    gpus_prefill: int | None
    gpus_decode: int | None
    gpu_model: Text | None
    engines: int | None
    gpus_per_engine: int | None
    trainer_gpu_step: int | None
    trainer_gpus_min: int | None
    trainer_sizes: list[int]
    batch_must_divide: bool
    trainer_resize: TrainerResize | None
    restart_s: FiniteFloat | None
    group_size: int | None
    batch_rollouts: int | None
    updates_per_step: int | None
    max_response_tokens: int | None
    queue_capacity: int | None
    oversampling_ratio: FiniteFloat | None
    max_in_flight: int | None
    max_in_flight_per_engine: int | None
    staleness_bound: FiniteFloat | None
    sync_interval: int | None
    overlap: bool | None
    partial_rollout: bool | None
    in_flight_update: bool | None
    filter_zero_adv: bool | None
    packing: bool | None
    activation_checkpointing: bool | None
    checkpoint_interval: int | None
    validation_interval: int | None
    sandbox_quota: int | None
    self_tuned: list[Text]
    """Knobs that the framework's own controller moves."""


class DroppedStep(Part):
    step: int
    why: Text


class Window(Part):
    """The stretch of the run that the answer speaks for."""

    steps: int
    from_step: int | None
    to_step: int | None
    seconds: FiniteFloat | None
    dropped_steps: list[DroppedStep]
    """Left out of rates and trends; their seconds stay in the wall-time budget."""


class Signal(Part):
    value: FiniteFloat
    unit: Text
    age_s: FiniteFloat | None
    n: int
    """Steps or scrapes behind the value."""
    trust: Frac
    """1: raw seconds or counters; 0.5: a framework's own derived figure; less: known to mislead."""
    derived_from: list[Text]


class Rates(Part):
    generator_rollouts_per_s: FiniteFloat | None
    generator_effective_rollouts_per_s: FiniteFloat | None
    trainer_rollouts_per_s: FiniteFloat | None
    """Rollouts per second of busy time."""
    trainer_idle_frac: FiniteFloat | None
    generator_idle_frac: FiniteFloat | None
    utilisation_ratio: FiniteFloat | None
    """Effective generator rate over the trainer's service rate."""


class Finding(Part):
    code: Text
    severity: Severity
    title: Text
    detail: Text
    evidence: dict[Text, Scalar]


class Interval(Part):
    """80 % central interval and mean."""

    low: FiniteFloat
    mean: FiniteFloat
    high: FiniteFloat


class ChangeCost(Part):
    seconds: FiniteFloat | None
    note: Text


class Recommendation(Part):
    rank: int
    knob: Text
    direction: Direction
    current: Value
    proposed: Value
    unit: Text
    key: Text | None
    """The framework's own name of the knob."""
    change: Change | None
    """When it takes effect; null where neither the framework nor the knob tells."""
    data_changing: bool
    """True when it changes which samples are trained."""
    gain_frac: Interval | None
    """Gain in useful rollouts per second as a share of now; null: this data cannot tell, the reason says what would."""
    cost: ChangeCost
    reason: Text
    risks: list[Text]


class DoNot(Part):
    knob: Text
    direction: Direction
    reason: Text


class Missing(Part):
    signal: Text
    why_it_matters: Text
    how_to_get_it: Text


class Cost(Part):
    """US dollars, by throughput."""

    usd_per_gpu_hour: FiniteFloat
    usd_per_mtok: FiniteFloat | None
    """Per million trained tokens."""
    idle_usd_per_hour: FiniteFloat | None
    wasted_usd_per_hour: FiniteFloat | None


class Answer(Part):
    """The whole answer of `equipoise advise --json`."""

    schema_version: Literal[1]
    """Raised when a key changes its meaning or goes away; new keys do not raise it."""
    product_version: Text
    source: list[Source]
    job: Job
    window: Window
    signals: dict[Text, Signal]
    rates: Rates
    verdict: Verdict
    verdict_confidence: Frac
    headline: Text
    findings: list[Finding]
    recommendations: list[Recommendation]
    do_not: list[DoNot]
    missing: list[Missing]
    cost: Cost | None
    """Null without a price."""


class PhaseCompared(Part):
    phase: Text
    a_s_per_step: FiniteFloat | None
    b_s_per_step: FiniteFloat | None
    a_s_per_rollout: FiniteFloat | None
    b_s_per_rollout: FiniteFloat | None
    a_s_per_token: FiniteFloat | None
    """Per generated token for the generation, per token of the batch for the trainer's passes and the step."""
    b_s_per_token: FiniteFloat | None


class WorkloadCompared(Part):
    signal: Text
    unit: Text
    a: FiniteFloat | None
    b: FiniteFloat | None
    ratio: FiniteFloat | None
    """b / a."""


class Contribution(Part):
    phase: Text
    because: Literal["tokens", "pace", "time"]
    seconds: FiniteFloat
    """Part of b - a, per `basis`; positive where it makes b slower."""
    share: FiniteFloat | None


class Compared(Part):
    """The whole answer of `equipoise compare --json`."""

    schema_version: Literal[1]
    product_version: Text
    a: Text
    b: Text
    basis: Literal["rollout", "step", "none"]
    a_s: FiniteFloat | None
    b_s: FiniteFloat | None
    headline: Text
    phases: list[PhaseCompared]
    workload: list[WorkloadCompared]
    contributions: list[Contribution]
    notes: list[Text]


def to_json(answer: BaseModel) -> str:
    """One document, indented, keys in the order of the model. Raises on a number that JSON cannot hold."""
    return json.dumps(answer.model_dump(mode="json"), indent=2, ensure_ascii=False, allow_nan=False)


def schema_json() -> str:
    """The JSON Schema of `Answer` as the package ships it."""
    return (
        json.dumps(
            {"$schema": "https://json-schema.org/draft/2020-12/schema"}
            | Answer.model_json_schema(mode="serialization"),
            indent=2,
        )
        + "\n"
    )


if __name__ == "__main__":
    sys.stdout.write(schema_json())
