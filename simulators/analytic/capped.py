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
from simulators.analytic.cycle import LAST_OF_BATCH, Release, excess, first_guess_s, met_in_flight, wanted_at_once
from simulators.analytic.engine import Stops
from simulators.analytic.generation import Generation, generate
from simulators.analytic.outgrowing import outgrows
from simulators.analytic.supply import Supply, in_rounds, supply_of
from simulators.analytic.syncing import drained_in_batches, lost_s, stops_of
from simulators.queueing.order_statistics import Curve
from simulators.stations import Order, Plug

CLOSE = 1e-4
"""Logarithm of the period that is sought over the one that is tried, when it is found."""
BINDS = 1.0001
"""So many times the shortest period is a longer one."""
TURNS, STRIDE = 16, 1.5
"""Secants at most, and how far one may go."""
SURE = 0.1
"""Of a gap: where the engines change by less, its sign tells on which side the solution is."""
LEAST_FALL = 0.3
"""A gap falls so much at least when a longer period is tried; a period that depends on nothing falls by 1."""


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
class _Look:
    """The job at one period that is tried."""

    at: float
    """Logarithm of the period in the supply's seconds."""
    made: Generation
    period_s: float
    scale: float
    """Its seconds over the supply's."""
    gaps: tuple[float, ...]
    """Logarithms of the periods that hold this one up over this one: the cap's, the two sides', the drains'."""


@dataclass(frozen=True, slots=True)
class _Cap:
    """A cap on started groups, with the shapes of rollouts and groups taken from one supply."""

    case: Case
    release: Release
    supply: Supply
    group: Curve
    """How long a group holds its slot, in the seconds of `supply`."""
    last_s: float
    """The last of a batch's groups ends, likewise."""
    full_per_s: float
    most: float
    """Rollouts that may be in flight."""
    trainer_s: float
    """No period is shorter; nor than the free generator's, with all of these in flight."""
    free_s: float

    def shortest_s(self, made: Generation) -> float:
        """Engines that make more with fewer in flight, since caches hold those, may do it sooner than the free ones."""
        if not outgrows(self.case, self.most):
            return max(self.trainer_s, self.free_s)
        return max(self.trainer_s, self.free_s * min(1.0, self.full_per_s / max(1e-300, made.rollouts_per_s)))

    def look(self, at: float, scale: float) -> _Look:
        """The engines as they are at that period, if their seconds were so many of the supply's."""
        case, rollout, units = self.case, self.supply.kept.rollout, math.exp(at)
        steps = self.release.batch_groups / case.layout.batch_groups
        rollouts, step_s = rollouts_per_batch(case) * steps, units * scale / steps
        wanted = rollouts * case.attempts * met_in_flight(rollout, units, self.last_s)
        lost = lost_s(case, self.supply.made, rollout, step_s)
        made = generate(case, min(self.most, wanted), stops_of(case, lost, step_s))
        scale = made.rollout_s / self.supply.made.rollout_s
        release = _spread(self.release.faster(scale), (rollouts, self.most, self.full_per_s * scale), rollout, units)
        period = units * scale
        gaps: tuple[float, ...] = (self._excess(release, units), math.log(self.shortest_s(made) / period))
        if drained_in_batches(case):
            gaps = (*gaps, math.log(self._drained(release, period, scale) / period))
        return _Look(at, made, period, scale, gaps)

    def _excess(self, release: Release, units: float) -> float:
        """Rounds are open as a whole: W/R of them at a time, each until its n-th usable group."""
        layout = self.case.layout
        if not in_rounds(self.case):
            return excess(self.group, release, units)
        end = self.group.quantile(layout.batch_groups / (layout.round_groups + 1.0))
        open_s = end + release.spread_s + (0.0 if release.freed_at_start else release.train_s)
        return math.log(open_s * layout.round_groups / release.limit_groups / units)

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

    def start(self) -> tuple[float, float]:
        """(logarithm of a period, scale) near the solution: the engines with all that may be started."""
        started = self.release.limit_groups * self.case.layout.members
        made = generate(self.case, min(self.most, started), Stops())
        scale = made.rollout_s / self.supply.made.rollout_s
        guess = first_guess_s(self.group, self.release.faster(scale))
        return math.log(max(self.shortest_s(made) / scale, guess)), scale

    def solve(self, start: tuple[float, float]) -> _Look:
        """Where the longest of the periods that hold it up is the period itself.

        Lengths that are cut at a cap make the cap's jump: its ends are then closed in on.
        """
        (at, scale), low, high, before = start, -math.inf, math.inf, None
        for _ in range(TURNS):
            look = self.look(at, scale)
            gap, moved = max(look.gaps), abs(look.scale / scale - 1.0)
            if abs(gap) < CLOSE and moved < CLOSE:
                break
            if moved < SURE * abs(gap):
                low, high = (max(low, at), high) if gap > 0.0 else (low, min(high, at))
            if high - low < CLOSE:
                break
            at, scale = _next(look, before)
            if not low < at < high and high - low < math.inf:
                at = 0.5 * (low + high)
            before = look
        return look

    def binds(self, look: _Look) -> bool:
        """Of a period that is longer than both sides': whether the cap does it, or the drains alone."""
        if not drained_in_batches(self.case):
            return True
        shortest = self.look(math.log(self.shortest_s(look.made) * BINDS / look.scale), look.scale)
        return shortest.gaps[0] > 0.0


