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
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count, islice

from simulators.queueing.order_statistics import Curve

LAST_OF_BATCH = 0.5614594835668851
"""exp(-Euler's constant): B x P(D > E[max of B]) of exponential tails."""
TERMS = 40
"""Batches back that are counted one by one; the tail beyond is an integral."""
STEPS = 40


@dataclass(frozen=True, slots=True)
class Release:
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
        return replace(self, train_s=self.train_s / scale)


def overs(group: Curve, release: Release, x: float, step: float) -> Iterator[float]:
    """P(D + U > x), then the same of x + step, x + 2 step ...; U is the wait for a slot."""
    if release.spread_frac <= 0.0:
        return group.over_each(x, step)
    return (over_spread(group, later, release) for later in count(x, step))


def over_spread(group: Curve, x: float, release: Release) -> float:
    """P(D + U > x), U even over the spread for those that cannot start at once."""
    if x <= 0.0:
        return 1.0
    spread_s, frac = release.spread_s, release.spread_frac
    start = max(0.0, x - spread_s)
    late = (group.at_most(x) - group.at_most(start) + max(0.0, spread_s - x)) / spread_s
    return (1.0 - frac) * group.over(x) + frac * late


def running_share(group: Curve, release: Release, period_s: float) -> float:
    """Groups, in batches, that still run when B of W have finished, if the period were `period_s`.

    In order: those of the batch that is to be trained, and of all before it.
    """
    periods = release.limit_groups / release.batch_groups if release.in_order else 1.0
    x = max(0.0, periods * period_s - (0.0 if release.freed_at_start else release.train_s))
    if release.dropped > 0.0:
        return _sum(group, release, x, period_s) + release.dropped * _sum(group, release, 0.0, period_s)
    return _sum(group, release, x, period_s)


def _sum(group: Curve, release: Release, x: float, period_s: float) -> float:
    """Sum over j of P(D > x + j T)."""
    total = 0.0
    for over in islice(overs(group, release, x, period_s), TERMS):
        if over < 1e-7:
            return total
        total += over
    start = x + (TERMS - 0.5) * period_s - 0.5 * release.spread_frac * release.spread_s
    return total + group.beyond(start) / period_s


def capped_period(group: Curve, release: Release) -> float:
    """Solves the equation above, in the logarithm of T (Illinois' regula falsi)."""
    left = 0.0 if release.in_order else max(release.limit_groups / release.batch_groups - 1.0, 0.0)
    wanted = left + LAST_OF_BATCH / release.batch_groups
    floor = 0.0 if release.freed_at_start else release.train_s
    guess = math.log((group.mean + release.spread_s + floor) / (wanted + 0.5))
    low, high = guess - 0.4, guess + 0.4
    f_low, f_high = _gap(group, release, low, wanted), _gap(group, release, high, wanted)
    while f_low <= 0.0 and low > guess - 12.0:
        low, high, f_high = low - 1.5, low, f_low
        f_low = _gap(group, release, low, wanted)
    while f_high >= 0.0 and high < guess + 12.0:
        low, high, f_low = high, high + 1.5, f_high
        f_high = _gap(group, release, high, wanted)
    if f_low <= 0.0 or f_high >= 0.0:
        return max(math.exp(low if f_low <= 0.0 else high), floor)
    side = 0
    for _ in range(STEPS):
        middle = low + (high - low) * f_low / (f_low - f_high)
        gap = _gap(group, release, middle, wanted)
        if abs(gap) < 1e-5 or high - low < 1e-5:
            return max(math.exp(middle), floor)
        if gap > 0.0:
            low, f_low, f_high, side = middle, gap, f_high * (0.5 if side > 0 else 1.0), 1
        else:
            high, f_high, f_low, side = middle, gap, f_low * (0.5 if side < 0 else 1.0), -1
    return max(math.exp(0.5 * (low + high)), floor)


def _gap(group: Curve, release: Release, log_period: float, wanted: float) -> float:
    """Of logarithms, in which the share is nearly a straight line of log T."""
    share = running_share(group, release, math.exp(log_period))
    return math.log(max(share, 1e-9) / wanted)


def met_in_flight(rollout: Curve, period_s: float, last_s: float) -> float:
    """Rollouts in flight, per rollout of a batch, that a group meets: the average over its life.

    Over a whole period, where groups live that long: then it is Little's law.
    """
    if period_s <= last_s:
        return rollout.at_most(TERMS * period_s) / period_s
    length, total, x = last_s, 0.0, 0.0
    for _ in range(TERMS):
        total += rollout.at_most(x + length) - rollout.at_most(x)
        x += period_s
        if x > rollout.xs[-1]:
            break
    return total / length


def wanted_at_once(rollout: Curve, period_s: float) -> float:
    """Rollouts, per rollout of a batch, that would be in flight right after a dispatch if there were room."""
    total = 1.0
    for over in islice(rollout.over_each(period_s, period_s), TERMS):
        if over < 1e-6:
            return total
        total += over
    return total + rollout.beyond((TERMS + 1) * period_s) / period_s
