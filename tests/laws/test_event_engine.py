"""Laws of the event engine: the compiled one is its readable twin, nothing is lost, plugs keep what they promise."""

from dataclasses import replace
from statistics import fmean, stdev

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simulators.compiled import multi_server
from simulators.event_model import EventModel
from simulators.event_parameters import parameters
from simulators.event_state import Job
from simulators.model import Prediction
from simulators.plant import Mode
from simulators.simulation import Simulation
from simulators.stations import Admission, Engine, Plug, StepTime, Trainer, WeightSync, affine
from simulators.workload import Duration, Lengths, SolvePart, SolveRates, Turns
from tests.jobs import capped, core_jobs, plain_job, with_stations, with_work
from tests.oracles.events_reference import Reference

SOME = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
ROWS = 200_000


def predict(job: Job, batches: int = 100, warm_up_batches: int = 20) -> Prediction:
    model = EventModel(job.stations, batches=batches, warm_up_batches=warm_up_batches)
    return model.predict(job.topology, job.workload, job.setpoints)


@given(core_jobs(), st.integers(0, 2**40))
@SOME
def test_the_compiled_engine_and_its_readable_twin_leave_the_same_trace(job: Job, seed: int) -> None:
    compiled, twin = Simulation(job, seed, ROWS), Reference(parameters(job), seed)
    compiled.advance(until_step=5, until_s=1e6)
    twin.run(until_step=5, until_s=1e6)
    told, expected = compiled.trace(), twin.trace[:ROWS]
    assert [row[1:] for row in told] == [row[1:] for row in expected]
    # To the last bits: a compiler may fuse a product and a sum.
    assert [row[0] for row in told] == pytest.approx([row[0] for row in expected], rel=1e-12)


@given(core_jobs(), st.lists(st.floats(0.0, 400.0), max_size=4))
@SOME
def test_no_rollout_is_lost_at_any_time(job: Job, pauses: list[float]) -> None:
    simulation = Simulation(job, 3)
    for pause in pauses:
        simulation.advance(until_s=simulation.now_s + pause)
        assert simulation.broken_laws() == ()
    simulation.advance(until_step=4, until_s=1e6)
    assert simulation.broken_laws() == ()


@given(core_jobs(), core_jobs(), st.floats(0.0, 300.0))
@SOME
def test_no_rollout_is_lost_when_the_job_changes(before: Job, after: Job, at_s: float) -> None:
    simulation = Simulation(before, 3)
    simulation.advance(until_s=at_s)
    after = replace(after, stations=replace(after.stations, admission=before.stations.admission))
    simulation.change(after)
    simulation.advance(until_s=at_s + 200.0)
    assert simulation.broken_laws() == ()


@pytest.mark.slow
@given(core_jobs(), st.floats(0.0, 50.0))
@SOME
def test_stopping_on_the_way_changes_nothing(job: Job, pause_s: float) -> None:
    whole, parts = Simulation(job, 1, ROWS), Simulation(job, 1, ROWS)
    whole.advance(until_s=300.0)
    while parts.now_s < 300.0 and pause_s > 1.0:
        parts.advance(until_s=min(300.0, parts.now_s + pause_s))
    parts.advance(until_s=300.0)
    assert parts.trace() == whole.trace()


@pytest.mark.parametrize("batches", [1.0, 1.5, 2.0, 3.0, 5.0])
@pytest.mark.parametrize("freed_at_start", [False, True])
def test_a_wip_cap_that_binds_fixes_the_mean_staleness(batches: float, freed_at_start: bool) -> None:
    job = capped(plain_job(engines=24, batch_groups=16, group_size=8), int(16 * batches), freed_at_start)
    roomy = with_stations(job, engine=Engine(affine(0.008, 0.0001), 64), trainer=Trainer(0.1, 1e-7))
    staleness = predict(roomy, batches=2000).staleness
    assert staleness is not None
    assert staleness.mean == pytest.approx(batches if freed_at_start else batches - 1.0, abs=0.02)


def test_a_serial_job_trains_on_fresh_rollouts_only() -> None:
    job = plain_job()
    serial = replace(job, topology=replace(job.topology, mode=Mode.SERIAL, gpus_total=2))
    staleness = predict(serial).staleness
    assert staleness is not None
    assert staleness.maximum == 0


@pytest.mark.parametrize(("shared", "longest"), [(0.0, 3.084), (0.5, 2.35), (0.75, 1.89)])
def test_the_longest_of_a_group_of_eight(shared: float, longest: float) -> None:
    """reference: order statistics of eight lognormals of sigma 1 with a share of variance in common."""
    job = capped(plain_job(engines=1, batch_groups=1, group_size=8), 1)
    flat = with_stations(job, engine=Engine(affine(0.01, 0.0), 8), trainer=Trainer(0.0, 0.0), sync=WeightSync(0.0))
    work = with_work(flat, response=Lengths(8000.0, 1.0, between_prompt_frac=shared), prompt=Lengths(0.0))
    assert predict(work, batches=60_000).step_s == pytest.approx(80.0 * longest, rel=0.01)


