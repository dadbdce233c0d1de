"""What a job delivers says more of its slower side than any formula: the fit is brought to it, and keeps its doubt.

ln X = ln X(fit) - (engine share) e - (trainer share) t + noise,   e, t: ln of how much slower each side is than fitted

Kalman's update with one reading. What is left of it after the update is the structure's fault, and widens the doubt.
# engines +-5 %, they alone limit, 4 % less than expected is delivered (+-1.5 %): engines 3.7 % slower, +-1.4 %
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, inf, log, sqrt

from policies.following import followed
from policies.readings import ROWS_MIN, row_rate
from policies.sides import with_engine_factor, with_trainer_factor
from simulators.analytic import AnalyticModel
from simulators.event_state import Job
from simulators.signals import TINY
from simulators.snapshot import Row

MISFIT = 0.05
"""Standard deviation of the logarithm of the engines' speed that is right on average: what f(b) + m S leaves out."""
MODEL = 0.01
"""The same of what two sides make together (tests/laws/test_analytic_against_events.py)."""
NUDGE = 0.02
"""A side is made so much slower to see what it takes from the whole."""
UNLIKE = 0.7
"""ln of a half or a double: a model that is so far from what the job delivers is none of it."""
ROUNDS, CLOSE = 4, 0.01
"""Corrections by what is delivered, at most; and how near to it is near enough."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """Of ln(seconds per token) of both sides, and how what the job delivers binds them together.

    delivered: ln X = -(engine share) e - (trainer share) t + noise. The update is Kalman's with one reading.
    """

    engine: float = MISFIT**2
    """Variances before that reading."""
    trainer: float = 0.0
    engine_share: float = 0.0
    """By how much X falls when a side slows down: 1 where it alone limits, 0 where the other does."""
    trainer_share: float = 0.0
    noise: float = inf
    misfit: float = 0.0
    """Square of what the model still makes too much or too little of, in logarithms, beyond that noise: the ratio of
    both sides cannot be known better than that."""

    @property
    def total(self) -> float:
        """Variance of the reading that was to be expected."""
        return self.engine_share**2 * self.engine + self.trainer_share**2 * self.trainer + self.noise

    def gains(self) -> tuple[float, float]:
        """By how much each side becomes slower for each 1 % that is missing."""
        return self.engine * self.engine_share / self.total, self.trainer * self.trainer_share / self.total

    @property
    def ratio(self) -> float:
        """Variance of ln(generator's rate / trainer's) after it."""
        shared = self.engine * self.engine_share - self.trainer * self.trainer_share
        return self.engine + self.trainer - shared**2 / self.total + self.misfit


@dataclass(frozen=True, slots=True)
class Fitted:
    """The job as its metrics have it, with the doubt of what was read."""

    job: Job
    doubt: Doubt


def delivering(fitted: Fitted, rows: Sequence[Row]) -> Fitted | None:
    """Both sides' speeds brought to what the job delivers, each by its part in it and by its doubt.

    A side that limits is measured by that as nothing else measures it, whatever its formula leaves out. Where the other
    side limits after the first correction the parts are others: linearised anew there (iterated Kalman, Bell and Cathey
    1993), as long as that explains more of what is delivered. None where nothing does: the job is built otherwise.
    """
    seen = followed(rows, [row_rate(row.values) for row in rows])
    # The first steps fill the pipeline: what they deliver is less than either side can.
    if seen is None or len(rows) < ROWS_MIN or (at := _linear(fitted, (0.0, 0.0))) is None:
        return fitted
    said, doubt = at
    doubt = replace(doubt, noise=seen.variance + MODEL**2)
    logs, wanted = (0.0, 0.0), log(seen.rate)
    for _ in range(ROUNDS):
        engine, trainer = doubt.gains()
        short = said + doubt.engine_share * logs[0] + doubt.trainer_share * logs[1] - wanted
        there = (engine * short, trainer * short)
        nearer = _linear(fitted, there)
        if nearer is None or abs(nearer[0] - wanted) >= abs(said - wanted):
            break
        logs, said, doubt = there, nearer[0], replace(nearer[1], noise=doubt.noise)
        if abs(said - wanted) < max(CLOSE, sqrt(doubt.noise)):
            break
    left = (said - wanted) ** 2
    if left > UNLIKE**2:
        return None
    return Fitted(_slowed(fitted.job, logs), replace(doubt, misfit=max(0.0, left - doubt.noise)))


def unlike(job: Job, rows: Sequence[Row]) -> str:
    """What `delivering` could not bring together."""
    seen, made = followed(rows, [row_rate(row.values) for row in rows]), _useful_per_s(job)
    told = "nothing that is known" if seen is None else f"{seen.rate:.3g} rollouts/s with advantage"
    would = "nothing" if made is None else f"{made:.3g}"
    return f"it delivers {told}; built as stated it would make {would}, and no speed of either side explains that"


def _slowed(job: Job, logs: tuple[float, float]) -> Job:
    """Both sides slower by that much, in logarithms: (engines, trainer)."""
    return with_engine_factor(with_trainer_factor(job, exp(logs[1])), exp(logs[0]))


def _linear(fitted: Fitted, logs: tuple[float, float]) -> tuple[float, Doubt] | None:
    """(ln X of the job with both sides so much slower, the doubt with their parts in it there)."""
    job = _slowed(fitted.job, logs)
    said = _useful_per_s(job)
    if said is None:
        return None
    slower = (with_engine_factor(job, 1.0 + NUDGE), with_trainer_factor(job, 1.0 + NUDGE))
    shares = [max(0.0, log(said / (_useful_per_s(other) or said)) / log(1.0 + NUDGE)) for other in slower]
    return log(said), replace(fitted.doubt, engine_share=shares[0], trainer_share=shares[1])


def _useful_per_s(job: Job) -> float | None:
    try:
        made = AnalyticModel(job.stations).predict(job.topology, job.workload, job.setpoints).useful_rollouts_per_s
    except ValueError:
        return None
    return made if made > TINY else None
