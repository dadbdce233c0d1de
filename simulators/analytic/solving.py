"""Solve rates: the share of groups whose rewards differ."""

import math
from functools import lru_cache

from simulators.workload import SolveRates


@lru_cache(maxsize=256)
def usable_share(solve: SolveRates, group_size: int) -> float:
    """E[1 - p^S - (1-p)^S] over the mixture: E[p^S] = product of (a+i)/(a+b+i), i < S, of a Beta(a, b).

    # Beta(1, 1): S = 2 0.333 | 4 0.600 | 8 0.778 | 16 0.882
    """
    varying = 1.0 - solve.always_frac - solve.never_frac
    total = sum(part.weight for part in solve.parts)
    if varying <= 0.0 or total <= 0.0:
        return 0.0
    share = sum(
        part.weight * (1.0 - _all(part.a, part.b, group_size) - _all(part.b, part.a, group_size))
        for part in solve.parts
    )
    return max(0.0, varying * share / total)


def _all(a: float, b: float, count: int) -> float:
    """E[p^count] of p ~ Beta(a, b)."""
    return math.exp(
        math.lgamma(a + count) - math.lgamma(a) + math.lgamma(a + b) - math.lgamma(a + b + count),
    )


def solve_mean(solve: SolveRates) -> float:
    total = sum(part.weight for part in solve.parts)
    varying = 1.0 - solve.always_frac - solve.never_frac
    mean = sum(part.weight * part.a / (part.a + part.b) for part in solve.parts) / total if total > 0.0 else 0.0
    return solve.always_frac + varying * mean
