"""Evaluation: policies on scenarios until the same number of useful rollouts is trained, with the yardstick beside.

One `Task` is one run (or one yardstick) and stands alone: it can be done in any process and again from its record.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from math import ceil, inf
from statistics import fmean

from policies import clairvoyant
from policies.base import Direction
from policies.clairvoyant import Progress, Schedule
from policies.control import Action, Capability, ControlMode, HoldCode, Policy
from policies.guardrails.case import Limits
from policies.laws.lending import Lending
from policies.laws.predictive import Predictive
from policies.laws.rate_balance import RateBalance
from policies.laws.static import Static
from policies.laws.threshold import Threshold
from policies.modelling import NominalModeller
from policies.rules import Rules
from policies.settings import ACTED, SPLIT, difference, direction, gpus, values
from policies.state import State
from simulators.clock import VirtualClock
from simulators.pipeline import SimulatedPlant, StepLog
from simulators.plant import Change, Order, Receipt, Setpoints
from simulators.scenario import Horizon, Scenario, job_at
from simulators.signals import TINY
from tuner.errors import ConfigError
from tuner.journal import Entry
from tuner.loop import NoInbox, Parts, step

POLICIES: Mapping[str, type] = {
    "static": Static,
    "threshold": Threshold,
    "rate_balance": RateBalance,
    "lending": Lending,
    "predictive": Predictive,
}
"""Every control law by its name."""
NOTHING = "static"
"""Do nothing: what all are compared with, and what says how much is to be done."""
ORACLE = "oracle"
PERIOD_S = 60.0
"""Between two ticks."""
SLACK = 2.0
"""A slower policy may take so much longer than doing nothing before it is given up."""
DATA_CHANGING = ("oversampling_ratio", "max_in_flight")
"""Knobs that change which rollouts are trained; a study has leave to turn them, the bias bounds hold."""
POINTS = 120
"""Of a trajectory, for pictures."""


@dataclass(frozen=True, slots=True)
class Size:
    """How thorough an evaluation is."""

    steps_max: int | None = None
    """Horizons are cut to so many trainer steps."""
    seconds_max: float | None = None
    blocks: int = 40
    settings: int = 30
    corrections: int = 8
    """Settings that the yardstick simulates to correct its rates."""
    schedules: int = 3


QUICK = Size(steps_max=150, seconds_max=14400.0, blocks=16, settings=10, corrections=3, schedules=1)
USUAL = Size()


@dataclass(frozen=True, slots=True)
class Task:
    name: str
    """Of the scenario."""
    scenario: Scenario
    policy: str
    seed: int
    size: Size = USUAL
    goal: float | None = None
    """Useful rollouts to train; None: as many as doing nothing does within the horizon."""
    ends_s: float = inf
    """When doing nothing has done it."""

    @property
    def key(self) -> str:
        return f"{self.name}/{self.policy}/{self.seed}"


@dataclass(frozen=True, slots=True)
class Turn:
    """One change of the split that was ordered."""

    at_s: float
    up: bool
    settle_s: float
    reverted: bool = False


@dataclass(frozen=True, slots=True)
class Point:
    """The job at some moment of its progress."""

    useful: float
    at_s: float
    step: int
    gpus_trainer: float | None
    in_flight_limit: float | None
    gpus_prefill: float | None
    rate_per_s: float
    trainer_idle_frac: float
    generator_util_frac: float
    staleness: float


@dataclass(frozen=True, slots=True)
class Run:
    """What became of one task."""

    name: str
    policy: str
    seed: int
    seconds: float
    """To the goal; extrapolated where `unfinished`."""
    goal: float
    steps: int = 0
    unfinished: str | None = None
    turns: tuple[Turn, ...] = ()
    moves: int = 0
    """Orders of any knob that began a move."""
    violations: Mapping[str, int] = field(default_factory=dict)
    """Steps beyond a hard bound, by bound."""
    holds: Mapping[str, int] = field(default_factory=dict)
    held: tuple[bool, ...] = ()
    """No-move forecasts: whether their intervals held."""
    gains: tuple[tuple[float, float, float, float], ...] = ()
    """(low, mean, high, realised) of the moves that were judged."""
    points: tuple[Point, ...] = ()
    bound_s: float | None = None
    """Of the yardstick: with free moves."""
    best_static_s: float | None = None
    best_static: str = ""
    how: str = ""
    """Of the yardstick: which of its schedules was the best."""


# ---- one run ----


class Tally:
    """A ledger that keeps what an evaluation counts."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self.moves: set[str] = set()
        self.holds: dict[str, int] = {}
        self.gains: list[tuple[float, float, float, float]] = []

    def commit(self, entry: Entry) -> int:
        decision, move = entry.decision, entry.state.move
        if decision.code is not None:
            self.holds[decision.code] = self.holds.get(decision.code, 0) + 1
        told = decision.outcome
        if told is not None and told.predicted is not None and told.realised is not None:
            p = told.predicted
            self.gains.append((p.low, p.mean, p.high, told.realised.mean))
        if decision.action is Action.APPLY and move is not None:
            self._begun(entry, move.decision_id, move.stage == "back", move.settle_s)
        return 0

    def answer(self, tick_id: int, receipt: Receipt) -> None:
        return None

    def _begun(self, entry: Entry, ident: str, reverting: bool, settle_s: float) -> None:
        move = entry.state.move
        name = ident + ("b" if reverting else "")
        if move is None or name in self.moves:
            return
        self.moves.add(name)
        way = direction(move.origin, difference(move.origin, move.goal), SPLIT)
        if way in (Direction.UP, Direction.DOWN):
            self.turns.append(Turn(entry.at_s, (way is Direction.UP) != reverting, settle_s, reverting))


