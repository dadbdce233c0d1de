"""The period that a cap on started and untrained groups allows.

A batch of B groups is trained every T seconds, and its slots come free together. Just before a training starts all W
slots are started and B of them have finished, so the groups that still run, in batches, are

    sum over j >= 0 of P(D > tau + j T) = W/B - 1,    tau = T (freed at the start) or T - T_train (at the end)

with D the time of a group. For large W this is Little's law, W/X = E[D] + T/2 (+ T_train). At W = B it is the serial
job, which waits for the last group of B: the right side is then exp(-Euler)/B, the share that is over at the mean
maximum of B exponential tails. In order of admission it is that too, with tau = W/B T (- T_train): the next batch was
dispatched W/B periods ago, and all groups before its last must be done. Where slots of engines are short a batch
starts over a while, not at once.
"""

import math
from typing import NamedTuple

from simulators.queueing.order_statistics import Curve
from simulators.queueing.roots import crossing

LAST_OF_BATCH = 0.5614594835668851
"""exp(-Euler's constant): B x P(D > E[max of B]) of exponential tails."""
TERMS = 40
"""Batches back that are counted one by one; the tail beyond is an integral."""
LEAST_SHARE = 1e-3
"""Of what may still run, where older batches leave nothing over: then a much longer period is tried."""


class Release(NamedTuple):
    """When the slots of a trained batch are free again."""

    batch_groups: float
    limit_groups: float
    train_s: float
    freed_at_start: bool
    in_order: bool = False
    """Batches are trained in the order of admission: the one that starts next was dispatched W/B periods ago."""
    dropped: float = 0.0
    """Groups that the filter drops per group trained, where their slots stay taken until the period is over."""
    spread_s: float = 0.0
    """Seconds over which groups are dispatched for which there is no room at once."""
    spread_frac: float = 0.0
    """Their share of the batch."""

    def faster(self, scale: float) -> "Release":
        """The same in units of `scale` seconds."""
        return self._replace(train_s=self.train_s / scale)


def excess(group: Curve, release: Release, period_s: float) -> float:
    """Logarithm of the period that the cap allows over this one, to first order: 0 at the solution, falling before it.

    Of what still runs over what may, nearly a straight line of log T; where a whole batch is waited for that is steep,
    and its last group's time tells.
    """
    wanted, x = _wanted(release), max(0.0, _periods(release) * period_s - _held_s(release))
    if wanted >= 1.0 or release.dropped > 0.0:
        running = _sum(group, release, x, period_s, TERMS)
        if release.dropped > 0.0:
            running += release.dropped * _sum(group, release, 0.0, period_s, TERMS)
        return math.log(max(running, 1e-9) / wanted)
    older = _sum(group, release, x + period_s, period_s, TERMS - 1)
    last = _over_at(group, release, max(LEAST_SHARE * wanted, wanted - older))
    return math.log(max(1e-9, last + _held_s(release)) / _periods(release) / period_s)


def _sum(group: Curve, release: Release, x: float, period_s: float, terms: int) -> float:
    """Sum over j of P(D + U > x + j T), U even over the spread for those that cannot start at once."""
    spread_s, frac = release.spread_s, release.spread_frac
    total = (1.0 - frac) * group.over_sum(x, period_s, terms)
    if frac > 0.0:
        total += frac / spread_s * _late_s(group, spread_s, (x, period_s, terms))
    start = x + (terms - 0.5) * period_s - 0.5 * frac * spread_s
    return total + group.beyond(start) / period_s


def _late_s(group: Curve, spread_s: float, times: tuple[float, float, int]) -> float:
    """Sum over j of the integral over u < spread of P(D + u > x + j T)."""
    x, period_s, terms = times
    whole = min(terms, max(0, math.ceil((spread_s - x) / period_s)))
    before = whole * (spread_s - x) - 0.5 * whole * (whole - 1) * period_s
    earlier = group.at_most_sum(x + whole * period_s - spread_s, period_s, terms - whole)
    return before + group.at_most_sum(x, period_s, terms) - earlier


def _over_at(group: Curve, release: Release, share: float) -> float:
    """x with P(D + U > x) = share."""
    soonest = group.quantile(1.0 - share)
    if release.spread_frac <= 0.0:
        return soonest
    frac, spread_s = release.spread_frac, release.spread_s

    def missing(x: float) -> float:
        return share - (1.0 - frac) * group.over(x) - frac / spread_s * _late_s(group, spread_s, (x, 1.0, 1))

    return crossing(missing, soonest, soonest + spread_s)


def first_guess_s(group: Curve, release: Release) -> float:
    """Little's law on the slots of the cap; the last of a batch, where all of it is waited for."""
    if _wanted(release) >= 1.0:
        return (group.mean + release.spread_s + _held_s(release)) / (_wanted(release) + 0.5)
    return (group.quantile(1.0 - _wanted(release)) + _held_s(release)) / _periods(release)


def _held_s(release: Release) -> float:
    """From the start of a training until its slots are free."""
    return 0.0 if release.freed_at_start else release.train_s


def _periods(release: Release) -> float:
    """Since the dispatch of the groups whose end is waited for."""
    return release.limit_groups / release.batch_groups if release.in_order else 1.0


def _wanted(release: Release) -> float:
    """Groups, in batches, that still run when B of W have finished; in order: those of the batch that is to be trained,
    and of all before it."""
    left = 0.0 if release.in_order else max(release.limit_groups / release.batch_groups - 1.0, 0.0)
    return left + LAST_OF_BATCH / release.batch_groups


def met_in_flight(rollout: Curve, period_s: float, last_s: float) -> float:
    """Rollouts in flight, per rollout of a batch, that a group meets: the average over its life.

    Over a whole period, where groups live that long: then it is Little's law.
    """
    if period_s <= last_s:
        return rollout.at_most(TERMS * period_s) / period_s
    terms = min(TERMS, 1 + int(rollout.longest / period_s))
    ended = rollout.at_most_sum(last_s, period_s, terms) - rollout.at_most_sum(0.0, period_s, terms)
    return ended / last_s


def wanted_at_once(rollout: Curve, period_s: float) -> float:
    """Rollouts, per rollout of a batch, that would be in flight right after a dispatch if there were room."""
    later = rollout.over_sum(period_s, period_s, TERMS)
    return 1.0 + later + rollout.beyond((TERMS + 1) * period_s) / period_s
