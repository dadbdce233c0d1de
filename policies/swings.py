"""A swing hidden in noise: the harmonic that explains most of a series (Fisher 1929; Brockwell and Davis 1991, ch. 10).

    y_k = m + a cos(2 pi k / T) + b sin(2 pi k / T) + v_k

by least squares at each period T that fits REPEATS times into the series. With the variance r that is left,

    ln L = -((n - 1) ln r + ln n) / 2,   r = squares left / (n - 1)

of n values whose level nobody knows beforehand: as standing still and walking have it (policies/following.py).
# a swing of 20 % every 16 steps in noise of 7 %, 64 steps: T 16, v 0.005; noise alone: ln L 3.7 higher than still
"""

from cmath import exp
from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, log, pi
from statistics import fmean

from policies.beliefs import VARIANCE_FLOOR

REPEATS = 2
"""So often it must have been there and back: a drift turns once at most."""
SHORTEST_STEPS = 6
"""Of a period: what alternates faster is over before a move could be in force."""


@dataclass(frozen=True, slots=True)
class Swing:
    """The likeliest harmonic of a series."""

    period_steps: float
    log_likelihood: float


def likeliest_swing(logs: Sequence[float]) -> Swing | None:
    """None of a series too short to swing REPEATS times."""
    n, middle = len(logs), fmean(logs)
    centred = [value - middle for value in logs]
    # Half a turn over the whole series apart: none lies between two that are looked at. Then nearer to the best one.
    turn = pi / n
    found = [(_explained(centred, turn * k), turn * k) for k in range(2 * REPEATS, 2 * n // SHORTEST_STEPS + 1)]
    if not found:
        return None
    best = max(found)
    for share in (2.0, 4.0, 8.0):
        best = max(
            best, *((_explained(centred, angle), angle) for angle in (best[1] - turn / share, best[1] + turn / share))
        )
    left = max(VARIANCE_FLOOR, (sum(value * value for value in centred) - best[0]) / (n - 1))
    return Swing(2.0 * pi / best[1], -0.5 * ((n - 1) * log(left) + log(n)))


def _explained(centred: Sequence[float], angle: float) -> float:
    """Sum of squares that a harmonic of so many radians a step takes off a series of mean 0 (Goertzel 1958)."""
    n, turn = len(centred), exp(1j * angle)
    twice, last, before = 2.0 * cos(angle), 0.0, 0.0
    for value in centred:
        last, before = value + twice * last - before, last
    seen = turn ** (n - 1) * (last - before * turn)  # sum of value_k e^(i angle k)
    ones, twos = (turn**n - 1.0) / (turn - 1.0), (turn ** (2 * n) - 1.0) / (turn**2 - 1.0)
    cos2 = (n + twos.real) / 2.0 - ones.real**2 / n
    sin2 = (n - twos.real) / 2.0 - ones.imag**2 / n
    both = twos.imag / 2.0 - ones.real * ones.imag / n
    squares = seen.real**2 * sin2 - 2.0 * seen.real * seen.imag * both + seen.imag**2 * cos2
    return squares / (cos2 * sin2 - both * both)
