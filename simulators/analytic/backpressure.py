"""A buffer cap in front of a slower trainer: the gate that opens and shuts, and what swings because of it.

The gate opens while fewer than L groups wait. It then fills everything in flight at once, but the first of these groups
arrive a group's time later: until then the buffer falls further, and after it has shut all that is in flight still
arrives. So the buffer swings around L by up to what is in flight, and a trainer behind a short one starves in the
troughs. No closed form is known; this follows the means, as a fluid with the delay of a group as a chain of k stages
(k from its variance), until the swing repeats.

# 13 engines of 128 slots, groups of 8, batches of 17, L = 84: swings between 0 and 340, 151 on average, idle 2.6 %
"""

import math
from dataclasses import dataclass

from simulators.analytic.case import Case
from simulators.analytic.engine import Stops
from simulators.analytic.generation import generate
from simulators.analytic.supply import Supply

STAGES_MAX = 8
LOW_LOAD = 0.05
"""Share of what is in flight at which the pace of nearly empty engines is looked up."""
GROUP_TIMES, TRAININGS = 7.0, 14.0
"""What is followed: several swings, whose first part is warm-up."""
WARM_UP_FRAC = 0.4
STEPS_MAX = 1200


@dataclass(frozen=True, slots=True)
class Swing:
    """Means over the swing."""

    queue_groups: float
    in_flight: float
    idle_frac: float
    """Of the trainer."""
    pace: float
    """Time of a group over that with everything in flight, averaged over groups."""


@dataclass(slots=True)
class _State:
    in_flight: float
    stages: list[float]
    waiting: float
    busy_s: float = 0.0


def swing_of(case: Case, full: Supply, train_s: float) -> Swing:
    """The trainer takes a batch every train_s when there is one; the generator could do more."""
    group, most = full.kept.group, full.made.in_flight
    stages = _stages(group.mean, full)
    step_s = min(train_s / 6.0, full.made.rollout_s / 3.0, group.mean / stages / 1.5)
    steps = round(min(STEPS_MAX, (GROUP_TIMES * group.mean + TRAININGS * train_s) / step_s))
    slow = generate(case, LOW_LOAD * most, Stops()).rollout_s / generate(case, most, Stops()).rollout_s
    limit = float(case.layout.limit_groups or 0)
    share = min(1.0, case.layout.batch_groups / (train_s * full.groups_per_s))
    unfinished = share * group.mean * full.started_per_s / case.attempts / case.layout.members
    state = _State(share * most, [unfinished / stages] * stages, limit)
    waiting = in_flight = idle = paced = started = 0.0
    for i in range(steps):
        pace = slow + (1.0 - slow) * state.in_flight / most
        opened = _advance(case, full, state, (step_s, pace))
        resting = _train(state, float(case.layout.batch_groups), (train_s, step_s))
        if i < WARM_UP_FRAC * steps:
            continue
        waiting += state.waiting
        in_flight += state.in_flight
        idle += resting
        paced += opened * pace
        started += opened
    count = steps - math.ceil(WARM_UP_FRAC * steps)
    return Swing(waiting / count, in_flight / count, idle / count, paced / started if started > 0.0 else 1.0)


def _stages(mean: float, full: Supply) -> int:
    """As many as give the variance of a group's time: k = mean^2 / variance."""
    variance = 2.0 * full.kept.group.age * mean - mean**2
    return max(1, min(STAGES_MAX, round(mean**2 / max(1e-9 * mean**2, variance))))


def _advance(case: Case, full: Supply, state: _State, step: tuple[float, float]) -> float:
    """Groups started in this step; rollouts leave, groups pass on by one stage."""
    step_s, pace = step
    opened, members = 0.0, case.layout.members
    if state.waiting < (case.layout.limit_groups or 0):
        opened = (full.made.in_flight - state.in_flight) / members
        state.in_flight = full.made.in_flight
    stay_s = full.made.in_flight / full.started_per_s  # of those too that are given up: shorter than a rollout
    state.in_flight *= math.exp(-step_s / (stay_s * pace))
    passing = -math.expm1(-step_s * len(state.stages) / (full.kept.group.mean * pace))
    moved = opened
    for j, there in enumerate(state.stages):
        leaving = there * passing
        state.stages[j] = there - leaving + moved
        moved = leaving
    state.waiting += moved * full.kept.groups_frac * case.yield_frac
    return opened


def _train(state: _State, batch: float, step: tuple[float, float]) -> float:
    """Share of this step in which the trainer rests."""
    train_s, step_s = step
    state.busy_s -= step_s
    if state.busy_s > 0.0:
        return 0.0
    if state.waiting < batch:
        rested = min(step_s, -state.busy_s)
        state.busy_s = 0.0
        return rested / step_s
    state.waiting -= batch
    state.busy_s += train_s
    return 0.0
