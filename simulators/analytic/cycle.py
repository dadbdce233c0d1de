"""The cycle of generator and trainer: seconds between two trainings in steady state.

A batch of B groups is trained every T seconds. T is the longest of three: the generator's time for a batch, the
trainer's time for one, and what the admission allows. Under a WIP cap of W groups whose slots come free B at a time,
the groups still running just before a training starts are W - B of W (all slots are started, B of them finished):

    sum over j >= 0 of P(D > tau + j T) = W/B - 1,    tau = T (freed at the start) or T - T_train (at the end)

with D the time of a group. For large W this is Little's law W/X = E[D] + T/2 (+ T_train); at W = B it is the serial
job, whose last group of B is waited for: the right side is then EULER/B, the share that is over at the mean maximum
of B exponential tails.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from simulators.queueing.order_statistics import Mixture

LAST_OF_BATCH = 0.5614594835668851
"""exp(-Euler's constant): B x P(D > E[max of B]) of exponential tails."""
TERMS = 400


@dataclass(frozen=True, slots=True)
class Release:
    """When the slots of a trained batch are free again."""

    batch_groups: float
    limit_groups: float
    train_s: float
    freed_at_start: bool


def running_share(group: Mixture, release: Release, period_s: float) -> float:
    """Groups, in batches, that still run when B of W have finished, if the period were `period_s`."""
    start = period_s if release.freed_at_start else max(0.0, period_s - release.train_s)
    total, x = 0.0, start
    for _ in range(TERMS):
        over = group.over(x)
        if over < 1e-7:
            return total
        total += over
        x += period_s
    return total + group.beyond(x) / period_s


def capped_period(group: Mixture, release: Release) -> float:
    """The period that the cap allows: solves the equation above by bisection in log T."""
    wanted = max(release.limit_groups / release.batch_groups - 1.0, 0.0) + LAST_OF_BATCH / release.batch_groups
    floor = 0.0 if release.freed_at_start else release.train_s
    low, high = math.log(group.xs[0] * 1e-2), math.log(group.xs[-1] + floor)
    for _ in range(34):
        middle = 0.5 * (low + high)
        if running_share(group, release, math.exp(middle)) > wanted:
            low = middle
        else:
            high = middle
    return max(math.exp(high), floor)


def settle(step: Callable[[float], float], start: float) -> float:
    """Fixed point of a falling or flat map, by damped iteration in the logarithm."""
    value = start
    for _ in range(60):
        found = step(value)
        if abs(found / value - 1.0) < 1e-5:
            return found
        value = math.sqrt(value * found)
    return value
