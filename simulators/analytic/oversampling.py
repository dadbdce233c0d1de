"""More started than needed, the rest given up: what it saves in time, wastes in tokens and does to what is kept.

A round of R groups is dispatched one after another over R / lambda seconds; when n usable ones are finished, at tau
after the first dispatch, the others are given up:

    n = y lambda x integral from tau - span to tau of P(D <= u) du,      span = min(tau, R / lambda)

with D the time of a group and y the usable share. All at once (lambda infinite) is the synchronous case: tau is then
the n-th of R order statistic. A rollout dispatched u before the end stays min(L, u) seconds, and Little's law over all
of them gives lambda. Members: of M started the first S are kept, and M E[stay] is
the sum over k < S of (M - k) x time with k done.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

from simulators.queueing.order_statistics import Curve, Mixture, Table, curve_of
from simulators.queueing.roots import crossing

NODES = (-0.9061798459, -0.5384693101, 0.0, 0.5384693101, 0.9061798459)
"""Gauss-Legendre of five points."""
AT_ONCE = 1e-3
"""Spans below this many mean rollouts are none."""
SHARES = (0.2369268851, 0.4786286705, 0.5688888889, 0.4786286705, 0.2369268851)


@dataclass(frozen=True, slots=True)
class Kept:
    """Of what is dispatched."""

    rollout: Curve
    """Time of a rollout that nobody gives up."""
    group: Curve
    """Time of a kept group."""
    stay_s: float
    """Of a dispatched rollout, finished or given up."""
    groups_frac: float
    """Dispatched groups that finish in time, usable or not."""
    length_ratio: float
    """Mean time of kept rollouts over that of all."""
    given_up_frac: float
    """Dispatched rollouts that are given up unfinished."""


def all_kept(times: Mixture, members: int) -> Kept:
    rollout = times.curve()
    return Kept(rollout, times.curve(members), rollout.mean, 1.0, 1.0, 0.0)


def first_members(times: Mixture, started: int, kept: int) -> Kept:
    """The first `kept` of `started` members; the others are given up at that moment."""
    tails, running = _not_yet(times.table, started, kept)
    stay = curve_of(times.xs, running).mean
    group = curve_of(times.xs, tails)
    spent_by_kept = started * stay - (started - kept) * group.mean
    rollout = times.curve()
    ratio = spent_by_kept / kept / rollout.mean
    return Kept(rollout, group, stay, 1.0, min(1.0, ratio), 1.0 - kept / started)


@lru_cache(maxsize=128)
def _not_yet(table: Table, started: int, kept: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """P(fewer than `kept` are done) and the share of members that run then, over the grid: of the shape alone."""
    tails, running = [0.0] * len(table.xs), [0.0] * len(table.xs)
    chosen = [math.comb(started, k) for k in range(kept)]
    for weight, row in zip(table.weights, table.rows, strict=True):
        for i, f in enumerate(row):
            odds = [chosen[k] * f**k * (1.0 - f) ** (started - k) for k in range(kept)]
            tails[i] += weight * sum(odds)
            running[i] += weight * sum((started - k) * p for k, p in enumerate(odds)) / started
    return tuple(tails), tuple(running)


def rounds(times: Mixture, members: int, needed: float, dispatched: float, in_flight: float) -> Kept:
    """Rounds of `dispatched` groups of which `needed` must finish, with `in_flight` rollouts at all times."""
    if needed >= dispatched:
        return all_kept(times, members)
    group, rollout = times.curve(members), times.curve()
    share = needed / (dispatched + 1.0)
    stay, low, tau = rollout.mean, 0.0, 0.0
    for _ in range(12):
        span = dispatched * members * stay / in_flight
        tau = _end_of_round(group, share, span)
        low = max(0.0, tau - span)
        found = _mean_over([rollout.at_most(u) for u in _nodes(low, tau)])
        if abs(found / stay - 1.0) < 1e-4:
            break
        stay = math.sqrt(stay * found)
    ends = _nodes(low, tau)
    finished = [1.0 - group.over(u) for u in ends]
    return Kept(
        rollout=rollout,
        group=_before(group, ends, finished),
        stay_s=stay,
        groups_frac=_mean_over(finished),
        length_ratio=_kept_ratio(times, members, ends, finished),
        given_up_frac=1.0 - _mean_over([1.0 - rollout.over(u) for u in ends]),
    )


def _nodes(low: float, high: float) -> list[float]:
    return [0.5 * (low + high) + 0.5 * (high - low) * node for node in NODES]


def _mean_over(values: list[float]) -> float:
    return 0.5 * sum(share * value for share, value in zip(SHARES, values, strict=True))


def _end_of_round(group: Curve, share: float, span_s: float) -> float:
    """tau of the formula above; of a round dispatched at once it is a quantile."""
    if span_s <= AT_ONCE * group.mean:
        return group.quantile(share)

    def excess(tau: float) -> float:
        start = max(0.0, tau - span_s)
        return (tau - start) - (group.at_most(tau) - group.at_most(start)) - share * span_s

    return crossing(excess, 0.0, group.xs[-1] + span_s)


def _before(group: Curve, ends: list[float], finished: list[float]) -> Curve:
    """The time of those groups that finished before their round ended; the grid stops there."""
    norm = max(1e-12, _mean_over(finished))
    xs, tails = [], []
    for x, tail in zip(group.xs, group.tails, strict=True):
        left = [max(0.0, done - (1.0 - tail)) if x < end else 0.0 for done, end in zip(finished, ends, strict=True)]
        xs.append(x)
        tails.append(_mean_over(left) / norm)
        if x >= ends[-1]:
            break
    return curve_of(xs, tails) if len(xs) > 1 else group


def _kept_ratio(times: Mixture, members: int, ends: list[float], finished: list[float]) -> float:
    """E[time of a member | its whole group ended in time] over E[time]."""
    total, xs = 0.0, times.xs
    for weight, row in times.weighted_rows:
        own = curve_of(xs, [1.0 - f for f in row])
        parts = [(1.0 - own.over(u)) ** (members - 1) * (own.at_most(u) - u * own.over(u)) for u in ends]
        total += weight * _mean_over(parts)
    return min(1.0, total / max(1e-12, _mean_over(finished)) / times.curve().mean)
