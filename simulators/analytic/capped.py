"""A cap on started and untrained groups (cycle.py), settled with the engines: what is in flight decides their pace,
their pace decides the period, and the period how many are in flight.

Engines that drain at each publication finish all that is started: no rollout outlives two of them. So between two the
generator makes its k batches from nothing, the last of them done after q, a dispatch that has to wait for slots after
`spread`; and the trainer waits for what is left of the batch that was dispatched `age` before:

    k T >= (k R - slots)+ / rate + q,    k T >= k T_train + (spread + q - age)+

A trainer that does not wait for them goes on with the batches that are there, and the first bound holds for as many.
"""

import math
from dataclasses import dataclass, replace

from simulators.analytic.case import Case
from simulators.analytic.cycle import LAST_OF_BATCH, Release, capped_period, met_in_flight, wanted_at_once
from simulators.analytic.generation import generate
from simulators.analytic.supply import Supply, in_rounds, supply_of
from simulators.analytic.syncing import drained_in_batches, lost_s, stops_of
from simulators.queueing.order_statistics import Curve
from simulators.stations import Order, Plug

CLOSE = 1e-4
"""Relative change at which the iteration has settled."""
TURNS = 20


@dataclass(frozen=True, slots=True)
class Capped:
    period_s: float
    supply: Supply
    binds: bool
    """The cap sets the period, not one of the two sides."""


def _release(case: Case, train: float) -> Release:
    layout = case.layout
    steps = layout.sync_interval if layout.plug is Plug.PER_SYNC else 1
    limit = float(layout.limit_groups or layout.batch_groups)
    dropped = 1.0 / case.yield_frac - 1.0 if layout.plug is Plug.PER_SYNC else 0.0
    in_order = layout.order is Order.ADMISSION
    return Release(float(layout.batch_groups * steps), limit, train, layout.freed_at_start, in_order, dropped)


@dataclass(frozen=True, slots=True)
class _Cap:
    """A cap on started groups, with the shapes of rollouts and groups taken from one supply."""

    case: Case
    release: Release
    supply: Supply
    rollout: Curve
    full_per_s: float
    most: float
    """Rollouts that may be in flight."""
    last_s: float
    """The last of a batch's groups ends, in the seconds of `supply`."""
    shortest_s: float
    """No period is shorter: the trainer's, or the free generator's."""

    def settled(self, in_flight: float, period_s: float) -> tuple[float, float, float]:
        """(rollouts in flight that these cause, period, what the cap alone allows): one turn of the iteration."""
        case = self.case
        steps = self.release.batch_groups / case.layout.batch_groups
        lost = lost_s(case, self.supply.made, self.rollout, period_s / steps)
        made = generate(case, in_flight, stops_of(case, lost, period_s / steps))
        scale = made.rollout_s / self.supply.made.rollout_s
        rollouts = rollouts_per_batch(case) * steps
        release = self.release.faster(scale)
        release = _spread(release, (rollouts, self.most, self.full_per_s * scale), self.rollout, period_s / scale)
        allowed = scale * _allowed(case, self.supply, release)
        period = max(self.shortest_s, allowed)
        if drained_in_batches(case):
            period = max(period, self._drained(release, period, scale))
        wanted = rollouts * case.attempts * met_in_flight(self.rollout, period / scale, self.last_s)
        return min(self.most, wanted), period, allowed

    def _drained(self, release: Release, period_s: float, scale: float) -> float:
        """The period that the drains allow, by the formula above."""
        case, layout, last = self.case, self.case.layout, self.last_s * scale
        batches = release.batch_groups / layout.batch_groups
        drains = batches / layout.sync_interval  # of one period
        made = rollouts_per_batch(case) * layout.sync_interval
        queued_s = max(0.0, made - self.most) / self.full_per_s
        if not case.stations.sync.trainer_waits:  # goes on with the batches that are there
            ahead = max(1.0, release.limit_groups / release.batch_groups - (0.0 if layout.freed_at_start else 1.0))
            return (queued_s + last) * drains / ahead
        train = release.train_s * scale
        age = train if layout.freed_at_start else period_s
        left_s = max(0.0, release.spread_s * scale + last - age)
        return max((queued_s + last) * drains, train * batches + left_s * drains)

    def solve(self, in_flight: float) -> tuple[float, float, float]:
        """Fixed point of `settled`, by secants in the logarithm."""
        period = self.shortest_s
        before = (0.0, 0.0)
        log_n, allowed = math.log(in_flight), period
        for turn in range(TURNS):
            earlier = period
            wanted, period, allowed = self.settled(math.exp(log_n), period)
            gap = math.log(wanted) - log_n
            if abs(gap) < CLOSE and abs(period / earlier - 1.0) < CLOSE:
                break
            slope = (gap - before[1]) / (log_n - before[0]) if turn and log_n != before[0] else -1.0
            before = (log_n, gap)
            log_n = min(math.log(self.most), log_n - gap / min(slope, -0.5))
        return math.exp(log_n), period, allowed


