"""The response lengths of a job as a lognormal cut at its cap, from the few figures of them that a job logs.

For a lognormal of mean m and deviation s (of the logarithm), z(p) the standard normal quantile:

    p99 / m = exp(z(.99) s - s^2 / 2)        m / median = exp(s^2 / 2)
    longest of n / m, typically = exp(z(n / (n + 1)) s - s^2 / 2)
    P(L > C) = Phi((log(m / C) - s^2 / 2) / s), and E[min(L, C)] is the mean that is logged

    # m 8,000, s 1: median 4,852 | p99 49,700 | longest of 512 about 86,400 | over 32,768: 2.8 %, logged mean 7,360
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import erf, exp, log, sqrt
from statistics import NormalDist

from simulators.calibration.estimates import Estimate, Parameter, Unidentified, mean_of
from simulators.calibration.priors import CAP_OVER_MEAN, LENGTH_SIGMA, STEP_SCATTER, Prior
from simulators.plant import Topology
from simulators.snapshot import Snapshot

NOMINAL_TOKENS = 2048.0
SIGMA_MAX = 3.0
"""No response lengths spread wider; a ratio that asks for more was misread."""
Z99 = NormalDist().inv_cdf(0.99)


@dataclass(frozen=True, slots=True)
class LengthFit:
    mean: Parameter
    """Tokens as logged, after the cut. Where none are, any will do: only their ratio to the cap matters."""
    sigma: Parameter
    cap_tokens: float | None


def fit_lengths(topology: Topology, snapshot: Snapshot) -> LengthFit:
    """What the logged lengths say. The clip ratio tells most, then the 99 % quantile, the median, the longest."""
    cap = topology.max_response_tokens
    logged = snapshot.get("resp_len_mean")
    if not logged or logged <= 0.0:
        return _unlogged(cap)
    mean = mean_of("mean response", snapshot.series("resp_len_mean") or [logged], "tokens", "mean over steps")
    return LengthFit(mean, _sigma(snapshot, logged, cap), float(cap) if cap else None)


def _unlogged(cap: int | None) -> LengthFit:
    why = "no response length is logged"
    sigma = Unidentified("sigma of log length", why, LENGTH_SIGMA)
    if cap is None:
        return LengthFit(Estimate("mean response", NOMINAL_TOKENS, 0.0, "tokens", "any: it cancels"), sigma, None)
    least, most = (cap / ratio for ratio in (CAP_OVER_MEAN.high, CAP_OVER_MEAN.low))
    mean = Unidentified("mean response in tokens", f"{why}, only its cap", Prior(least, most, by_ratio=True))
    return LengthFit(mean, sigma, float(cap))


def _sigma(snapshot: Snapshot, mean: float, cap: int | None) -> Parameter:
    cut, n = snapshot.get("truncated_frac"), snapshot.get("batch_rollouts")
    if cap and cut and 0.0 < cut < 0.5 and mean < cap:
        sigma = _solved(lambda s: cut_frac(uncut_mean(mean, s, cap), s, cap) - cut)
        if sigma is not None:
            error = sqrt(cut * (1.0 - cut) / n) / cut if n else STEP_SCATTER
            return _estimate(sigma, sigma * min(1.0, error), "mean, cap and share cut there")
    if (p99 := snapshot.get("resp_len_p99")) and p99 > mean and not (cap and p99 >= cap):
        sigma = _solved(lambda s: Z99 * s - 0.5 * s * s - log(p99 / mean), Z99)
        if sigma is not None:
            return _estimate(sigma, STEP_SCATTER / (Z99 - sigma + STEP_SCATTER), "99 % quantile over mean")
    if (median := snapshot.get("resp_len_p50")) and median < mean:
        sigma = min(SIGMA_MAX, sqrt(2.0 * log(mean / median)))
        return _estimate(sigma, STEP_SCATTER / sigma, "mean over median")
    longest = snapshot.get("resp_len_max")
    if n and n >= 2 and longest and longest > mean and not (cap and longest >= cap):
        z = NormalDist().inv_cdf(n / (n + 1.0))
        sigma = _solved(lambda s: z * s - 0.5 * s * s - log(longest / mean), z)
        if sigma is not None:
            return _estimate(sigma, 1.28 * sigma / z**2, f"longest of {n:.0f} over mean")
    return Unidentified("sigma of log length", "only the mean length is logged", LENGTH_SIGMA)


def _estimate(sigma: float, error: float, source: str) -> Estimate:
    return Estimate("sigma of log length", sigma, error, "1", source)


def _solved(excess: Callable[[float], float], high: float = SIGMA_MAX) -> float | None:
    """Root of a rising function on (0.01, high) by halving; None where it does not change sign there."""
    low = 0.01
    if excess(low) > 0.0 or excess(high) < 0.0:
        return None
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if excess(middle) < 0.0 else (low, middle)
    return 0.5 * (low + high)


def cut_frac(mean: float, sigma: float, cap: float) -> float:
    """P(L > cap)."""
    return _phi((log(mean / cap) - 0.5 * sigma**2) / sigma)


def cut_mean(mean: float, sigma: float, cap: float) -> float:
    """E[min(L, cap)]."""
    z = (log(cap / mean) - 0.5 * sigma**2) / sigma
    return mean * _phi(z) + cap * cut_frac(mean, sigma, cap)


def uncut_mean(logged: float, sigma: float, cap: float | None) -> float:
    """The mean before the cut that gives the logged mean after it; the logged one where the cut is out of reach, or
    where it is no mean of token counts."""
    if cap is None or not 1.0 <= logged < cap:
        return logged
    low, high = logged, logged * exp(sigma**2 + 4.0)
    for _ in range(50):
        middle = sqrt(low * high)
        low, high = (middle, high) if cut_mean(middle, sigma, cap) < logged else (low, middle)
    return sqrt(low * high)


def _phi(z: float) -> float:
    return 0.5 * (1.0 + erf(z / sqrt(2.0)))
