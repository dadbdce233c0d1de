"""What a job's history tells of one parameter: a value with its standard error, or why it cannot be told."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

from simulators.calibration.priors import STEP_SCATTER, Prior


@dataclass(frozen=True, slots=True)
class Estimate:
    """A parameter that the data tell."""

    name: str
    value: float
    standard_error: float
    unit: str
    source: str
    """What it was taken from, in words."""

    def sentence(self) -> str:
        return f"{self.name} = {self.value:.4g} +- {self.standard_error:.2g} {self.unit} ({self.source})"


@dataclass(frozen=True, slots=True)
class Unidentified:
    """A parameter that the data do not tell: its prior goes into every interval."""

    name: str
    why: str
    prior: Prior

    def sentence(self) -> str:
        return f"{self.name} is not identified, because {self.why}: prior {self.prior} used"


Parameter = Estimate | Unidentified


def mean_of(name: str, values: Sequence[float], unit: str, source: str) -> Estimate:
    """Mean of independent values; one value alone carries the usual scatter of single steps."""
    centre = fmean(values)
    if len(values) < 2:
        return Estimate(name, centre, STEP_SCATTER * abs(centre), unit, f"{source}, one value")
    error = stdev(values) / sqrt(len(values))
    return Estimate(name, centre, error, unit, f"{source}, {len(values)} values")


@dataclass(frozen=True, slots=True)
class Line:
    """Least squares y = intercept + slope x, with standard errors; `spread` is the variation of x over its mean."""

    intercept: float
    slope: float
    intercept_error: float
    slope_error: float
    spread: float
    residual: float
    """Root mean square of what the line leaves, over the mean of y."""


def line_through(points: Sequence[tuple[float, float]]) -> Line | None:
    """None under three points, or where x does not vary."""
    n = len(points)
    if n < 3:
        return None
    mean_x, mean_y = fmean(x for x, _ in points), fmean(y for _, y in points)
    square = sum((x - mean_x) ** 2 for x, _ in points)
    if square <= 1e-18 * max(1.0, mean_x * mean_x) or mean_y == 0.0 or mean_x == 0.0:
        return None
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / square
    intercept = mean_y - slope * mean_x
    left = sum((y - intercept - slope * x) ** 2 for x, y in points)
    scatter = left / (n - 2)
    return Line(
        intercept,
        slope,
        sqrt(scatter * (1.0 / n + mean_x * mean_x / square)),
        sqrt(scatter / square),
        sqrt(square / n) / abs(mean_x),
        sqrt(left / n) / abs(mean_y),
    )
