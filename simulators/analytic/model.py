"""AnalyticModel: steady state of a job from closed forms, in about a millisecond."""

import math
from dataclasses import dataclass

from simulators.analytic.cycle import Release, capped_period, settle
from simulators.analytic.generation import Case, Generation, generate, in_flight_for
from simulators.analytic.layout import Layout, layout_of
from simulators.analytic.rollout import rollout_of
from simulators.analytic.solving import usable_share
from simulators.analytic.staleness import Ages, mean_versions
from simulators.model import Prediction, Staleness
from simulators.plant import Setpoints, Topology
from simulators.stations import Plug, Stations, Trainer
from simulators.workload import Workload


@dataclass(frozen=True, slots=True)
class AnalyticModel:
    """PlantModel by queueing theory; what it should not decide alone is named in `Prediction.weak`."""

    stations: Stations

    def predict(self, topology: Topology, workload: Workload, setpoints: Setpoints) -> Prediction:
        layout = layout_of(topology, self.stations, setpoints)
        case = case_of(self.stations, layout, workload, setpoints)
        balance = balanced(case, setpoints)
        return told(case, balance)


@dataclass(frozen=True, slots=True)
class Balance:
    """Generator and trainer settled."""

    period_s: float
    train_s: float
    """What the trainer is busy for in one period."""
    full: Generation
    """Held back by nothing."""
    made: Generation
    """As held back by the trainer and the admission."""


def case_of(stations: Stations, layout: Layout, workload: Workload, setpoints: Setpoints) -> Case:
    usable = usable_share(workload.solve, layout.group_size)
    filtered = bool(setpoints.filter_zero_adv)
    return Case(
        layout=layout,
        stations=stations,
        rollout=rollout_of(workload, stations.pruning),
        usable_frac=usable,
        yield_frac=usable if filtered else 1.0,
        attempts=1.0 / max(1e-9, 1.0 - workload.failure_frac),
        partial=bool(setpoints.partial_rollout),
        fixed_s=stations.verifier.time_s if stations.verifier else 0.0,
    )


def trainer_s(trainer: Trainer, layout: Layout, tokens: float, setpoints: Setpoints) -> float:
    """c0 + c1 tokens / n^alpha, and the mean of what comes every few steps."""
    seconds = trainer.base_s + trainer.gpu_s_per_token * tokens / math.pow(layout.gpus_trainer, trainer.exponent)
    if setpoints.validation_interval:
        seconds += trainer.validation_s / setpoints.validation_interval
    if setpoints.checkpoint_interval:
        seconds += trainer.checkpoint_s / setpoints.checkpoint_interval
    return seconds


def balanced(case: Case, setpoints: Setpoints) -> Balance:
    layout, sync = case.layout, case.stations.sync
    tokens = layout.batch_groups * layout.group_size * case.rollout.tokens() * (1.0 - case.rollout.pruned_frac)
    train = trainer_s(case.stations.trainer, layout, tokens, setpoints)
    if sync.trainer_waits:
        train += sync.seconds / layout.sync_interval
    rollouts = layout.batch_groups * layout.members / case.yield_frac

    def phi_at(period: float) -> float:
        return max(0.02, 1.0 - sync.seconds / (period * layout.sync_interval))

    def free(period: float) -> float:
        return max(train, rollouts / generate(case, layout.in_flight, phi_at(period)).rollouts_per_s)

    period = settle(free, max(train, 1e-6))
    full = generate(case, layout.in_flight, phi_at(period))
    made = full
    if layout.plug in (Plug.WIP_CAP, Plug.PER_SYNC):
        period, made = _capped(case, (train, period, rollouts), full)
    if period > rollouts / full.rollouts_per_s * 1.0001 and made is full:
        made = generate(case, in_flight_for(case, rollouts / period, phi_at(period)), phi_at(period))
    return Balance(period, train, full, made)


def _capped(case: Case, known: tuple[float, float, float], full: Generation) -> tuple[float, Generation]:
    """Period under a cap on started and untrained groups: in flight and period settle together."""
    train, shortest, rollouts = known
    layout = case.layout
    sync = case.stations.sync
    release = Release(
        layout.batch_groups / case.yield_frac,
        float(layout.limit_groups or layout.batch_groups) / case.yield_frac,
        train,
        layout.freed_at_start,
    )
    in_flight, period, made = float(layout.in_flight), shortest, full
    for _ in range(25):
        phi = max(0.02, 1.0 - sync.seconds / (period * layout.sync_interval))
        made = generate(case, in_flight, phi)
        group = made.times(case).of_groups(layout.members)
        period = max(shortest, capped_period(group, release))
        wanted = min(float(layout.in_flight), rollouts / period * made.rollout_s)
        if abs(wanted / in_flight - 1.0) < 1e-4:
            break
        in_flight = math.sqrt(in_flight * wanted)
    return period, made


def told(case: Case, balance: Balance) -> Prediction:
    layout, made = case.layout, balance.made
    trained = layout.batch_groups * layout.group_size / balance.period_s
    group_s = made.times(case).of_groups(layout.members).mean()
    share = 1.0 if case.yield_frac < 1.0 else case.usable_frac
    ages = Ages(group_s, 0.5 * balance.period_s, balance.train_s, balance.period_s, layout.sync_interval)
    free = layout.batch_groups * layout.members / case.yield_frac / balance.full.rollouts_per_s
    return Prediction(
        rollouts_per_s=trained,
        useful_rollouts_per_s=trained * share,
        tokens_per_s=trained * case.rollout.tokens(),
        step_s=balance.period_s,
        trainer_idle_frac=max(0.0, 1.0 - balance.train_s / balance.period_s),
        generator_busy_frac=min(1.0, free / balance.period_s),
        staleness=Staleness(mean_versions(ages)),
        in_flight=made.in_flight,
        rollout_s=made.rollout_s,
        group_s=group_s,
        waste={"filtered": 1.0 - case.yield_frac},
    )
