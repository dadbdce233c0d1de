"""The rollout buffer: groups that wait for the trainer, and how old they are in steps when it takes them."""

from simulators.analytic.balance import Balance
from simulators.analytic.staleness import Ages
from simulators.queueing.order_statistics import Curve
from simulators.stations import Order, Plug


def trainer_bound(balance: Balance) -> bool:
    """The generator could do more than the trainer takes."""
    return balance.case.layout.batch_groups / balance.full.groups_per_s < 0.9999 * balance.train_s


def queue_of(balance: Balance) -> float | None:
    """Finished groups that wait, on average; None where they only ever grow in number."""
    layout = balance.case.layout
    half = 0.5 * layout.batch_groups
    if balance.queue_groups is not None:
        return balance.queue_groups
    if balance.capped or not trainer_bound(balance):
        return half
    limit = float(layout.limit_groups or layout.batch_groups)
    if layout.plug is Plug.NONE:
        return None
    if layout.plug is Plug.DROP_OLDEST:
        return max(0.0, _drop_oldest_steps(balance) - 0.5) * layout.batch_groups
    if layout.plug is Plug.DISCARD_STALE:
        return max(0.0, _discard_steps(balance) - 0.5) * layout.batch_groups
    running = balance.supply.kept.group.mean / balance.period_s * layout.batch_groups
    in_training = 0.0 if layout.freed_at_start else layout.batch_groups * balance.train_s / balance.period_s
    return max(0.0, limit - running - in_training)


def ages_of(balance: Balance, queue: float) -> Ages:
    layout, group = balance.case.layout, balance.supply.kept.group
    steps = balance.train_s / balance.period_s
    if trainer_bound(balance) and not balance.capped:
        steps = queue / layout.batch_groups + 0.5
    wip = layout.plug in (Plug.WIP_CAP, Plug.PER_SYNC)
    if wip and (balance.capped or trainer_bound(balance)):
        steps = _capped_steps(balance)
    if layout.order is Order.ADMISSION and not wip:
        steps += _stragglers(group, layout.batch_groups / balance.period_s) / balance.period_s
    return Ages(group, steps, balance.period_s, layout.sync_interval, _maximum(balance))


def _capped_steps(balance: Balance) -> float:
    """What is left of W/B (or W/B - 1) after the group's own time; replaced unusable groups have used some of it."""
    case, layout, kept = balance.case, balance.case.layout, balance.supply.kept
    batch = float(layout.batch_groups)
    opened, freed = kept.endings.opened(batch, case.yield_frac), kept.endings.freed(batch, case.yield_frac)
    width = (layout.limit_groups or freed) / freed
    if layout.plug is Plug.PER_SYNC:
        width = max(width, float(layout.sync_interval))
    versions = width if layout.freed_at_start else max(0.0, width - 1.0)
    own = kept.group.mean / balance.period_s
    return max(0.0, versions - (opened / freed - 1.0) * own) - own


def _maximum(balance: Balance) -> float | None:
    case = balance.case
    layout = case.layout
    if layout.plug is Plug.DISCARD_STALE and case.setpoints.staleness_bound is not None:
        return case.setpoints.staleness_bound
    if layout.serial:
        return 0.0
    if layout.order is Order.ADMISSION and layout.plug is Plug.WIP_CAP and layout.limit_groups is not None:
        return -(-layout.limit_groups // layout.batch_groups) - (0.0 if layout.freed_at_start else 1.0)
    return None


def _drop_oldest_steps(balance: Balance) -> float:
    """Applied Compute's in-queue part beyond balance: (2 q + rho - 1) / (2 rho)."""
    layout = balance.case.layout
    rho = balance.train_s * balance.full.groups_per_s / layout.batch_groups
    room = (layout.limit_groups or layout.batch_groups) / layout.batch_groups
    return (2.0 * room + rho - 1.0) / (2.0 * rho)


def _discard_steps(balance: Balance) -> float:
    """A queue so long that just the surplus is too old: bound - (time that this share of groups do not pass)."""
    layout = balance.case.layout
    keep = min(1.0, layout.batch_groups / (balance.train_s * balance.full.groups_per_s))
    bound = (balance.case.setpoints.staleness_bound or 0.0) * layout.sync_interval
    return max(0.5, bound - balance.supply.kept.group.quantile(keep) / balance.period_s)


def _stragglers(group: Curve, groups_per_s: float) -> float:
    """E[max over earlier groups of what is left of them] - a group's own time: the wait for those before it.

    P(all done by y after the dispatch of the last) = product over i of P(D <= y + i / rate).
    """
    steps, total, x = 40, 0.0, 0.0
    width = group.longest / steps
    for _ in range(steps):
        expected = groups_per_s * group.beyond(x + 0.5 * width) + group.over(x + 0.5 * width)
        total += width * min(1.0, expected)
        x += width
    return max(0.0, total - group.mean)