def _room(case: Case) -> float:
    """Rollouts that never leave their engine gain nothing by waiting in front of it: the slots are all that counts."""
    return math.inf if case.rollout.tool.mean > 0.0 else float(case.layout.engines * case.layout.slots)


def capped(case: Case, train: float, shortest: float, full: Supply) -> Capped:
    """Period and rollouts in flight settle together; then once more with the shapes that belong to them."""
    release = _release(case, train)
    steps = release.batch_groups / case.layout.batch_groups
    most = min(float(case.layout.in_flight), case.active_limit, _room(case))
    if full.made.in_flight > most:
        stops = stops_of(case, lost_s(case, full.made, full.kept.rollout, shortest), shortest)
        full = supply_of(case, generate(case, most, stops))
    in_flight, period, allowed, supply = most, shortest * steps, 0.0, full
    if in_rounds(case):
        supply = supply_of(case, full.made, math.inf)
    for _ in range(2):
        rollout = supply.kept.rollout
        last = supply.kept.group.quantile(1.0 - LAST_OF_BATCH / release.batch_groups)
        cap = _Cap(case, release, supply, rollout, full.made.rollouts_per_s, most, last, shortest * steps)
        in_flight, period, allowed = cap.solve(in_flight)
        stops = stops_of(case, lost_s(case, supply.made, rollout, period / steps), period / steps)
        supply = supply_of(case, generate(case, in_flight, stops), math.inf)
        if case.rollout.scales(case.fixed_s):
            break
    return Capped(period / steps, supply, allowed > shortest * steps * 1.0001)


def rollouts_per_batch(case: Case) -> float:
    """Started for one batch, failed attempts not counted."""
    layout = case.layout
    if in_rounds(case):
        return float(layout.round_groups * layout.members)
    return layout.batch_groups * layout.members / case.yield_frac


def _spread(release: Release, load: tuple[float, float, float], rollout: Curve, period: float) -> Release:
    """Rollouts of a batch for which there is no room start as others end."""
    rollouts, most, rate = load
    backlog = rollouts * wanted_at_once(rollout, period) - most
    if backlog <= 0.0:
        return release
    return replace(release, spread_s=backlog / rate, spread_frac=min(1.0, backlog / rollouts))


def _allowed(case: Case, supply: Supply, release: Release) -> float:
    """What the cap allows. Rounds are open as a whole: W/R of them at a time, each until its n-th usable group."""
    layout, after = case.layout, 0.0 if release.freed_at_start else release.train_s
    if in_rounds(case):
        ends = supply.times.curve(layout.members).scaled(1.0 / case.yield_frac)
        end = ends.quantile(layout.batch_groups / (layout.round_groups + 1.0))
        return (end + release.spread_s + after) * layout.round_groups / release.limit_groups
    replaced = case.yield_frac < 1.0 and layout.plug is not Plug.PER_SYNC
    group = supply.kept.group
    return capped_period(group.scaled(1.0 / case.yield_frac) if replaced else group, release)
