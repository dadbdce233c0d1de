"""Lengths when only the survivors are seen: finished rollouts are exact, aborted and running ones are lower bounds.

The kept lengths alone are biased to the short: whoever was aborted was longer than what it had.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import erfc, exp, log, pi, sqrt
from statistics import fmean, pstdev

ROUNDS = 500
"""Steps of the expectation-maximisation; each brings the mean closer by at least the censored share."""
CLOSE = 1e-10


@dataclass(frozen=True, slots=True)
class Lifetime:
    """One rollout: tokens at its end, or so far."""

    tokens: float
    ended: bool = True


def kaplan_meier(lives: Sequence[Lifetime]) -> tuple[tuple[float, float], ...]:
    """(tokens, share still longer) after every ended length: S = product of (1 - ends / at risk). Product limit.

    # lives 3 5+ 7 9 (+: still running) -> 3: 0.75 | 7: 0.375 | 9: 0
    """
    curve: list[tuple[float, float]] = []
    at_risk, surviving = len(lives), 1.0
    for tokens in sorted({life.tokens for life in lives}):
        here = [life for life in lives if life.tokens == tokens]
        ends = sum(life.ended for life in here)
        if ends:
            surviving *= 1.0 - ends / at_risk
            curve.append((tokens, surviving))
        at_risk -= len(here)
    return tuple(curve)


def restricted_mean(curve: Sequence[tuple[float, float]]) -> float:
    """Area under a Kaplan-Meier curve up to its last end: the mean length, cut there."""
    area, before, share = 0.0, 0.0, 1.0
    for tokens, after in curve:
        area += share * (tokens - before)
        before, share = tokens, after
    return area


@dataclass(frozen=True, slots=True)
class Lognormal:
    """Mean and deviation of the logarithm, with standard errors."""

    mu: float
    sigma: float
    mu_error: float
    sigma_error: float

    @property
    def mean(self) -> float:
        return exp(self.mu + 0.5 * self.sigma**2)


def censored_lognormal(lives: Sequence[Lifetime]) -> Lognormal | None:
    """Maximum likelihood of a lognormal, with running rollouts as lower bounds. None without two different ends.

    Expectation-maximisation on log tokens y: beyond a bound c, with z = (c - mu) / sigma and the hazard
    r = phi(z) / (1 - Phi(z)), E[y | y > c] = mu + sigma r and E[(y - mu)^2 | y > c] = sigma^2 (1 + z r).
    """
    ended = [log(life.tokens) for life in lives if life.ended and life.tokens > 0.0]
    bounds = [log(life.tokens) for life in lives if not life.ended and life.tokens > 0.0]
    if len(ended) < 2 or pstdev(ended) <= 0.0:
        return None
    mu, sigma, n = fmean(ended), pstdev(ended), len(ended) + len(bounds)
    for _ in range(ROUNDS):
        scores = [(z, hazard(z)) for z in ((c - mu) / sigma for c in bounds)]
        new_mu = (sum(ended) + sum(mu + sigma * r for _, r in scores)) / n
        squares = sum((y - new_mu) ** 2 for y in ended)
        squares += sum((mu - new_mu) ** 2 + 2.0 * (mu - new_mu) * sigma * r + sigma**2 * (1 + z * r) for z, r in scores)
        moved = abs(new_mu - mu)
        mu, sigma = new_mu, sqrt(squares / n)
        if moved < CLOSE:
            break
    known = len(ended) + sum(_information(hazard(z), z) for z in ((c - mu) / sigma for c in bounds))
    return Lognormal(mu, sigma, sigma / sqrt(known), sigma / sqrt(2.0 * known))


def hazard(z: float) -> float:
    """phi(z) / (1 - Phi(z)) of the standard normal; its asymptote z + 1/z far out."""
    if z > 25.0:
        return z + 1.0 / z
    return exp(-0.5 * z * z) / sqrt(2.0 * pi) / (0.5 * erfc(z / sqrt(2.0)))


def _information(rate: float, z: float) -> float:
    """What a bound tells of mu, as a part of an exact value: r (r - z), between 0 and 1."""
    return rate * (rate - z)
