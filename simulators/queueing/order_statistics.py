"""The longest of a group, the m-th of n: what fork and join make of a distribution.

A distribution is a mixture of lognormals, each possibly cut at a cap: lengths of one turn, sums of turns, times of
rollouts. Tabulated once on a logarithmic grid, every question (mean, longest of g, share over x) is a sum over it.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from operator import add, neg
from typing import NamedTuple

SQRT_HALF = math.sqrt(0.5)
GRID_POINTS = 65
"""Odd. Trapezoid in log x converges faster than any power here; 65 points are good to 1e-4 at sigma 1."""
REACH_SIGMAS = 5.5
"""Further out than this a normal is 0 or 1, to 2e-8: there the grid ends."""
SHARP_SIGMA = 1e-6
"""Below this a lognormal is a constant."""
NEGLIGIBLE = 1e-9
"""A tail below this adds nothing to a sum over it."""


class Part(NamedTuple):
    """One lognormal of a mixture: weight, mean and spread before the cut, and the cut."""

    weight: float
    mean: float
    sigma: float
    cap: float = math.inf

    @property
    def log_mean(self) -> float:
        """Of the logarithm, before the cut."""
        return math.log(self.mean) - 0.5 * self.sigma**2


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """P(X <= x) of each member of a group, given what the group has in common: one row per common value.

    Equal to itself only, which makes it a cheap key of what is remembered of it.
    """

    xs: tuple[float, ...]
    weights: tuple[float, ...]
    rows: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class Mixture:
    """A table of some unit, in multiples of that unit: stretched, it keeps its shape and all that is known of it."""

    table: Table
    unit: float = 1.0

    @property
    def xs(self) -> tuple[float, ...]:
        return tuple(x * self.unit for x in self.table.xs)

    @property
    def weighted_rows(self) -> Iterator[tuple[float, tuple[float, ...]]]:
        return zip(self.table.weights, self.table.rows, strict=True)

    def mean(self) -> float:
        return self.longest(1.0)

    def longest(self, members: float) -> float:
        """E[max of `members`] within one group: integral of 1 - F^members.

        # lognormal sigma 1, over the mean: 4 2.2081 | 8 3.0838 | 16 4.1697 | 64 7.0731
        """
        return self.curve(members).mean

    def scaled(self, factor: float) -> "Mixture":
        return Mixture(self.table, self.unit * factor)

    def curve(self, members: float = 1.0) -> "Curve":
        """The longest of a group, over groups, as a curve."""
        return _longest(self.table, members).scaled(self.unit)

    def by_common(self) -> tuple[tuple[float, "Curve"], ...]:
        """(weight, distribution of one member) for each value of what a group has in common."""
        return tuple((weight, curve.scaled(self.unit)) for weight, curve in _by_common(self.table))


@lru_cache(maxsize=256)
def _by_common(table: Table) -> tuple[tuple[float, "Curve"], ...]:
    rows = zip(table.weights, table.rows, strict=True)
    return tuple((weight, curve_of(table.xs, [1.0 - below for below in row])) for weight, row in rows)


@lru_cache(maxsize=256)
def _longest(table: Table, members: float) -> "Curve":
    """In the table's unit; remembered, since a change of speed asks for the same shape again."""
    tails = [1.0] * len(table.xs)
    for weight, row in zip(table.weights, table.rows, strict=True):
        below = row if members == 1.0 else [f**members for f in row]
        tails = [tail - weight * f for tail, f in zip(tails, below, strict=True)]
    return curve_of(table.xs, tails)


