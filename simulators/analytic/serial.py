"""The serial step: generate a batch, train it, one after the other, on the same GPUs.

Nothing is steady inside a step, so it is followed as a fluid: groups are dispatched while slots are free, those that
the filter drops are replaced, and what still runs slows the rest as the engines' step time says. With r(x) usable
groups still missing at x, all are there with chance exp(-r): E[seconds] = integral of 1 - exp(-r(x)) dx, which for
groups that start at once is the mean of their maximum. Of a round of R groups the n-th ends it.

# 32 groups of 8, sigma 1, constant step time: 11.2 mean rollouts with slots for all, 11.6 with slots for half of them
"""

import math
from dataclasses import dataclass
from operator import mul

from simulators.analytic.case import Case
from simulators.analytic.engine import Stops
from simulators.analytic.generation import Generation, generate
from simulators.analytic.rollout import interpolate
from simulators.analytic.supply import Supply, in_rounds
from simulators.queueing.order_statistics import Curve

CELLS_MIN, CELLS_MAX = 72, 240
"""Of one step: a good dozen for each wave of rollouts through the slots."""
CELLS_PER_WAVE = 16
LOADS = (0.02, 0.1, 0.25, 0.5, 0.75, 1.0)
"""Shares of the slots at which the engines' pace is looked up."""
SPARE_GROUPS = 2.0
"""A round with fewer usable groups to spare is waited for like a batch."""
DONE = 1e-3
"""Groups still missing at which the step is over."""


@dataclass(frozen=True, slots=True)
class Step:
    """The generating part of one serial step."""

    seconds: float
    in_flight_s: float
    """Rollout-seconds in it."""
    started: float
    """Rollouts."""


@dataclass(frozen=True, slots=True)
class _Ends:
    """Share that has ended i cells after its start: of what starts at time 0, and of what starts inside a cell."""

    first: tuple[float, ...]
    later: tuple[float, ...]

    def ended(self, starts: list[float]) -> float:
        """By the end of the last cell. A start follows a departure of the cell before, so it is half a cell early."""
        now = len(starts)
        return starts[0] * self.first[now] + math.fsum(map(mul, starts[1:], self.later[now:1:-1]))


def serial_step(case: Case, full: Supply) -> Step:
    """Time in units of the mean rollout at full load, stretched cell by cell to the load of the moment."""
    pace = _pace(case, full.made)
    rollouts = case.layout.round_groups * case.layout.members / case.yield_frac
    waves = rollouts / min(float(case.layout.in_flight), case.active_limit)
    cells = round(min(CELLS_MAX, max(CELLS_MIN, CELLS_PER_WAVE * waves)))
    width = _horizon(case, full, waves) / cells
    for _ in range(8):
        step = _follow(case, full, (cells, width), pace)
        if step is not None:
            return step
        width *= 1.6
    raise ValueError(f"a step of {case.layout.round_groups} groups finds no end: give it fewer or a higher solve rate")


def _horizon(case: Case, full: Supply, waves: float) -> float:
    """Long enough for the last group, and for the queue before the slots."""
    last = _group(case, full).quantile(1.0 - DONE / case.layout.round_groups)
    return last * (1.0 + 0.7 * (1.0 / case.yield_frac - 1.0)) + full.kept.rollout.mean * max(0.0, waves - 1.0)


def _group(case: Case, full: Supply) -> Curve:
    """Any group's time: of a round also of those that will be given up."""
    return full.times.curve(case.layout.members) if in_rounds(case) else full.kept.group


def _pace(case: Case, made: Generation) -> tuple[tuple[float, float], ...]:
    """(rollouts in flight, seconds of a rollout over those at full load)."""
    points = [(made.in_flight * load, generate(case, made.in_flight * load, Stops())) for load in LOADS]
    return tuple((n, (g.rollout_s - g.wait_s) / (made.rollout_s - made.wait_s)) for n, g in points)


def _ends(curve: Curve, cells: int, width: float) -> _Ends:
    inside = [curve.at_most(width * i) for i in range(cells + 3)]
    later = tuple(1.0 - (inside[i] - inside[i - 1]) / width for i in range(1, cells + 3))
    return _Ends(tuple(1.0 - curve.over(width * i) for i in range(cells + 1)), (0.0, *later))


def _follow(case: Case, full: Supply, grid: tuple[int, float], pace: tuple[tuple[float, float], ...]) -> Step | None:
    """The step on a grid of (cells, seconds each); None where it does not end on it."""
    cells, width = grid
    layout, members = case.layout, case.layout.members
    most = min(float(layout.in_flight), case.active_limit)
    asked = float(layout.round_groups)
    groups, rollouts = _ends(_group(case, full), cells, width), _ends(full.kept.rollout, cells, width)
    starts: list[float] = []
    seconds = area = running = finished = 0.0
    chance = 1.0
    for _ in range(cells):
        pending = asked + finished * (1.0 - case.yield_frac) - sum(starts)
        starts.append(max(0.0, min(pending, (most - running) / members)))
        before = running + starts[-1] * members
        running = members * (sum(starts) - rollouts.ended(starts))
        finished = groups.ended(starts)
        earlier, chance = chance, _unfinished(case, finished * case.yield_frac)
        cell_s = width * interpolate(pace, 0.5 * (before + running)) * 0.5 * (earlier + chance)
        seconds += cell_s
        area += cell_s * 0.5 * (before + running)
        if chance < DONE:
            return Step(seconds, area, sum(starts) * members)
    return None


def _unfinished(case: Case, usable: float) -> float:
    """Chance that the batch is not complete: all of its groups are waited for, or any n of a round."""
    needed, asked = case.layout.batch_groups, case.layout.round_groups
    if not in_rounds(case) or asked < needed + SPARE_GROUPS:
        return -math.expm1(-max(0.0, needed - usable))
    spread = math.sqrt(max(0.25, usable * max(0.0, 1.0 - usable / asked)))
    return 0.5 * math.erfc((usable - needed + 0.5) / spread * math.sqrt(0.5))
