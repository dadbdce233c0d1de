"""A quantity followed over the steps in view: a random walk seen through noise, both variances from the series itself.

    y_k = x_k + v_k,  x_k = x_(k-1) + w_k       (local-level model: Harvey 1989, section 2.4; by the method of moments)
    E (y_(k+1) - y_k)^2 / 2 ~ r + q/2           E (y_(k+L) - y_k)^2 = 2 r + L q

on the logarithm, by the filter of policies/beliefs.py.
"""

from collections.abc import Sequence
from math import log
from statistics import fmean

from policies.beliefs import WALK_PER_S, Belief, Reading, predicted, updated
from policies.readings import ROWS_MIN, noise_variance
from simulators.signals import TINY
from simulators.snapshot import Row

LAG = 8
"""Steps over which a walk is told from noise."""


def followed(rows: Sequence[Row], values: Sequence[float | None]) -> Belief | None:
    """The positive quantity at the end of the series, with its variance; None under ROWS_MIN values."""
    known = [(row, value) for row, value in zip(rows, values, strict=True) if value is not None and value > TINY]
    if len(known) < ROWS_MIN:
        return None
    numbers = [value for _, value in known]
    logs, noise = [log(value) for value in numbers], noise_variance(numbers)
    times = [row.time_s if row.time_s is not None else float(i) for i, (row, _) in enumerate(known)]
    apart = max(TINY, (times[-1] - times[0]) / (len(times) - 1))
    walk = max(WALK_PER_S, _walk(logs, noise) / apart)
    belief: Belief | None = None
    for at_s, value in zip(times, numbers, strict=True):
        belief = belief if belief is None else predicted(belief, at_s, walk)
        belief, _ = updated(belief, Reading(value, noise), at_s)
    return belief


def _walk(logs: Sequence[float], noise: float) -> float:
    """q per step, from how much further apart values LAG steps away are than noise makes them."""
    lag = min(LAG, len(logs) - 1)
    squares = [(late - early) ** 2 for early, late in zip(logs, logs[lag:], strict=False)]
    return max(0.0, (fmean(squares) - 2.0 * noise) / lag)


def newest(rows: Sequence[Row], name: str) -> float | None:
    belief = followed(rows, [row.values.get(name) for row in rows])
    return None if belief is None else belief.rate


def mean_of(rows: Sequence[Row], name: str) -> float | None:
    """For what may be 0: the plain mean."""
    known = [row.values[name] for row in rows if name in row.values]
    return fmean(known) if known else None


def sum_of(rows: Sequence[Row], name: str) -> float:
    return sum(row.values.get(name, 0.0) for row in rows)
