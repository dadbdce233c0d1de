"""The clairvoyant's run: schedules and settings of policies/clairvoyant.py, simulated, the best of them kept."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from policies import clairvoyant
from policies.blocks import Progress, Rates, analytic_rates, corrected, progress_of
from policies.clairvoyant import Schedule
from policies.reachable import Reach
from policies.settings import difference, values
from simulators.pipeline import SimulatedPlant
from simulators.plant import Order, Setpoints
from simulators.scenario import Scenario
from tuner.evaluation.measuring import reached_s, run_of
from tuner.evaluation.tasks import Run, Task, extended

TRAINING_SEED = 1009
"""Yardsticks are fitted on other random numbers than those they are scored with."""

DEARNESS = (1.0, 4.0)
"""Schedules are also made with moves priced higher: fewer of them, where rates are not known so exactly."""


def yardstick(task: Task) -> Run:
    """The best of what a clairvoyant would try from where the policies start, with their own random numbers.

    Whoever is compared begins at the scenario's setting and pays for each move, the best static setting in hindsight
    too: it is gone to at once. (The offline rival of online problems with switching costs: Borodin and El-Yaniv 1998,
    chapter 9.) What a job would take that had begun there is kept beside it.
    """
    scenario, goal, size = task.scenario, task.goal or 0.0, task.size
    progress = progress_of(scenario, goal, size.blocks)
    rates = analytic_rates(scenario, progress)
    settings = clairvoyant.promising(Reach(scenario), progress, rates, size.settings)
    true = _corrected(task, progress, settings, rates)
    tried = [clairvoyant.earliest(scenario, progress, settings, true, dear) for dear in DEARNESS]
    first = clairvoyant.earliest(scenario, progress, settings, rates)
    bound = clairvoyant.envelope(progress, settings, true)
    stays = clairvoyant.statics(progress, settings, true, size.schedules)
    return _best_of(task, progress, list(dict.fromkeys([*tried, first]))[: size.schedules], stays, bound)


def _corrected(task: Task, progress: Progress, settings: Sequence[Setpoints], rates: Rates) -> Rates:
    """Rates after simulating the settings that look best, one after the other: what looks too good is found out."""
    measured: dict[Setpoints, list[float]] = {}
    wanted: Setpoints | None = settings[0]
    true = rates
    while wanted is not None and len(measured) < task.size.corrections:
        run = _stayed(task.scenario, wanted, task.seed + TRAINING_SEED, task.goal or 0.0)
        measured[wanted] = _block_ends(run, progress)
        true = corrected(rates, progress, measured)
        planned = clairvoyant.earliest(task.scenario, progress, settings, true)
        still = clairvoyant.statics(progress, settings, true, len(settings))
        wanted = next((s for s in (still[0], *planned.settings, *still) if s not in measured), None)
    return true


def _best_of(
    task: Task, progress: Progress, schedules: Sequence[Schedule], stays: Sequence[Setpoints], bound: Schedule
) -> Run:
    goal, scenario = task.goal or 0.0, task.scenario

    def by(way: Sequence[Setpoints]) -> SimulatedPlant:
        return _followed(scenario, way, progress, task.seed, goal)

    kept = dict.fromkeys([scenario.setpoints, *stays])
    ways = dict.fromkeys(schedule.settings for schedule in schedules)  # the same way at another price is the same run
    moving = [way for way in ways if len(set(way)) > 1 or way[0] not in kept]
    runs = {f"schedule {i + 1}": by(way) for i, way in enumerate(moving)}
    still = {shown(s): by((s,) * len(progress.marks)) for s in kept}
    timed = [(reached_s(plant.log, goal) or inf, name, plant) for name, plant in runs.items()]
    stayed = [(reached_s(plant.log, goal) or inf, name, plant) for name, plant in still.items()]
    static_s, static, _ = min(stayed, key=lambda one: one[0])
    timed += [(s, f"{name} at once", plant) for s, name, plant in stayed]
    seconds, how, plant = min(timed, key=lambda one: one[0])
    begun_there = next((s for s in stays if shown(s) == static), scenario.setpoints)
    free_s = static_s  # of the setting that the job begins with: that very run
    if begun_there != scenario.setpoints:
        free_s = reached_s(_stayed(scenario, begun_there, task.seed, goal).log, goal) or inf
    return replace(
        run_of(task, plant, goal),
        seconds=seconds,
        how=how,
        bound_s=min(bound.seconds, seconds),  # its rates are corrected, not exact: what was reached bounds it
        best_static_s=static_s,
        best_static=static,
        free_static_s=min(free_s, static_s),
    )


def shown(setting: Setpoints) -> str:
    split = f"{setting.gpus_trainer} : {setting.gpus_generator}"
    pools = "" if setting.gpus_prefill is None else f" ({setting.gpus_prefill} + {setting.gpus_decode})"
    flight = "" if setting.max_in_flight is None else f", {setting.max_in_flight} in flight"
    each = "" if setting.max_in_flight_per_engine is None else f" ({setting.max_in_flight_per_engine} an engine)"
    ratio = "" if setting.oversampling_ratio is None else f", oversampling {setting.oversampling_ratio:g}"
    return split + pools + flight + each + ratio


def _stayed(scenario: Scenario, setting: Setpoints, seed: int, goal: float) -> SimulatedPlant:
    plant = SimulatedPlant(extended(replace(scenario, setpoints=setting)), seed)
    _until(plant, goal)
    return plant


def _until(plant: SimulatedPlant, goal: float) -> None:
    seen, useful = 0, 0.0
    while useful < goal and not plant.done:
        plant.run_step()
        useful += sum(log.useful for log in plant.log[seen:])
        seen = len(plant.log)


def _block_ends(plant: SimulatedPlant, progress: Progress) -> list[float]:
    last = plant.now_s
    return [reached_s(plant.log, mark) or last for mark in progress.marks]


def _followed(
    scenario: Scenario, way: Sequence[Setpoints], progress: Progress, seed: int, goal: float
) -> SimulatedPlant:
    """The job with the schedule's setting ordered at the start of each block. None of its orders fails: a bound."""
    lucky = tuple(replace(move, failure_frac=0.0) for move in scenario.move)
    plant = SimulatedPlant(extended(replace(scenario, move=lucky)), seed)
    seen, useful, block, wanted = 0, 0.0, -1, scenario.setpoints
    while useful < goal and not plant.done:
        now = next((k for k, mark in enumerate(progress.marks) if useful < mark), len(progress.marks) - 1)
        if now != block:
            block, change = now, difference(wanted, way[now])
            wanted = way[now]
            if values(change):
                plant.apply(Order(change, f"k{block}"), plant.now_s)
        plant.run_step()
        useful += sum(log.useful for log in plant.log[seen:])
        seen = len(plant.log)
    return plant