def sized(scenario: Scenario, size: Size) -> Scenario:
    """The scenario with its horizon cut."""
    now = scenario.horizon
    steps = min((n for n in (now.steps, size.steps_max if now.steps else None) if n is not None), default=None)
    seconds = min((s for s in (now.seconds, size.seconds_max if now.seconds else None) if s is not None), default=None)
    return replace(scenario, horizon=Horizon(steps, seconds))


def extended(scenario: Scenario) -> Scenario:
    """The scenario with room for a slower run."""
    now = scenario.horizon
    steps = None if now.steps is None else ceil(now.steps * SLACK)
    return replace(scenario, horizon=Horizon(steps, None if now.seconds is None else now.seconds * SLACK))


def done(task: Task) -> Run:
    """Runs one task to its end."""
    task = replace(task, scenario=sized(task.scenario, task.size))
    if task.goal is None:
        return _nothing(task)
    return _yardstick(task) if task.policy == ORACLE else _controlled(task)


def _nothing(task: Task) -> Run:
    plant = SimulatedPlant(task.scenario, task.seed)
    plant.advance()
    goal = sum(log.useful for log in plant.log)
    if goal <= 0.0:
        raise ConfigError(f"{task.name}: no useful rollout is trained within the horizon ({plant.stopped or 'too short'})")
    return replace(_run(task, plant, goal), seconds=plant.log[-1].row.time_s or plant.now_s)


def _controlled(task: Task) -> Run:
    plant = SimulatedPlant(extended(task.scenario), task.seed)
    tally, clock, goal = Tally(), VirtualClock(), task.goal or 0.0
    parts = Parts(plant, rules_for(task), clock, tally, NoInbox(), PERIOD_S)
    state = State(mode=ControlMode.AUTO)
    seen, useful = 0, 0.0
    while useful < goal and not plant.done and clock.now_s() < SLACK * task.ends_s:
        state = step(parts, state, clock.now_s())
        clock.wait_until(clock.now_s() + PERIOD_S)
        useful += sum(log.useful for log in plant.log[seen:])
        seen = len(plant.log)
    run = _run(task, plant, goal)
    return replace(
        run,
        turns=tuple(tally.turns),
        moves=len(tally.moves),
        holds=dict(sorted(tally.holds.items())),
        gains=tuple(tally.gains),
        held=state.scorecard.held,
    )


def rules_for(task: Task) -> Rules:
    """How a policy is run: guardrails for all, the gate for the law that has a model."""
    scenario = task.scenario
    rules = Rules(
        policy_named(task.policy),
        scenario.topology,
        scenario.bounds,
        capabilities=capabilities_of(scenario),
        limits=Limits(auto_data_changing=DATA_CHANGING),
        gate=None,
        ends_s=task.ends_s,
        earn_auto=False,
        seed=task.seed,
    )
    if task.policy != "predictive":
        return rules
    return replace(rules, gate=Rules.__dataclass_fields__["gate"].default_factory(), modeller=NominalModeller(stated(scenario)))


