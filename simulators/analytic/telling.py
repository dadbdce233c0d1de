"""From a settled balance to a Prediction: rates, ages, waste and bias, all of one steady state."""

from collections.abc import Mapping

from simulators.analytic.balance import Balance, trained_tokens
from simulators.analytic.engine import iteration_s
from simulators.analytic.generation import resident_limit
from simulators.analytic.queue import ages_of, queue_of
from simulators.analytic.solving import usable_solve_ratio
from simulators.analytic.staleness import staleness_of
from simulators.analytic.supply import in_rounds
from simulators.analytic.syncing import in_one_piece
from simulators.analytic.weak import weak_points
from simulators.model import Prediction
from simulators.stations import Plug, SyncMode
from simulators.workload import Workload

NOTHING = 1e-9
"""A share below this is rounding."""


def told(balance: Balance, workload: Workload) -> Prediction:
    case, layout, supply = balance.case, balance.case.layout, balance.supply
    trained = layout.batch_groups * layout.group_size * (1.0 - case.rollout.pruned_frac) / balance.period_s
    queue = queue_of(balance)
    waste = waste_of(balance)
    in_flight, rollout_s = _in_flight(balance, trained, waste)
    free_s = layout.batch_groups / balance.full.groups_per_s
    boxes = case.stations.sandboxes is not None
    return Prediction(
        rollouts_per_s=trained,
        useful_rollouts_per_s=trained * (1.0 if case.yield_frac < 1.0 else case.usable_frac),
        tokens_per_s=trained * trained_tokens(case, supply.kept.length_ratio),
        step_s=balance.period_s,
        trainer_idle_frac=max(0.0, min(1.0, 1.0 - balance.train_s / balance.period_s)),
        generator_busy_frac=1.0 if queue is None else max(0.0, min(1.0, free_s / balance.period_s)),
        staleness=None if queue is None else staleness_of(ages_of(balance, queue)),
        token_staleness_mean=_token_staleness(balance),
        resumed_frac=_resumed(balance),
        queue_groups=queue,
        queue_age_s=None if queue is None else queue * balance.period_s / layout.batch_groups,
        in_flight=in_flight,
        rollout_s=rollout_s,
        group_s=supply.kept.group.mean,
        waste=waste,
        kept_length_ratio=_length_bias(balance, workload),
        kept_solve_ratio=_solve_bias(balance, workload),
        sandbox_wait_s=supply.made.wait_s * (1.0 - case.start_failed_frac) + case.start_s if boxes else None,
        sandbox_failed_frac=case.start_failed_frac if boxes else None,
        preemptions_per_rollout=None if resident_limit(case) < layout.slots else 0.0,
        prefix_hit_frac=supply.made.hit_frac if case.rollout.turns_mean > 1.0 else None,
        tenant_tokens_per_s=_tenant(balance),
        weak=weak_points(balance),
    )


def _in_flight(balance: Balance, trained: float, waste: Mapping[str, float]) -> tuple[float, float]:
    """(rollouts in flight, seconds of one), one from the other by Little's law over all that is started."""
    supply, layout = balance.supply, balance.case.layout
    reaching = max(1e-12, 1.0 - sum(waste.values()))
    started = supply.started_per_s if layout.plug is Plug.NONE else trained / reaching
    if balance.in_flight is not None:
        return balance.in_flight, balance.in_flight / started
    if balance.capped:
        return started * supply.kept.stay_s, supply.kept.stay_s
    return supply.made.in_flight, supply.made.in_flight / started


def waste_of(balance: Balance) -> dict[str, float]:
    """Shares of what is started, by cause, in the order in which a rollout may meet them."""
    case, supply, layout = balance.case, balance.supply, balance.case.layout
    flow = balance.supply.groups_per_s * balance.period_s / layout.batch_groups
    surplus = max(0.0, 1.0 - 1.0 / flow) if flow > 0.0 else 0.0
    causes = {
        "aborted": _aborted(balance),
        "failed": 1.0 - (1.0 - case.failure_frac) * (1.0 - case.start_failed_frac),
        "oversampled": 1.0 - supply.kept.groups_frac * layout.group_size / layout.members,
        "filtered": 1.0 - case.yield_frac,
        "dropped": surplus if layout.plug is Plug.DROP_OLDEST else 0.0,
        "stale": surplus if layout.plug is Plug.DISCARD_STALE else 0.0,
        "pruned": case.rollout.pruned_frac,
    }
    rest, waste = 1.0, {}
    for cause, share in causes.items():
        if share > NOTHING:
            waste[cause] = rest * share
            rest -= waste[cause]
    return waste


def _aborted(balance: Balance) -> float:
    """Restarts over starts, where a publication stops all residents and none may go on."""
    case = balance.case
    if case.stations.sync.mode is not SyncMode.ABORT or case.partial or case.layout.serial:
        return 0.0
    per_s = balance.supply.made.residents / (balance.period_s * case.layout.sync_interval)
    return per_s / (per_s + balance.supply.started_per_s)


def _token_staleness(balance: Balance) -> float:
    case, supply = balance.case, balance.supply
    mode = case.stations.sync.mode
    drained = mode is SyncMode.DRAIN and in_one_piece(case)
    if case.layout.serial or drained or (mode is SyncMode.ABORT and not case.partial):
        return 0.0
    running_s = max(0.0, supply.kept.rollout.mean * supply.kept.length_ratio - supply.made.wait_s)
    return running_s / (balance.period_s * case.layout.sync_interval)


def _resumed(balance: Balance) -> float | None:
    """Rollouts that live through a publication that aborts them; rounds that carry over are not modelled."""
    case = balance.case
    if not case.partial:
        return 0.0
    if case.layout.round_groups > case.layout.batch_groups:
        return None
    if case.stations.sync.mode is not SyncMode.ABORT or case.layout.serial:
        return 0.0
    period = balance.period_s * case.layout.sync_interval
    return balance.supply.kept.rollout.at_most(period) / period


def _length_bias(balance: Balance, workload: Workload) -> float | None:
    case = balance.case
    redrawn = case.stations.sync.mode is SyncMode.ABORT and not case.partial
    tied = redrawn or (workload.solve.length_correlation != 0.0 and case.yield_frac < 1.0)
    if tied or case.stations.pruning is not None or case.layout.plug is Plug.DISCARD_STALE:
        return None
    return balance.supply.kept.length_ratio


def _solve_bias(balance: Balance, workload: Workload) -> float | None:
    case = balance.case
    if workload.solve.length_correlation != 0.0 and (in_rounds(case) or case.stations.pruning is not None):
        return None
    return usable_solve_ratio(workload.solve, case.layout.group_size) if case.yield_frac < 1.0 else 1.0


def _tenant(balance: Balance) -> float | None:
    """Its rollouts fill the slots that are free, at the pace of a full engine."""
    case = balance.case
    if case.stations.tenant is None:
        return None
    slots = resident_limit(case)
    step_s = iteration_s(case.stations.engine.step, slots, slots * case.context_mean)
    return max(0.0, slots * case.layout.engines - balance.supply.made.residents) / step_s
