"""Tests for a change of the world, with a stated rate of false alarms. They shorten memory; they never act.

Two one-sided cumulative sums over standardised innovations z (mean 0, variance 1 while nothing changes):

    S+ = max(0, S+ + z - k),  S- = max(0, S- - z - k),  alarm at h;  k = half the smallest shift worth finding.

Steps to a false alarm of one side (Siegmund 1985, equation 10.17; b = h + 1.166):  (exp(2 k b) - 2 k b - 1) / (2 k^2);
both sides together alarm twice as often.
# k = 0.5, both sides:  h 3 -> 59 | h 4 -> 169 | h 5 -> 469 | h 6 -> 1,286 steps
"""

from dataclasses import dataclass
from math import exp, isfinite

from policies.base import Direction

ALLOWANCE = 0.5
"""k: a shift of one standard error of one reading is found fastest."""
OVERSHOOT = 1.166
"""Siegmund's correction for the step over the threshold."""
HORIZONS_PER_FALSE_ALARM = 10.0
"""A memory of n readings is cut by chance at most once in so many times n."""
INNOVATION_LIMIT = 4.0
"""One reading counts no more than this: an outlier alone is no change."""


@dataclass(frozen=True, slots=True)
class Cusum:
    high: float = 0.0
    low: float = 0.0


def steps_to_false_alarm(threshold: float, allowance: float = ALLOWANCE) -> float:
    """Average run length of the two-sided test while nothing changes."""
    x = 2.0 * allowance * (threshold + OVERSHOOT)
    return (exp(x) - x - 1.0) / (2.0 * allowance**2) / 2.0


def threshold_for(horizon_steps: float, allowance: float = ALLOWANCE) -> float:
    """The h whose false alarms are at least 10 horizons apart, by bisection.

    # horizon 20 steps -> h 4.2 | 50 -> 5.1 | 200 -> 6.4
    """
    wanted = HORIZONS_PER_FALSE_ALARM * max(1.0, horizon_steps)
    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if steps_to_false_alarm(middle, allowance) < wanted else (low, middle)
    return high


def summed(test: Cusum, z: float, threshold: float) -> tuple[Cusum, Direction | None]:
    """(the sums after one innovation, the direction of a change). An alarm starts both sums anew."""
    if not isfinite(z):
        return test, None
    step = max(-INNOVATION_LIMIT, min(INNOVATION_LIMIT, z))
    high, low = max(0.0, test.high + step - ALLOWANCE), max(0.0, test.low - step - ALLOWANCE)
    if high < threshold and low < threshold:
        return Cusum(high, low), None
    return Cusum(), Direction.UP if high >= threshold else Direction.DOWN
