"""Least squares within bounds: the free parameters of a case, from its calibration rows and nothing else."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, log

STARTS = (0.5, 0.15, 0.85)
"""Where a search begins, as a share of the way from low to high; the best end counts."""
WALL = 1e6
"""Residual of a point where the model has no answer, and the largest that counts: the search turns back."""


@dataclass(frozen=True, slots=True)
class Bounded:
    """One free parameter. A range of positive numbers is searched by its logarithm."""

    low: float
    high: float

    def at(self, share: float) -> float:
        """The value a `share` (0..1) of the way up.

        >>> round(Bounded(1.0, 100.0).at(0.5), 6), Bounded(-1.0, 1.0).at(0.5)
        (10.0, 0.0)
        """
        if self.low <= 0.0:
            return self.low + share * (self.high - self.low)
        return exp(log(self.low) + share * (log(self.high) - log(self.low)))


Residuals = Callable[[Sequence[float]], Sequence[float]]
"""One number for each calibration row, from the parameters."""
Cost = Callable[[Sequence[float]], list[float]]
"""The same from shares of the way from low to high."""


def fit(bounds: Sequence[Bounded], residuals: Residuals, count: int, smooth: bool = True) -> tuple[float, ...]:
    """The parameters that make the sum of `count` squared residuals least. Fixed starts, no random numbers.

    Not `smooth`: a simulation, which answers the smallest steps of a gradient with none or with a jump.
    """
    if not bounds:
        return ()

    def cost(shares: Sequence[float]) -> list[float]:
        values = [bound.at(float(share)) for bound, share in zip(bounds, shares, strict=True)]
        try:
            return [max(-WALL, min(WALL, residual)) for residual in residuals(values)]
        except ValueError:
            return [WALL] * count

    best = (_by_gradient if smooth else _by_compass)(cost, len(bounds))
    return tuple(bound.at(float(share)) for bound, share in zip(bounds, best, strict=True))


def _by_gradient(cost: Cost, dimensions: int) -> Sequence[float]:
    # half a second to load: only for those who fit
    from scipy.optimize import least_squares  # noqa: PLC0415

    ends = [least_squares(cost, [start] * dimensions, bounds=(0.0, 1.0), xtol=1e-12, ftol=1e-12) for start in STARTS]
    best: Sequence[float] = min(ends, key=lambda end: float(end.cost)).x
    return best


FIRST, LAST = 0.25, 1e-3
"""Steps with which a search without gradients begins and ends, as shares of the way from low to high."""


def _by_compass(cost: Cost, dimensions: int) -> Sequence[float]:
    """The best neighbour on any axis, again and again; where none is better, half the step."""

    def squares(shares: Sequence[float]) -> float:
        return sum(residual**2 for residual in cost(shares))

    least, here = min((squares(shares), shares) for share in STARTS for shares in [[share] * dimensions])
    step = FIRST
    while step >= LAST:
        beside = [
            [min(1.0, max(0.0, x + way * step)) if i == axis else x for i, x in enumerate(here)]
            for axis in range(dimensions)
            for way in (-1.0, 1.0)
        ]
        best, there = min((squares(shares), shares) for shares in beside)
        if best < least:
            least, here = best, there
        else:
            step /= 2.0
    return here
