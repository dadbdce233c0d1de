"""More started than needed, the rest given up: what it saves in time, wastes in tokens and does to what is kept.

Groups belong to rounds of R, in the order in which they open. While a round is being filled, a group of it that the
filter drops is replaced in it; later it is not: what opens then belongs to the round that is being filled. A round ends
with its n-th usable group, if it ever has so many, and what still runs of it is given up. (The event engine's rules,
simulators/events/buffer.py, taken as a fluid.) Opened evenly over s seconds, one round after another, with D the time
of a group, f = 1 - E[min(D, s)] / s the share that has finished when the round is full, and y the usable share:

    N = R / (1 - (1 - y) f)  open in it;  n / (y f)  where the n-th comes before it is full
    y N of them are usable in the end, with variance y (1 - y) (1 - f) N: those that still run are yet to be drawn
    y N > n:   it ends at tau,   n = y N / s x integral from tau - s to tau of P(D <= u) du
    y N <= n:  it has no end, and nobody is given up

A rollout dispatched u before the end stays min(L, u) seconds. Where nothing holds the generator back, Little's law over
all of them gives s; under a cap on started groups s is the period, as a round that ends makes one batch (capped.py).
A round that is open alone (a cap of no more than R, a serial job) is dispatched at once as far as there is room, and
as that comes free; all that is dropped is replaced in it: N = n / y + R - n, and tau is an order statistic.

Members: of M started the first S are kept, and M E[stay] is the sum over k < S of (M - k) x time with k done.

# n 64, groups of 8, sigma 1, s 3 mean rollouts; opened for a batch, and the share of it that is given up:
#   R 80: y 1  80.0, 20 % | y .9  82.0, 13 % | y .8  84.3, 5 % | y .7  91.8, .4 % | y .6  106.7, none
#   R 96: y 1  96.0, 33 % | y .9  98.4, 28 % | y .8  100.9, 21 % | y .7  103.6, 12 % | y .6  109.2, 2 %
"""

import math
from dataclasses import dataclass
from functools import lru_cache

from simulators.queueing.order_statistics import Curve, Mixture, Table, curve_of
from simulators.queueing.roots import crossing

NODES = (-0.9061798459, -0.5384693101, 0.0, 0.5384693101, 0.9061798459)
"""Gauss-Legendre of five points."""
SHARES = (0.2369268851, 0.4786286705, 0.5688888889, 0.4786286705, 0.2369268851)
AT_ONCE = 1e-3
"""Spans below this many mean rollouts are none."""
FIFTHS = (-1.2815515655, -0.5244005127, 0.0, 0.5244005127, 1.2815515655)
"""Middles of the fifths of a standard normal."""
SURE_SIGMAS = 3.0
"""So far from its batch, a round surely has it or surely has not."""
TURNS = 12
SETTLED = 1e-4
FIRST_FALL, LEAST_FALL = 2.0, 0.5
"""Of the logarithm of what a span allows over it, for each that it is longer: at first, and at least."""


@dataclass(frozen=True, slots=True)
class Endings:
    """When a round ends, and with it the groups of it that still run."""

    groups_frac: float = 1.0
    """Dispatched groups that finish in time, usable or not."""
    ends: tuple[tuple[float, float, float], ...] = ()
    """(share of rounds, least and greatest age of their groups at the end); the other rounds wait for all of theirs."""

    @property
    def last_s(self) -> float:
        """Age of the oldest group of a round at its end."""
        return max((high for _, _, high in self.ends), default=0.0)

    def opened(self, batch: float, yield_frac: float) -> float:
        """Groups per batch."""
        return batch / yield_frac / self.groups_frac

    def freed(self, batch: float, yield_frac: float) -> float:
        """Slots of a cap on started groups that come free with a batch: its own, and of those that were given up."""
        return batch * (1.0 + (1.0 / self.groups_frac - 1.0) / yield_frac)

    def cut(self, times: Curve) -> Curve:
        """Time until the end, or until it is given up with its round."""
        if not self.ends:
            return times
        never = 1.0 - sum(share for share, _, _ in self.ends)
        first, last = min(low for _, low, _ in self.ends), self.last_s if never <= 0.0 else times.xs[-1]
        slopes = [(share / max(high - low, 1e-9 * high), share, high) for share, low, high in self.ends]
        tails = []
        for x, tail in zip(times.xs, times.tails, strict=True):
            if x >= last:
                break
            if x > first:  # or its round has not ended, or it ended when the group was older than this
                tail *= never + sum([min(share, (high - x) * slope) for slope, share, high in slopes if x < high])
            tails.append(tail)
        return curve_of((*times.xs[: len(tails)], last), (*tails, 0.0)) if len(tails) > 1 else times

    def ages(self, longest_s: float) -> list[tuple[float, float]]:
        """(weight, age) of groups when their round ends; `longest_s` where it waits for all."""
        found = [
            (0.5 * share * part, 0.5 * (low + high) + 0.5 * (high - low) * node)
            for share, low, high in self.ends
            for part, node in zip(SHARES, NODES, strict=True)
        ]
        never = 1.0 - sum(share for share, _, _ in self.ends)
        return [*found, (never, longest_s)] if never > 1e-9 else found


