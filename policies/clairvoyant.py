"""The yardstick: a controller that knows the whole story in advance, and what moves cost. Policies are measured by it.

Work is compared at equal progress: useful rollouts trained, cut into blocks. Earliest arrival by dynamic programming
over blocks x settings,

    T[k+1, j] = min over i of  T[k, i] + cost(i -> j)  +  block / X_j(job at block k)

with X from the analytic model, corrected by what simulated runs of some settings took for their blocks; between those
settings the correction is that of the nearest. A later arrival is never an advantage, so the earliest at each state is
enough (FIFO property); where the world changes by the clock, the job is taken at the time of arrival.
Moves free of cost give the envelope, which nobody can beat but by luck.

# two blocks of 100, X = (1, 2) then (2, 1), a move costs 30 s: 50 + 30 + 50 = 130 s; envelope 100 s; best static 150 s
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any

from policies.objective import Violation, objective_of, violations, worsened
from policies.reachable import Reach, climbed, in_one_change
from policies.settings import GPUS_OF, values
from simulators.analytic import AnalyticModel
from simulators.analytic.solving import usable_share
from simulators.event_state import Job
from simulators.model import Prediction
from simulators.plant import Change, Setpoints
from simulators.scenario import Scenario, job_at
from simulators.signals import TINY

LOOKS = 4
"""Parts of the run at which settings are sorted out."""
RATIO_PAYS = 0.005
"""Another oversampling ratio that gains less is left alone: it would only crowd out other splits."""
TRUSTED = 1.5
"""A closed form that is off by more is outside what it was made for."""
CLOCK_GRAIN_S = 300.0
"""Where the world changes by the clock, it is looked at so often."""

Rates = Callable[[int, Setpoints, float], float]
"""Useful rollouts per second: of a block, a setting, at a second."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The run cut into blocks of useful rollouts."""

    marks: tuple[float, ...]
    """Useful rollouts at the blocks' ends."""
    steps: tuple[float, ...]
    """Trainer steps in the middle of each block."""

    @property
    def sizes(self) -> tuple[float, ...]:
        return tuple(end - start for start, end in zip((0.0, *self.marks), self.marks, strict=False))


@dataclass(frozen=True, slots=True)
class Schedule:
    """A setting for each block, with the predicted second of each block's end."""

    settings: tuple[Setpoints, ...]
    ends_s: tuple[float, ...]

    @property
    def seconds(self) -> float:
        return self.ends_s[-1] if self.ends_s else 0.0


def progress_of(scenario: Scenario, useful: float, blocks: int) -> Progress:
    """`blocks` equal parts of `useful` rollouts, and the steps at which they are made."""
    marks = tuple(useful * (k + 1) / blocks for k in range(blocks))
    middles = [useful * (k + 0.5) / blocks for k in range(blocks)]
    steps: list[float] = []
    made, step = 0.0, 0
    for middle in middles:
        while made < middle:
            gain = _useful_per_step(job_at(scenario, step, 0.0))
            made, step = made + max(gain, TINY), step + 1
        steps.append(float(step))
    return Progress(marks, tuple(steps))


def _useful_per_step(job: Job) -> float:
    batch = float(job.setpoints.batch_rollouts or 1)
    return (
        batch
        if job.setpoints.filter_zero_adv
        else batch * usable_share(job.workload.solve, job.setpoints.group_size or 1)
    )


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


# ---- rates ----


def analytic_rates(scenario: Scenario, progress: Progress) -> Rates:
    """By the analytic model, of the true job; a setting that breaks a hard bound makes nothing. Asked once each."""
    by_clock = _by_clock(scenario)
    known: dict[Job, float] = {}
    asked: dict[tuple[int, Setpoints, int], float] = {}

    def rate(block: int, setting: Setpoints, at_s: float) -> float:
        minute = int(at_s / CLOCK_GRAIN_S) if by_clock else 0
        key = (block, setting, minute)
        if key not in asked:
            job = job_at(scenario, int(progress.steps[block]), minute * CLOCK_GRAIN_S, setting)
            if job not in known:
                known[job] = _useful_rate(scenario, job, replace(job, setpoints=scenario.setpoints))
            asked[key] = known[job]
        return asked[key]

    return rate


def _by_clock(scenario: Scenario) -> bool:
    return any(e.by == "time" for e in scenario.event) or any(d.by == "time" for d in scenario.drift)


def _useful_rate(scenario: Scenario, job: Job, start: Job) -> float:
    """0 where the setting cannot run, or breaks a bound further than the starting one in the same world."""
    prediction = _predicted(job)
    if prediction is None:
        return 0.0
    broken = _broken(scenario, job, prediction)
    before = _broken(scenario, start, _predicted(start)) if broken else ()
    return 0.0 if worsened(before, broken) else prediction.useful_rollouts_per_s


def _predicted(job: Job) -> Prediction | None:
    try:
        return AnalyticModel(job.stations).predict(job.topology, job.workload, job.setpoints)
    except ValueError:
        return None


def _broken(scenario: Scenario, job: Job, prediction: Prediction | None) -> tuple[Violation, ...]:
    fleet, settings = job.stations.sandboxes, job.setpoints
    if fleet is not None and settings.sandbox_quota is None:
        settings = replace(settings, sandbox_quota=fleet.live_limit)
    return violations(objective_of(job.stations.admission), scenario.bounds, settings, prediction)


def corrected(rates: Rates, progress: Progress, measured: Mapping[Setpoints, Sequence[float]]) -> Rates:
    """Rates times what simulation made of the analytic ones: of the nearest setting that was run, block by block.

    Where the closed form was off by more than TRUSTED there, its shape is not believed either: the simulated rate is.
    `measured`: the second of each block's end, of a run that stayed at that setting.
    """
    known = {setting: _measured(rates, progress, setting, ends) for setting, ends in measured.items()}

    def rate(block: int, setting: Setpoints, at_s: float) -> float:
        factor, did = known[min(known, key=lambda other: _apart(setting, other))][block]
        said = rates(block, setting, at_s)
        return said * factor if 1.0 / TRUSTED <= factor <= TRUSTED or not said else did

    return rate if known else rates


def _measured(rates: Rates, progress: Progress, setting: Setpoints, ends: Sequence[float]) -> list[tuple[float, float]]:
    """Block by block (simulated rate over the analytic one, simulated rate)."""
    starts = (0.0, *ends)
    found = []
    for block, (size, start, end) in enumerate(zip(progress.sizes, starts, ends, strict=False)):
        said, did = rates(block, setting, start), size / max(TINY, end - start)
        found.append((did / said if said > TINY else 1.0, did))
    return found


def _apart(a: Setpoints, b: Setpoints) -> float:
    """Sum of relative differences of the numbers in which two settings differ; what only one has differs wholly."""
    one, other = values(a), values(b)
    shared, alone = [name for name in one if name in other], one.keys() ^ other.keys()
    return len(alone) + float(sum(abs(one[n] - other[n]) / max(1, abs(one[n]) + abs(other[n])) for n in shared))


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
