"""Generator, admission and trainer settled: the period of one training, and the state that belongs to it."""

import math
from dataclasses import dataclass, replace

from simulators.analytic.backpressure import swing_of
from simulators.analytic.capped import capped
from simulators.analytic.case import Case
from simulators.analytic.engine import Stops
from simulators.analytic.generation import generate
from simulators.analytic.sandbox import Pressing, quota_of, surrounded
from simulators.analytic.serial import serial_step
from simulators.analytic.supply import Supply, in_rounds, supply_of
from simulators.analytic.syncing import drained_in_batches, in_one_piece, lost_s, stops_of, trainer_hold_s
from simulators.analytic.waiting import NONE_WAITS, Waiting, waiting_between
from simulators.stations import Plug, SyncMode

CLOSE = 1e-4
"""Relative change at which an iteration has settled."""
TURNS, SURROUNDED = 12, 2e-3
"""Balances at most, and how little the seconds around a rollout may change between two of them."""
TRAINED = 1e-3
"""The same of a training's."""


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
    in_flight: float | None = None
    """Mean over the period, where it varies too much to follow from one state; likewise the buffer."""
    queue_groups: float | None = None
    waiting: Waiting | None = None
    """For a sandbox, as starts find them; None: what is in flight beyond the quota."""


def trained_tokens(case: Case, length_ratio: float = 1.0) -> float:
    """Of one trained rollout: its prompt, and the rest as long as what is kept."""
    rollout = case.rollout
    return rollout.prompt_tokens + (rollout.context_end - rollout.prompt_tokens) * length_ratio * rollout.unpruned_ratio


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
    if sync.trainer_waits:
        seconds += sync.seconds / layout.sync_interval
    return seconds


def balanced(case: Case) -> Balance:
    """Sandboxes and verifier depend on the rate that they allow, so the balance is found anew until that settles."""
    if case.stations.sandboxes is None and case.stations.verifier is None:
        return _balance(case)
    found = _balance(surrounded(case, Pressing(0.0, math.inf, _at_first(case))))
    for turn in range(TURNS):
        wanted = surrounded(case, _pressing(found))
        if _moved(found.case, wanted) < SURROUNDED:
            break
        found = _balance(wanted if turn < 2 else _between(found.case, wanted))
    return found


def _at_first(case: Case) -> Waiting:
    """All that the plug lets start, at once."""
    layout, quota = case.layout, quota_of(case)
    if quota is None:
        return NONE_WAITS
    most = float(layout.in_flight)
    if layout.plug in (Plug.WIP_CAP, Plug.PER_SYNC):
        most = min(most, float((layout.limit_groups or 0) * layout.members))
    return waiting_between(most - quota, most - quota)


def _pressing(balance: Balance) -> Pressing:
    case, full, supply = balance.case, balance.full, balance.supply
    waiting = balance.waiting
    if waiting is None:
        there = supply.made.in_flight if balance.in_flight is None else balance.in_flight
        waiting = waiting_between(there - case.active_limit, there - case.active_limit)
    stay_s = max(0.0, min(full.made.in_flight, case.active_limit) / full.started_per_s - case.fixed_s)
    return Pressing(supply.started_per_s, stay_s, waiting)


def _moved(before: Case, after: Case) -> float:
    """Largest relative change of what surrounds the rollouts."""
    pairs = (
        (before.fixed_s, after.fixed_s),
        (before.active_limit, after.active_limit),
        (before.rate_limit, after.rate_limit),
    )
    return max(0.0 if a == b else abs(b - a) / max(a, b) for a, b in pairs)


def _between(before: Case, after: Case) -> Case:
    def middle(a: float, b: float) -> float:
        return b if math.isinf(a) or math.isinf(b) else 0.5 * (a + b)

    return replace(
        after,
        fixed_s=middle(before.fixed_s, after.fixed_s),
        active_limit=middle(before.active_limit, after.active_limit),
        rate_limit=middle(before.rate_limit, after.rate_limit),
    )


