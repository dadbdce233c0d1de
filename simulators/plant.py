"""The thing under control: a job's facts (Topology), its knobs (Setpoints) and how far they may go (Bounds).

A live job, a recorded run and a simulated job are three plants of one type. `None` means unknown, everywhere.
"""

from dataclasses import dataclass
from enum import StrEnum


class Mode(StrEnum):
    """How generation and training share time."""

    SERIAL = "serial"
    """Phases one after another on the same GPUs: there is no split to move."""
    OVERLAPPED = "overlapped"
    """Generator and trainer run at the same time on their own GPUs."""
    ENGINE = "engine"
    """Only an engine's own figures are known."""
    UNKNOWN = "unknown"


class TrainerResize(StrEnum):
    """What becomes of a checkpoint when the trainer restarts on another number of GPUs."""

    OK = "ok"
    NEEDS_CONVERT = "needs-convert"
    IMPOSSIBLE = "impossible"


class Change(StrEnum):
    """When a changed knob takes effect."""

    HOT = "hot"
    BOUNDARY = "boundary"
    """At the next step boundary, without a restart."""
    RESTART = "restart"
    EXTERNAL = "external"
    """Outside the framework: a provider's quota, another service."""


@dataclass(frozen=True, slots=True)
class Topology:
    """Facts of a job that no knob changes while it runs."""

    framework: str | None = None
    mode: Mode = Mode.UNKNOWN
    gpus_total: int | None = None
    gpu_model: str | None = None
    gpus_per_engine: int | None = None
    """GPUs of one engine or of one indivisible replica: the generator moves in these steps."""
    trainer_gpu_step: int | None = None
    """Model-parallel size of the trainer: its GPU count moves in these steps."""
    trainer_gpus_min: int | None = None
    """Memory floor of the trainer."""
    trainer_sizes: tuple[int, ...] = ()
    """Legal trainer sizes where the job file lists them; empty: all on the step lattice."""
    batch_must_divide: bool = False
    """True when the framework demands that the trainer's data-parallel size divides the batch."""
    trainer_resize: TrainerResize | None = None
    max_response_tokens: int | None = None
    restart_s: float | None = None
    """Seconds from stop to the first step after a restart from checkpoint."""
    updates_per_step: int | None = None
    self_tuned: tuple[str, ...] = ()
    """Knobs that the framework's own controller moves; we set their bounds only."""


@dataclass(frozen=True, slots=True)
class Setpoints:
    """The knobs in force, each `None` where unknown."""

    gpus_trainer: int | None = None
    gpus_generator: int | None = None
    gpus_prefill: int | None = None
    gpus_decode: int | None = None
    engines: int | None = None
    oversampling_ratio: float | None = None
    max_in_flight: int | None = None
    """Rollouts, whole job."""
    max_in_flight_per_engine: int | None = None
    staleness_bound: float | None = None
    """Versions; a batch may run this far ahead of the trainer."""
    sync_interval: int | None = None
    """Trainer steps between two weight publications."""
    group_size: int | None = None
    batch_rollouts: int | None = None
    """Rollouts trained per step."""
    overlap: bool | None = None
    partial_rollout: bool | None = None
    in_flight_update: bool | None = None
    filter_zero_adv: bool | None = None
    """True when groups without advantage are dropped and refilled (dynamic sampling)."""
    packing: bool | None = None
    checkpoint_interval: int | None = None
    validation_interval: int | None = None
    sandbox_quota: int | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far a user lets us go; `None`: no bound of theirs."""

    gpus_total_max: int | None = None
    gpus_trainer_min: int | None = None
    gpus_trainer_max: int | None = None
    max_in_flight_max: int | None = None
    staleness_max: float | None = None
    kept_over_attempted_min: float = 0.9
    """Bias bound: mean length and solve rate of what is kept over what was attempted."""
