"""The engine's iteration time t = a + k b, from engine records with different numbers of residents.

What contexts cost is inside k: a record has no contexts of its own, and they grow with the residents.

A job that runs at one concurrency shows one point of f. Ramps, drains and evaluations move it for free, so records
that the balance signals leave out are kept here.
"""

from dataclasses import dataclass

from simulators.calibration.estimates import Estimate, Line, Parameter, Unidentified, line_through
from simulators.calibration.priors import HALF_RATE_PER_GPU
from simulators.snapshot import Row, Snapshot

SPREAD_MIN = 0.15
"""Residents must vary by this share of their mean, or the slope is only noise."""
RATIO_ERROR_MAX = 1.0
"""A half-rate batch known worse than by a factor of two or so is not known better than its prior."""


@dataclass(frozen=True, slots=True)
class DecodeFit:
    half_rate: Parameter
    """a / k: residents at which one engine gives half of what it gives at most; unidentified, for each of its GPUs."""
    step_s: Estimate | None = None
    """Seconds of one iteration at the mean number of residents."""
    residents: float | None = None
    """Mean residents of one engine over the records."""
    residual: float | None = None


def fit_decode(snapshot: Snapshot) -> DecodeFit:
    """a and k by least squares over records (residents per engine, seconds per token of one request)."""
    points = [p for row in (*snapshot.engine_rows, *snapshot.rows) if (p := _point(row)) is not None]
    if not points:
        return DecodeFit(_unknown("no engine record holds residents and their pace"))
    residents = sum(b for b, _ in points) / len(points)
    line = line_through(points)
    if line is None or line.spread < SPREAD_MIN:
        why = f"the engines always hold about {residents:.0f} requests: concurrency is pinned"
        return DecodeFit(_unknown(why), residents=residents)
    return _fitted(line, residents, len(points))


def _fitted(line: Line, residents: float, n: int) -> DecodeFit:
    at_mean = line.intercept + line.slope * residents
    pace = Estimate("iteration time", at_mean, line.residual * at_mean / n**0.5, "s", f"{n} engine records")
    if line.slope <= 0.0 or line.intercept <= 0.0:
        why = f"over {n} records more residents do not slow a step as f(b) = a + k b says"
        return DecodeFit(_unknown(why), pace, residents, residual=line.residual)
    error = (line.intercept_error / line.intercept) ** 2 + (line.slope_error / line.slope) ** 2
    if error > RATIO_ERROR_MAX**2:
        why = f"{n} records give it only within a factor of {1.0 + error**0.5:.1f}"
        return DecodeFit(_unknown(why), pace, residents, residual=line.residual)
    ratio = line.intercept / line.slope
    source = f"{n} engine records, residents varying by {line.spread:.0%}"
    half = Estimate("half-rate batch", ratio, ratio * error**0.5, "rollouts", source)
    return DecodeFit(half, pace, residents, residual=line.residual)


def _unknown(why: str) -> Unidentified:
    return Unidentified("half-rate batch for each GPU of an engine", why, HALF_RATE_PER_GPU)


def _point(row: Row) -> tuple[float, float] | None:
    """(residents of one engine, seconds per token of one request) of a record; None where it has no pair."""
    running, engines = row.values.get("running", 0.0), max(1.0, row.values.get("engines", 1.0))
    each = running / engines
    if each < 1.0:
        return None
    if (pace := row.values.get("tpot_s")) and pace > 0.0:
        return each, pace
    rate = row.values.get("decode_tokens_per_s") or row.values.get("published_decode_tokens_per_s") or 0.0
    return (each, running / rate) if rate > 0.0 else None
