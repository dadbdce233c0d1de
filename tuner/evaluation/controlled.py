"""A scenario under a control law, by the one loop that also runs real jobs."""

from dataclasses import replace

from policies.base import Interval
from policies.commands import ControlMode
from policies.control import Capability, Policy
from policies.guardrails.case import Limits
from policies.objective import objective_of
from policies.settings import ACTED, GPUS_OF, SPLIT
from policies.state import State
from simulators.clock import VirtualClock
from simulators.pipeline import SimulatedPlant
from simulators.plant import Change
from simulators.scenario import Scenario, job_at
from tuner.charter import MODELLED, Charter, encoded, rules_of
from tuner.errors import ConfigError
from tuner.evaluation.counterfactual import Turned, true_gain
from tuner.evaluation.measuring import Tally, run_of
from tuner.evaluation.tasks import SLACK, Judged, Run, Task, extended
from tuner.journal import Journal
from tuner.loop import NoInbox, Parts, step

PERIOD_S = 60.0
"""Between two ticks."""
DATA_CHANGING = ("oversampling_ratio", "max_in_flight")
"""Knobs that change which rollouts are trained; a study has leave to turn them, the bias bounds hold."""


def nothing(task: Task) -> Run:
    plant = SimulatedPlant(task.scenario, task.seed)
    plant.advance()
    goal = sum(log.useful for log in plant.log)
    if goal <= 0.0:
        why = plant.stopped or "it is too short"
        raise ConfigError(f"{task.name}: no useful rollout is trained within the horizon: {why}")
    return replace(run_of(task, plant, goal), seconds=plant.log[-1].row.time_s or plant.now_s)


def controlled(task: Task, law: Policy | None = None) -> Run:
    """The scenario under the task's policy, or under `law` where a study asks what another parameter would do."""
    plant = SimulatedPlant(extended(task.scenario), task.seed)
    charter, state = charter_of(task), State(mode=ControlMode.AUTO)
    journal = None if task.journal is None else Journal(task.journal)
    if journal is not None:
        journal.govern(encoded(charter))
    tally, clock, goal = Tally(journal), VirtualClock(), task.goal or 0.0
    rules = rules_of(charter) if law is None else replace(rules_of(charter), policy=law)
    parts = Parts(plant, rules, clock, tally, NoInbox(), PERIOD_S)
    seen, useful = 0, 0.0
    while useful < goal and not plant.done and clock.now_s() < SLACK * task.ends_s:
        state = step(parts, state, clock.now_s())
        clock.wait_until(clock.now_s() + PERIOD_S)
        useful += sum(log.useful for log in plant.log[seen:])
        seen = len(plant.log)
    if journal is not None:
        journal.close()
    run = run_of(task, plant, goal)
    return replace(
        run,
        turns=tuple(tally.turns),
        moves=len(tally.moves),
        holds=dict(sorted(tally.holds.items())),
        gains=tuple(_with_truth(task, *pair) for pair in tally.gains),
        held=state.scorecard.held,
    )


def _with_truth(task: Task, turned: Turned, judged: Judged) -> Judged:
    known = true_gain(task.scenario, turned, Interval(judged.low, judged.mean, judged.high))
    return judged if known is None else replace(judged, true=known[0], true_error=known[1])


def charter_of(task: Task) -> Charter:
    """What a policy goes by in a study: it may turn every knob, and need not earn that first."""
    scenario = task.scenario
    return Charter(
        task.policy,
        scenario.topology,
        scenario.bounds,
        objective_of(scenario.stations.admission),
        capabilities=capabilities_of(scenario),
        limits=Limits(auto_data_changing=DATA_CHANGING),
        stated=job_at(scenario, 0, 0.0),
        ends_s=task.ends_s,
        earn_auto=False,
        seed=task.seed,
        parameters=task.parameters,
        simulated=task.policy in MODELLED,
    )


def capabilities_of(scenario: Scenario) -> tuple[Capability, ...]:
    """What this job's actuators can do, with the price of one step of each knob in seconds of its whole work.

    Hot: GPUs of one step are idle while they change sides, on two legs. Restart: nothing runs meanwhile.
    """
    moves = {move.knob: move for move in scenario.move}
    found = []
    for knob, parts in ACTED.items():
        sides = [p for p in parts if p in GPUS_OF and p != "engines"]
        needed = sides or [p for p in parts if p in moves]
        if not needed or any(p not in moves for p in needed):
            continue
        mine = [moves[p] for p in needed]
        restart = any(m.change is Change.RESTART for m in mine)
        actuation = max(m.actuation_s for m in mine)
        down = (scenario.topology.restart_s or 0.0) if restart else 0.0
        cost = actuation + down if restart else 2.0 * actuation * _moved_frac(scenario, knob)
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
