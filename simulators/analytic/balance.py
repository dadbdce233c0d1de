"""Generator, admission and trainer settled: the period of one training, and the state that belongs to it."""

import math
from dataclasses import dataclass, replace

from simulators.analytic.case import Case
from simulators.analytic.cycle import LAST_OF_BATCH, Release, capped_period, early_in_flight, wanted_at_once
from simulators.analytic.generation import generate, in_flight_for
from simulators.analytic.sandbox import surrounded
from simulators.analytic.supply import Supply, in_rounds, supply_of
from simulators.analytic.syncing import lost_s, running_frac
from simulators.queueing.order_statistics import Curve
from simulators.stations import Order, Plug, SyncMode

CLOSE = 1e-4
"""Relative change at which an iteration has settled."""


@dataclass(frozen=True, slots=True)
class Balance:
    case: Case
    """With sandboxes and verifier as they are at this rate."""
    period_s: float
    train_s: float
    """What the trainer is busy for in one period."""
    full: Supply
    """Held back by nothing."""
    supply: Supply
    """As held back by trainer and admission."""
    capped: bool = False
    """The cap on started groups sets the period."""


def trained_tokens(case: Case, length_ratio: float = 1.0) -> float:
    """Of one trained rollout: its prompt, and the rest as long as what is kept."""
    rollout = case.rollout
    return rollout.prompt_tokens + (rollout.tokens() - rollout.prompt_tokens) * length_ratio


def trainer_s(case: Case, length_ratio: float = 1.0) -> float:
    """One step: c0 + c1 tokens / n^alpha, the mean of what comes every few steps, and the publication it waits for."""
    trainer, layout, sync, knobs = case.stations.trainer, case.layout, case.stations.sync, case.setpoints
    rollouts = layout.batch_groups * layout.group_size * (1.0 - case.rollout.pruned_frac)
    tokens = rollouts * trained_tokens(case, length_ratio)
    seconds = trainer.base_s + trainer.gpu_s_per_token * tokens / math.pow(layout.gpus_trainer, trainer.exponent)
    if knobs.validation_interval:
        seconds += trainer.validation_s / knobs.validation_interval
    if knobs.checkpoint_interval:
        seconds += trainer.checkpoint_s / knobs.checkpoint_interval
    if sync.trainer_waits or layout.serial:
        seconds += sync.seconds / layout.sync_interval
    return seconds


def balanced(case: Case) -> Balance:
    """Sandboxes and verifier depend on the rate that they allow, so the balance is found anew until that settles."""
    if case.stations.sandboxes is None and case.stations.verifier is None:
        return _balance(case)
    started, found = 0.0, _balance(surrounded(case, 0.0))
    for _ in range(12):
        rate = found.supply.started_per_s
        if abs(rate - started) < 1e-3 * rate:
            break
        started = rate if started == 0.0 else 0.5 * (started + rate)
        found = _balance(surrounded(case, started))
    return found


def _balance(case: Case) -> Balance:
    full, phi, train = _full(case)
    batch, plug = float(case.layout.batch_groups), case.layout.plug
    free = batch / full.groups_per_s
    if plug in (Plug.WIP_CAP, Plug.PER_SYNC):
        return _capped(case, train, max(train, free), full)
    if plug is Plug.DISCARD_STALE and free > train:
        return Balance(case, _discarding(case, full, train), train, full, full)
    if plug is Plug.BUFFER_CAP and train > free * 1.0001:
        return Balance(case, train, train, full, _held_back(case, full, train, phi))
    return Balance(case, max(train, free), train, full, full)


def _discarding(case: Case, full: Supply, train: float) -> float:
    """The generator's period when groups older than the bound are thrown away."""
    free = case.layout.batch_groups / full.groups_per_s
    bound = case.setpoints.staleness_bound or 0.0
    period = free
    for _ in range(40):
        oldest = (math.floor(bound) + 1.0 - train / period) * period * case.layout.sync_interval
        found = free / max(0.01, 1.0 - full.kept.group.over(oldest))
        if abs(found / period - 1.0) < CLOSE:
            break
        period = math.sqrt(period * found)
    return period


def _held_back(case: Case, full: Supply, period: float, phi: float) -> Supply:
    """The generator slowed to the trainer's pace."""
    pace = case.layout.batch_groups / period / full.groups_per_s
    return supply_of(case, in_flight_for(case, full.made.rollouts_per_s * pace, phi, full.made))


