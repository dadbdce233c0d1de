"""The JSON answer of `simulate` as a typed model: keys are added to, never renamed. Unknown is null."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, FiniteFloat

from tuner.answers.advise import Frac, Text


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Story(_Part):
    """Which scenario was simulated."""

    name: Text
    path: Text
    title: Text
    outside_class: bool
    seed: int
    settings: list[Text]
    """What `--set` replaced."""


class Totals(_Part):
    steps: int
    seconds: FiniteFloat
    """Of the job's own time."""
    gpu_hours: FiniteFloat | None
    dispatched_rollouts: FiniteFloat
    trained_rollouts: FiniteFloat
    useful_rollouts: FiniteFloat
    """In groups whose rewards differ."""
    trained_tokens: FiniteFloat


class Figure(_Part):
    """One signal over the run: means by wall time over its first, middle and last fifth of the steps, and over all."""

    signal: Text
    unit: Text
    first: FiniteFloat | None
    middle: FiniteFloat | None
    last: FiniteFloat | None
    whole: FiniteFloat | None


class Happening(_Part):
    """One event of the scenario, or the end of one."""

    step: int
    time_s: FiniteFloat
    what: Text


class LeverAnswer(_Part):
    """One change, and what the simulation makes of it at the end of the run."""

    name: Text
    change: Text
    bound_low_frac: FiniteFloat | None
    """Gain by a deterministic bound: rates of today scaled to the split. 80 % interval, low end."""
    bound_high_frac: FiniteFloat | None
    simulated_frac: FiniteFloat | None
    """Gain in useful rollouts per second by simulation, same prompts on both sides."""
    error_frac: FiniteFloat | None
    """Standard error of it."""
    note: Text


class Simulated(_Part):
    """The whole answer of `equipoise simulate --json`."""

    schema_version: Literal[1]
    product_version: Text
    scenario: Story
    headline: Text
    stopped: Text | None
    """Why the job could not go on, where it could not."""
    totals: Totals
    figures: list[Figure]
    waste: dict[str, Frac]
    """Share of dispatched rollouts that no batch used, by cause."""
    events: list[Happening]
    not_reached: list[Text]
    """Keys of drifts and events that would have begun after the end of the run."""
    unused_gpus: list[Text]
    """GPUs of the scenario that serve nothing, a sentence for each cause."""
    advice: Text | None
    """What `advise` says to the metrics of this run."""
    levers: list[LeverAnswer]
    steps: list[dict[str, FiniteFloat]]
    """Each trainer step as it truly was, under the names of docs/signals.md, with step and time_s."""
