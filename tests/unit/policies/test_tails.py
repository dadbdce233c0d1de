"""How long a tail the metrics leave room for."""

from dataclasses import replace
from math import exp, sqrt
from random import Random

import pytest

from policies.tails import HIDDEN_TAIL, longest_below, widest
from simulators.pipeline import SimulatedPlant
from simulators.plant import Observation, Setpoints
from simulators.snapshot import Row
from simulators.window import assemble
from simulators.workload import Lengths, Workload
from tuner.scenario_files import load

GROUPS, SIZE, STEPS, SHARED = 32, 8, 48, 0.3
WORK = replace(
    load("solve-rate-saturates").scenario.workload,
    response=Lengths(mean_tokens=1000.0, sigma=0.8, between_prompt_frac=SHARED),
)


def longest(rng: Random, sigma: float) -> float:
    """Of one batch, rollout by rollout, around a mean of 1,000 tokens."""
    found = 0.0
    for _ in range(GROUPS):
        together = sqrt(SHARED) * rng.gauss(0.0, 1.0)
        for _ in range(SIZE):
            score = together + sqrt(1.0 - SHARED) * rng.gauss(0.0, 1.0)
            found = max(found, 1000.0 * exp(sigma * score - sigma**2 / 2.0))
    return found


def seen(sigma: float, seed: int = 0, **more: float) -> Observation:
    """A job of such lengths, 48 steps of it; the first came long before."""
    rng = Random(seed)
    plain = {"resp_len_mean": 1000.0, "batch_rollouts": float(GROUPS * SIZE), "step_s": 60.0}
    rows = [
        Row({**plain, "resp_len_max": longest(rng, sigma), **more}, 100 + i, 60.0 * (100 + i)) for i in range(STEPS)
    ]
    return Observation(rows[-1].time_s or 0.0, assemble(rows), Setpoints(group_size=SIZE))


@pytest.mark.parametrize("sigma", [0.6, 1.2])
def test_the_law_of_the_longest_is_that_of_rollouts_that_are_drawn_one_by_one(sigma: float) -> None:
    work = replace(WORK, response=replace(WORK.response, sigma=sigma))
    rng = Random(7)
    drawn = [longest_below(work, longest(rng, sigma), GROUPS, SIZE) for _ in range(400)]
    # Of what is right 400 values lie evenly in (0, 1): a tenth of them, +- 4 standard errors, in each tenth.
    for k in range(10):
        assert sum(k <= 10.0 * u < k + 1 for u in drawn) == pytest.approx(40, abs=24)


@pytest.mark.parametrize("seed", range(5))
def test_the_longest_rollouts_refute_a_tail_that_is_not_there_and_allow_one_that_is(seed: int) -> None:
    assert 0.8 <= widest(WORK, SIZE, seen(0.8, seed)).response.sigma < 0.9
    assert widest(WORK, SIZE, seen(1.3, seed)).response.sigma == pytest.approx(0.8 * HIDDEN_TAIL)


def test_what_was_cut_at_the_cap_may_have_been_any_longer() -> None:
    capped = replace(WORK, response=replace(WORK.response, max_tokens=4000))
    assert widest(capped, SIZE, seen(0.8, resp_len_max=4000.0)).response.sigma == pytest.approx(0.8 * HIDDEN_TAIL)
    assert widest(capped, SIZE, seen(0.8, resp_len_max=3000.0)).response.sigma == pytest.approx(0.8, abs=0.01)


def test_of_several_turns_and_of_a_few_steps_the_longest_says_nothing() -> None:
    turns = replace(WORK, turns=replace(WORK.turns, mean=3.0))
    assert widest(turns, SIZE, seen(0.8)).response.sigma == pytest.approx(0.8 * HIDDEN_TAIL)
    few = seen(0.8)
    few = replace(few, snapshot=assemble(few.snapshot.rows[-3:]))
    assert widest(WORK, SIZE, few).response.sigma == pytest.approx(0.8 * HIDDEN_TAIL)


def test_the_first_steps_of_a_job_are_left_out_as_short_answers_end_first() -> None:
    """A simulated job of the stated scatter: its first batches would refute even what is stated."""
    plant = SimulatedPlant(load("hidden-sync-stalls").scenario, seed=0)
    while plant.step < 16:
        plant.run_step()
    work: Workload = plant.scenario.workload
    found = widest(work, SIZE, plant.observe(plant.now_s)).response.sigma
    assert work.response.sigma * 1.05 < found < work.response.sigma * 1.3
