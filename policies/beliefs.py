"""What the loop believes of the two service rates: one small Kalman filter each, on the logarithm of the rate.

A rate is positive and its errors are shares, so its logarithm walks: x' = x + w, w ~ N(0, q dt), and is read with an
error: y = x + v, v ~ N(0, r).

    predict  P = min(P + q dt, cap)                 the cap (of the trace; here of one variance) ends the wind-up
    gate     NIS = (y - x)^2 / (P + r) > 5.024      97.5 % of chi^2 with one degree: the reading is refused,
                                                    but three refusals of one sign in a row are news: P = cap, taken
    update   K = P / (P + r);  x += K (y - x);  P = (1 - K) P

# x = 0, P = 0.04, r = 0.04:  y = 0.2 -> K 0.5, x 0.1, P 0.02 | y = 1 -> NIS 12.5, refused (x 0, P 0.04)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import erf, exp, isfinite, log, pi, sqrt

from policies.base import Interval
from simulators.signals import TINY

NIS_LIMIT = 5.024
"""97.5 % quantile of chi-square with one degree of freedom."""
RELEASE_AFTER = 3
"""So many refusals of one sign in a row are a change of the world, not outliers."""
VARIANCE_CAP = log(2.0) ** 2
"""No rate of a running job is less certain than a factor of two: 1 sigma."""
VARIANCE_FLOOR = 1e-6
"""Under 0.1 % no rate of a real job is known."""
WALK_PER_S = 1e-6
"""q: 0.06 of the logarithm's standard deviation per hour, the pace at which response lengths grow 16-fold in weeks."""
CENTRAL_80 = 1.2816
"""Standard deviations from the mean to either end of an 80 % central interval."""
EXPONENT_LOW, EXPONENT_HIGH = 0.75, 1.0
"""How a side's rate grows with its GPUs: anything between, before the first resize. Published strong scaling: 0.93
(GPT-3 on 768 and 3,584 H100 in MLPerf Training 3.0, on 10,752 in 3.1); batches of a job like ours are smaller."""
EXPONENT_MEAN = (EXPONENT_LOW + EXPONENT_HIGH) / 2.0
EXPONENT_VARIANCE = (EXPONENT_HIGH - EXPONENT_LOW) ** 2 / 12.0


@dataclass(frozen=True, slots=True)
class Belief:
    """A rate as a log-normal: mean and variance of its logarithm, at a moment and for a number of GPUs."""

    log_mean: float
    variance: float
    at_s: float
    gpus: int | None = None
    refused: int = 0
    """Readings refused in a row, negative where they were too low."""

    @property
    def rate(self) -> float:
        return exp(self.log_mean)

    @property
    def sigma(self) -> float:
        """Standard deviation of the logarithm: the relative error."""
        return sqrt(self.variance)


@dataclass(frozen=True, slots=True)
class Beliefs:
    """The service rates by side, and how far the readings have been used."""

    rates: Mapping[str, Belief] = field(default_factory=dict)
    """`generator`, `trainer`: rollouts per second if never held back."""
    used_step: int | None = None
    used_s: float | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """One measured rate. `at_least`: the side was held back, so the rate is only a lower bound (a censored reading)."""

    per_s: float
    variance: float = 0.01
    """Of the logarithm."""
    at_least: bool = False


def predicted(belief: Belief, now_s: float, walk_per_s: float = WALK_PER_S) -> Belief:
    """The same rate later: less certain, never past the cap. A clock that went back changes nothing."""
    waited = max(0.0, now_s - belief.at_s)
    variance = min(VARIANCE_CAP, belief.variance + walk_per_s * waited)
    return replace(belief, variance=variance, at_s=max(now_s, belief.at_s))


def updated(belief: Belief | None, reading: Reading, now_s: float) -> tuple[Belief | None, float]:
    """(the belief after a reading, its standardised innovation). A useless reading changes nothing and is 0.

    Of a lower bound the innovation is its expectation given the bound: exact readings come just when the side is slow,
    so bounds that counted nothing would leave a mean under 0 where nothing changed.
    """
    if not (isfinite(reading.per_s) and reading.per_s > TINY and isfinite(reading.variance)):
        return belief, 0.0
    y, r = log(reading.per_s), max(reading.variance, VARIANCE_FLOOR)
    if belief is None:
        return Belief(y, VARIANCE_CAP if reading.at_least else min(r, VARIANCE_CAP), now_s), 0.0
    before = predicted(belief, now_s)
    z = (y - before.log_mean) / sqrt(before.variance + r)
    if reading.at_least:
        return _raised(before, y, r), hazard(z)
    if z * z <= NIS_LIMIT:
        return _moved(before, y, r), z
    run = before.refused if before.refused * z > 0 else 0
    refused = run + (1 if z > 0 else -1)
    if abs(refused) < RELEASE_AFTER:
        return replace(before, refused=refused), z
    return _moved(replace(before, variance=VARIANCE_CAP), y, r), z


def _moved(belief: Belief, y: float, r: float) -> Belief:
    gain = belief.variance / (belief.variance + r)
    variance = max(VARIANCE_FLOOR, (1.0 - gain) * belief.variance)
    return replace(belief, log_mean=belief.log_mean + gain * (y - belief.log_mean), variance=variance, refused=0)


def _raised(belief: Belief, y: float, r: float) -> Belief:
    """The moments of x given x + v > y, v ~ N(0, r): a truncated normal (Tobit update).

    With s^2 = P + r, a = (y - x)/s and h = phi(a) / (1 - Phi(a)):  x += P/s h,  P -= P^2/s^2 h (h - a).
    # x = 0, P = r = 0.04:  y = -1 -> x 0.00, P 0.040 | y = 0 -> x 0.11, P 0.027 | y = 0.4 -> x 0.26, P 0.023
    """
    s = sqrt(belief.variance + r)
    a = (y - belief.log_mean) / s
    h = hazard(a)
    variance = belief.variance - belief.variance**2 / s**2 * h * (h - a)
    mean = belief.log_mean + belief.variance / s * h
    return replace(belief, log_mean=mean, variance=max(VARIANCE_FLOOR, variance), refused=0)


def hazard(a: float) -> float:
    """phi(a) / (1 - Phi(a)) of the standard normal; past 6 its asymptote a + 1/a, exact to 1 %."""
    if a > 6.0:
        return a + 1.0 / a
    return exp(-a * a / 2.0) / sqrt(2.0 * pi) / (0.5 * (1.0 - erf(a / sqrt(2.0))))


def forgotten(belief: Belief) -> Belief:
    """After a change of the world: the mean is all we have, and we do not trust it."""
    return replace(belief, variance=VARIANCE_CAP, refused=0)


def rescaled(belief: Belief, gpus: int | None) -> Belief:
    """The same side on another number of GPUs: rate x (n'/n)^e with an unknown e, its spread carried along.

    # 64 -> 48 GPUs: rate x 0.78, relative error at least 2 %
    """
    if not gpus or not belief.gpus or gpus == belief.gpus:
        return replace(belief, gpus=gpus or belief.gpus)
    steps = log(gpus / belief.gpus)
    mean, spread = belief.log_mean + EXPONENT_MEAN * steps, EXPONENT_VARIANCE * steps * steps
    return replace(belief, log_mean=mean, variance=min(VARIANCE_CAP, belief.variance + spread), gpus=gpus)


def interval(belief: Belief, scale: float = 1.0) -> Interval:
    """80 % central interval of the rate, its half-width in logarithms times `scale`."""
    half = CENTRAL_80 * belief.sigma * scale
    return Interval(exp(belief.log_mean - half), belief.rate, exp(belief.log_mean + half))
