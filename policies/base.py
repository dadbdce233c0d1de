"""The words of a diagnosis and of advice: verdicts, findings, recommendations. Data only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from simulators.plant import Change


class Verdict(StrEnum):
    """Who or what holds the job up. Definitions and thresholds: docs/signals.md."""

    BAD_DATA = "bad-data"
    POLICY_COLLAPSE = "policy-collapse"
    NO_SIGNAL = "no-signal"
    STRAGGLER_WEDGE = "straggler-wedge"
    MEMORY_GROWTH = "memory-growth"
    GENERATION_BOUND = "generation-bound"
    TAIL_BOUND = "tail-bound"
    PREFILL_BOUND = "prefill-bound"
    KV_BOUND = "kv-bound"
    KV_THRASH = "kv-thrash"
    CONCURRENCY_CAPPED = "concurrency-capped"
    CLIENT_BOUND = "client-bound"
    SLOW_ENGINE = "slow-engine"
    ENV_BOUND = "env-bound"
    SANDBOX_BOUND = "sandbox-bound"
    REWARD_BOUND = "reward-bound"
    TRAINER_BOUND = "trainer-bound"
    WEIGHT_SYNC_BOUND = "weight-sync-bound"
    STALENESS_WASTE = "staleness-waste"
    VALIDATION_BOUND = "validation-bound"
    CHECKPOINT_BOUND = "checkpoint-bound"
    OVERHEAD_BOUND = "overhead-bound"
    BALANCED = "balanced"
    CANNOT_TELL = "cannot-tell"


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class Direction(StrEnum):
    UP = "up"
    DOWN = "down"
    ON = "on"
    OFF = "off"
    SET = "set"


@dataclass(frozen=True, slots=True)
class Interval:
    """An 80 % central interval with its mean."""

    low: float
    mean: float
    high: float


@dataclass(frozen=True, slots=True)
class Finding:
    code: str
    severity: Severity
    title: str
    detail: str
    evidence: Mapping[str, float | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rates:
    generator_rollouts_per_s: float | None = None
    generator_effective_rollouts_per_s: float | None = None
    trainer_rollouts_per_s: float | None = None
    """Service rate: rollouts per second of busy time."""
    trainer_idle_frac: float | None = None
    generator_idle_frac: float | None = None
    utilisation_ratio: float | None = None
    """rho = effective generator rate / trainer service rate."""


@dataclass(frozen=True, slots=True)
class Phase:
    """One slice of the wall time of a step."""

    name: str
    seconds: float
    frac: float


@dataclass(frozen=True, slots=True)
class Cause:
    """One candidate verdict with the share of wall time that removing it could give back at most."""

    verdict: Verdict
    recoverable_frac: float
    error_frac: float
    """Half width of what we do not know of recoverable_frac."""
    reason: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    verdict: Verdict
    confidence: float
    headline: str
    findings: tuple[Finding, ...]
    rates: Rates
    budget: tuple[Phase, ...]
    """Shares of the wall time in step order; a last phase `unaccounted` closes it. Empty when no step time is known."""
    causes: tuple[Cause, ...]
    """Every candidate that was weighed, the winner first."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """One change. The framework's own key, hot or restart, is looked up by the caller (tuner.frameworks)."""

    knob: str
    direction: Direction
    current: float | str | None
    proposed: float | str | None
    unit: str
    gain_frac: Interval | None
    """Gain in useful rollouts per second, as a share of now; None: not tellable from this data (reason: what would)."""
    reason: str
    risks: tuple[str, ...] = ()
    cost_s: float | None = None
    cost_note: str = ""
    data_changing: bool = False
    change: Change | None = None
    """Only where it does not depend on the framework."""


@dataclass(frozen=True, slots=True)
class DoNot:
    knob: str
    direction: Direction
    reason: str


@dataclass(frozen=True, slots=True)
class Missing:
    signal: str
    why_it_matters: str
    how_to_get_it: str


@dataclass(frozen=True, slots=True)
class SplitPoint:
    """One split of the GPUs and the throughput it gives, as a multiple of today's."""

    gpus_trainer: int
    gpus_generator: int
    throughput: Interval
    legal: bool
    note: str = ""


@dataclass(frozen=True, slots=True)
class SplitCurve:
    """Throughput against split, for the picture and for the recommendation."""

    points: tuple[SplitPoint, ...]
    current_gpus_trainer: int
    proposed_gpus_trainer: int | None = None


@dataclass(frozen=True, slots=True)
class Advice:
    """The whole answer, before it is put into words: diagnosis, what to do in order, what not to do, what to log."""

    diagnosis: Diagnosis
    recommendations: tuple[Recommendation, ...] = ()
    do_not: tuple[DoNot, ...] = ()
    missing: tuple[Missing, ...] = ()
    split_curve: SplitCurve | None = None
