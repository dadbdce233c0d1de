"""Where the analytic model should not decide alone: a rule on inputs and on which limit binds, never on an outcome.

It was drawn up on jobs 0 to 299 of the sampler in tests/oracles/configurations.py, the least round on 7300 to 8299, the
fewest rounds under a cap on 20000 to 20499 with their rounds oversampled; other seeds judge it.

| weak where                                     | because                                                       |
|------------------------------------------------|---------------------------------------------------------------|
| the trainer is (nearly) the slower side, and   | the gate acts on what was started a group's time ago: the     |
| the buffer holds under 3 batches, or fewer     | buffer swings between full and empty, and the trainer may     |
| groups than are in flight                      | starve in between                                             |
| the two sides' rates within 5 %                | chance decides who waits; the model knows means               |
| prefill engines of their own                   | KV held in the prefill pool blocks it; not modelled           |
| of them, what is in flight outgrows the KV     | hits and misses of the caches come in turns: chaotic          |
| the KV pool holds fewer than the slots         | eviction and recomputation; only their mean is modelled       |
| an oversampled round under 32 groups,          | the end of a round is one draw, not a quantile                |
| or under a cap of fewer than 3 rounds,         | rounds end and batches start in step, or take turns           |
| or carried over                                | late groups hold slots that are counted by rounds             |
| weights by drain or abort                      | restarts are correlated over the residents                    |
| sandboxes at their quota, or starts limited    | starts come in bursts                                         |
| turns cut by a context limit, pruning          | cut at mean lengths                                           |
| lockstep engines with tools                    | the slowest of several random loads                           |
| order of admission, discarding, per-sync plug  | who is late is a draw; mean ages only                         |
"""

import math

from simulators.analytic.balance import Balance
from simulators.analytic.generation import resident_limit
from simulators.analytic.outgrowing import outgrows
from simulators.analytic.sandbox import quota_of
from simulators.analytic.supply import in_rounds
from simulators.stations import Order, Plug, SyncMode

BUFFER_BATCHES = 3.0
PRESSED_FRAC = 0.15
"""The generator counts as held back by the buffer from so much slower than the trainer on."""
RATES_FRAC = 0.05
QUOTA_FRAC = 0.9
ROUND_GROUPS = 32
ROUNDS_OPEN = 3.0
OUTGROWN = "contexts in flight outgrow the decoders' KV"
"""Rates of such a job are good to some percent; what else is a matter of a percent should be simulated."""


def weak_points(balance: Balance) -> tuple[str, ...]:
    """Short sentences, the most telling first; empty: the model stands on its own here."""
    return tuple(reason for holds, reason in _rule(balance) if holds)


def _rule(balance: Balance) -> list[tuple[bool, str]]:
    return [*_of_the_buffer(balance), *_of_the_stations(balance), *_of_the_admission(balance)]


def _of_the_buffer(balance: Balance) -> list[tuple[bool, str]]:
    layout = balance.case.layout
    generator_s = layout.batch_groups / balance.full.groups_per_s
    gap = abs(generator_s / balance.train_s - 1.0) if balance.train_s > 0.0 else 1.0
    limit, inside = float(layout.limit_groups or 0), layout.in_flight / layout.members
    pressed = layout.plug is Plug.BUFFER_CAP and generator_s < (1.0 + PRESSED_FRAC) * balance.train_s
    few = pressed and limit < BUFFER_BATCHES * layout.batch_groups
    return [
        (few, f"the buffer holds {limit / layout.batch_groups:.1f} batches, fewer than {BUFFER_BATCHES:.0f}"),
        (pressed and limit < inside, f"the buffer holds {limit:.0f} groups, fewer than the {inside:.0f} in flight"),
        (
            not balance.capped and gap < RATES_FRAC,
            f"generator and trainer are within {RATES_FRAC:.0%} of each other",
        ),
    ]


def _of_the_stations(balance: Balance) -> list[tuple[bool, str]]:
    case = balance.case
    stations, quota, made = case.stations, quota_of(case), balance.supply.made
    tools = case.rollout.turns_mean > 1.0
    return [
        (stations.prefill is not None, "prefill has engines of its own"),
        (outgrows(case, made.in_flight), OUTGROWN),
        (resident_limit(case) < case.layout.slots, "the KV pool is full before the slots are"),
        (stations.sync.mode is not SyncMode.IN_FLIGHT, f"weights come by {stations.sync.mode}"),
        (quota is not None and made.in_flight > QUOTA_FRAC * quota, "sandboxes are at their quota"),
        (made.wait_s > 0.0, "rollouts wait before they may start"),
        (case.rollout.cut_frac > 0.0, "the context limit cuts turns"),
        (stations.engine.lockstep > 1 and tools, "engines in lockstep take tool calls"),
        (stations.pruning is not None, "rollouts are pruned"),
    ]


def _of_the_admission(balance: Balance) -> list[tuple[bool, str]]:
    case, layout = balance.case, balance.case.layout
    rounds = (layout.limit_groups or math.inf) / layout.round_groups
    few = layout.plug in (Plug.WIP_CAP, Plug.PER_SYNC) and not layout.serial and rounds < ROUNDS_OPEN
    carried = layout.round_groups > layout.batch_groups and case.partial
    return [
        (in_rounds(case) and layout.round_groups < ROUND_GROUPS, f"a round has fewer than {ROUND_GROUPS} groups"),
        (in_rounds(case) and few, f"the cap on started groups holds {rounds:.1f} rounds, fewer than {ROUNDS_OPEN:.0f}"),
        (carried, "late groups of a round are carried over"),
        (layout.order is Order.ADMISSION, "batches are taken in order of admission"),
        (layout.plug is Plug.DISCARD_STALE, "stale groups are thrown away"),
        (layout.plug is Plug.PER_SYNC, "groups are counted between publications"),
    ]
