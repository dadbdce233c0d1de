"""A scenario says what its job is at any step and second: the same for everybody who asks."""

from dataclasses import replace

import pytest

from simulators.drift import By, Drift, Shape
from simulators.plant import Mode, Setpoints
from simulators.scenario import Event, EventKind, Move, Scenario, job_at, with_knob
from simulators.scenario_faults import faults_of
from simulators.stations import Admission, Plug, PrefillPool, Sandboxes, SyncMode, Tenant, WeightSync
from simulators.workload import Duration, TurnLaw, Turns
from tests.unit.simulators.scenarios import small

NO_TURNS = Turns(law=TurnLaw.EMPIRICAL, quantiles=((0.0, 0.0), (1.0, 0.0)))


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


def turned(knob: str, value: float) -> Scenario:
    return replace(small(), event=(Event(EventKind.KNOB_CHANGE, at=2, knob=knob, value=value),))


def disaggregated() -> Scenario:
    stations = replace(small().stations, prefill=PrefillPool(1, 1e-4))
    pools = replace(small().setpoints, gpus_generator=6, gpus_prefill=2, gpus_decode=4)
    return replace(small(), stations=stations, setpoints=pools)


def with_plug(plug: Plug, limit: int) -> Scenario:
    return replace(small(), stations=replace(small().stations, admission=Admission(plug, limit_groups=limit)))


NOTHING_WOULD_CHANGE = [
    (turned("overlap", 0.0), "event.0.knob", "overlap", "topology.mode"),
    (turned("packing", 1.0), "event.0.knob", "packing", "stations.trainer.gpu_s_per_token"),
    (turned("in_flight_update", 0.0), "event.0.knob", "in_flight_update", "stations.sync.mode"),
    (turned("sandbox_quota", 9.0), "event.0.knob", "sandbox_quota", "stations.sandboxes"),
    (
        replace(small(), topology=replace(small().topology, queue_capacity=512)),
        "topology.queue_capacity",
        512,
        "stations.admission",
    ),
    (replace(small(), move=(Move("packing"),)), "move.0.knob", "packing", "stations.trainer.gpu_s_per_token"),
    (
        replace(small(), event=(Event(EventKind.QUOTA_CHANGE, at=2, limit=9),)),
        "event.0.kind",
        "quota-change",
        "stations.sandboxes",
    ),
    (
        replace(small(), event=(Event(EventKind.SLOW_SANDBOX, at=2, factor=2.0),)),
        "event.0.kind",
        "slow-sandbox",
        "workload.tool",
    ),
]


@pytest.mark.parametrize(("scenario", "key", "value", "remedy"), NOTHING_WOULD_CHANGE)
def test_a_story_that_would_change_nothing_is_refused(
    scenario: Scenario, key: str, value: str | int, remedy: str
) -> None:
    (fault,) = faults_of(scenario)
    assert (fault.key, fault.value) == (key, value)
    assert remedy in fault.why


def test_the_generator_of_a_disaggregated_job_is_its_pools() -> None:
    assert faults_of(disaggregated()) == []
    smaller = replace(disaggregated(), event=turned("gpus_prefill", 1.0).event)
    assert faults_of(smaller) == []
    assert [job_at(smaller, step, 0.0).setpoints.gpus_generator for step in (1, 2)] == [6, 5]
    (fault,) = faults_of(replace(disaggregated(), event=turned("gpus_generator", 5.0).event))
    assert (fault.key, fault.value) == ("setpoints.gpus_generator", 5)
    assert "gpus_prefill + gpus_decode = 6" in fault.why
    assert "after 2 steps" in fault.why


def test_half_a_gpu_is_none() -> None:
    (fault,) = faults_of(turned("gpus_generator", 5.5))
    assert (fault.key, fault.value) == ("event.0.value", 5.5)
    assert "whole number" in fault.why


def test_a_setting_that_contradicts_the_mode_is_refused() -> None:
    (fault,) = faults_of(replace(small(), setpoints=replace(small().setpoints, overlap=False)))
    assert (fault.key, fault.value) == ("setpoints.overlap", False)
    assert "topology.mode" in fault.why
    assert faults_of(replace(serial(), setpoints=replace(serial().setpoints, overlap=False))) == []


def serial() -> Scenario:
    knobs = replace(small().setpoints, gpus_trainer=None, gpus_generator=None)
    return replace(small(), topology=replace(small().topology, mode=Mode.SERIAL), setpoints=knobs, move=())


