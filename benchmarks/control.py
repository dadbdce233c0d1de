"""The controller's cost of thinking: one tick by what it does, and whether its memory stays flat."""

import gc
import os
import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median

from benchmarks.measure import resident_mb
from policies.controller import question_of, tick, view_of
from policies.gate import GateLimits, confirm
from policies.rules import Rules
from policies.state import State
from simulators.pipeline import SimulatedPlant
from simulators.plant import Observation, Setpoints
from simulators.scenario import Scenario
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
SIZES = (1, 100)
"""Times the 24 engines of the scenario."""
HEADER = f"{'one tick of the controller':52} {'engines':>8} {'ms':>8}"


def main() -> int:
    print(HEADER)
    for times in SIZES:
        for what, ms in costs(times):
            print(f"{what:52} {24 * times:8} {ms:8.2f}", flush=True)
    ticks = MANY_TICKS if os.environ.get("BENCH_HUGE") == "1" else TICKS
    print(f"memory after {ticks // 10:,} ticks and after {ticks:,}: {' and '.join(resident(ticks))} MB")
    return 0


def costs(times: int) -> list[tuple[str, float]]:
    rules, seen = scene(times)
    alone = replace(rules, gate=None)  # timed by itself below: where the law wants something a tick would hold it too
    state = State()
    due, _ = tick(alone, state, seen, (), seen.time_s)
    later = replace(seen, time_s=seen.time_s + PERIOD_S)
    view = view_of(rules, due, seen)
    question = question_of(view, Setpoints(gpus_trainer=(seen.in_force.gpus_trainer or 0) + 8 * times))
    limits = GateLimits()

    def gated(shown: Observation) -> object:
        return confirm(question, rules.modeller.draws(shown, limits.draws_min, 0), limits) if rules.modeller else None

    return [
        (
            "a minute later: at rest, or wanting the same",
            spent_ms(later, lambda shown: tick(alone, due, shown, (), shown.time_s)),
        ),
        ("a review: fit, and every knob climbed", spent_ms(seen, lambda s: tick(alone, state, s, (), s.time_s))),
        ("the gate's draws, besides", spent_ms(seen, gated)),
    ]


def scene(times: int) -> tuple[Rules, Observation]:
    scenario = enlarged(load("steady-noise-24h").scenario, times)
    plant = SimulatedPlant(scenario, 0)
    while plant.step < STEPS:
        plant.run_step()
    charter = charter_of(Task("bench", scenario, "predictive", 0, ends_s=86400.0))
    return rules_of(charter), plant.observe(plant.now_s)


def enlarged(scenario: Scenario, times: int) -> Scenario:
    now, topology = scenario.setpoints, scenario.topology
    knobs = replace(
        now,
        gpus_trainer=(now.gpus_trainer or 0) * times,
        gpus_generator=(now.gpus_generator or 0) * times,
        batch_rollouts=(now.batch_rollouts or 0) * times,
    )
    return replace(scenario, setpoints=knobs, topology=replace(topology, gpus_total=(topology.gpus_total or 0) * times))


def spent_ms(seen: Observation, work: Callable[[Observation], object]) -> float:
    """Median of processor milliseconds. Each time the job is another one, so that no cache of a model knows it."""
    taken = []
    for k in range(REPEATS):
        shown = lengthened(seen, 1.0 + 0.003 * k)
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
    rules, seen = scene(1)
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
