"""Distributions by their quantiles, as the event engine draws from them: lengths, turns, times, solve rates.

Standard library only, so that the readable twin of the engine reads the very same numbers.
"""

from bisect import bisect_left
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from math import exp, lgamma, log, log1p, sqrt

from simulators.fields import at_least, refused
from simulators.streams import normal_quantile
from simulators.workload import Duration, Lengths, SolveRates, TimeLaw, TurnLaw, Turns

CELLS = 1024
"""Cells of a quantile table."""
EDGE = 16.0 / CELLS
"""Below this share from either end a quantile is computed exactly; between, linearly inside a cell of its table.
The mean of a lognormal of sigma 1 is then right to 3e-5."""
NEVER = 1 << 60
"""A limit that is not there."""

FIXED, LOGNORMAL, EXPONENTIAL, EMPIRICAL, EMPIRICAL_SHARED, GEOMETRIC = range(6)
"""Kinds of a law."""


@dataclass(frozen=True, slots=True)
class Law:
    """A distribution by its quantiles: `table[i]` is the quantile of share i/CELLS, without the prompt's own factor."""

    kind: int
    mean: float = 0.0
    location: float = 0.0
    """Mean of the logarithm, of a lognormal law."""
    own_sigma: float = 0.0
    """Of the part that differs between the rollouts of one prompt."""
    shared_sigma: float = 0.0
    """Of the factor that they have in common."""
    shared_frac: float = 0.0
    limit: int = NEVER
    pairs: tuple[tuple[float, float], ...] = ()
    table: tuple[float, ...] = (0.0,) * (CELLS + 1)


def exact_quantile(law: Law, share: float) -> float:
    """The quantile itself, without the prompt's own factor."""
    if law.kind == LOGNORMAL:
        return exp(law.location + law.own_sigma * normal_quantile(share))
    if law.kind == EXPONENTIAL:
        return -law.mean * log(1.0 - share)
    if law.kind == GEOMETRIC:
        return 1.0 + float(int(log(1.0 - share) / log(1.0 - 1.0 / law.mean)))
    if law.kind == FIXED:
        return law.mean
    for (left, low), (right, high) in pairwise(law.pairs):
        if share <= right:
            return low + (high - low) * (share - left) / (right - left)
    return law.pairs[-1][1]


@cache
def _normals() -> tuple[float, ...]:
    """Standard normal quantiles of all cells: a job that drifts asks for new lognormal tables at every step."""
    return tuple(normal_quantile(i / CELLS) for i in range(1, CELLS))


def _inner(law: Law) -> list[float]:
    """The quantiles of all cells."""
    if law.kind == LOGNORMAL:
        location, sigma = law.location, law.own_sigma
        return [exp(location + sigma * z) for z in _normals()]
    return [exact_quantile(law, i / CELLS) for i in range(1, CELLS)]


def _tabled(law: Law) -> Law:
    """The law with its table. The two outermost points are never read (EDGE)."""
    inner = _inner(law)
    table = (inner[0], *inner, inner[-1])
    return Law(
        law.kind,
        law.mean,
        law.location,
        law.own_sigma,
        law.shared_sigma,
        law.shared_frac,
        law.limit,
        law.pairs,
        table,
    )


