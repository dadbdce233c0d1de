"""The thing under control: a job's facts (Topology), its knobs (Setpoints) and how far they may go (Bounds).

A live job, a recorded run and a simulated job are three plants of one type. `None` means unknown, everywhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from simulators.fields import STRICT
from simulators.snapshot import Snapshot


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
    """It loads as it is."""
    NEEDS_CONVERT = "needs-convert"
    """It loads after a conversion of its own."""
    IMPOSSIBLE = "impossible"
    """It does not load: such a move is illegal."""


class Change(StrEnum):
    """When a changed knob takes effect."""

    HOT = "hot"
    """At once, while the job runs."""
    BOUNDARY = "boundary"
    """At the next step boundary, without a restart."""
    RESTART = "restart"
    """When the job is started anew from its checkpoint."""
    EXTERNAL = "external"
    """Outside the framework: a provider's quota, another service."""


@dataclass(frozen=True, slots=True)
class Topology:
    """Facts of a job that no knob changes while it runs."""

    __pydantic_config__ = STRICT

    framework: str | None = None
    """verl, slime, prime-rl, ...: by its registered name."""
    mode: Mode = Mode.UNKNOWN
    """How generation and training share time."""
    gpus_total: int | None = None
    """GPUs of the whole job."""
    gpu_model: str | None = None
    """As the driver names it: NVIDIA H200."""
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
    """What becomes of a checkpoint on another number of trainer GPUs."""
    max_response_tokens: int | None = None
    """Length cap of one response."""
    queue_capacity: int | None = None
    """Finished rollouts that may wait for the trainer: the generator is held up by more."""
    restart_s: float | None = None
    """Seconds from stop to the first step after a restart from checkpoint."""
    updates_per_step: int | None = None
    """Optimizer updates in one trainer step."""
    self_tuned: tuple[str, ...] = ()
    """Knobs that the framework's own controller moves; we set their bounds only."""


@dataclass(frozen=True, slots=True)
class Setpoints:
    """The knobs in force, each `None` where unknown."""

    __pydantic_config__ = STRICT

    gpus_trainer: int | None = None
    """GPUs of the trainer."""
    gpus_generator: int | None = None
    """GPUs of all inference engines."""
    gpus_prefill: int | None = None
    """Part of the generator that only prefills."""
    gpus_decode: int | None = None
    """Part of the generator that only decodes."""
    engines: int | None = None
    """Inference engines; absent: as many as the generator's GPUs carry."""
    oversampling_ratio: float | None = None
    """Rollouts started for each one that a batch needs."""
    max_in_flight: int | None = None
    """Rollouts, whole job."""
    max_in_flight_per_engine: int | None = None
    """The same for one engine."""
    staleness_bound: float | None = None
    """Versions; a batch may run this far ahead of the trainer."""
    sync_interval: int | None = None
    """Trainer steps between two weight publications."""
    group_size: int | None = None
    """Rollouts of one prompt."""
    batch_rollouts: int | None = None
    """Rollouts trained per step."""
    overlap: bool | None = None
    """True when the next batch is generated while this one is trained."""
    partial_rollout: bool | None = None
    """True when an aborted rollout is resumed later instead of lost."""
    in_flight_update: bool | None = None
    """True when new weights are loaded in the middle of rollouts."""
    filter_zero_adv: bool | None = None
    """True when groups without advantage are dropped and refilled (dynamic sampling)."""
    packing: bool | None = None
    """True when sequences share rows of a training batch."""
    activation_checkpointing: bool | None = None
    """True when the backward pass computes activations again instead of keeping them."""
    checkpoint_interval: int | None = None
    """Trainer steps between two checkpoints."""
    validation_interval: int | None = None
    """Trainer steps between two validations."""
    sandbox_quota: int | None = None
    """Sandboxes that the provider allows alive at once."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far a user lets us go; `None`: no bound of theirs."""

    __pydantic_config__ = STRICT

    gpus_total_max: int | None = None
    """Most GPUs of the whole job."""
    gpus_trainer_min: int | None = None
    """Fewest GPUs of the trainer."""
    gpus_trainer_max: int | None = None
    """Most GPUs of the trainer."""
    max_in_flight_max: int | None = None
    """Most rollouts in flight."""
    staleness_max: float | None = None
    """Most versions between generation and training."""
    kept_over_attempted_min: float = 0.9
    """Bias bound: mean length and solve rate of what is kept over what was attempted."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """What there is to work with now: nodes come and go."""

    gpus_trainer: int | None = None
    gpus_generator: int | None = None
    engines_current: int | None = None
    """Engines that answer *and* serve the version last published: a new engine may never be given the weights."""
    syncing: bool = False
    """A weight sync is under way: whoever acts now aborts rollouts or hangs the update."""
    steps_done: int | None = None
    """Trainer steps of the job so far, whoever watched them; None where nobody who knows says so."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What one look at a plant shows."""

    time_s: float
    snapshot: Snapshot
    in_force: Setpoints
    """The knobs as they are, not as they were ordered; each `None` where unknown."""
    inventory: Inventory = field(default_factory=Inventory)
    cursors: Mapping[str, str] = field(default_factory=dict)
    """How far each source was read for this look: whoever remembers it can go on from here."""


@dataclass(frozen=True, slots=True)
class Order:
    """Knobs to set. Those that are `None` stay as they are; one that is in force already is applied at once."""

    setpoints: Setpoints
    decision_id: str
    fencing_token: int = 0
    """Grows with each writer of the job; a plant refuses one smaller than it has seen."""


class Status(StrEnum):
    """What became of an ordered knob."""

    APPLIED = "applied"
    PENDING = "pending"
    """Under way: in force at `effective_at_s`, unless it fails."""
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Outcome:
    status: Status
    reason: str
    effective_at_s: float | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """What happened to an order, knob by knob."""

    decision_id: str
    outcomes: Mapping[str, Outcome]

    @property
    def status(self) -> Status:
        """Refused if any knob was, else pending if any is, else applied."""
        seen = {outcome.status for outcome in self.outcomes.values()}
        return next((s for s in (Status.REFUSED, Status.PENDING) if s in seen), Status.APPLIED)


class Plant(Protocol):
    """A job that can be looked at and told to change. Applying the same order twice is applying it once."""

    def observe(self, now_s: float) -> Observation: ...

    def apply(self, order: Order, now_s: float) -> Receipt: ...