ALL_FINISH = Endings()


@dataclass(frozen=True, slots=True)
class Kept:
    """Of what is dispatched."""

    rollout: Curve
    """Time of a rollout that nobody gives up."""
    group: Curve
    """Time of a kept group."""
    stay_s: float
    """Of a dispatched rollout, finished or given up."""
    length_ratio: float
    """Mean time of kept rollouts over that of all."""
    given_up_frac: float
    """Dispatched rollouts that are given up unfinished."""
    grown_frac: float = 1.0
    """Mean age of a rollout in flight, over that where none is given up."""
    endings: Endings = ALL_FINISH

    @property
    def groups_frac(self) -> float:
        return self.endings.groups_frac


def all_kept(times: Mixture, members: int) -> Kept:
    rollout = times.curve()
    return Kept(rollout, times.curve(members), rollout.mean, 1.0, 0.0)


def first_members(times: Mixture, started: int, kept: int) -> Kept:
    """The first `kept` of `started` members; the others are given up at that moment."""
    tails, running = _not_yet(times.table, started, kept)
    stay = curve_of(times.xs, running).mean
    group = curve_of(times.xs, tails)
    spent_by_kept = started * stay - (started - kept) * group.mean
    rollout = times.curve()
    ratio = spent_by_kept / kept / rollout.mean
    grown = curve_of(times.xs, running).age / rollout.age
    return Kept(rollout, group, stay, min(1.0, ratio), 1.0 - kept / started, grown)


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


@dataclass(frozen=True, slots=True)
class Opening:
    """How the groups of a round are dispatched: some at once, the others evenly over a while."""

    late_s: float = 0.0
    late_frac: float = 0.0


@dataclass(frozen=True, slots=True)
class Round:
    """How groups are oversampled: the n, R and y of the formulas above."""

    batch: float
    groups: float
    yield_frac: float

    @property
    def dispatched_alone(self) -> float:
        """Groups of a round that is open alone."""
        return self.batch / self.yield_frac + self.groups - self.batch

    def endings(self, group: Curve, span_s: float) -> Endings:
        """Of rounds that are dispatched evenly over so many seconds, one after another."""
        finished_frac = 1.0 - group.at_most(span_s) / span_s
        whole = self.groups / (1.0 - (1.0 - self.yield_frac) * finished_frac)
        dispatched = min(whole, self.batch / max(1e-12, self.yield_frac * finished_frac))
        usable = self.yield_frac * dispatched
        sigma = math.sqrt(dispatched * (1.0 - finished_frac) * self.yield_frac * (1.0 - self.yield_frac))
        sure = abs(usable - self.batch) >= SURE_SIGMAS * sigma
        kept, ends = 0.0, []
        lots = (0.0,) if sure else FIFTHS
        for z in lots:
            there = usable + z * sigma
            kept += min(self.batch, there) / len(lots)
            if there > self.batch:
                tau = end_of_round(group, self.batch / (there + self.yield_frac), Opening(span_s, 1.0))
                ends.append((1.0 / len(lots), max(0.0, tau - span_s), tau))
        return Endings(kept / usable, tuple(ends))

    def alone(self, group: Curve, opening: Opening) -> Endings:
        """Of rounds each of which is open alone: what the filter drops is all replaced in it."""
        needed, dispatched = self.batch / self.yield_frac, self.dispatched_alone
        tau = end_of_round(group, needed / (dispatched + 1.0), opening)
        late = opening.late_frac * min(1.0, tau / opening.late_s) if opening.late_s > 0.0 else 0.0
        opened = max(needed, dispatched * (1.0 - opening.late_frac + late))
        share = late / (1.0 - opening.late_frac + late)
        ends = ((1.0 - share, tau, tau), (share, max(0.0, tau - opening.late_s), tau))
        return Endings(needed / opened, tuple(end for end in ends if end[0] > 0.0))


