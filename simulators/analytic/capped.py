"""A cap on started and untrained groups (cycle.py), settled with the engines: what is in flight decides their pace,
their pace decides the period, and the period how many are in flight.

Oversampled rounds (oversampling.py): the slots of the G groups that were given up since the last batch come free with
the next, and a group runs for S = min(D, time until its round ends). So cycle.py holds with B + G for B and S for D.
Where rounds have no end, G = 0 and S = D: oversampling is a wider cap and nothing else. A round that is open alone is
waited for until its end.

# 256 groups of 16, 768 in flight, W = 9 R, 73 % usable, 512 + 1,536 GPUs (solve-rate-saturates at its start); seconds
# of a step by these formulas, and by the event engine:  R 256  206, 208 | 288  198, 199 | 384  217, 217 | 512  277, 271

Engines that drain at each publication finish all that is started: no rollout outlives two of them. So between two the
generator makes its k batches from nothing, the last of them done after q, a dispatch that has to wait for slots after
`spread`; and the trainer waits for what is left of the batch that was dispatched `age` before:

    k T >= (k R - slots)+ / rate + q,    k T >= k T_train + (spread + q - age)+

A trainer that does not wait for them goes on with the batches that are there, and the first bound holds for as many.

Engines that make no more of more are as fast with any number in flight, and all periods in a rollout's seconds are the
same to them: there the cap says how many there are. The generator is held up by itself only with all in flight.

Above a sandbox quota what is started and has none waits for it. Where the generator sets the pace, the buffer is empty
and by Little's law on the W slots a group waits for the time that is missing; each of its members waits anew when its
start fails (waiting.py). Elsewhere a dispatch has a backlog that is gone before the next one.

    more = W T / (B + G) - E[S] - T/2 (- T_train),    waiting = starts/s x one wait, at most the limit's
"""

import math
from dataclasses import dataclass

from simulators.analytic.case import Case
from simulators.analytic.cycle import Release, excess, first_guess_s, met_in_flight, wanted_at_once
from simulators.analytic.engine import Stops
from simulators.analytic.generation import Generation, generate
from simulators.analytic.groups import Groups, groups_of
from simulators.analytic.outgrowing import outgrows
from simulators.analytic.oversampling import end_of_round
from simulators.analytic.supply import (
    Supply,
    endings_of,
    in_rounds,
    open_alone,
    open_groups,
    opening_of,
    room_of,
    supply_of,
)
from simulators.analytic.syncing import drained_in_batches, lost_s, stops_of
from simulators.analytic.waiting import NONE_WAITS, Waiting, wait_s_of, waiting_between, with_those_that_wait
from simulators.queueing.order_statistics import Curve
from simulators.stations import Order, Plug

