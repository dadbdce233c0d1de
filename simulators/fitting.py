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


def fit(bounds: Sequence[Bounded], residuals: Residuals, count: int) -> tuple[float, ...]:
    """The parameters that make the sum of `count` squared residuals least. Fixed starts, no random numbers."""
    if not bounds:
        return ()
    # half a second to load: only for those who fit
    from scipy.optimize import least_squares  # noqa: PLC0415

    def cost(shares: Sequence[float]) -> Sequence[float]:
        values = [bound.at(float(share)) for bound, share in zip(bounds, shares, strict=True)]
        try:
            return [max(-WALL, min(WALL, residual)) for residual in residuals(values)]
        except ValueError:
            return [WALL] * count

    ends = [least_squares(cost, [start] * len(bounds), bounds=(0.0, 1.0), xtol=1e-12, ftol=1e-12) for start in STARTS]
    best = min(ends, key=lambda end: float(end.cost))
    return tuple(bound.at(float(share)) for bound, share in zip(bounds, best.x, strict=True))
