"""The event engine against a simulator that steps every decode iteration, on the same keyed draws."""

from dataclasses import replace

import pytest

from simulators.event_parameters import parameters
from simulators.event_state import Job
from simulators.simulation import Simulation
from simulators.stations import Admission, Engine, Plug, Trainer, Victim, affine
from simulators.workload import Duration, Lengths, Turns
from tests.jobs import capped, plain_job, with_stations, with_work
from tests.oracles.per_iteration import PerIteration

AGENTIC = {
    "turns": Turns(4.0),
    "response": Lengths(300.0, 0.8, between_prompt_frac=0.4),
    "tool_tokens": Lengths(50.0, 0.5),
    "tool": Duration(5.0),
}
JOBS = {
    "generator-bound behind a buffer cap": plain_job(),
    "trainer-bound behind a buffer cap": with_stations(plain_job(engines=3), trainer=Trainer(12.0, 1e-4)),
    "iterations that lengthen with the context": with_stations(
        plain_job(), engine=Engine(affine(0.008, 0.0005, 1e-6), 8)
    ),
    "a WIP cap freed at the end": capped(plain_job(), 8),
    "a WIP cap freed at the start": capped(plain_job(engines=3), 6, freed_at_start=True),
    "the oldest group dropped": with_stations(
        plain_job(engines=4), admission=Admission(Plug.DROP_OLDEST, 8), trainer=Trainer(6.0, 1e-5)
    ),
    "groups filtered, every second step published": plain_job(filter_zero_adv=True, sync_interval=2),
    "more in flight than slots": plain_job(max_in_flight=30),
    "turns with tool calls": with_work(plain_job(), **AGENTIC),
}


def compared(job: Job, steps: int) -> None:
    oracle, simulation = PerIteration(parameters(job), 5), Simulation(job, 5)
    oracle.run(steps)
    simulation.advance(until_step=steps)
    counters = simulation.counters()
    idle = 1.0 - (counters.training_s + counters.sync_s) / counters.now_s
    ages = sum(age * n for age, n in enumerate(counters.staleness)) / counters.trained
    assert counters.trained / counters.now_s == pytest.approx(oracle.rollouts_per_s, rel=1e-3)
    assert idle == pytest.approx(oracle.trainer_idle_frac, abs=1e-3)
    assert ages == pytest.approx(sum(oracle.staleness) / len(oracle.staleness), abs=0.02)


@pytest.mark.parametrize("name", JOBS)
def test_the_fluid_clock_is_right_to_a_thousandth(name: str) -> None:
    compared(JOBS[name], 30)


@pytest.mark.slow
@pytest.mark.parametrize("name", JOBS)
def test_the_fluid_clock_stays_right_in_a_long_run(name: str) -> None:
    compared(JOBS[name], 400)


def both_rates(job: Job, seed: int, steps: int) -> tuple[float, float, float]:
    """Rollouts a second of the two simulators, and preemptions a rollout of the oracle."""
    oracle, simulation = PerIteration(parameters(job), seed), Simulation(job, seed)
    oracle.run(steps)
    simulation.advance(until_step=steps)
    counters = simulation.counters()
    return counters.trained / counters.now_s, oracle.rollouts_per_s, oracle.preempted / counters.trained


@pytest.mark.slow
@pytest.mark.parametrize("victim", [Victim.LAST_ADMITTED, Victim.SHORTEST_OUTPUT])
def test_a_full_kv_pool_costs_the_same(victim: Victim) -> None:
    """Who is put out when is chaotic: so over seeds, within four standard errors of the difference, and a hundredth."""
    tight = replace(plain_job().stations.engine, kv_tokens=7000, victim=victim, prefill_s_per_token=2e-4)
    job = with_work(with_stations(plain_job(), engine=tight), response=Lengths(800.0, 0.5))
    runs = [both_rates(job, seed, 40) for seed in range(6)]
    differences = [ours / theirs - 1.0 for ours, theirs, _ in runs]
    mean = sum(differences) / len(differences)
    error = (sum((d - mean) ** 2 for d in differences) / len(differences) / (len(differences) - 1)) ** 0.5
    assert min(preempted for _, _, preempted in runs) > 0.02
    assert abs(mean) < 4.0 * error + 0.003
    assert abs(mean) < 0.01
