"""The outlook of the ratio of both service rates: where it stands on the lattice of splits, and what is to come.

A series that stands still (policies/following.py) has nothing to come. One that does not is one of two kinds:
- it **swings** (policies/swings.py). What comes is what was: every phase is as likely as it was seen, and the mean is
  known the better the more often it came back;
- it **drifts**: since its last jump. A share of its trend goes on, for no longer than it was watched (a damped trend:
  Gardner and McKenzie 1985). A trend is the slope of the last TREND_STEPS, where it is beyond its noise, in both
  halves, and did not turn just before. The rest of the trend is doubt, and so is the walk around it: q n / 3 is the
  variance of the mean of n steps to come.
# walk 0.03 a step around a trend of 0.02 a step, 16 steps ahead, share 1/2: +0.16, doubt 0.12
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log, sqrt
from statistics import fmean, pstdev

from policies.following import since_jump, wander
from policies.readings import ROWS_MIN, of_one_setting
from simulators.plant import Setpoints
from simulators.signals import TINY
from simulators.snapshot import Row, Snapshot

SMOOTH_STEPS = 4
"""Of one mean of a swing."""
TREND_STEPS = 12
"""A trend is looked for over so many last steps."""
CLEAR = 2.0
"""So many standard errors are no noise."""
UNIFORM = 12.0**-0.5
"""Standard deviation of a share that may be anything between 0 and 1."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """Changes of ln(generator's rate / trainer's) against now."""

    shifts: tuple[float, ...] = (0.0,)
    """Equally likely ones."""
    sigma: float = 0.0
    """Doubt of their mean."""
    still_steps: int = 0
    """The last so many steps stand still; 0 where the ratio drifts or swings."""
    fills_view: bool = False
    """They are all that is in view: the stretch may have begun before."""

    @property
    def mean(self) -> float:
        return fmean(self.shifts)


def place(settings: Setpoints) -> float:
    return log((settings.gpus_generator or 1) / (settings.gpus_trainer or 1))


def at(points: tuple[tuple[float, float], ...], x: float) -> float:
    """L(x): straight between the points, and beyond them as steep as at the end, at most as if one side were all."""
    (x0, y0), (x1, y1) = points[0], points[1]
    for left, right in pairwise(points):
        (x0, y0), (x1, y1) = left, right
        if x <= x1:
            break
    return y0 + max(-1.0, min(1.0, (y1 - y0) / max(TINY, x1 - x0))) * (x - x0)


def to_come(snapshot: Snapshot, ahead_steps: float, share: float) -> Outlook:
    """What to reckon with over the next `ahead_steps`; `share` of a trend goes on."""
    logs = [found for row in of_one_setting(snapshot) if (found := _log_ratio(row)) is not None]
    if len(logs) < ROWS_MIN:
        return Outlook()
    seen = wander(logs)
    if seen.period_steps is not None:
        return _phases(logs, seen.period_steps)
    jump = since_jump(logs)
    logs = logs[jump:]
    seen = wander(logs)
    ahead = min(ahead_steps, float(len(logs)))
    if seen.walk == 0.0:
        return Outlook((0.0,), sqrt(seen.expected_walk * ahead / 3.0), len(logs), fills_view=jump == 0)
    trend = _trend(logs, seen.noise)
    doubt = max(0.0, seen.expected_walk - trend * trend) * ahead / 3.0 + (UNIFORM * trend * ahead) ** 2
    return Outlook((share * trend * ahead,), sqrt(doubt))


def _phases(logs: Sequence[float], period_steps: float) -> Outlook:
    """All that were seen, around the mean, at which a swing is read."""
    middle = fmean(logs)
    means = [fmean(logs[i : i + SMOOTH_STEPS]) for i in range(0, len(logs) - SMOOTH_STEPS + 1, SMOOTH_STEPS)]
    return Outlook(tuple(mean - middle for mean in means), pstdev(means) / sqrt(len(logs) / period_steps))


def _trend(logs: Sequence[float], noise: float) -> float:
    """Per step: the slope of the last steps (least squares), where it is beyond its noise and in both halves.

    Of what went the other way just before nobody knows how long it goes on.
    """
    last, before = logs[-TREND_STEPS:], logs[-2 * TREND_STEPS : -TREND_STEPS]
    n = len(last)
    if n < TREND_STEPS:
        return 0.0
    slope, error = _slope(last), sqrt(12.0 * noise / n**3)
    if abs(slope) < CLEAR * error or any(_slope(half) * slope <= 0.0 for half in (last[: n // 2], last[n // 2 :])):
        return 0.0
    turned = len(before) == TREND_STEPS and _slope(before) * slope < 0.0 and abs(_slope(before)) > error
    return 0.0 if turned else slope


def _slope(values: Sequence[float]) -> float:
    middle = (len(values) - 1) / 2.0
    return sum((i - middle) * v for i, v in enumerate(values)) / sum((i - middle) ** 2 for i in range(len(values)))


def _log_ratio(row: Row) -> float | None:
    """ln of trainer seconds over engine seconds of one rollout; None where the step does not show both."""
    values = row.values
    busy, batch = values.get("trainer_busy_s"), values.get("batch_rollouts")
    tpot, length = values.get("tpot_s"), values.get("resp_len_mean")
    if not busy or not batch or not tpot or not length:
        return None
    return log(busy / batch) - log(tpot * length)
