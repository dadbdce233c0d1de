"""What lies beyond the engine's core: each station and rule keeps the laws, and does what its docstring says."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simulators.event_model import EventModel
from simulators.event_parameters import parameters
from simulators.event_state import Job
from simulators.model import Prediction
from simulators.plant import Mode, Topology
from simulators.simulation import Simulation
from simulators.stations import (
    Admission,
    Order,
    Plug,
    PrefillPool,
    PrefillWork,
    Pruning,
    Sandboxes,
    SyncMode,
    Tenant,
    Verifier,
    Victim,
    WeightSync,
    affine,
)
from simulators.workload import Duration, Lengths, TurnLaw, Turns
from tests.jobs import core_jobs, plain_job, with_engine, with_knobs, with_stations, with_work
from tests.oracles.events_reference import Reference

ROWS = 200_000
PLAIN = plain_job()
AGENT = with_work(
    PLAIN,
    turns=Turns(4.0, TurnLaw.GEOMETRIC),
    tool=Duration(5.0),
    tool_tokens=Lengths(50.0),
    response=Lengths(200.0, 0.8),
    max_context_tokens=4000,
)
OVER = with_knobs(AGENT, oversampling_ratio=1.5)
SERIAL = replace(OVER, topology=Topology(mode=Mode.SERIAL, gpus_total=2))
POOLED = with_knobs(with_stations(AGENT, prefill=PrefillPool(1, 1e-3, 20_000, 1e-5, 0.01)), gpus_prefill=2)
BOXED = with_stations(AGENT, sandboxes=Sandboxes(2.0, live_limit=8))
ORDERED = with_stations(AGENT, admission=Admission(Plug.WIP_CAP, 12, order=Order.ADMISSION))
STALE_IN_ORDER = with_knobs(
    with_stations(AGENT, admission=Admission(Plug.DISCARD_STALE, order=Order.ADMISSION)), staleness_bound=1.0
)
SYNCS = [
    with_knobs(
        with_stations(
            with_engine(AGENT, prefill_s_per_token=1e-4), sync=WeightSync(1.0, mode, rolling, keeps_kv=False)
        ),
        partial_rollout=partial,
    )
    for mode in SyncMode
    for rolling in (False, True)
    for partial in (False, True)
]
WIDE = [
    AGENT,
    with_engine(AGENT, prefill_s_per_token=1e-3),
    with_engine(AGENT, prefill_s_per_token=1e-3, prefill=PrefillWork.CHUNKED),
    with_engine(AGENT, kv_tokens=6000, prefill_s_per_token=1e-4),
    with_engine(AGENT, kv_tokens=6000, victim=Victim.SHORTEST_OUTPUT, kv_watermark_frac=0.1),
    with_engine(AGENT, lockstep=2, prefill_s_per_token=1e-4),
    with_engine(AGENT, speeds=(1.0, 0.5)),
    with_work(AGENT, failure_frac=0.1),
    OVER,
    with_knobs(OVER, partial_rollout=True),
    with_knobs(OVER, filter_zero_adv=True),
    SERIAL,
    with_knobs(SERIAL, partial_rollout=True),
    with_stations(OVER, group_wise_oversampling=False),
    *SYNCS,
    BOXED,
    with_stations(AGENT, sandboxes=Sandboxes(2.0, 8, 2.0, 0.02, 0.5, 0.2, 60.0)),
    with_stations(AGENT, sandboxes=Sandboxes(2.0, 8, leak_frac=0.2, lifetime_s=60.0)),
    with_stations(AGENT, verifier=Verifier(1.0, 2)),
    POOLED,
    with_knobs(POOLED, oversampling_ratio=1.5, partial_rollout=True),
    with_knobs(with_stations(AGENT, admission=Admission(Plug.DISCARD_STALE)), staleness_bound=1.0),
    with_stations(AGENT, admission=Admission(Plug.PER_SYNC, 6)),
    ORDERED,
    with_knobs(ORDERED, filter_zero_adv=True),
    with_stations(AGENT, admission=Admission(Plug.DROP_OLDEST, 6, order=Order.ADMISSION)),
    with_knobs(STALE_IN_ORDER, filter_zero_adv=True, partial_rollout=True),
    with_stations(AGENT, pruning=Pruning(600, 0.5)),
    with_stations(with_knobs(AGENT, max_in_flight=8), tenant=Tenant(500.0)),
]


def predict(job: Job, batches: int = 200) -> Prediction:
    return EventModel(job.stations, batches=batches).predict(job.topology, job.workload, job.setpoints)


@given(core_jobs(), st.integers(0, 2**40))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_widest_variant_treats_a_plain_job_as_the_twin_does(job: Job, seed: int) -> None:
    compiled, twin = Simulation(job, seed, ROWS, wide=True), Reference(parameters(job), seed)
    compiled.advance(until_step=5, until_s=1e4)
    twin.run(until_step=5, until_s=1e4)
    told, expected = compiled.trace(), twin.trace[:ROWS]
    assert [row[1:] for row in told] == [row[1:] for row in expected]
    assert [row[0] for row in told] == pytest.approx([row[0] for row in expected], rel=1e-12)
    assert compiled.broken_laws() == ()


@pytest.mark.parametrize("number", range(len(WIDE)))
def test_no_rollout_is_lost_in_any_station(number: int) -> None:
    simulation = Simulation(WIDE[number], number)
    for _ in range(30):
        simulation.advance(until_s=simulation.now_s + 37.0)
        assert simulation.broken_laws() == ()
    assert simulation.stopped is None
    assert simulation.step > 5


@pytest.mark.parametrize("number", range(len(WIDE)))
def test_a_look_at_what_engines_did_changes_not_a_bit_of_the_job(number: int) -> None:
    simulation = Simulation(WIDE[number], number)
    for _ in range(60):
        simulation.advance(until_s=simulation.now_s + 3.7)
        before = [array.tobytes() for array in simulation._state]
        simulation.counters_now()
        assert [array.tobytes() for array in simulation._state] == before


@given(st.sampled_from(WIDE), st.sampled_from(WIDE), st.floats(1.0, 300.0))
@settings(max_examples=60, deadline=None)
def test_no_rollout_is_lost_when_stations_come(before: Job, after: Job, at_s: float) -> None:
    """From the plain variant to the widest, whatever is in flight; rules of admission and order stay."""
    admission = replace(after.stations.admission, plug=Plug.BUFFER_CAP, limit_groups=8, order=Order.COMPLETION)
    plain = with_stations(AGENT, admission=admission)
    simulation = Simulation(plain, 3)
    simulation.advance(until_s=at_s)
    simulation.change(with_stations(replace(after, topology=AGENT.topology), admission=admission, prefill=None))
    simulation.advance(until_s=at_s + 200.0)
    assert simulation.broken_laws() == ()


def test_failures_are_replaced_and_counted() -> None:
    prediction = predict(with_work(AGENT, failure_frac=0.1))
    assert prediction.waste["failed"] == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize("order", Order)
def test_a_group_older_than_the_bound_is_never_trained(order: Order) -> None:
    job = with_knobs(with_stations(AGENT, admission=Admission(Plug.DISCARD_STALE, order=order)), staleness_bound=2.0)
    prediction = predict(job)
    assert prediction.staleness is not None
    assert prediction.staleness.maximum == 2.0
    assert prediction.waste["stale"] > 0.05


@pytest.mark.parametrize("batches", [1, 2, 3])
def test_in_order_of_dispatch_a_wip_cap_bounds_staleness_hard(batches: int) -> None:
    job = with_stations(AGENT, admission=Admission(Plug.WIP_CAP, 4 * batches, order=Order.ADMISSION))
    staleness = predict(job).staleness
    assert staleness is not None
    assert staleness.maximum == batches - 1


def test_per_sync_starts_no_more_than_its_limit_between_two_publications() -> None:
    simulation = Simulation(with_stations(AGENT, admission=Admission(Plug.PER_SYNC, 6)), 1, ROWS)
    simulation.advance(until_step=40)
    started: set[float] = set()
    for _, kind, group, _, _ in simulation.trace():
        started = set() if kind == 5 else started | ({group} if kind == 0 else set())
        assert len(started) <= 7  # the one that was open at the publication goes on


def test_stalling_and_chunked_prefill_do_the_same_work() -> None:
    flat = with_engine(AGENT, step=affine(0.02, 0.0), prefill_s_per_token=2e-3)
    none = predict(with_engine(flat, prefill_s_per_token=0.0))
    stalling, chunked = predict(flat), predict(with_engine(flat, prefill=PrefillWork.CHUNKED))
    assert chunked.rollouts_per_s == pytest.approx(stalling.rollouts_per_s, rel=0.03)
    assert stalling.rollouts_per_s < 0.99 * none.rollouts_per_s


def test_a_full_kv_pool_preempts_and_pushes_out_the_prefix_cache() -> None:
    roomy, tight = predict(with_engine(AGENT, kv_tokens=10**6)), predict(with_engine(AGENT, kv_tokens=6000))
    assert roomy.preemptions_per_rollout == 0.0
    assert roomy.prefix_hit_frac is not None
    assert tight.prefix_hit_frac is not None
    assert roomy.prefix_hit_frac > 0.5
    assert tight.prefix_hit_frac < roomy.prefix_hit_frac
    assert tight.preemptions_per_rollout is not None
    assert tight.preemptions_per_rollout > 0.0
    assert predict(with_engine(AGENT, prefix_cache=False, kv_tokens=10**6)).prefix_hit_frac == 0.0


def test_the_resident_context_never_exceeds_the_kv_pool() -> None:
    simulation = Simulation(with_engine(AGENT, kv_tokens=6000), 1)
    simulation.advance(until_step=200)
    counters = simulation.counters()
    assert counters.context_area <= 2 * 6000.0 * counters.now_s


def test_a_context_longer_than_the_kv_pool_stops_the_job() -> None:
    stopped = predict(with_engine(AGENT, kv_tokens=300)).stopped
    assert stopped is not None
    assert "KV pool" in stopped


def test_lockstep_runs_at_the_pace_of_the_slowest() -> None:
    apart = with_engine(AGENT, speeds=(1.0, 0.5))
    assert predict(with_engine(apart, lockstep=2)).rollouts_per_s < predict(apart).rollouts_per_s
    alone = with_knobs(AGENT, engines=1)
    assert predict(with_engine(alone, lockstep=2)).rollouts_per_s == pytest.approx(predict(alone).rollouts_per_s)


def test_a_tenant_takes_every_slot_that_is_free_and_no_other() -> None:
    job = with_stations(with_knobs(AGENT, max_in_flight=8), tenant=Tenant(500.0), sync=WeightSync(0.0))
    simulation = Simulation(job, 1)
    simulation.advance(until_s=20_000.0)
    counters = simulation.counters()
    everything = 2 * 8 / (0.008 + 8 * 0.0005) * counters.now_s
    assert counters.decoded_tokens + counters.tenant_tokens == pytest.approx(everything, rel=1e-3)


def test_oversampling_keeps_the_short_ones() -> None:
    """Long answers are given up: the bias that an optimiser must not be paid for."""
    given_up, partial = predict(SERIAL), predict(with_knobs(SERIAL, partial_rollout=True))
    assert given_up.waste["oversampled"] == pytest.approx(1.0 / 3.0, abs=0.02)
    assert given_up.kept_length_ratio is not None
    assert given_up.kept_length_ratio < 0.9
    assert given_up.staleness is not None
    assert given_up.staleness.maximum == 0.0
    assert partial.kept_length_ratio == pytest.approx(1.0, abs=0.03)
    assert partial.resumed_frac is not None
    assert partial.resumed_frac > 0.05
    assert "oversampled" not in partial.waste


def test_the_sandbox_quota_is_a_wall_and_overload_a_cliff() -> None:
    free, walled = predict(with_stations(AGENT, sandboxes=Sandboxes(2.0))), predict(BOXED)
    cliff = Sandboxes(2.0, live_limit=8, overload_factor=2.0, overload_failure_frac=0.5)
    over = predict(with_stations(AGENT, sandboxes=cliff))
    assert free.sandbox_wait_s == pytest.approx(2.0, rel=0.01)
    assert walled.sandbox_wait_s is not None
    assert over.sandbox_failed_frac is not None
    assert walled.rollouts_per_s < 0.8 * free.rollouts_per_s
    assert walled.sandbox_wait_s > 4.0
    assert over.rollouts_per_s < walled.rollouts_per_s
    assert over.sandbox_failed_frac > 0.02


def test_leaked_sandboxes_without_a_lifetime_end_in_a_deadlock() -> None:
    stopped = predict(with_stations(AGENT, sandboxes=Sandboxes(2.0, live_limit=8, leak_frac=0.2))).stopped
    assert stopped is not None
    assert stopped.startswith("deadlock")


def test_a_fleet_of_which_nothing_starts_ends_the_run_however_many_wait_for_it() -> None:
    """A rollout would be lost a thousand times before it is given up; 20,000 of them never get there."""
    lost = with_stations(AGENT, sandboxes=Sandboxes(2.0, start_timeout_s=1.0))
    simulation = Simulation(with_knobs(with_engine(lost, slots=20_000), max_in_flight=20_000), 1)
    simulation.advance(until_step=1)
    assert simulation.stopped is not None
    assert "4,000,000 attempts were lost and no rollout finished in between" in simulation.stopped
    assert "time-out" in simulation.stopped


def test_a_narrow_verifier_bounds_the_throughput() -> None:
    rate = predict(with_stations(AGENT, verifier=Verifier(10.0, 2))).rollouts_per_s
    assert rate == pytest.approx(0.2, rel=0.01)


def test_a_prefill_pool_that_cannot_hold_its_results_holds_back() -> None:
    narrow = replace(POOLED.stations.prefill or PrefillPool(1, 1e-3), prefill_s_per_token=0.02)
    bound = predict(with_stations(POOLED, prefill=narrow))
    assert predict(POOLED).rollouts_per_s > 1.5 * bound.rollouts_per_s


def test_aborting_wastes_what_partial_rollout_saves() -> None:
    anew, resumed = predict(SYNCS[4]), predict(SYNCS[5])
    assert anew.waste["aborted"] > 0.1
    assert "aborted" not in resumed.waste
    assert resumed.rollouts_per_s > anew.rollouts_per_s


def test_pruned_members_are_not_trained() -> None:
    prediction = predict(with_stations(AGENT, pruning=Pruning(600)))
    assert prediction.kept_length_ratio is not None
    assert prediction.waste["pruned"] > 0.1
    assert prediction.kept_length_ratio < 0.9