def in_flight_endings(times: Mixture, members: int, asked: Round, in_flight: float) -> Endings:
    """Rounds one after another with `in_flight` rollouts at all times: Little's law sets their pace."""
    group, rollout = times.curve(members), times.curve()
    span = asked.groups * members * rollout.mean / in_flight
    gap = at = 0.0
    for turn in range(TURNS):
        endings = asked.endings(group, span)
        found = endings.opened(asked.batch, asked.yield_frac) * members * _stay_s(rollout, endings) / in_flight
        before, was, gap, at = gap, at, math.log(found / span), math.log(span)
        if abs(gap) < SETTLED:
            break
        fall = max(LEAST_FALL, (before - gap) / (at - was)) if turn and at != was else FIRST_FALL
        span = math.exp(at + gap / fall)
    return endings


def _stay_s(rollout: Curve, endings: Endings) -> float:
    return sum(weight * rollout.at_most(age) for weight, age in endings.ages(rollout.xs[-1]))


def kept_in_rounds(times: Mixture, members: int, endings: Endings) -> Kept:
    if not endings.ends:
        return all_kept(times, members)
    group, rollout = times.curve(members), times.curve()
    ages = endings.ages(group.xs[-1])
    return Kept(
        rollout=rollout,
        group=_before(group, ages),
        stay_s=_stay_s(rollout, endings),
        length_ratio=_kept_ratio(times, members, ages),
        given_up_frac=sum(weight * rollout.over(age) for weight, age in ages),
        grown_frac=endings.cut(rollout).age / rollout.age,
        endings=endings,
    )


def end_of_round(group: Curve, share: float, opening: Opening) -> float:
    """tau of the formula above: when that share of its groups has finished. If all start at once it is a quantile."""
    late_s, late = opening.late_s, opening.late_frac
    if late_s <= AT_ONCE * group.mean or late <= 0.0:
        return group.quantile(share)

    def excess(tau: float) -> float:
        start = max(0.0, tau - late_s)
        over = 0.0 if late >= 1.0 else (1.0 - late) * late_s * (1.0 - group.over(tau))
        return over + late * ((tau - start) - (group.at_most(tau) - group.at_most(start))) - share * late_s

    return crossing(excess, 0.0, group.xs[-1] + late_s)


def _before(group: Curve, ages: list[tuple[float, float]]) -> Curve:
    """The time of those groups that finished before their round ended; the grid stops there."""
    finished = sorted((age, weight, weight * (1.0 - group.over(age))) for weight, age in ages)
    weight, done = sum(w for _, w, _ in finished), sum(d for _, _, d in finished)
    norm, last = max(1e-12, done), finished[-1][0]
    xs, tails, i = [], [], 0
    for x, tail in zip(group.xs, group.tails, strict=True):
        while i < len(finished) and finished[i][0] <= x:  # of those that are older at their end
            weight, done, i = weight - finished[i][1], done - finished[i][2], i + 1
        xs.append(x)
        tails.append(max(0.0, done - weight * (1.0 - tail)) / norm if i < len(finished) else 0.0)
        if x >= last:
            break
    return curve_of(xs, tails) if len(xs) > 1 else group


def _kept_ratio(times: Mixture, members: int, ages: list[tuple[float, float]]) -> float:
    """E[time of a member | its whole group ended in time] over E[time]."""
    total = norm = 0.0
    for weight, own in times.by_common():
        for share, age in ages:
            over = own.over(age)
            others = weight * share * (1.0 - over) ** (members - 1)
            norm += others * (1.0 - over)
            total += others * (own.at_most(age) - age * over)
    return min(1.0, total / max(1e-12, norm) / times.curve().mean)
