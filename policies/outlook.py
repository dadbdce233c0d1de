"""The outlook of the ratio of both service rates: where it stands on the lattice of splits, and what is to come."""

from collections.abc import Sequence
from itertools import pairwise
from math import log, sqrt
from statistics import fmean

from policies.readings import kept_rows, level
from simulators.plant import Setpoints
from simulators.signals import TINY
from simulators.snapshot import Row, Snapshot

TREND_STEPS = 8
"""A trend is the change between the means of so many steps and of as many before."""
SMOOTH_STEPS = 4
CROSSINGS = 3
"""A drift crosses the mean of its window once; what does so this often comes back, and its mean is what to plan for."""
TREND_BEYOND_NOISE = 2.0
"""Standard errors that a trend must exceed."""


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


def to_come(snapshot: Snapshot, ahead_steps: float, share: float) -> float:
    """Change of ln(generator's rate / trainer's) to reckon with: back to the mean of a swing, or on with a trend."""
    logs = [found for row in kept_rows(snapshot) if (found := _log_ratio(row)) is not None]
    late, early = level(logs[-TREND_STEPS:]), level(logs[-2 * TREND_STEPS : -TREND_STEPS])
    if late is None or early is None:
        return 0.0
    if _swings(logs):
        return fmean(logs) - late.mean
    noise = sqrt(late.sigma**2 / late.n + early.sigma**2 / early.n)
    change = late.mean - early.mean
    if abs(change) <= TREND_BEYOND_NOISE * noise:
        return 0.0
    return share * change * min(ahead_steps, float(TREND_STEPS)) / TREND_STEPS


def _swings(logs: Sequence[float]) -> bool:
    """True where the series came back often: its means of SMOOTH_STEPS cross the mean of all, as no drift does."""
    middle = fmean(logs)
    means = [fmean(logs[i : i + SMOOTH_STEPS]) - middle for i in range(0, len(logs) - SMOOTH_STEPS + 1, SMOOTH_STEPS)]
    return sum(a * b < 0.0 for a, b in pairwise(means)) >= CROSSINGS


def _log_ratio(row: Row) -> float | None:
    """ln of trainer seconds over engine seconds of one rollout; None where the step does not show both."""
    values = row.values
    busy, batch = values.get("trainer_busy_s"), values.get("batch_rollouts")
    tpot, length = values.get("tpot_s"), values.get("resp_len_mean")
    if not busy or not batch or not tpot or not length:
        return None
    return log(busy / batch) - log(tpot * length)
