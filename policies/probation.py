"""Probation: did a move do what was predicted? Realised against predicted gain, by difference in differences.

A job drifts by itself, so before-and-after is not the gain. What the old setting would have done meanwhile is the
ratio of the model's predictions for it, now over then:

    realised = (after / before) / (model(old, now) / model(old, then)) - 1

with `before` and `after` the useful rollouts/s measured over steps. Its relative error is that of both means.
A move is bad when its realised gain is negative beyond the error (80 %): it is reverted once, its knob is frozen, and
the revert itself is judged and never reverted.
# before 2.0, after 1.9, old setting drifting to 0.9 of itself -> realised +5.6 %: good, though the rate fell
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import sqrt

from policies.base import Interval
from policies.beliefs import CENTRAL_80
from policies.moves import Move
from policies.readings import Level, level, rate_series
from simulators.signals import TINY
from simulators.snapshot import Snapshot

STEPS_MIN = 5
"""Steps after settling before a move is judged: fewer have no error to speak of."""
UNKNOWN_DRIFT_FRAC = 0.05
"""Without a model of the old setting its drift meanwhile is unknown by this much."""
BEFORE_STEPS = 20
"""More steps before a move than this are another job by drift."""
PATIENCE = 4.0
"""A probation without enough steps ends undecided after so many settling times."""


class Judgement(StrEnum):
    WAIT = "wait"
    GOOD = "good"
    """The realised gain is positive, or at least not negative beyond its error."""
    BAD = "bad"
    UNSURE = "unsure"
    """Too few steps came in time: neither."""


@dataclass(frozen=True, slots=True)
class Probation:
    """A finished move that is being judged."""

    move: Move
    knobs: tuple[str, ...]
    since_s: float
    """The settled moment: only steps after it count."""
    predicted: Interval | None
    before: Level | None
    """Useful rollouts/s over the steps before the move."""
    model_before: float | None = None
    """What the model gave for the old setting when the move began."""
    health: Mapping[str, Level] = field(default_factory=dict)
    revert: bool = False
    """This move is itself a revert: it is judged, never reverted."""


def realised_gain(before: Level, after: Level, drift_ratio: float | None) -> Interval | None:
    """80 % interval of the gain; None where nothing was produced before. No ratio: the drift is unknown."""
    if before.mean <= TINY or (drift_ratio is not None and not drift_ratio > TINY):
        return None
    ratio = after.mean / before.mean / (drift_ratio or 1.0)
    error = sqrt(_relative(before) ** 2 + _relative(after) ** 2 + (0.0 if drift_ratio else UNKNOWN_DRIFT_FRAC) ** 2)
    half = CENTRAL_80 * error * ratio
    return Interval(ratio - 1.0 - half, ratio - 1.0, ratio - 1.0 + half)


def judged(
    probation: Probation, snapshot: Snapshot, now_s: float, model_now: float | None
) -> tuple[Judgement, Interval | None]:
    """(verdict, realised gain) of a move after its settling. `model_now`: the model's rate at the *old* setting."""
    after = level(rate_series(snapshot, probation.since_s))
    if after is None or after.n < STEPS_MIN:
        over = now_s - probation.since_s > PATIENCE * max(probation.move.settle_s, probation.move.leg_limit_s)
        return (Judgement.UNSURE if over else Judgement.WAIT), None
    if probation.before is None:
        return Judgement.UNSURE, None
    ratio = _ratio(probation.model_before, model_now)
    gain = realised_gain(probation.before, after, ratio)
    if gain is None:
        return Judgement.UNSURE, None
    return (Judgement.BAD if gain.high < 0.0 else Judgement.GOOD), gain


def _ratio(then: float | None, now: float | None) -> float | None:
    return now / then if then is not None and now is not None and then > TINY else None


def _relative(known: Level) -> float:
    return known.sigma / sqrt(known.n) / max(known.mean, TINY)


def before_level(snapshot: Snapshot, until_s: float) -> Level | None:
    """The rate before a move: the last steps up to it, as many as could still be the same job."""
    series: Sequence[float] = rate_series(snapshot, None, until_s)
    return level(series[-BEFORE_STEPS:])