def _balance(case: Case) -> Balance:
    case, full, train, floor = _full(case)
    batch, plug = float(case.layout.batch_groups), case.layout.plug
    free = batch / full.groups_per_s
    if case.layout.serial and not (case.partial and case.oversampled):
        return _serial(case, full, train)
    if plug in (Plug.WIP_CAP, Plug.PER_SYNC):
        found = capped(case, train, (floor, free), full)
        for _ in range(TURNS if in_rounds(case) else 0):  # the period decides who is given up, and they how long it is
            wanted = trainer_s(case, found.supply.kept.length_ratio)
            if abs(wanted / train - 1.0) < TRAINED:
                break
            train, floor = wanted, floor + wanted - train
            found = capped(case, train, (floor, free), full)
        return Balance(case, found.period_s, train, full, found.supply, found.binds, waiting=found.waiting)
    if plug is Plug.DISCARD_STALE and free > floor:
        return Balance(case, _discarding(case, full, train), train, full, full)
    if plug is Plug.BUFFER_CAP and floor > free * 1.0001:
        return _held_back(case, full, (train, floor))
    return Balance(case, max(floor, free), train, full, full)


def _serial(case: Case, full: Supply, train: float) -> Balance:
    step = serial_step(case, full)
    sync = case.stations.sync
    period = step.seconds + train + (0.0 if sync.trainer_waits else sync.seconds / case.layout.sync_interval)
    late = min(float(case.layout.in_flight), step.started) - case.active_limit  # all is dispatched at once
    waiting = waiting_between(0.0, late, late / step.started)
    return Balance(case, period, train, full, full, True, step.in_flight_s / period, waiting=waiting)


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


def _held_back(case: Case, full: Supply, trainer: tuple[float, float]) -> Balance:
    """The generator behind a full buffer, at the trainer's pace but for what starves it."""
    train, floor = trainer
    swing = swing_of(case, full, floor)
    period = floor / max(0.05, 1.0 - swing.idle_frac)
    pace = max(swing.pace, 1e-9)
    kept = replace(full.kept, group=full.kept.group.scaled(pace))
    share = case.layout.batch_groups / period / full.groups_per_s
    supply = replace(full, kept=kept, groups_per_s=full.groups_per_s * share, started_per_s=full.started_per_s * share)
    return Balance(case, period, train, full, supply, False, swing.in_flight, swing.queue_groups)


def _drains_frac(case: Case, train: float, groups_per_s: float, started_at_once: float) -> float:
    """Share of the drains that find anything running, where a buffer gates rollouts of one turn, and the trainer waits.

    Between two drains all that may be in flight starts at once, and more for it while the trainer works; then all of it
    is waited for. Where that is more than the steps between take, the gate stays shut until they have taken it.
    """
    gated = case.layout.plug is Plug.BUFFER_CAP and case.stations.sync.trainer_waits
    if not gated or not in_one_piece(case):
        return 1.0
    steps = case.layout.sync_interval
    return min(1.0, steps * case.layout.batch_groups / (started_at_once + groups_per_s * steps * train))


def _full(case: Case) -> tuple[Case, Supply, float, float]:
    """(the case, everything in flight that may be, the trainer's seconds, those with its wait for drains)."""
    batch, lost = float(case.layout.batch_groups), case.stations.sync.seconds
    in_flight = float(case.layout.in_flight)
    sync, batches = case.stations.sync, drained_in_batches(case)
    plain = (sync.mode is SyncMode.IN_FLIGHT or batches) and sync.keeps_kv
    made = generate(case, in_flight, Stops())
    train, factor = trainer_s(case), case.yield_frac / case.layout.members
    if case.oversampled:
        first = supply_of(case, made)
        train, factor = trainer_s(case, first.kept.length_ratio), first.groups_per_s / made.rollouts_per_s
        case = replace(case, grown_frac=first.kept.grown_frac)
        made = generate(case, in_flight, Stops())
    period = max(train, batch / (made.rollouts_per_s * factor) + lost / case.layout.sync_interval)
    floor = train
    for _ in range(30):
        if not plain:
            rollout = made.times(case).curve()
            drains = _drains_frac(case, train, factor * made.rollouts_per_s, factor * in_flight)
            lost = sync.seconds + drains * (lost_s(case, made, rollout, period) - sync.seconds)
            held = 0.0 if batches else drains * trainer_hold_s(case, made, rollout, period)
            floor = train + held / case.layout.sync_interval
        made = generate(case, in_flight, stops_of(case, lost, period))
        found = max(floor, batch / (made.rollouts_per_s * factor))
        if abs(found / period - 1.0) < CLOSE:
            break
        period = found if plain else math.sqrt(found * period)
    return case, supply_of(case, made), train, floor
