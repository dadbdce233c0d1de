"""The yardstick: a controller that knows the whole story in advance, and what moves cost. Policies are measured by it.

Work is compared at equal progress: useful rollouts trained, cut into blocks. Earliest arrival by dynamic programming
over blocks x settings,

    T[k+1, j] = min over i of  T[k, i] + cost(i -> j)  +  block / X_j(job at block k)

with X the rate of a block (policies/blocks.py). A later arrival is never an advantage, so the earliest at each state is
enough (FIFO property); where the world changes by the clock, the job is taken at the time of arrival.
Moves free of cost give the envelope, which nobody can beat but by luck.

# two blocks of 100, X = (1, 2) then (2, 1), a move costs 30 s: 50 + 30 + 50 = 130 s; envelope 100 s; best static 150 s
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any

from policies.blocks import Progress, Rates
from policies.reachable import Reach, climbed, in_one_change
from policies.settings import GPUS_OF, values
from simulators.plant import Change, Setpoints
from simulators.scenario import Scenario
from simulators.signals import TINY

LOOKS = 4
"""Parts of the run at which settings are sorted out."""
RATIO_PAYS = 0.005
"""Another oversampling ratio that gains less is left alone: it would only crowd out other splits."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A setting for each block, with the predicted second of each block's end."""

    settings: tuple[Setpoints, ...]
    ends_s: tuple[float, ...]

    @property
    def seconds(self) -> float:
        return self.ends_s[-1] if self.ends_s else 0.0


def promising(reach: Reach, progress: Progress, rates: Rates, most: int) -> tuple[Setpoints, ...]:
    """The `most` settings that come nearest to the best at some part of the run, the starting one first.

    At LOOKS parts of the run the hill of rates is climbed, each time from where the last one ended.
    """
    last = len(progress.marks) - 1
    looks = sorted({round(last * part / (LOOKS - 1)) for part in range(LOOKS)})
    start = reach.setting(reach.start)
    clock = _usual_clock(start, progress, rates)
    spot, near = reach.start, dict[Setpoints, float]()
    for look in looks:
        worth = partial(_rate_at, rates, look, clock[look])
        spot, known = climbed(reach, spot, worth)
        found = {reach.setting(other): rate for other, rate in known.items()}
        found |= {tuned: worth(tuned) for tuned in _oversampled(reach, reach.setting(spot), found, worth)}
        top = max(TINY, *found.values())
        for setting, rate in found.items():
            near[setting] = max(near.get(setting, 0.0), rate / top)
    return tuple(dict.fromkeys([start, *sorted(near, key=lambda s: -near[s])]))[:most]


def _oversampled(
    reach: Reach, best: Setpoints, found: Iterable[Setpoints], worth: Callable[[Setpoints], float]
) -> Iterator[Setpoints]:
    """The same settings at the ratio that is best for the best of them, where that ratio gains at all."""
    tuned = [replace(best, oversampling_ratio=ratio) for ratio in reach.ratios]
    top = max(tuned, key=worth, default=best)
    if worth(top) > (1.0 + RATIO_PAYS) * worth(best):
        yield from (replace(setting, oversampling_ratio=top.oversampling_ratio) for setting in found)


def _rate_at(rates: Rates, block: int, at_s: float, setting: Setpoints) -> float:
    return rates(block, setting, at_s)


def _usual_clock(start: Setpoints, progress: Progress, rates: Rates) -> list[float]:
    """When each block begins if nobody does anything."""
    at_s, found = 0.0, []
    for block, size in enumerate(progress.sizes):
        found.append(at_s)
        at_s += size / max(TINY, rates(block, start, at_s))
    return found


# ---- what a move costs ----


def move_s(scenario: Scenario, now: Setpoints, then: Setpoints, rate: Callable[[Setpoints], float]) -> float:
    """Seconds lost by going from one setting to another: GPUs under way serve neither side; a restart stops all.

    # hot, 120 s, X between 1.8 and X after 2.0 -> 12 s | restart 400 s and 120 s -> 520 s and what was in flight
    """
    if not in_one_change(now, then):
        return inf
    changed = {name for name, value in values(then).items() if values(now).get(name) != value}
    moves = [move for move in scenario.move if move.knob in changed]
    if not moves:
        return 0.0 if not changed else inf
    actuation_s = max(move.actuation_s for move in moves)
    after = rate(then)
    if any(move.change is Change.RESTART for move in moves):
        in_flight = then.max_in_flight or then.batch_rollouts or 0
        return actuation_s + (scenario.topology.restart_s or 0.0) + in_flight / 2.0 / max(TINY, after)
    between = replace(then, **_smaller(now, then))
    return actuation_s * max(0.0, 1.0 - rate(between) / max(TINY, after))


def _smaller(now: Setpoints, then: Setpoints) -> dict[str, Any]:
    before, after = values(now), values(then)
    return {n: min(before[n], after[n]) for n in GPUS_OF if n in before and n in after}


# ---- earliest arrival ----


def earliest(
    scenario: Scenario, progress: Progress, settings: Sequence[Setpoints], rates: Rates, dear: float = 1.0
) -> Schedule:
    """The schedule that is through first, from the scenario's own setting, moves at `dear` times their price."""

    def cost(block: int, now: Setpoints, then: Setpoints, at_s: float) -> float:
        return dear * move_s(scenario, now, then, lambda s: rates(block, s, at_s))

    return _arrived(progress, settings, rates, cost)


def envelope(progress: Progress, settings: Sequence[Setpoints], rates: Rates) -> Schedule:
    """The same with moves that cost nothing: the bound."""
    return _arrived(progress, settings, rates, lambda block, now, then, at_s: 0.0)


def _arrived(
    progress: Progress,
    settings: Sequence[Setpoints],
    rates: Rates,
    cost: Callable[[int, Setpoints, Setpoints, float], float],
) -> Schedule:
    paths: dict[Setpoints, tuple[float, Schedule]] = {settings[0]: (0.0, Schedule((), ()))}
    for block, size in enumerate(progress.sizes):
        reached: dict[Setpoints, tuple[float, Schedule]] = {}
        for then in settings:
            found = _best_way(paths.items(), then, block, cost)
            if found is None:
                continue
            start_s, path = found
            end_s = start_s + size / max(TINY, rates(block, then, start_s))
            reached[then] = (end_s, Schedule((*path.settings, then), (*path.ends_s, end_s)))
        paths = reached
    return min(paths.values(), key=lambda way: way[0])[1]


def _best_way(
    paths: Iterable[tuple[Setpoints, tuple[float, Schedule]]],
    then: Setpoints,
    block: int,
    cost: Callable[[int, Setpoints, Setpoints, float], float],
) -> tuple[float, Schedule] | None:
    ways = [(at_s + (0.0 if now == then else cost(block, now, then, at_s)), path) for now, (at_s, path) in paths]
    best = min(ways, key=lambda way: way[0], default=None)
    return None if best is None or best[0] == inf else best


def statics(progress: Progress, settings: Sequence[Setpoints], rates: Rates, most: int) -> list[Setpoints]:
    """Of the settings that one change leads to from the first, those that are through first when one stays there."""
    near = [setting for setting in settings if in_one_change(settings[0], setting)]
    return sorted(near, key=lambda setting: _static_s(progress, setting, rates))[:most]


def _static_s(progress: Progress, setting: Setpoints, rates: Rates) -> float:
    at_s = 0.0
    for block, size in enumerate(progress.sizes):
        at_s += size / max(TINY, rates(block, setting, at_s))
    return at_s
