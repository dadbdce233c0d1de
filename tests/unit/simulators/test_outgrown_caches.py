"""Prefix caches behind a prefill pool: what fits is kept, and what does not comes and goes in blocks."""

from dataclasses import replace

import pytest

from simulators.analytic import AnalyticModel
from simulators.analytic.weak import OUTGROWN
from simulators.event_state import Job
from simulators.model import Prediction
from simulators.scenario import job_at
from tuner.scenario_files import load


def agents(kv_tokens: int | None, in_flight: int = 1024, turns: float = 51.0) -> Job:
    shipped = job_at(load("tool-calls-20-to-51").scenario, 0, 0.0)
    workload, stations = shipped.workload, shipped.stations
    return replace(
        shipped,
        workload=replace(workload, turns=replace(workload.turns, mean=turns)),
        stations=replace(stations, engine=replace(stations.engine, kv_tokens=kv_tokens)),
        setpoints=replace(shipped.setpoints, max_in_flight=in_flight),
    )


def told(job: Job, prefill: int = 80) -> Prediction:
    at = replace(job.setpoints, gpus_prefill=prefill, gpus_decode=160 - prefill)
    return AnalyticModel(job.stations).predict(job.topology, job.workload, at)


def test_where_all_in_flight_fits_the_limit_of_kv_changes_nothing() -> None:
    fits, unlimited = told(agents(10_000_000, 256)), told(agents(None, 256))
    assert OUTGROWN not in fits.weak
    assert fits.rollouts_per_s == pytest.approx(unlimited.rollouts_per_s, rel=1e-6)
    assert fits.prefix_hit_frac == 1.0


def test_where_it_does_not_hits_are_lost_and_rollouts_with_them() -> None:
    small, large = told(agents(1_000_000)), told(agents(100_000_000))
    assert OUTGROWN in small.weak
    assert (small.prefix_hit_frac or 0.0) < 0.9
    assert small.rollouts_per_s < 0.7 * large.rollouts_per_s


def test_what_is_followed_is_the_same_whatever_was_asked_before() -> None:
    first = told(agents(1_000_000), 48)
    for prefill in (16, 32, 144):
        told(agents(1_000_000), prefill)
    assert told(agents(1_000_000), 48) == first


def test_no_more_is_resident_in_tools_or_queues_than_is_in_flight() -> None:
    job = agents(1_000_000)
    found = told(job)
    assert found.in_flight is not None
    assert found.rollout_s is not None
    assert found.in_flight <= (job.setpoints.max_in_flight or 0) * (1.0 + 1e-9)


@pytest.mark.parametrize("tool_s", [1e-6, 0.01, 600.0])
def test_tools_of_any_length_are_followed(tool_s: float) -> None:
    job = agents(1_000_000)
    assert job.workload.tool is not None
    found = told(replace(job, workload=replace(job.workload, tool=replace(job.workload.tool, mean_s=tool_s))))
    assert 0.0 < found.rollouts_per_s < 100.0