class Curve(NamedTuple):
    """P(X > x) and E[min(X, x)] on a grid of some unit, linear in between: stretched, it keeps its shape."""

    grid: tuple[float, ...]
    tails: tuple[float, ...]
    sums: tuple[float, ...]
    """E[min(X, x)] at its points, in its unit."""
    unit: float = 1.0

    @property
    def xs(self) -> tuple[float, ...]:
        return tuple([x * self.unit for x in self.grid])

    @property
    def longest(self) -> float:
        """Nothing is longer."""
        return self.grid[-1] * self.unit

    @property
    def mean(self) -> float:
        return self.sums[-1] * self.unit

    @property
    def age(self) -> float:
        """Mean age of one that is under way at any moment: E[X^2] / 2 E[X]."""
        heights = [x * tail for x, tail in zip(self.grid, self.tails, strict=True)]
        ends = zip(pairwise(self.grid), pairwise(heights), strict=True)
        parts = [0.5 * (high - low) * (below + above) for (low, high), (below, above) in ends]
        return (0.5 * self.grid[0] ** 2 + math.fsum(parts)) / self.sums[-1] * self.unit

    def scaled(self, factor: float) -> "Curve":
        return Curve(self.grid, self.tails, self.sums, self.unit * factor)

    def later(self, seconds: float) -> "Curve":
        """After a wait that is the same for all."""
        more = seconds / self.unit
        return Curve(tuple([x + more for x in self.grid]), self.tails, tuple([x + more for x in self.sums]), self.unit)

    def over_sum(self, x: float, step: float, count: int) -> float:
        """P(X > x) + P(X > x + step) + P(X > x + 2 step) ..., `count` terms."""
        xs, tails, end, total, i = self.grid, self.tails, self.grid[-1], 0.0, 0
        x, step = x / self.unit, step / self.unit
        for _ in range(count):
            if x >= end:
                break
            i = bisect_right(xs, x, i)
            if i:
                below, tail = xs[i - 1], tails[i - 1]
                over = tail + (tails[i] - tail) * (x - below) / (xs[i] - below)
                total += over
                if over < NEGLIGIBLE:
                    break
            else:
                total += 1.0
            x += step
        return total

    def at_most_sum(self, x: float, step: float, count: int) -> float:
        """E[min(X, x)] + E[min(X, x + step)] ..., `count` terms."""
        xs, tails, sums = self.grid, self.tails, self.sums
        end, most, total, i = xs[-1], sums[-1], 0.0, 0
        nearly, x, step = most * (1.0 - NEGLIGIBLE), x / self.unit, step / self.unit
        for k in range(count):
            i = len(xs) if x >= end else bisect_right(xs, x, i)
            found = x if i == 0 else most if x >= end else _within(xs, tails, sums, i, x)
            if found > nearly:
                total += (count - k) * most
                break
            total += found
            x += step
        return total * self.unit

    def over(self, x: float) -> float:
        """P(X > x)."""
        xs, x = self.grid, x / self.unit
        i = bisect_right(xs, x)
        if i == 0:
            return 1.0
        if i == len(xs):
            return 0.0
        below = xs[i - 1]
        return self.tails[i - 1] + (self.tails[i] - self.tails[i - 1]) * (x - below) / (xs[i] - below)

    def at_most(self, x: float) -> float:
        """E[min(X, x)]."""
        xs, x = self.grid, x / self.unit
        i = bisect_right(xs, x)
        found = x if i == 0 else self.sums[-1] if i == len(xs) else _within(xs, self.tails, self.sums, i, x)
        return found * self.unit

    def beyond(self, x: float) -> float:
        """E[(X - x)+]."""
        return max(0.0, self.mean - self.at_most(x))

    def quantile(self, share: float) -> float:
        """The x that `share` of all do not pass."""
        tail, xs = 1.0 - share, self.grid
        i = max(1, bisect_left(self.tails, -tail, key=neg))
        if i >= len(xs):
            return xs[-1] * self.unit
        fall = self.tails[i - 1] - self.tails[i]
        part = (self.tails[i - 1] - tail) / fall if fall > 0.0 else 0.0
        return (xs[i - 1] + part * (xs[i] - xs[i - 1])) * self.unit


def _within(xs: tuple[float, ...], tails: tuple[float, ...], least: tuple[float, ...], i: int, x: float) -> float:
    """E[min(X, x)] between the points i - 1 and i, the tail linear in between."""
    low, below, above, before = xs[i - 1], tails[i - 1], tails[i], least[i - 1]
    share = (x - low) / (xs[i] - low)
    whole = below + above
    part = share * (2.0 * below + share * (above - below)) / whole if whole > 0.0 else share
    return before + part * (least[i] - before)