@pytest.mark.parametrize("sigma", [0.0, 0.5, 1.5])
def test_processor_sharing_is_insensitive_to_the_law_of_lengths(sigma: float) -> None:
    """Machine repairman with 6 customers, think time 10, service 1: utilisation .51549, .84515 at the server."""
    job = plain_job(engines=1, batch_groups=1, group_size=1, max_in_flight=6)
    shared = Engine(StepTime(((0.0, 0.0), (1.0, 0.001))), 8)
    job = with_stations(job, engine=shared, trainer=Trainer(0.0, 0.0), sync=WeightSync(0.0), admission=Admission())
    job = with_work(job, prompt=Lengths(0.0), response=Lengths(1000.0, sigma), turns=Turns(20_000), tool=Duration(10.0))
    simulation = Simulation(job, 11)
    simulation.advance(until_s=1e6)
    counters = simulation.counters()
    assert counters.engine_busy_s / counters.now_s == pytest.approx(0.51549, rel=0.01)
    assert counters.area_resident / counters.now_s == pytest.approx(0.84515, rel=0.015)


def test_other_knobs_see_the_same_prompts_lengths_and_rewards() -> None:
    def groups(engines: int) -> dict[float, tuple[float, float]]:
        simulation = Simulation(plain_job(engines), 5, ROWS)
        simulation.advance(until_step=20)
        return {row[2]: row[3:] for row in simulation.trace() if row[1] == 3}

    few, many = groups(1), groups(3)
    both = few.keys() & many.keys()
    assert len(both) > 50
    assert all(few[group] == many[group] for group in both)


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (capped(plain_job(batch_groups=4), 3), "deadlock: at most 3 groups may be started"),
        (with_stations(plain_job(batch_groups=4, max_in_flight=1), admission=Admission(Plug.BUFFER_CAP, 2)), "2 wait"),
        (with_stations(plain_job(batch_groups=4), admission=Admission(Plug.DROP_OLDEST, 3)), "starved"),
        (with_work(plain_job(filter_zero_adv=True), solve=SolveRates(never_frac=1.0)), "starved"),
        (with_stations(plain_job(), trainer=Trainer(1e12, 0.0), admission=Admission()), "grows without bound"),
    ],
)
def test_a_job_that_cannot_go_on_says_why(job: Job, words: str) -> None:
    prediction = predict(job)
    assert prediction.stopped is not None
    assert words in prediction.stopped
    assert prediction.rollouts_per_s == 0.0


def test_memory_does_not_grow_with_what_was_simulated() -> None:
    simulation = Simulation(plain_job(), 1)
    simulation.advance(until_step=200)
    early = simulation.memory_bytes
    simulation.advance(until_step=20_000)
    assert simulation.counters().finished > 300_000
    assert simulation.memory_bytes <= 1.5 * early


def test_engines_come_at_once_and_leave_when_their_rollouts_are_done() -> None:
    job = plain_job(engines=4)
    simulation = Simulation(job, 1)
    simulation.advance(until_step=50)
    simulation.change(replace(job, setpoints=replace(job.setpoints, engines=1)))
    assert simulation.gauges().in_flight > 8
    simulation.advance(until_step=simulation.step + 20)
    assert simulation.gauges().in_flight <= 8
    simulation.change(job)
    simulation.advance(until_s=simulation.now_s + 1e-9)
    assert simulation.gauges().in_flight == 32


def test_the_multi_server_path_agrees_with_erlang_c() -> None:
    """M/M/8 at load 0.9: mean wait .876916 services (Erlang C)."""
    assert multi_server(8, 7.2, 1.0, 4_000_000, seed=2) == pytest.approx(0.876916, rel=0.02)


def test_what_is_kept_is_told_with_the_error_that_other_seeds_show() -> None:
    """By batch means over one run."""
    job = with_work(plain_job(), solve=SolveRates(parts=(SolvePart(1.0, 1.0, 2.5),), always_frac=0.2))
    job = replace(job, setpoints=replace(job.setpoints, filter_zero_adv=True))
    told = [
        EventModel(job.stations, seed, 32, 1, 6).predict(job.topology, job.workload, job.setpoints)
        for seed in range(24)
    ]
    ratios = [one.kept_solve_ratio for one in told if one.kept_solve_ratio is not None]
    errors = [one.kept_solve_error for one in told if one.kept_solve_error is not None]
    assert len(ratios) == len(errors) == len(told)
    assert 0.5 * stdev(ratios) < fmean(errors) < 2.0 * stdev(ratios)
