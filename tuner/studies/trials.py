"""One trial as a pure function: what the cases of a study make of one point of its space, at one level of care.

Settings that stand still are asked of the analytic model first, along each case's story, and simulated only then.
A policy is simulated from the start. Runs are compared at equal progress: each trains as many useful rollouts as the
settings in force do within the case's horizon.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from policies.control import HoldCode
from policies.objective import SECONDS_PER_HOUR
from policies.settings import gpus
from simulators.analytic import AnalyticModel
from simulators.event_model import EventModel
from simulators.event_state import Job
from simulators.model import PlantModel, Prediction
from simulators.pipeline import SimulatedPlant
from simulators.plant import Bounds, Setpoints
from simulators.scenario import Scenario, job_at
from simulators.signals import TINY
from tuner.errors import ConfigError
from tuner.evaluation.breaking import surely
from tuner.evaluation.controlled import controlled
from tuner.evaluation.measuring import reached_s
from tuner.evaluation.tasks import Task, extended
from tuner.studies.cases import DRAW_STEPS, WARM_UP_STEPS, Case
from tuner.studies.objectives import Measured
from tuner.studies.space import Point, Space, illegal

MOMENTS = (0.125, 0.375, 0.625, 0.875)
"""Shares of the work at which a drifting job is asked about."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What a case's own settings made of it: the work that every trial is to do, and when they did it."""

    goal: float
    """Useful rollouts."""
    ends_s: float
    moments: tuple[tuple[int, float], ...] = ()
    """(step, second) at MOMENTS of the work."""


@dataclass(frozen=True, slots=True)
class Problem:
    """All that a trial depends on beside its point."""

    space: Space
    cases: tuple[Case, ...]
    """In the order in which they are asked."""
    levels: tuple[tuple[int, ...], ...]
    """Which cases each level of care asks; what a level has asked, the next need not ask again."""
    objectives: tuple[str, ...] = ("useful",)


def marked(case: Case) -> Mark:
    """Runs the case as it is. ValueError where it trains nothing."""
    if case.draw is not None:
        return Mark(0.0, 0.0)
    plant = SimulatedPlant(case.scenario, case.seed)
    plant.advance()
    goal = sum(log.useful for log in plant.log)
    if goal <= 0.0:
        raise ValueError(
            f"{case.name}: no useful rollout is trained within the horizon: {plant.stopped or 'too short'}"
        )
    found, made, shares = [], 0.0, list(MOMENTS if _moves(case.scenario) else MOMENTS[1:2])
    for log in plant.log:
        made += log.useful
        while shares and made >= shares[0] * goal:
            found.append((log.row.step or 0, log.row.time_s or 0.0))
            shares.pop(0)
    return Mark(goal, plant.log[-1].row.time_s or plant.now_s, tuple(found))


def _moves(scenario: Scenario) -> bool:
    return bool(scenario.drift or scenario.event)


def measure(space: Space, case: Case, mark: Mark, point: Point) -> Measured:
    """One case under one point."""
    start, topology = case.scenario.setpoints, case.scenario.topology
    try:
        settings = space.settings(point, start, topology)
        why = illegal(settings, topology, case.scenario.bounds)
        if why:
            return Measured(0.0, excess={"legal": float(len(why))}, stopped=why[0])
        scenario = case.under(settings)
        if space.policy is not None:
            parameters = space.parameters(point)
            return _controlled(replace(case, scenario=scenario), mark, space.policy, parameters)
        if case.draw is not None:
            return _steady(scenario, case)
        return _simulated(scenario, case.seed, mark.goal) if case.simulated else _told(scenario, settings, mark)
    except (ValueError, ConfigError) as error:  # no such job, or a law that refuses its parameters: a bound like others
        return Measured(0.0, excess={"legal": 1.0}, stopped=str(error))


# ---- settings that stand still ----


def _steady(scenario: Scenario, case: Case) -> Measured:
    """A job that does not drift, by one of the two models."""
    job = Job(scenario.topology, scenario.stations, scenario.workload, scenario.setpoints)
    model: PlantModel = AnalyticModel(job.stations)
    if case.simulated:
        model = EventModel(job.stations, case.seed, DRAW_STEPS, warm_up_batches=WARM_UP_STEPS)
    return _of([model.predict(job.topology, job.workload, job.setpoints)], scenario)


def _told(scenario: Scenario, settings: Setpoints, mark: Mark) -> Measured:
    """The analytic model's word along the story: equal shares of the work, each at its own rate."""
    told = []
    for step, at_s in mark.moments:
        job = job_at(scenario, step, at_s, settings)
        told.append(AnalyticModel(job.stations).predict(job.topology, job.workload, job.setpoints))
    return _of(told, scenario)