def _checked_pairs(field: str, pairs: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
    shares, values = [p[0] for p in pairs], [p[1] for p in pairs]
    rising = all(a < b for a, b in pairwise(shares)) and values == sorted(values)
    if len(pairs) < 2 or shares[0] != 0.0 or shares[-1] != 1.0 or not rising or values[0] < 0:
        raise refused(field, pairs, "needs two pairs or more, shares rising from 0 to 1 and values not falling")
    return pairs


@lru_cache(maxsize=64)
def length_law(lengths: Lengths, field: str = "workload.response") -> Law:
    limit = NEVER if lengths.max_tokens is None else int(at_least(f"{field}.max_tokens", lengths.max_tokens, 1))
    h = lengths.between_prompt_frac
    if not 0.0 <= h <= 1.0:
        raise refused(f"{field}.between_prompt_frac", h, "must be from 0 to 1")
    if lengths.quantiles:
        pairs = _checked_pairs(f"{field}.quantiles", lengths.quantiles)
        kind = EMPIRICAL_SHARED if h > 0.0 else EMPIRICAL
        return _tabled(Law(kind, shared_frac=h, limit=limit, pairs=pairs))
    mean = at_least(f"{field}.mean_tokens", lengths.mean_tokens, 0)
    sigma = at_least(f"{field}.sigma", lengths.sigma, 0)
    if sigma == 0.0 or mean == 0.0:
        return _tabled(Law(FIXED, mean, limit=limit))
    location = log(mean) - sigma * sigma / 2.0
    own, shared = sigma * sqrt(1.0 - h), sigma * sqrt(h)
    return _tabled(Law(LOGNORMAL, mean, location, own, shared, h, limit))


@lru_cache(maxsize=64)
def duration_law(duration: Duration | None) -> Law:
    if duration is None:
        return Law(FIXED)
    mean = at_least("workload.tool.mean_s", duration.mean_s, 0)
    if duration.law is TimeLaw.FIXED or mean == 0.0:
        return _tabled(Law(FIXED, mean))
    if duration.law is TimeLaw.EXPONENTIAL:
        return _tabled(Law(EXPONENTIAL, mean))
    sigma = at_least("workload.tool.sigma", duration.sigma, 0)
    return _tabled(Law(LOGNORMAL, mean, log(mean) - sigma * sigma / 2.0, sigma))


@lru_cache(maxsize=64)
def turn_law(turns: Turns) -> Law:
    limit = NEVER if turns.max_turns is None else int(at_least("workload.turns.max_turns", turns.max_turns, 1))
    if turns.law is TurnLaw.EMPIRICAL:
        pairs = _checked_pairs("workload.turns.quantiles", turns.quantiles)
        return _tabled(Law(EMPIRICAL, limit=limit, pairs=pairs))
    mean = at_least("workload.turns.mean", turns.mean, 1)
    if turns.law is TurnLaw.GEOMETRIC and mean > 1.0:
        return _tabled(Law(GEOMETRIC, mean, limit=limit))
    if mean != int(mean):  # two neighbouring whole numbers in the right shares
        low = float(int(mean))
        share = low + 1.0 - mean
        return _tabled(
            Law(EMPIRICAL, limit=limit, pairs=((0.0, low), (share, low), (share + 1e-12, low + 1), (1.0, low + 1)))
        )
    return _tabled(Law(FIXED, min(mean, float(limit)), limit=limit))


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Continued fraction of the incomplete beta function (Abramowitz & Stegun 26.5.8, Lentz's method)."""
    c, d = 1.0, 1.0 / (1.0 - (a + b) * x / (a + 1.0))
    value = d
    for m in range(1, 300):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d, c = 1.0 / (1.0 + even * d), 1.0 + even / c
        value *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d, c = 1.0 / (1.0 + odd * d), 1.0 + odd / c
        value *= d * c
        if abs(d * c - 1.0) < 1e-12:
            break
    return value


def beta_share(a: float, b: float, x: float) -> float:
    """The Beta(a, b) distribution at x.

    # Beta(1, 1) at 0.3: 0.3 | Beta(2, 3) at 0.5: 0.6875
    """
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x))
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _beta_fraction(a, b, x) / a
    return 1.0 - front * _beta_fraction(b, a, 1.0 - x) / b


@lru_cache(maxsize=16)
def solve_law(solve: SolveRates) -> Law:
    """Solve rates of prompts by quantile: never solved, the mixture, always solved. Read from the table only."""
    shares = (solve.never_frac, solve.always_frac)
    if min(shares) < 0.0 or sum(shares) > 1.0:
        raise refused("workload.solve.never_frac + always_frac", shares, "shares of prompts, together at most 1")
    weight = sum(part.weight for part in solve.parts)
    if any(p.a <= 0 or p.b <= 0 or p.weight < 0 for p in solve.parts) or (sum(shares) < 1.0 and weight <= 0.0):
        raise refused("workload.solve.parts", solve.parts, "needs a > 0, b > 0 and weights that add up to more than 0")
    if not -1.0 <= solve.length_correlation <= 1.0:
        raise refused("workload.solve.length_correlation", solve.length_correlation, "must be from -1 to 1")
    rates = [((i / 512) ** 2) * (3 - 2 * i / 512) for i in range(513)]
    varied = 1.0 - sum(shares)
    below = [
        solve.never_frac + varied * sum(p.weight * beta_share(p.a, p.b, x) for p in solve.parts) / (weight or 1.0)
        for x in rates
    ]
    return Law(EMPIRICAL, table=tuple(_interpolated(below, rates, i / CELLS) for i in range(CELLS + 1)))


def _interpolated(xs: list[float], ys: list[float], x: float) -> float:
    right = bisect_left(xs, x)
    if right == 0 or right == len(xs):
        return ys[min(right, len(ys) - 1)]
    left = right - 1
    return ys[left] + (ys[right] - ys[left]) * (x - xs[left]) / (xs[right] - xs[left])
