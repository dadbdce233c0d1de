"""Solve rates: the share of groups whose rewards differ, and what keeping only those does to the solve rate."""

import math
from functools import lru_cache

from simulators.workload import SolveRates


@lru_cache(maxsize=256)
def usable_share(solve: SolveRates, group_size: int) -> float:
    """E[1 - p^S - (1-p)^S] over the mixture: E[p^S] = product of (a+i)/(a+b+i), i < S, of a Beta(a, b).

    # Beta(1, 1): S = 2 0.333 | 4 0.600 | 8 0.778 | 16 0.882
    """
    varying, total = _varying(solve), sum(part.weight for part in solve.parts)
    if varying <= 0.0 or total <= 0.0:
        return 0.0
    share = sum(p.weight * (1.0 - _power(p.a, p.b, group_size) - _power(p.b, p.a, group_size)) for p in solve.parts)
    return max(0.0, varying * share / total)


def solve_mean(solve: SolveRates) -> float:
    total = sum(part.weight for part in solve.parts)
    if total <= 0.0:
        return solve.always_frac
    mean = sum(part.weight * part.a / (part.a + part.b) for part in solve.parts) / total
    return solve.always_frac + _varying(solve) * mean


@lru_cache(maxsize=256)
def usable_solve_ratio(solve: SolveRates, group_size: int) -> float | None:
    """Mean solve rate of usable groups over that of all: E[p u(p)] / E[u(p)] / E[p]; None without a usable one."""
    usable, mean = usable_share(solve, group_size), solve_mean(solve)
    if usable <= 0.0 or mean <= 0.0:
        return None
    total = sum(part.weight for part in solve.parts)
    inside = 0.0
    for part in solve.parts:
        first = part.a / (part.a + part.b)
        all_wrong = first * _power(part.b, part.a + 1.0, group_size)
        inside += part.weight * (first - _power(part.a, part.b, group_size + 1) - all_wrong)
    return _varying(solve) * inside / total / usable / mean


def _varying(solve: SolveRates) -> float:
    return 1.0 - solve.always_frac - solve.never_frac


def _power(a: float, b: float, count: int) -> float:
    """E[p^count] of p ~ Beta(a, b)."""
    return math.exp(math.lgamma(a + count) - math.lgamma(a) + math.lgamma(a + b) - math.lgamma(a + b + count))