def _next(look: _Look, before: _Look | None) -> tuple[float, float]:
    """By secants of each, the longest period at which one of them would end; the engines change along the way."""
    moved = 0.0 if before is None else look.at - before.at
    if before is None or moved == 0.0:
        return look.at + max(-STRIDE, min(STRIDE, max(look.gaps))), look.scale
    falls = [max(LEAST_FALL, (was - gap) / moved) for gap, was in zip(look.gaps, before.gaps, strict=True)]
    step = max(gap / fall for gap, fall in zip(look.gaps, falls, strict=True))
    step = max(-STRIDE, min(STRIDE, step))
    growth = max(-1.0, min(1.0, math.log(look.scale / before.scale) / moved))
    return look.at + step, look.scale * math.exp(growth * step)


def _room(case: Case) -> float:
    """Rollouts that never leave their engine gain nothing by waiting in front of it: the slots are all that counts."""
    return math.inf if case.rollout.tool.mean > 0.0 else float(case.layout.engines * case.layout.slots)


def capped(case: Case, train: float, sides: tuple[float, float], full: Supply) -> Capped:
    """Period and rollouts in flight settle together; then once more with the shapes that belong to them.

    `sides` are the shortest periods of both: the trainer's with its waits, the free generator's.
    """
    release = _release(case, train)
    steps = release.batch_groups / case.layout.batch_groups
    most = min(float(case.layout.in_flight), case.active_limit, _room(case))
    if full.made.in_flight > most:
        stops = stops_of(case, lost_s(case, full.made, full.kept.rollout, max(sides)), max(sides))
        full = supply_of(case, generate(case, most, stops))
    rates = (full.made.rollouts_per_s, most, sides[0] * steps, sides[1] * steps)
    supply = supply_of(case, full.made, math.inf) if in_rounds(case) else full
    cap = _cap(case, release, supply, rates)
    look = cap.solve(cap.start())
    supply = supply_of(case, look.made, math.inf)
    if not case.rollout.scales(case.fixed_s):
        cap = _cap(case, release, supply, rates)
        look = cap.solve((math.log(look.period_s), 1.0))
        supply = supply_of(case, look.made, math.inf)
    shortest = cap.shortest_s(look.made)
    longer = look.period_s > shortest * BINDS
    return Capped((look.period_s if longer else shortest) / steps, supply, longer and cap.binds(look))


def _cap(case: Case, release: Release, supply: Supply, rates: tuple[float, float, float, float]) -> _Cap:
    """Of (rollouts per second, in flight at most, the trainer's shortest period, the free generator's)."""
    last = supply.kept.group.quantile(1.0 - LAST_OF_BATCH / release.batch_groups)
    return _Cap(case, release, supply, _slot_time(case, supply), last, *rates)


def _slot_time(case: Case, supply: Supply) -> Curve:
    """How long a group holds its slot: one that the filter drops is replaced, except where slots are counted by
    publications. Of a round any group counts, also those that will be given up."""
    if in_rounds(case):
        return supply.times.curve(case.layout.members).scaled(1.0 / case.yield_frac)
    replaced = case.yield_frac < 1.0 and case.layout.plug is not Plug.PER_SYNC
    return supply.kept.group.scaled(1.0 / case.yield_frac) if replaced else supply.kept.group


def rollouts_per_batch(case: Case) -> float:
    """Started for one batch, failed attempts not counted."""
    layout = case.layout
    if in_rounds(case):
        return float(layout.round_groups * layout.members)
    return layout.batch_groups * layout.members / case.yield_frac


def _spread(release: Release, load: tuple[float, float, float], rollout: Curve, period: float) -> Release:
    """Rollouts of a batch for which there is no room start as others end."""
    rollouts, most, rate = load
    if rollouts * (1.0 + rollout.mean / period) <= most:  # nor could there be more at once
        return release
    backlog = rollouts * wanted_at_once(rollout, period) - most
    if backlog <= 0.0:
        return release
    return replace(release, spread_s=backlog / rate, spread_frac=min(1.0, backlog / rollouts))
