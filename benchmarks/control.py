"""The controller's cost of thinking: one tick by what it does, and whether its memory stays flat."""

import gc
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median

from benchmarks.measure import resident_mb
from policies.control import Capability, View
from policies.controller import question_of, tick
from policies.gate import GateLimits, confirm
from policies.laws.predictive import Predictive
from policies.rules import Rules
from policies.settings import values
from policies.state import State
from policies.viewing import view_of
from simulators.analytic import AnalyticModel
from simulators.analytic.rollout import rollout_of
from simulators.event_parameters import engine_count
from simulators.pipeline import SimulatedPlant
from simulators.plant import Observation, Setpoints
from simulators.scenario import Scenario, job_at
from simulators.snapshot import snapshot_of
from tuner.charter import rules_of
from tuner.evaluation.controlled import charter_of
from tuner.evaluation.tasks import Task
from tuner.scenario_files import load

STEPS = 12
REPEATS = 9
TICKS = 10_000
MANY_TICKS = 1_000_000
"""With BENCH_HUGE=1."""
PERIOD_S = 60.0
SMALL, LARGE = 24, 2400
"""Engines."""
TICK_MS, REVIEW_MS, GATE_MS = 2.0, 50.0, 50.0
"""Floors: of a usual tick of 24 engines, of a tick of 2,400 with its review and without the gate, of the gate of 24."""
OTHER = 1.05
"""Lengths of a job that no row before has asked for, so that nothing of it is remembered."""
OUTGROWN_BY = 2.0
"""Contexts in flight over the decoders' KV."""
COUNTED = ("gpus_trainer", "gpus_generator", "gpus_prefill", "gpus_decode", "batch_rollouts", "max_in_flight")
"""Setpoints that grow with a fleet."""
HEADER = f"{'one tick of the controller':52} {'engines':>8} {'ms':>8} {'floor':>8}"


@dataclass(frozen=True, slots=True)
class Cost:
    what: str
    engines: int
    ms: float
    floor_ms: float | None = None

    def __str__(self) -> str:
        floor = "" if self.floor_ms is None else f"{self.floor_ms:8g}{'' if self.ms <= self.floor_ms else '  missed'}"
        return f"{self.what:52} {self.engines:8} {self.ms:8.2f} {floor}".rstrip()


def main() -> int:
    print(HEADER)
    for cost in (*costs(SMALL), *costs(LARGE), *pools(LARGE), outgrown(LARGE)):
        print(cost, flush=True)
    ticks = MANY_TICKS if os.environ.get("BENCH_HUGE") == "1" else TICKS
    print(f"memory after {ticks // 10:,} ticks and after {ticks:,}: {' and '.join(resident(ticks))} MB")
    return 0


def costs(engines: int) -> list[Cost]:
    rules, seen = scene(engines)
    alone = replace(rules, gate=None)  # timed by itself below: where the law wants something a tick would hold it too
    state = State()
    due, _ = tick(alone, state, seen, (), seen.time_s)
    later = replace(seen, time_s=seen.time_s + PERIOD_S)
    view = view_of(rules, due, seen)
    more = (seen.in_force.gpus_trainer or 0) + 8 * engines // SMALL
    question = question_of(view, Setpoints(gpus_trainer=more))
    limits = GateLimits()

    def gated(shown: Observation) -> object:
        return confirm(question, rules.modeller.draws(shown, limits.draws_min, 0), limits) if rules.modeller else None

    small = engines == SMALL
    return [
        Cost(
            "a minute later: at rest, or wanting the same",
            engines,
            spent_ms(later, lambda shown: tick(alone, due, shown, (), shown.time_s)),
            TICK_MS if small else REVIEW_MS,
        ),
        review("a review: fit, and every knob climbed", engines, alone, lengthened(seen, OTHER)),
        Cost(
            "the gate's draws, besides",
            engines,
            spent_ms(lengthened(seen, OTHER**2), gated, before=lambda shown: view_of(rules, state, shown)),
            GATE_MS if small else None,
        ),
    ]


def pools(engines: int) -> list[Cost]:
    """Prefill and decode have GPUs of their own; by what a thin prefill pool leaves, contexts outgrow the decoders."""
    rules, seen = observed(pools_scenario(engines))
    return [review("the same, with pools for prefill and decode", engines, replace(rules, gate=None), seen)]


