"""Where the analytic model should not decide alone. A rule on what goes in and on which limit binds, fixed beforehand.

| weak where                                   | because                                                          |
|----------------------------------------------|------------------------------------------------------------------|
| buffer cap under 3 batches, trainer not idle | the buffer empties and fills within a batch: up to a third too high |
| the two sides' rates within 15 %             | chance decides who waits; the model knows means                   |
| the cap on started groups binds              | a batch is held by its last groups, whose number is small         |
| prefill engines of their own                 | KV held in the prefill pool blocks it; not modelled               |
| KV pool holds fewer than the slots           | eviction and recomputation; only their mean is modelled           |
| oversampled rounds of fewer than 16 groups   | the end of a round is one draw, not a quantile                    |
| drained or aborted engines                   | restarts are correlated over the residents                        |
| sandboxes at their quota                     | starts come in bursts                                             |
| turns cut by a context limit                 | cut at the mean length of a turn                                  |
| lockstep engines with tools                  | the slowest of several random loads                               |
| pruning, admission order, discarding         | mean lengths only                                                 |
"""

from simulators.analytic.balance import Balance
from simulators.analytic.generation import resident_limit
from simulators.analytic.sandbox import quota_of
from simulators.analytic.supply import in_rounds
from simulators.stations import Order, Plug, SyncMode

BUFFER_BATCHES = 3.0
RATES_FRAC = 0.15
ROUND_GROUPS = 16


def weak_points(balance: Balance) -> tuple[str, ...]:
    """Short sentences, the most telling first; empty: the model stands on its own here."""
    return tuple(reason for holds, reason in _rule(balance) if holds)


def _rule(balance: Balance) -> list[tuple[bool, str]]:
    case = balance.case
    layout, stations, workload_turns = case.layout, case.stations, case.rollout.turns_mean
    generator_s = layout.batch_groups / balance.full.groups_per_s
    gap = abs(generator_s / balance.train_s - 1.0) if balance.train_s > 0.0 else 1.0
    buffer = layout.plug in (Plug.BUFFER_CAP, Plug.DROP_OLDEST) and layout.limit_groups is not None
    batches = (layout.limit_groups or 0) / layout.batch_groups
    quota = quota_of(case)
    return [
        (
            buffer and batches < BUFFER_BATCHES and generator_s < (1.0 + RATES_FRAC) * balance.train_s,
            f"the buffer holds {batches:.1f} batches, fewer than {BUFFER_BATCHES:.0f}, and limits the generator",
        ),
        (
            not layout.serial and gap < RATES_FRAC,
            f"generator and trainer are within {RATES_FRAC:.0%} of each other",
        ),
        (balance.capped and not layout.serial, "the cap on started groups binds"),
        (layout.serial, "a serial step waits for its last group"),
        (stations.prefill is not None, "prefill has engines of its own"),
        (resident_limit(case) < layout.slots, "the KV pool is full before the slots are"),
        (in_rounds(case) and layout.round_groups < ROUND_GROUPS, f"a round has fewer than {ROUND_GROUPS} groups"),
        (stations.sync.mode is not SyncMode.IN_FLIGHT, f"weights come by {stations.sync.mode}"),
        (quota is not None and balance.supply.made.in_flight > 0.9 * quota, "sandboxes are at their quota"),
        (balance.supply.made.wait_s > 0.0, "rollouts wait before they may start"),
        (case.rollout.cut_frac > 0.0, "the context limit cuts turns"),
        (stations.engine.lockstep > 1 and workload_turns > 1.0, "engines in lockstep take tool calls"),
        (stations.pruning is not None, "rollouts are pruned"),
        (layout.order is Order.ADMISSION, "batches are taken in order of admission"),
        (layout.plug is Plug.DISCARD_STALE, "stale groups are thrown away"),
    ]