def _full(case: Case) -> tuple[Supply, float, float]:
    """Everything in flight that may be: (supply, phi, trainer's seconds). Publications come as often as batches."""
    batch, lost = float(case.layout.batch_groups), case.stations.sync.seconds
    in_flight = float(case.layout.in_flight)
    plain = case.stations.sync.mode is SyncMode.IN_FLIGHT and case.stations.sync.keeps_kv
    made = generate(case, in_flight, 1.0)
    train, factor = trainer_s(case), case.yield_frac / case.layout.members
    if case.oversampled:
        first = supply_of(case, made)
        train, factor = trainer_s(case, first.kept.length_ratio), first.groups_per_s / made.rollouts_per_s
    period = max(train, batch / (made.rollouts_per_s * factor) + lost / case.layout.sync_interval)
    phi = 1.0
    for _ in range(30):
        if not plain:
            lost = lost_s(case, made, made.times(case).curve(), period)
        phi = running_frac(case, lost, period)
        made = generate(case, in_flight, phi)
        found = max(train, batch / (made.rollouts_per_s * factor))
        if abs(found / period - 1.0) < CLOSE:
            break
        period = found if plain else math.sqrt(found * period)
    return supply_of(case, made), phi, train


def _release(case: Case, train: float) -> Release:
    layout = case.layout
    steps = layout.sync_interval if layout.plug is Plug.PER_SYNC else 1
    limit = float(layout.limit_groups or layout.batch_groups)
    return Release(float(layout.batch_groups * steps), limit, train, layout.freed_at_start)


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
    shortest_s: float
    """No period is shorter: the trainer's, or the free generator's."""

    def settled(self, in_flight: float, period_s: float) -> tuple[float, float, float]:
        """(rollouts in flight that these cause, period, what the cap alone allows): one turn of the iteration."""
        case = self.case
        steps = self.release.batch_groups / case.layout.batch_groups
        lost = lost_s(case, self.supply.made, self.rollout, period_s / steps)
        made = generate(case, in_flight, running_frac(case, lost, period_s / steps))
        scale = made.rollout_s / self.supply.made.rollout_s
        rollouts = rollouts_per_batch(case) * steps
        release = self.release.faster(scale)
        release = _spread(release, (rollouts, self.most, self.full_per_s * scale), self.rollout, period_s / scale)
        allowed = scale * _allowed(case, self.supply.kept.group, release)
        period = max(self.shortest_s, allowed)
        wanted = rollouts * case.attempts * early_in_flight(self.rollout, release, period / scale)
        return min(self.most, wanted), period, allowed

    def solve(self, in_flight: float) -> tuple[float, float, float]:
        """Fixed point of `settled`, by secants in the logarithm."""
        period = self.shortest_s
        before = (0.0, 0.0)
        log_n, allowed = math.log(in_flight), period
        for turn in range(16):
            wanted, period, allowed = self.settled(math.exp(log_n), period)
            gap = math.log(wanted) - log_n
            if abs(gap) < CLOSE:
                break
            slope = (gap - before[1]) / (log_n - before[0]) if turn and log_n != before[0] else -1.0
            before = (log_n, gap)
            log_n = min(math.log(self.most), log_n - gap / min(slope, -0.5))
        return math.exp(log_n), period, allowed


def _capped(case: Case, train: float, shortest: float, full: Supply) -> Balance:
    """Period and rollouts in flight settle together; then once more with the shapes that belong to them."""
    release = _release(case, train)
    steps = release.batch_groups / case.layout.batch_groups
    most = min(float(case.layout.in_flight), case.active_limit)
    in_flight, period, allowed, supply = most, shortest * steps, 0.0, full
    if in_rounds(case):
        supply = supply_of(case, full.made, math.inf)
    for _ in range(2):
        rollout = supply.kept.rollout
        cap = _Cap(case, release, supply, rollout, full.made.rollouts_per_s, most, shortest * steps)
        in_flight, period, allowed = cap.solve(in_flight)
        phi = running_frac(case, lost_s(case, supply.made, rollout, period / steps), period / steps)
        supply = supply_of(case, generate(case, in_flight, phi), math.inf)
        if case.rollout.scales(case.fixed_s):
            break
    return Balance(case, period / steps, train, full, supply, allowed > shortest * steps * 1.0001)


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


def _allowed(case: Case, group: Curve, release: Release) -> float:
    """What the cap allows. Rounds, and batches in order of admission, are open as a whole: W/B of them at a time."""
    after = 0.0 if release.freed_at_start else release.train_s
    if in_rounds(case):
        return (group.xs[-1] + release.spread_s + after) * case.layout.round_groups / release.limit_groups
    chain = group if case.yield_frac >= 1.0 else group.scaled(1.0 / case.yield_frac)
    if case.layout.order is Order.ADMISSION:
        last = chain.quantile(1.0 - min(0.5, LAST_OF_BATCH / release.batch_groups)) + release.spread_s
        return (last + after) * release.batch_groups / release.limit_groups
    return capped_period(chain, release)