def stated(scenario: Scenario):
    return job_at(scenario, 0, 0.0)


def policy_named(name: str) -> Policy:
    if name not in POLICIES:
        raise ConfigError(f"--policies {name}: unknown; known: {', '.join(POLICIES)}")
    made: Policy = POLICIES[name]()
    return made


def capabilities_of(scenario: Scenario) -> tuple[Capability, ...]:
    """What this job's actuators can do, with the price of one step of each knob in seconds of its whole work.

    Hot: GPUs of one step are idle while they change sides, on two legs. Restart: nothing runs, and what was in flight
    is lost: about the time of one batch.
    """
    moves = {move.knob: move for move in scenario.move}
    found = []
    for knob, parts in ACTED.items():
        needed = [p for p in parts if p in ("gpus_trainer", "gpus_generator", "gpus_prefill", "gpus_decode")] or [
            p for p in parts if p in moves
        ]
        if not needed or any(p not in moves for p in needed):
            continue
        mine = [moves[p] for p in needed]
        restart = any(m.change is Change.RESTART for m in mine)
        actuation = max(m.actuation_s for m in mine)
        down = (scenario.topology.restart_s or 0.0) if restart else 0.0
        cost = actuation + down + _batch_s(scenario) if restart else 2.0 * actuation * _moved_frac(scenario, knob)
        change = Change.RESTART if restart else mine[0].change
        found.append(Capability(knob, change, actuation + down, cost, knob in DATA_CHANGING))
    return tuple(found)


def _moved_frac(scenario: Scenario, knob: str) -> float:
    """Share of the smaller side that one step of the split takes."""
    now, topology = scenario.setpoints, scenario.topology
    if knob not in (SPLIT, "prefill_decode_split"):
        return 0.0
    unit = max(topology.gpus_per_engine or 1, topology.trainer_gpu_step or 1)
    least = min(now.gpus_trainer or unit, now.gpus_generator or unit)
    return min(1.0, unit / max(1, least))


def _batch_s(scenario: Scenario) -> float:
    job = job_at(scenario, 0, 0.0)
    trainer = job.stations.trainer
    tokens = (job.setpoints.batch_rollouts or 1) * (
        job.workload.prompt.mean_tokens + job.workload.response.mean_tokens * job.workload.turns.mean
    )
    return trainer.base_s + trainer.gpu_s_per_token * tokens / (job.setpoints.gpus_trainer or 1) ** trainer.exponent


def _run(task: Task, plant: SimulatedPlant, goal: float) -> Run:
    seconds = reached_s(plant.log, goal)
    useful = sum(log.useful for log in plant.log)
    short = None if seconds is not None else plant.stopped or "the goal was not reached in time"
    if seconds is None:
        seconds = plant.now_s * goal / useful if useful > 0.0 else inf
    return Run(
        task.name,
        task.policy,
        task.seed,
        seconds,
        goal,
        steps=plant.step,
        unfinished=short,
        violations=violated(task.scenario, plant.log),
        points=points_of(plant.log, goal),
    )


def reached_s(log: Sequence[StepLog], goal: float) -> float | None:
    """When `goal` useful rollouts were trained, straight between steps; None: never."""
    made, before_s = 0.0, 0.0
    for entry in log:
        at_s = entry.row.time_s or before_s
        if made + entry.useful >= goal - 0.5:
            share = (goal - made) / entry.useful if entry.useful else 1.0
            return before_s + min(1.0, max(0.0, share)) * (at_s - before_s)
        made, before_s = made + entry.useful, at_s
    return None


def violated(scenario: Scenario, log: Sequence[StepLog]) -> dict[str, int]:
    bounds, start = scenario.bounds, gpus(scenario.setpoints)
    found: dict[str, int] = {}

    def count(name: str, broken: bool) -> None:
        if broken:
            found[name] = found.get(name, 0) + 1

    for entry in log:
        shown, job = entry.row.values, entry.job
        age, total = shown.get("staleness_mean"), gpus(job.setpoints)
        count("staleness", age is not None and bounds.staleness_max is not None and age > bounds.staleness_max)
        count("budget", total is not None and start is not None and total > start)
        quota, flight = job.setpoints.sandbox_quota, job.setpoints.max_in_flight
        count("quota", quota is not None and flight is not None and flight > quota)
    return found