def _of(told: Sequence[Prediction], scenario: Scenario) -> Measured:
    stopped = next((p.stopped for p in told if p.stopped is not None or p.useful_rollouts_per_s <= 0.0), None)
    if stopped is not None or any(p.useful_rollouts_per_s <= 0.0 for p in told):
        return Measured(0.0, stopped=stopped or "no useful rollout would be trained")
    parts = [1.0 / p.useful_rollouts_per_s for p in told]
    seconds = sum(parts)
    per_gpu_h = SECONDS_PER_HOUR / _gpus(scenario)
    ages = [p.staleness.mean for p in told if p.staleness is not None]
    staleness = sum(ages) / len(ages) if ages else None
    return Measured(
        len(told) / seconds * per_gpu_h,
        staleness,
        sum(sum(p.waste.values()) for p in told) / len(told),
        sum(t * p.tokens_per_s for t, p in zip(parts, told, strict=True)) / seconds * per_gpu_h,
        excess=_excess(scenario.bounds, staleness, told),
    )


def _excess(bounds: Bounds, staleness: float | None, told: Sequence[Prediction]) -> dict[str, float]:
    found = {} if bounds.staleness_max is None or staleness is None else {"staleness": staleness - bounds.staleness_max}
    for name, kept in (
        ("length-bias", [p.kept_length_ratio for p in told if p.kept_length_ratio is not None]),
        ("solve-bias", [p.kept_solve_ratio for p in told if p.kept_solve_ratio is not None]),
    ):
        if kept:
            found[name] = bounds.kept_over_attempted_min - min(kept)
    return found


def _gpus(scenario: Scenario) -> float:
    return float(gpus(scenario.setpoints) or scenario.topology.gpus_total or 1)


def _simulated(scenario: Scenario, seed: int, goal: float) -> Measured:
    """The whole story by events, to the goal."""
    plant, useful, seen = SimulatedPlant(extended(scenario), seed), 0.0, 0
    while useful < goal and not plant.done:
        plant.run_step()
        useful += sum(log.useful for log in plant.log[seen:])
        seen = len(plant.log)
    return measured_run(scenario, plant, goal)


def measured_run(scenario: Scenario, plant: SimulatedPlant, goal: float) -> Measured:
    useful = sum(log.useful for log in plant.log)
    if useful <= 0.0:
        return Measured(0.0, stopped=plant.stopped or "no useful rollout was trained")
    seconds = reached_s(plant.log, goal) or plant.now_s * goal / useful
    hours = max(TINY, seconds * _gpus(scenario) / SECONDS_PER_HOUR)
    rows = [log.row.values for log in plant.log]
    trained = sum(row.get("batch_rollouts", 0.0) for row in rows)
    dispatched = sum(row.get("dispatched", 0.0) for row in rows)
    ages = [(row.get("batch_rollouts", 0.0), row["staleness_mean"]) for row in rows if "staleness_mean" in row]
    staleness = sum(n * age for n, age in ages) / max(TINY, sum(n for n, _ in ages)) if ages else None
    spent = sum(sum(log.waste.values()) for log in plant.log)
    share = min(1.0, goal / useful)
    limit = scenario.bounds.staleness_max
    return Measured(
        goal / hours,
        staleness,
        spent / dispatched if dispatched else None,
        share * sum(row.get("tokens_total", 0.0) for row in rows) / hours if trained else None,
        excess={} if limit is None or staleness is None else {"staleness": staleness - limit},
        stopped=plant.stopped,
    )


# ---- policies ----


def _controlled(case: Case, mark: Mark, policy: str, parameters: Mapping[str, float]) -> Measured:
    """The story under a control law, to the goal."""
    task = Task(case.name, case.scenario, policy, case.seed, goal=mark.goal, ends_s=mark.ends_s)
    run = controlled(replace(task, parameters=tuple(sorted(parameters.items()))))
    faults = run.holds.get(HoldCode.FAULT, 0)
    if faults:  # the loop makes holds of them, so that no job suffers; a study is told
        raise RuntimeError(f"the policy failed at {faults} of its ticks on {case.key}")
    hours = run.seconds * _gpus(case.scenario) / SECONDS_PER_HOUR
    ages = [p.staleness for p in run.points]
    return Measured(
        mark.goal / hours if run.seconds < inf else 0.0,
        sum(ages) / len(ages) if ages else None,
        moves=float(run.moves),
        excess={name: surely(found) for name, found in run.excess.items()},
        stopped=run.unfinished if run.seconds == inf else None,
    )