@pytest.mark.parametrize("knob", ["gpus_trainer", "gpus_generator"])
def test_gpus_of_one_side_are_refused_where_both_sides_use_all(knob: str) -> None:
    (fault,) = faults_of(replace(serial(), setpoints=with_knob(serial().setpoints, knob, 2.0)))
    assert (fault.key, fault.value) == (f"setpoints.{knob}", 2)
    assert "topology.mode" in fault.why
    assert "gpus_total=8" in fault.why
    assert faults_of(replace(serial(), setpoints=with_knob(serial().setpoints, knob, 8.0))) == []
    (fault,) = faults_of(replace(serial(), move=(Move(knob),)))
    assert (fault.key, fault.value) == ("move.0.knob", knob)
    assert "topology.gpus_total" in fault.why


@pytest.mark.parametrize(
    ("stated", "mode", "remedy"),
    [(True, SyncMode.DRAIN, "in-flight"), (True, SyncMode.ABORT, "in-flight"), (False, SyncMode.IN_FLIGHT, "drain")],
)
def test_a_way_of_publishing_that_the_station_contradicts_is_refused(stated: bool, mode: SyncMode, remedy: str) -> None:
    stations = replace(small().stations, sync=WeightSync(1.0, mode))
    job = replace(small(), stations=stations, setpoints=replace(small().setpoints, in_flight_update=stated))
    (fault,) = faults_of(job)
    assert (fault.key, fault.value) == ("setpoints.in_flight_update", stated)
    assert f"stations.sync.mode = {mode}" in fault.why
    assert remedy in fault.why
    assert faults_of(replace(job, setpoints=replace(job.setpoints, in_flight_update=not stated))) == []


def boxed(**values: float) -> Scenario:
    return replace(small(), stations=replace(small().stations, sandboxes=Sandboxes(20.0, **values)))


def test_a_time_out_under_which_no_sandbox_ever_starts_is_refused() -> None:
    (fault,) = faults_of(boxed(start_timeout_s=1.0))
    assert (fault.key, fault.value) == ("stations.sandboxes.start_timeout_s", 1.0)
    assert "start_s=20" in fault.why
    assert faults_of(boxed(start_timeout_s=20.0)) == []


def test_an_hour_in_which_none_starts_in_time_is_a_story() -> None:
    slow = Event(EventKind.SLOW_SANDBOX, at=0, by=By.TIME, until=3600, factor=8.0)
    assert faults_of(replace(boxed(start_timeout_s=60.0), event=(slow,))) == []


def test_a_fleet_that_loses_every_start_is_refused() -> None:
    (fault,) = faults_of(boxed(failure_frac=1.0))
    assert (fault.key, fault.value) == ("stations.sandboxes.failure_frac", 1.0)


@pytest.mark.parametrize("plug", [Plug.WIP_CAP, Plug.DROP_OLDEST, Plug.PER_SYNC])
def test_a_limit_under_which_no_batch_ever_fills_is_refused(plug: Plug) -> None:
    (fault,) = faults_of(with_plug(plug, 7))
    assert (fault.key, fault.value) == ("stations.admission.limit_groups", 7)
    assert "8 groups" in fault.why
    assert faults_of(with_plug(plug, 8)) == []


def test_a_step_and_a_floor_that_leave_no_trainer_size_are_refused_together() -> None:
    topology = replace(small().topology, trainer_gpu_step=5, trainer_gpus_min=6)
    (fault,) = faults_of(replace(small(), topology=topology))
    assert (fault.key, fault.value) == ("topology.trainer_gpu_step", 5)
    assert "trainer_gpus_min=6" in fault.why
    assert "gpus_total=8" in fault.why


def test_ranks_that_do_not_divide_a_batch_are_told_how_many_would() -> None:
    topology = replace(small().topology, batch_must_divide=True)
    (fault,) = faults_of(
        replace(small(), topology=topology, setpoints=replace(small().setpoints, gpus_trainer=3, gpus_generator=5))
    )
    assert "3 data-parallel ranks" in fault.why
    assert "; 2 would" in fault.why


STATION_FAULTS = [
    (boxed(starts_per_s_limit=0.0), "stations.sandboxes.starts_per_s_limit", "leave it out"),
    (
        replace(small(), stations=replace(small().stations, tenant=Tenant(0.0))),
        "stations.tenant.response_tokens",
        "at least 1",
    ),
    (
        replace(small(), workload=replace(small().workload, turns=NO_TURNS)),
        "workload.turns.quantiles",
        "turns of at least 1",
    ),
    (replace(small(), move=(Move("max_in_flight"), Move("max_in_flight"))), "move.1.knob", "take one of the two out"),
]


@pytest.mark.parametrize(("scenario", "key", "remedy"), STATION_FAULTS)
def test_what_would_be_taken_for_something_else_is_refused(scenario: Scenario, key: str, remedy: str) -> None:
    (fault,) = faults_of(scenario)
    assert fault.key == key
    assert remedy in fault.why
