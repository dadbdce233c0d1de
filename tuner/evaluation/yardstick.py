"""The clairvoyant's run: schedules and settings of policies/clairvoyant.py, simulated, the best of them kept."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from policies import clairvoyant
from policies.clairvoyant import Progress, Schedule
from policies.reachable import settings_of
from policies.settings import difference, values
from simulators.pipeline import SimulatedPlant
from simulators.plant import Order, Setpoints
from simulators.scenario import Scenario
from tuner.evaluation.measuring import reached_s, run_of
from tuner.evaluation.tasks import Run, Task, extended

TRAINING_SEED = 1009
"""Yardsticks are fitted on other random numbers than those they are scored with."""

WIDE = 2
"""So many times as many settings are looked at as are kept."""
DEARNESS = (1.0, 4.0)
"""Schedules are also made with moves priced higher: fewer of them, where rates are not known so exactly."""


def yardstick(task: Task) -> Run:
    """The best of what a clairvoyant would try, a start at the best static setting included; the policies' own seed."""
    scenario, goal, size = task.scenario, task.goal or 0.0, task.size
    progress = clairvoyant.progress_of(scenario, goal, size.blocks)
    rates = clairvoyant.analytic_rates(scenario, progress)
    settings = settings_of(scenario, WIDE * size.settings)
    settings = clairvoyant.promising(settings, progress, rates, size.settings)
    training = task.seed + TRAINING_SEED
    first = clairvoyant.earliest(scenario, progress, settings, rates)
    still = clairvoyant.statics(progress, settings, rates, size.corrections)
    worth_a_run = list(dict.fromkeys((settings[0], *first.settings, *still)))[: size.corrections]
    measured = {s: _block_ends(_stayed(scenario, s, training, goal), progress) for s in worth_a_run}
    true = clairvoyant.corrected(rates, progress, measured)
    tried = [clairvoyant.earliest(scenario, progress, settings, true, dear) for dear in DEARNESS]
    bound = clairvoyant.envelope(progress, settings, true)
    stays = clairvoyant.statics(progress, settings, true, size.schedules)
    return _best_of(task, progress, [*tried, first][: size.schedules], stays, bound)


def _best_of(
    task: Task, progress: Progress, schedules: Sequence[Schedule], stays: Sequence[Setpoints], bound: Schedule
) -> Run:
    goal, scenario = task.goal or 0.0, task.scenario
    runs = [(f"schedule {i + 1}", _followed(scenario, s, progress, task.seed, goal)) for i, s in enumerate(schedules)]
    still = [(s, _stayed(scenario, s, task.seed, goal)) for s in stays]
    timed = [(reached_s(plant.log, goal) or inf, name, plant) for name, plant in runs]
    timed += [(reached_s(plant.log, goal) or inf, f"staying at {shown(s)}", plant) for s, plant in still]
    static_s, static = min(((reached_s(plant.log, goal) or inf, s) for s, plant in still), key=lambda pair: pair[0])
    here = SimulatedPlant(extended(scenario), task.seed)
    here.advance()
    timed.append((reached_s(here.log, goal) or inf, "doing nothing", here))
    seconds, how, plant = min(timed, key=lambda one: one[0])
    run = run_of(task, plant, goal)
    return replace(
        run, seconds=seconds, how=how, bound_s=bound.seconds, best_static_s=static_s, best_static=shown(static)
    )


def shown(setting: Setpoints) -> str:
    split = f"{setting.gpus_trainer} : {setting.gpus_generator}"
    pools = "" if setting.gpus_prefill is None else f" ({setting.gpus_prefill} + {setting.gpus_decode})"
    return split + pools + ("" if setting.max_in_flight is None else f", {setting.max_in_flight} in flight")


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


def _followed(scenario: Scenario, schedule: Schedule, progress: Progress, seed: int, goal: float) -> SimulatedPlant:
    """The job with the schedule's setting ordered at the start of each block. None of its orders fails: a bound."""
    lucky = tuple(replace(move, failure_frac=0.0) for move in scenario.move)
    plant = SimulatedPlant(extended(replace(scenario, move=lucky)), seed)
    seen, useful, block, wanted = 0, 0.0, -1, scenario.setpoints
    while useful < goal and not plant.done:
        now = next((k for k, mark in enumerate(progress.marks) if useful < mark), len(progress.marks) - 1)
        if now != block:
            block, change = now, difference(wanted, schedule.settings[now])
            wanted = schedule.settings[now]
            if values(change):
                plant.apply(Order(change, f"k{block}"), plant.now_s)
        plant.run_step()
        useful += sum(log.useful for log in plant.log[seen:])
        seen = len(plant.log)
    return plant
