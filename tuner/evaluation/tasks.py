"""The words of an evaluation: a task, how thorough it is, and what became of it. Data only.

A task stands alone: it can be done in any process, and again from its record.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import ceil, hypot, inf
from pathlib import Path

from simulators.scenario import Horizon, Scenario

NOTHING = "static"
"""Do nothing: what all are compared with, and what says how much is to be done."""
ORACLE = "oracle"
SLACK = 2.0
"""A slower run may take so many times what doing nothing takes before it is given up."""


@dataclass(frozen=True, slots=True)
class Size:
    """How thorough an evaluation is."""

    steps_max: int | None = None
    """Horizons are cut to so many trainer steps."""
    seconds_max: float | None = None
    blocks: int = 40
    settings: int = 30
    corrections: int = 8
    """Settings that the yardstick simulates to correct its rates."""
    schedules: int = 3


QUICK = Size(steps_max=200, seconds_max=14400.0, blocks=20, settings=10, corrections=4, schedules=2)
"""Minutes: every scenario's beginning."""
USUAL = Size(steps_max=300, seconds_max=28800.0, settings=16, corrections=6)
FULL = Size(blocks=60, corrections=24)
"""Every scenario to its end; hours on two cores, and resumable."""


@dataclass(frozen=True, slots=True)
class Task:
    name: str
    """Of the scenario."""
    scenario: Scenario
    policy: str
    seed: int
    size: Size = USUAL
    goal: float | None = None
    """Useful rollouts to train; None: as many as doing nothing does within the horizon."""
    ends_s: float = inf
    """When doing nothing has done it."""
    journal: Path | None = None
    """Where every tick is written; None: nowhere."""
    parameters: tuple[tuple[str, float], ...] = ()
    """Of the policy; its own defaults where they are not named."""

    @property
    def key(self) -> str:
        return f"{self.name}/{self.policy}/{self.seed}"


@dataclass(frozen=True, slots=True)
class Turn:
    """One change of the split that was ordered."""

    at_s: float
    up: bool
    settle_s: float
    reverted: bool = False


@dataclass(frozen=True, slots=True)
class Point:
    """The job at some moment of its progress."""

    useful: float
    at_s: float
    step: int
    gpus_trainer: float | None
    in_flight_limit: float | None
    in_flight_per_engine_limit: float | None
    oversampling_ratio: float | None
    gpus_prefill: float | None
    rate_per_s: float
    trainer_idle_frac: float
    generator_util_frac: float
    staleness: float


@dataclass(frozen=True, slots=True)
class Judged:
    """A move's gain as predicted, as measured on the way (both with their 80 % intervals), and as it truly was."""

    low: float
    mean: float
    high: float
    realised_low: float | None = None
    """None: too little was seen to tell."""
    realised: float | None = None
    realised_high: float | None = None
    true: float | None = None
    """By tuner/evaluation/counterfactual.py; None where one of both settings cannot run."""
    true_error: float | None = None

    @property
    def held(self) -> bool | None:
        """The true gain is inside the predicted interval."""
        return None if self.true is None else self.low <= self.true <= self.high

    @property
    def not_contradicted(self) -> bool | None:
        """What was measured is where it was predicted, within the error of both: with so much error nearly all is."""
        if self.realised is None or self.realised_low is None or self.realised_high is None:
            return None
        above = self.realised >= self.mean
        said = self.high - self.mean if above else self.mean - self.low
        seen = self.realised - self.realised_low if above else self.realised_high - self.realised
        return abs(self.realised - self.mean) <= hypot(said, seen)


@dataclass(frozen=True, slots=True)
class Run:
    """What became of one task."""

    name: str
    policy: str
    seed: int
    seconds: float
    """To the goal; extrapolated where `unfinished`."""
    goal: float
    steps: int = 0
    unfinished: str | None = None
    turns: tuple[Turn, ...] = ()
    moves: int = 0
    """Orders of any knob that began a move."""
    violations: Mapping[str, int] = field(default_factory=dict)
    """Steps beyond a hard bound, by bound; doing nothing may be beyond it too."""
    excess: Mapping[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)
    """How far each of these is beyond it, in the bound's unit, with the standard error of that."""
    holds: Mapping[str, int] = field(default_factory=dict)
    held: tuple[bool, ...] = ()
    """No-move forecasts: whether their intervals held."""
    gains: tuple[Judged, ...] = ()
    """Of the moves that were judged."""
    points: tuple[Point, ...] = ()
    bound_s: float | None = None
    """Of the yardstick: with free moves."""
    best_static_s: float | None = None
    """Of the best setting that is gone to at once and kept."""
    best_static: str = ""
    free_static_s: float | None = None
    """The same for a job that had begun there."""
    how: str = ""
    """Of the yardstick: which of its schedules was the best."""


def sized(scenario: Scenario, size: Size) -> Scenario:
    """The scenario with its horizon cut."""
    now = scenario.horizon
    steps = min((n for n in (now.steps, size.steps_max if now.steps else None) if n is not None), default=None)
    seconds = min((s for s in (now.seconds, size.seconds_max if now.seconds else None) if s is not None), default=None)
    return replace(scenario, horizon=Horizon(steps, seconds))


def extended(scenario: Scenario) -> Scenario:
    """The scenario with room for a slower run."""
    now = scenario.horizon
    steps = None if now.steps is None else ceil(now.steps * SLACK)
    return replace(scenario, horizon=Horizon(steps, None if now.seconds is None else now.seconds * SLACK))
