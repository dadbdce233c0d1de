"""Laws of the analytic model on random jobs: one seed is one job (tests/oracles/configurations.py).

That more never hurts holds outside the weak rule; inside it the model itself is good to a few percent only.
"""

import math
from collections.abc import Callable
from dataclasses import fields, replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from simulators.analytic import AnalyticModel
from simulators.model import Prediction, Staleness
from simulators.plant import Mode
from simulators.stations import Plug, StepTime
from tests.oracles.configurations import Configuration, configuration

SEEDS = st.integers(0, 1_000_000)
SLACK = 0.004
"""Rounding of curves on their grids; below a bend of the generator's own curve it can look like a gain."""


REAL_GAIN = 0.015
"""Behind a full buffer slower engines can really be a little faster: bursts are evened out (seed 1033: +0.9 % told,
+1.0 % simulated, standard error 0.3 %)."""
LIMITED_LOSS = 0.05
"""Where the trainer limits, one engine more can really cost a little: fewer are given up, so what is kept is longer
(seed 2571: -3.4 % told, -1.6 % simulated, standard error 0.35 %), or the buffer swings more (13401: -4.1, -1.6 %)."""
WAITING_LOSS = 0.025
"""Where it waits, it cannot; of 30,000 jobs one is told wrong by more than SLACK (24158: -2.0 %, +1.6 % simulated)."""
WAITS = 0.02


def told(job: Configuration) -> Prediction:
    return AnalyticModel(job.stations).predict(job.topology, job.workload, job.setpoints)


def rate(job: Configuration) -> float:
    return told(job).rollouts_per_s


def numbers(prediction: Prediction) -> list[float]:
    values = [getattr(prediction, part.name) for part in fields(Prediction)]
    found = [float(v) for v in values if isinstance(v, float | int)]
    found += [share for v in values if isinstance(v, dict) for share in v.values()]
    stale = prediction.staleness or Staleness(0.0)
    return [*found, stale.mean, stale.p95 or 0.0, stale.maximum or 0.0]


@given(SEEDS, st.booleans())
@settings(max_examples=150, deadline=None)
def test_every_legal_job_gets_finite_numbers_in_their_ranges(seed: int, extras: bool) -> None:
    found = told(configuration(seed, extras))
    if found.stopped is not None:
        assert found.rollouts_per_s == 0.0
        return
    assert all(math.isfinite(value) and value >= 0.0 for value in numbers(found))
    assert 0.0 <= found.trainer_idle_frac <= 1.0
    assert 0.0 <= found.generator_busy_frac <= 1.0
    assert sum(found.waste.values()) < 1.0
    assert 0.0 < found.useful_rollouts_per_s <= found.rollouts_per_s


@given(SEEDS, st.booleans())
@settings(max_examples=100, deadline=None)
def test_little_holds_for_rollouts_and_for_the_buffer(seed: int, extras: bool) -> None:
    job = configuration(seed, extras)
    found = told(job)
    if found.stopped is not None or job.stations.admission.plug is Plug.NONE:
        return
    assert found.in_flight is not None
    assert found.rollout_s is not None
    started = found.rollouts_per_s / (1.0 - sum(found.waste.values()))
    assert found.in_flight == pytest.approx(started * found.rollout_s)
    if found.queue_groups is not None and found.queue_age_s is not None:
        groups = (job.setpoints.batch_rollouts or 1) / (job.setpoints.group_size or 1)
        assert found.queue_groups == pytest.approx(groups / found.step_s * found.queue_age_s)


def slower_engines(job: Configuration) -> Configuration:
    step = job.stations.engine.step
    slow = StepTime(tuple((b, 1.25 * t) for b, t in step.table), 1.25 * step.per_context_token_s)
    return replace(job, stations=replace(job.stations, engine=replace(job.stations.engine, step=slow)))


def slower_trainer(job: Configuration) -> Configuration:
    trainer = job.stations.trainer
    slow = replace(trainer, base_s=1.25 * trainer.base_s, gpu_s_per_token=1.25 * trainer.gpu_s_per_token)
    return replace(job, stations=replace(job.stations, trainer=slow))


def longer_pauses(job: Configuration) -> Configuration:
    sync = job.stations.sync
    return replace(job, stations=replace(job.stations, sync=replace(sync, seconds=1.25 * sync.seconds)))


@given(SEEDS, st.sampled_from([slower_engines, slower_trainer, longer_pauses]))
@settings(max_examples=120, deadline=None)
def test_nothing_gets_faster_when_a_station_slows_down(
    seed: int, change: Callable[[Configuration], Configuration]
) -> None:
    before, after = told(configuration(seed)), told(change(configuration(seed)))
    if not before.weak and not after.weak:
        assert after.rollouts_per_s <= before.rollouts_per_s * (1.0 + REAL_GAIN)


@given(SEEDS)
@example(7365)  # its buffer was refilled at the pace of rollouts that nobody gives up: 3.41/s with one more, not 3.64
@settings(max_examples=100, deadline=None)
def test_one_engine_more_never_hurts(seed: int) -> None:
    job = configuration(seed)
    if job.topology.mode is Mode.SERIAL or job.stations.engine.speeds:
        return  # a slow one more takes its share of what is in flight
    engines = (job.setpoints.gpus_generator or 0) // (job.topology.gpus_per_engine or 1)
    more = replace(job, setpoints=replace(job.setpoints, engines=engines + 1))
    if not told(job).weak and not told(more).weak:
        loss = WAITING_LOSS if told(job).trainer_idle_frac > WAITS else LIMITED_LOSS
        assert rate(more) >= rate(job) * (1.0 - loss)


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_a_wider_cap_on_started_groups_never_hurts(seed: int) -> None:
    job = configuration(seed, extras=False)
    limit = job.stations.admission.limit_groups
    if limit is None or job.stations.admission.plug is not Plug.WIP_CAP or job.topology.mode is Mode.SERIAL:
        return
    admission = replace(job.stations.admission, limit_groups=limit + 8)
    wider = replace(job, stations=replace(job.stations, admission=admission))
    assert rate(wider) >= rate(job) * (1.0 - SLACK)


@given(SEEDS)
@settings(max_examples=30, deadline=None)
def test_the_same_question_gets_the_same_answer(seed: int) -> None:
    assert told(configuration(seed)) == told(configuration(seed))


@given(SEEDS, st.integers(2, 6))
@settings(max_examples=80, deadline=None)
def test_rollouts_that_wait_in_front_of_full_engines_gain_nothing(seed: int, times: int) -> None:
    """Under a cap on started groups, without tools: in flight beyond the slots only lengthens the queue."""
    job = configuration(seed, extras=False)
    if (
        job.workload.tool is not None
        or job.topology.mode is Mode.SERIAL
        or job.stations.admission.plug is not Plug.WIP_CAP
    ):
        return
    engines = (job.setpoints.gpus_generator or 0) // (job.topology.gpus_per_engine or 1)
    slots = min(job.stations.engine.slots or 0, job.setpoints.max_in_flight_per_engine or math.inf)
    full, more = (
        rate(replace(job, setpoints=replace(job.setpoints, max_in_flight=int(n * engines * slots)))) for n in (1, times)
    )
    assert more <= full * (1.0 + SLACK)
