"""A scenario says what its job is at any step and second: the same for everybody who asks."""

from dataclasses import replace

import pytest

from simulators.drift import By, Drift, Shape
from simulators.plant import Setpoints
from simulators.scenario import Event, EventKind, Scenario, job_at, with_knob
from simulators.scenario_faults import faults_of
from simulators.stations import Sandboxes
from simulators.workload import Duration
from tests.unit.simulators.scenarios import small


def eventful(*events: Event) -> Scenario:
    scenario = small()
    stations = replace(scenario.stations, sandboxes=Sandboxes(start_s=10.0, live_limit=100))
    workload = replace(scenario.workload, tool=Duration(2.0))
    return replace(scenario, stations=stations, workload=workload, event=events)


def test_a_job_drifts_by_steps_and_by_seconds() -> None:
    scenario = replace(
        small(),
        drift=(
            Drift("workload.response.mean_tokens", to=2000.0, end=10.0),
            Drift("stations.trainer.base_s", Shape.STEP, By.TIME, to=9.0, start=60.0),
        ),
    )
    assert job_at(scenario, 5, 0.0).workload.response.mean_tokens == pytest.approx(1500.0)
    assert job_at(scenario, 5, 59.0).stations.trainer.base_s == 2.0
    assert job_at(scenario, 5, 60.0).stations.trainer.base_s == 9.0


def test_drifts_on_one_path_act_one_after_the_other() -> None:
    path = "workload.response.mean_tokens"
    scenario = replace(small(), drift=(Drift(path, to=2000.0, end=10.0), Drift(path, Shape.STEP, to=500.0, start=20.0)))
    lengths = [job_at(scenario, step, 0.0).workload.response.mean_tokens for step in (0, 10, 20)]
    assert lengths == [1000.0, 2000.0, 500.0]


def test_a_lost_node_takes_its_gpus_and_gives_them_back() -> None:
    scenario = eventful(Event(EventKind.NODE_LOSS, at=3, until=6, gpus=2))
    assert [job_at(scenario, s, 0.0).setpoints.gpus_generator for s in (2, 3, 5, 6)] == [6, 4, 4, 6]


def test_a_lost_node_is_lost_whatever_was_ordered() -> None:
    scenario = eventful(Event(EventKind.NODE_LOSS, at=0, gpus=2))
    ordered = replace(scenario.setpoints, gpus_generator=5)
    assert job_at(scenario, 1, 0.0, ordered).setpoints.gpus_generator == 3


def test_a_slow_sandbox_slows_starts_and_tools() -> None:
    job = job_at(eventful(Event(EventKind.SLOW_SANDBOX, at=0, factor=8.0)), 0, 0.0)
    assert job.stations.sandboxes is not None
    assert job.workload.tool is not None
    assert (job.stations.sandboxes.start_s, job.workload.tool.mean_s) == (80.0, 16.0)


def test_a_slow_trainer_slows_all_of_its_step() -> None:
    job = job_at(eventful(Event(EventKind.TRAINER_SLOWDOWN, at=0, factor=1.5)), 0, 0.0)
    assert (job.stations.trainer.base_s, job.stations.trainer.gpu_s_per_token) == pytest.approx((3.0, 3e-4))


def test_a_quota_change_is_one_of_the_quota() -> None:
    job = job_at(eventful(Event(EventKind.QUOTA_CHANGE, at=0, limit=40)), 0, 0.0)
    assert job.stations.sandboxes is not None
    assert job.stations.sandboxes.live_limit == 40


def test_what_others_turn_is_seen_without_orders_only() -> None:
    scenario = eventful(Event(EventKind.KNOB_CHANGE, at=2, knob="max_in_flight", value=9.0))
    assert job_at(scenario, 2, 0.0).setpoints.max_in_flight == 9
    assert job_at(scenario, 2, 0.0, scenario.setpoints).setpoints.max_in_flight is None


@pytest.mark.parametrize(("knob", "value"), [("max_in_flight", 9), ("staleness_bound", 1.5), ("partial_rollout", True)])
def test_a_knob_has_the_type_of_its_field(knob: str, value: float) -> None:
    assert with_knob(Setpoints(), knob, float(value)) == replace(Setpoints(), **{knob: value})


def test_a_story_that_leads_to_an_impossible_job_is_refused_where_it_gets_there() -> None:
    scenario = eventful(Event(EventKind.KNOB_CHANGE, at=7, knob="batch_rollouts", value=63.0))
    assert [(f.key, f.value) for f in faults_of(scenario)] == [("setpoints.batch_rollouts", 63)]
    assert "after 7 steps" in faults_of(scenario)[0].why