def curve_of(xs: Sequence[float], tails: Sequence[float]) -> Curve:
    """Trapezoid in log x, cumulated."""
    half = 0.5 * math.log(xs[1] / xs[0])
    parts = [half * x * tail for x, tail in zip(xs, tails, strict=True)]
    steps = map(add, parts, parts[1:])
    return Curve(tuple(xs), tuple(tails), tuple(accumulate(steps, initial=xs[0])))


def mixture(groups: Sequence[tuple[float, Sequence[Part]]], points: int = GRID_POINTS) -> Mixture:
    """Tabulates a two-level mixture: (weight of a common value, the parts of a member given it).

    Where all is cut at one cap the grid ends there, with what is below it: the jump itself is no part of a trapezoid.
    """
    low, high, capped = math.inf, -math.inf, False
    for _, parts in groups:
        for part in parts:
            centre, cap, reach = part.log_mean, math.log(part.cap), REACH_SIGMAS * part.sigma
            low = min(low, centre - reach)
            high, capped = max((high, capped), (min(centre + reach, cap), cap <= centre + reach))
    low = min(low, high) - 1e-3
    high += 0.0 if capped else 1e-3
    logs = [low + (high - low) * i / (points - 1) for i in range(points - 1)] + [high]
    xs = tuple(math.exp(u) for u in logs)
    rows = tuple(_row(inner, logs) for _, inner in groups)
    return Mixture(Table(xs, tuple(weight for weight, _ in groups), rows))


def _row(parts: Sequence[Part], logs: Sequence[float]) -> tuple[float, ...]:
    """P(X <= x) over the grid. Only where a part's own normal rises is it computed; above, its weight is carried on."""
    count, low, step = len(logs), logs[0], logs[1] - logs[0]
    rising, steps = [0.0] * count, [0.0] * (count + 1)
    for part in parts:
        centre, sigma, half = part.log_mean, max(part.sigma, SHARP_SIGMA), 0.5 * part.weight
        inverse = SQRT_HALF / sigma
        cap = count if part.cap == math.inf else min(count, math.floor((math.log(part.cap) - low) / step + 1e-9) + 1)
        first = max(0, math.ceil((centre - REACH_SIGMAS * sigma - low) / step))
        last = min(cap, max(first, math.floor((centre + REACH_SIGMAS * sigma - low) / step) + 1))
        own = [half * math.erfc((centre - u) * inverse) for u in logs[first:last]]
        rising[first:last] = map(add, rising[first:last], own)
        steps[last] += part.weight
    return tuple(map(add, rising, accumulate(steps)))


def clipped_moments(mean: float, sigma: float, cap: float) -> tuple[float, float]:
    """E[min(L, cap)] and E[min(L, cap)^2] of a lognormal L with that mean."""
    if sigma < SHARP_SIGMA:
        cut = min(mean, cap)
        return cut, cut * cut
    second = mean * mean * math.exp(sigma * sigma)
    if cap == math.inf:
        return mean, second
    z = (math.log(cap / mean) + 0.5 * sigma * sigma) / sigma
    above = _upper(z)
    first = mean * (1.0 - _upper(z - sigma)) + cap * above
    return first, second * (1.0 - _upper(z - 2.0 * sigma)) + cap * cap * above


def _upper(z: float) -> float:
    return 0.5 * math.erfc(z * SQRT_HALF)


def normal_nodes(count: int) -> tuple[tuple[float, float], ...]:
    """(weight, z) of a standard normal: midpoints of equal steps in z, which are exact for smooth functions."""
    reach = 4.4
    step = 2.0 * reach / count
    zs = [-reach + step * (i + 0.5) for i in range(count)]
    weights = [math.exp(-0.5 * z * z) for z in zs]
    total = sum(weights)
    return tuple((w / total, z) for w, z in zip(weights, zs, strict=True))


def harmonic(count: int) -> float:
    """E[max] of `count` exponentials over the mean: H_n. # 4 2.0833 | 8 2.7179 | 16 3.3807 | 64 4.7439"""
    return math.fsum(1.0 / i for i in range(1, count + 1))