def review(what: str, engines: int, rules: Rules, seen: Observation) -> Cost:
    return Cost(what, engines, spent_ms(seen, lambda s: tick(rules, State(), s, (), s.time_s)), REVIEW_MS)


def outgrown(engines: int) -> Cost:
    """The law alone, of a job as stated: what is simulated besides is not its time, nor is the fit."""
    stated = job_at(pools_scenario(engines), 0, 0.0)
    contexts = (stated.setpoints.max_in_flight or 0) * rollout_of(stated.workload, None).context_mean
    kv_tokens = round(contexts / OUTGROWN_BY / engine_count(stated.topology, stated.setpoints))
    stations = replace(stated.stations, engine=replace(stated.stations.engine, kv_tokens=kv_tokens))
    able = (Capability("prefill_decode_split", actuation_s=PERIOD_S, cost_s=5.0),)
    seen = snapshot_of(step_s=80.0)
    view = View(1e4, seen, stated.setpoints, stated.topology, capabilities=able, model=AnalyticModel(stations))
    taken = []
    for k in range(REPEATS):
        length = replace(stated.workload.response, mean_tokens=stated.workload.response.mean_tokens * longer(k))
        shown = replace(view, workload=replace(stated.workload, response=length))
        began = time.process_time()
        Predictive().decide(shown)
        taken.append(1e3 * (time.process_time() - began))
    return Cost("the law on a job whose contexts outgrow the caches", engines, median(taken), REVIEW_MS)


def scene(engines: int) -> tuple[Rules, Observation]:
    return observed(enlarged(load("steady-noise-24h").scenario, engines // SMALL))


def pools_scenario(engines: int) -> Scenario:
    shipped = load("tool-calls-20-to-51").scenario
    return enlarged(
        shipped, engines * (shipped.topology.gpus_per_engine or 1) // (shipped.setpoints.gpus_generator or 1)
    )


def observed(scenario: Scenario) -> tuple[Rules, Observation]:
    plant = SimulatedPlant(scenario, 0)
    while plant.step < STEPS:
        plant.run_step()
    charter = charter_of(Task("bench", scenario, "predictive", 0, ends_s=86400.0))
    return rules_of(charter), plant.observe(plant.now_s)


def enlarged(scenario: Scenario, times: int) -> Scenario:
    now, topology = scenario.setpoints, scenario.topology
    counts = {name: count * times for name, count in values(now).items() if name in COUNTED}
    grown = replace(topology, gpus_total=(topology.gpus_total or 0) * times)
    return replace(scenario, setpoints=replace(now, **counts), topology=grown)


def longer(repeat: int) -> float:
    return 1.0 + 0.003 * repeat


def spent_ms(
    seen: Observation,
    work: Callable[[Observation], object],
    before: Callable[[Observation], object] = lambda shown: None,
) -> float:
    """Median of processor milliseconds. Each time the job is another one, so that no cache of a model knows it but by
    what the same tick has done `before`."""
    taken = []
    for k in range(REPEATS):
        shown = lengthened(seen, longer(k))
        before(shown)
        began = time.process_time()
        work(shown)
        taken.append(1e3 * (time.process_time() - began))
    return median(taken)


def lengthened(seen: Observation, factor: float) -> Observation:
    rows = tuple(
        replace(row, values={n: v * factor if n == "resp_len_mean" else v for n, v in row.values.items()})
        for row in seen.snapshot.rows
    )
    return replace(seen, snapshot=replace(seen.snapshot, rows=rows))


def resident(ticks: int) -> list[str]:
    """Resident memory after a tenth of the ticks and after all: the same, where a controller forgets as it should.

    What is resident, not its peak: the draws above have already taken more than any tick needs.
    """
    rules, seen = scene(SMALL)
    state, found = State(), list[str]()
    for k in range(ticks):
        now_s = seen.time_s + k * PERIOD_S
        state, _ = tick(rules, state, seen, (), now_s)
        if k + 1 in (ticks // 10, ticks):
            gc.collect()
            found.append(f"{resident_mb():.0f}")
    return found


if __name__ == "__main__":
    raise SystemExit(main())