CLOSE = 1e-4
"""Logarithm of the period that is sought over the one that is tried, when it is found."""
ROUGH = 1e-2
"""The same where shapes are taken anew there: they change by a twentieth of that at most."""
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
    """The cap sets the period, or what is in flight, not one of the two sides."""
    waiting: Waiting
    """For a sandbox."""


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
    """Logarithm of the period over a rollout's seconds, both of the supply: in another unit of time it is the same."""
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
    groups: Groups
    """In the seconds of `supply`."""
    full_per_s: float
    most: float
    """Rollouts that may be in flight."""
    trainer_s: float
    """No period is shorter; nor than the free generator's, with all of these in flight."""
    free_s: float

    def shortest_s(self, made: Generation) -> float:
        return max(self.trainer_s, self.least_s(made))

    def least_s(self, made: Generation) -> float:
        """Engines that make more with fewer in flight, since caches hold those, may do it sooner than the free ones."""
        if not outgrows(self.case, self.most):
            return self.free_s
        return self.free_s * min(1.0, self.full_per_s / max(1e-300, made.rollouts_per_s))

    def look(self, at: float, scale: float) -> _Look:
        """The engines as they are at that period, if their seconds were so many of the supply's."""
        case, units = self.case, self.units_s(at)
        steps = self.release.batch_groups / case.layout.batch_groups
        groups, step_s = self._groups(units / steps), units * scale / steps
        rollouts = groups.started * steps
        wanted = rollouts * case.attempts * met_in_flight(groups.stays, units, groups.last_s)
        lost = lost_s(case, self.supply.made, self.supply.kept.rollout, step_s)
        made = generate(case, min(self.most, wanted), stops_of(case, lost, step_s))
        scale = made.rollout_s / self.supply.made.rollout_s
        release = self.release.faster(scale)._replace(batch_groups=groups.freed * steps)
        release = _spread(release, (rollouts, self.most, self.full_per_s * scale), groups.stays, units)
        period = units * scale
        sides = max(self.trainer_s / period, min(self.least_s(made) / period, wanted / self.most))
        gaps: tuple[float, ...] = (self._excess(groups, release, units), math.log(sides))
        if drained_in_batches(case):
            gaps = (*gaps, math.log(self._drained(groups, release, (period, scale)) / period))
        return _Look(at, made, period, scale, gaps)

    def _groups(self, step_s: float) -> Groups:
        """A round is dispatched within a period where there are others beside it: the longer, the fewer finish late."""
        case, supply = self.case, self.supply
        if not in_rounds(case) or open_alone(case):
            return self.groups
        return groups_of(case, supply, endings_of(case, supply.made, supply.times, step_s))

    def _excess(self, groups: Groups, release: Release, units: float) -> float:
        """A round that is open alone is waited for until its n-th usable group."""
        layout = self.case.layout
        if not in_rounds(self.case) or not open_alone(self.case):
            return excess(groups.slot, release, units)
        there, rollout = open_groups(self.case), self.supply.times.curve()
        end = end_of_round(groups.slot, layout.batch_groups / (there + 1.0), opening_of(self.case, rollout, there))
        end = max(end, self.supply.kept.endings.last_s)
        return math.log((end + (0.0 if release.freed_at_start else release.train_s)) / units)

    def _drained(self, groups: Groups, release: Release, at: tuple[float, float]) -> float:
        """The period that the drains allow, by the formula above."""
        (period_s, scale), case, layout = at, self.case, self.case.layout
        last, batches = groups.last_s * scale, self.release.batch_groups / layout.batch_groups
        drains = batches / layout.sync_interval  # of one period
        made = groups.started * layout.sync_interval
        queued_s = max(0.0, made - self.most) / self.full_per_s
        if not case.stations.sync.trainer_waits:  # goes on with the batches that are there
            ahead = max(1.0, release.limit_groups / self.release.batch_groups - (0.0 if layout.freed_at_start else 1.0))
            return (queued_s + last) * drains / ahead
        train = release.train_s * scale
        age = train if layout.freed_at_start else period_s
        left_s = max(0.0, release.spread_s * scale + last - age)
        return max((queued_s + last) * drains, train * batches + left_s * drains)

    def start(self) -> tuple[float, float]:
        """(place of a period, scale) near the solution: the engines with all that may be started, or be in flight."""
        started, made = self.release.limit_groups * self.case.layout.members, self.supply.made
        if started < made.in_flight:
            made = generate(self.case, started, Stops())
        scale = made.rollout_s / self.supply.made.rollout_s
        guess = first_guess_s(self.groups.slot, self.release.faster(scale))
        return self.place(max(self.shortest_s(made) / scale, guess)), scale

    def place(self, units_s: float) -> float:
        """Of a period in the supply's seconds: where `look` is asked for it."""
        return math.log(units_s / self.supply.made.rollout_s)

    def units_s(self, at: float) -> float:
        return math.exp(at) * self.supply.made.rollout_s

    def solve(self, start: tuple[float, float], close: float = CLOSE) -> _Look:
        """Where the longest of the periods that hold it up is the period itself.

        Lengths that are cut at a cap make the cap's jump: its ends are then closed in on.
        """
        (at, scale), low, high, before = start, -math.inf, math.inf, None
        for _ in range(TURNS):
            look = self.look(at, scale)
            gap, moved = max(look.gaps), abs(look.scale / scale - 1.0)
            if abs(gap) < close and moved < close:
                break
            if moved < SURE * abs(gap):
                low, high = (max(low, at), high) if gap > 0.0 else (low, min(high, at))
            if high - low < close:
                break
            at, scale = _next(look, before)
            if before is None:  # as if they were faster than they can be, engines that abort would stand still
                scale = max(scale, self.shortest_s(look.made) / self.units_s(at))
            if not low < at < high and high - low < math.inf:
                at = 0.5 * (low + high)
            before = look
        return look

    def waiting(self, look: _Look) -> Waiting:
        """For a sandbox, by the formula above."""
        case, layout = self.case, self.case.layout
        room = float(layout.in_flight) - case.active_limit
        if room <= 0.0:
            return NONE_WAITS
        steps = self.release.batch_groups / layout.batch_groups
        units = look.period_s / look.scale
        groups, release = self._groups(units / steps), self.release.faster(look.scale)
        started = groups.started * steps * case.attempts
        if look.period_s > self.shortest_s(look.made) * BINDS or self.trainer_s > self.free_s:
            backlog = min(room, started * wanted_at_once(groups.stays, units) - case.active_limit)
            return waiting_between(0.0, backlog, backlog / started)
        freed, held = groups.freed * steps, 0.0 if release.freed_at_start else release.train_s
        queued = release.limit_groups * units / freed - groups.slot.mean - 0.5 * units - held
        more = max(0.0, queued * groups.freed * layout.members / groups.started)
        kept = self.supply.kept
        wait = wait_s_of(case, layout.members, (kept.rollout.mean, kept.group.mean), more)
        mean = started / units * wait / (1.0 - case.start_failed_frac)
        return waiting_between(min(room, mean - 0.5 * started), min(room, mean + 0.5 * started))

    def binds(self, look: _Look) -> bool:
        """The cap sets the period, or where the engines do how many are in flight; not a side or the drains alone."""
        if look.gaps[0] > -CLOSE:
            return True
        shortest_s = self.shortest_s(look.made) * BINDS
        if look.period_s <= shortest_s or not drained_in_batches(self.case):
            return look.period_s > shortest_s
        return self.look(self.place(shortest_s / look.scale), look.scale).gaps[0] > 0.0


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