def points_of(log: Sequence[StepLog], goal: float) -> tuple[Point, ...]:
    """The trajectory, thinned; each point the mean of its steps."""
    size = max(1, -(-len(log) // POINTS))
    made, found = 0.0, []
    for start in range(0, len(log), size):
        part = log[start : start + size]
        useful = sum(entry.useful for entry in part)
        seconds = max(TINY, sum(entry.row.values.get("step_s", 0.0) for entry in part))
        idle = sum(entry.row.values.get("trainer_wait_s", 0.0) for entry in part) / seconds
        made += useful
        knobs, last = part[-1].job.setpoints, part[-1].row
        found.append(
            Point(
                made / goal,
                last.time_s or 0.0,
                last.step or 0,
                knobs.gpus_trainer,
                knobs.max_in_flight,
                knobs.gpus_prefill,
                useful / seconds,
                idle,
                fmean(entry.row.values.get("generator_util_frac", 0.0) for entry in part),
                fmean(entry.row.values.get("staleness_mean", 0.0) for entry in part),
            )
        )
    return tuple(found)


# ---- the yardstick ----


def _yardstick(task: Task) -> Run:
    """The best of what a clairvoyant would try, simulated with the seed that the policies have."""
    scenario, goal, size = task.scenario, task.goal or 0.0, task.size
    progress = clairvoyant.progress_of(scenario, goal, size.blocks)
    settings = clairvoyant.settings_of(scenario, size.settings)
    rates = clairvoyant.analytic_rates(scenario, progress)
    training = task.seed + TRAINING_SEED
    first = clairvoyant.earliest(scenario, progress, settings, rates)
    worth_a_run = _first(
        [settings[0], *dict.fromkeys(first.settings), *clairvoyant.statics(progress, settings, rates, size.corrections)],
        size.corrections,
    )
    measured = {s: _block_ends(_stayed(scenario, s, training, goal), progress) for s in worth_a_run}
    true = clairvoyant.corrected(rates, progress, measured)
    second = clairvoyant.earliest(scenario, progress, settings, true)
    bound = clairvoyant.envelope(progress, settings, true)
    return _best_of(task, progress, [second, first][: size.schedules], clairvoyant.statics(progress, settings, true, size.schedules), bound)


TRAINING_SEED = 1009
"""Yardsticks are fitted on other random numbers than those they are scored with."""


def _first(found: Sequence[Setpoints], most: int) -> list[Setpoints]:
    return list(dict.fromkeys(found))[:most]


def _best_of(
    task: Task, progress: Progress, schedules: Sequence[Schedule], stays: Sequence[Setpoints], bound: Schedule
) -> Run:
    goal, scenario = task.goal or 0.0, task.scenario
    runs = [(f"schedule {i + 1}", _followed(scenario, s, progress, task.seed, goal)) for i, s in enumerate(schedules)]
    still = [(s, _stayed(scenario, s, task.seed, goal)) for s in stays]
    timed = [(reached_s(plant.log, goal) or inf, name, plant) for name, plant in runs]
    static_s, static = min(((reached_s(plant.log, goal) or inf, s) for s, plant in still), key=lambda pair: pair[0])
    here = SimulatedPlant(extended(scenario), task.seed)
    here.advance()
    timed.append((reached_s(here.log, goal) or inf, "doing nothing", here))
    seconds, how, plant = min(timed, key=lambda one: one[0])
    run = _run(task, plant, goal)
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
    """The job with the schedule's setting ordered at the start of each block; what fails is ordered again."""
    plant = SimulatedPlant(extended(replace(scenario, move=tuple(replace(m, failure_frac=0.0) for m in scenario.move))), seed)
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


# ---- all of them ----


def all_done(tasks: Sequence[Task], workers: int | None = None) -> Iterator[Run]:
    """Runs as they are done, in any order, on all cores."""
    count = workers or os.cpu_count() or 1
    if count == 1 or len(tasks) == 1:
        yield from map(done, tasks)
        return
    with ProcessPoolExecutor(count) as pool:
        waiting = [pool.submit(done, task) for task in tasks]
        for future in as_completed(waiting):
            yield future.result()
