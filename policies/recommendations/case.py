"""What every recommendation rule sees, and how an uncertain gain is written down."""

from dataclasses import dataclass, field
from math import inf

from policies.base import Diagnosis, Interval, Recommendation, Verdict
from policies.diagnosis.budget import Budget
from policies.diagnosis.generator import NAMEABLE
from policies.prospects import Prospects
from simulators.calibration import Answer
from simulators.plant import Bounds, Mode, Setpoints, Topology
from simulators.snapshot import Snapshot

GENERATOR_SIDE = frozenset(
    {
        Verdict.GENERATION_BOUND,
        Verdict.TAIL_BOUND,
        Verdict.PREFILL_BOUND,
        Verdict.KV_BOUND,
        Verdict.KV_THRASH,
        Verdict.CONCURRENCY_CAPPED,
        Verdict.CLIENT_BOUND,
        Verdict.SLOW_ENGINE,
        Verdict.ENV_BOUND,
        Verdict.SANDBOX_BOUND,
        Verdict.STALENESS_WASTE,
    }
)
"""Verdicts under which a faster generator would help."""
UNTOLD = 0.05
"""Expected gain per unit of the share it acts on, where data cannot tell: below any gain that is worth telling."""
GAIN_MIN = 0.01
"""A change that gains less is not worth its trouble."""
GAIN_MAX = 10.0
"""No promise beyond this, whatever the formula says."""


@dataclass(frozen=True, slots=True)
class Case:
    topology: Topology
    setpoints: Setpoints
    snapshot: Snapshot
    bounds: Bounds
    diagnosis: Diagnosis
    budget: Budget | None
    prospects: Prospects = field(default_factory=lambda: Prospects(None))
    """The calibrated model, where the data allow one."""

    @property
    def verdict(self) -> Verdict:
        return self.diagnosis.verdict

    @property
    def generator_side(self) -> bool:
        return self.verdict in GENERATOR_SIDE or self.judged

    @property
    def judged(self) -> bool:
        """True where rewards hold a rollout up from inside, and not the step after it."""
        return self.verdict is Verdict.REWARD_BOUND and (self.get("reward_share_frac") or 0.0) >= NAMEABLE

    @property
    def generator_slower(self) -> bool:
        """Also where something beside the two sides, as publishing, takes more than the trainer's wait."""
        verdicts = {cause.verdict for cause in self.diagnosis.causes if cause.recoverable_frac > 0.0}
        return self.generator_side or (bool(verdicts & GENERATOR_SIDE) and Verdict.TRAINER_BOUND not in verdicts)

    @property
    def may_wait_for_generator(self) -> bool:
        """True unless the verdict says that something else holds the job up."""
        return self.generator_side or self.verdict is Verdict.CANNOT_TELL

    @property
    def serial(self) -> bool:
        return self.topology.mode is Mode.SERIAL

    def get(self, name: str) -> float | None:
        return self.snapshot.get(name)

    def frac(self, name: str) -> float:
        """Share of a phase in the wall time; 0 when unknown."""
        return self.budget.frac(name) if self.budget else 0.0

    @property
    def generator_frac(self) -> float:
        """Share of wall time that a faster generator could give back at most."""
        if self.serial:
            return self.frac("rollout_s")
        idle = self.get("trainer_idle_frac")
        if idle is not None:
            return idle if self.generator_side else 0.0
        return 0.5 if self.generator_side else 0.0


@dataclass(frozen=True, slots=True)
class Ranked:
    """A recommendation and what it is ranked by: the expected gain, or where none can be told, a careful stand-in."""

    expected: float
    recommendation: Recommendation
    answer: Answer | None = None
    """Of the calibrated model, where the gain is its."""
    most: float = inf
    """No gain above this, whatever a model says."""


def ranked(advised: Recommendation, answer: Answer | None = None, most: float = inf) -> Ranked:
    """By the mean of its gain."""
    return Ranked(advised.gain_frac.mean if advised.gain_frac is not None else 0.0, advised, answer, most)


def scaled(factor: float, gain: Interval) -> Interval:
    return Interval(factor * gain.low, factor * gain.mean, factor * gain.high)


def below(bound: float, gain: Interval) -> Interval:
    """The gain, cut at what arithmetic allows."""
    return Interval(min(gain.low, bound), min(gain.mean, bound), min(gain.high, bound))


def at_most(bound: float) -> Interval:
    """A gain of which only the upper bound is known: the share of it that comes true is U[0, 1].

    # bound 1.00 -> 0.10 | 0.50 | 0.90
    """
    bound = min(max(bound, 0.0), GAIN_MAX)
    return Interval(0.1 * bound, 0.5 * bound, 0.9 * bound)


def freed(share: float) -> float:
    """Gain in throughput when `share` of the wall time goes away: share / (1 - share)."""
    share = min(max(share, 0.0), GAIN_MAX / (1.0 + GAIN_MAX))
    return share / (1.0 - share)


def saved_by_doubling(share: float) -> Interval:
    """Gain when a phase of this share comes half as often."""
    full = freed(share / 2.0)
    return nearly(Interval(full, full, full))


def nearly(full: Interval) -> Interval:
    """A gain that is nearly certain, less where what goes away hides other work: U[0.7, 1] of it, or so."""
    return Interval(0.7 * full.low, 0.9 * full.mean, full.high)