def capped(case: Case, train: float, sides: tuple[float, float], full: Supply) -> Capped:
    """Period and rollouts in flight settle together; then once more with the shapes that belong to them.

    `sides` are the shortest periods of both: the trainer's with its waits, the free generator's.
    """
    release = _release(case, train)
    steps = release.batch_groups / case.layout.batch_groups
    most = min(float(case.layout.in_flight), case.active_limit, room_of(case))
    if full.made.in_flight > most:
        stops = stops_of(case, lost_s(case, full.made, full.kept.rollout, max(sides)), max(sides))
        full = supply_of(case, generate(case, most, stops))
    rates = (full.started_per_s / case.attempts, most, sides[0] * steps, sides[1] * steps)
    cap = _Cap(case, release, full, groups_of(case, full, full.kept.endings), *rates)
    again = not case.rollout.scales(case.fixed_s)
    look = cap.solve(cap.start(), ROUGH if again else CLOSE)
    supply, waiting = supply_of(case, look.made, look.period_s / steps), cap.waiting(look)
    if again:
        cap = _Cap(case, release, supply, groups_of(case, supply, supply.kept.endings), *rates)
        look = cap.solve((cap.place(look.period_s), 1.0))
        supply, waiting = supply_of(case, look.made, look.period_s / steps), cap.waiting(look)
    shortest = cap.shortest_s(look.made)
    period = look.period_s if look.period_s > shortest * BINDS else shortest
    return Capped(period / steps, with_those_that_wait(case, supply, waiting), cap.binds(look), waiting)


def _spread(release: Release, load: tuple[float, float, float], rollout: Curve, period: float) -> Release:
    """Rollouts of a batch for which there is no room start as others end."""
    rollouts, most, rate = load
    if rollouts * (1.0 + rollout.mean / period) <= most:  # nor could there be more at once
        return release
    backlog = rollouts * wanted_at_once(rollout, period) - most
    if backlog <= 0.0:
        return release
    return release._replace(spread_s=backlog / rate, spread_frac=min(1.0, backlog / rollouts))
