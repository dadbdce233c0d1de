"""Who waits for whom, and how much of the wall time that could give back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.base import Verdict
from policies.diagnosis import diagnose
from policies.diagnosis.budget import wall_time_budget
from policies.diagnosis.waiting import causes_of, coupling_idle_frac, generator_is_slower
from simulators.plant import Mode, Setpoints, Topology
from simulators.snapshot import Snapshot, snapshot_of
from tests.unit.policies.conftest import Steps


def shares(snapshot: Snapshot, mode: Mode, setpoints: Setpoints | None = None) -> dict[Verdict, float]:
    """Recoverable share of each candidate, largest first."""
    knobs = setpoints or Setpoints()
    budget = wall_time_budget(mode, knobs, snapshot)
    assert budget is not None
    return {c.verdict: c.recoverable_frac for c in causes_of(Topology(mode=mode), knobs, snapshot, budget)}


def test_in_a_serial_job_each_phase_could_give_back_its_own_share(steps: Steps) -> None:
    serial = steps(4, mode=Mode.SERIAL, step_s=100, rollout_s=60, trainer_busy_s=30, weight_sync_s=10)
    assert shares(serial, Mode.SERIAL) == pytest.approx(
        {Verdict.GENERATION_BOUND: 0.6, Verdict.TRAINER_BOUND: 0.3, Verdict.WEIGHT_SYNC_BOUND: 0.1}
    )


def test_in_a_serial_job_that_logs_a_wait_and_no_generation_the_wait_is_the_generators(steps: Steps) -> None:
    serial = steps(6, mode=Mode.SERIAL, step_s=100, trainer_wait_s=62, trainer_busy_s=30, weight_sync_s=8)
    assert shares(serial, Mode.SERIAL) == pytest.approx(
        {Verdict.GENERATION_BOUND: 0.62, Verdict.TRAINER_BOUND: 0.3, Verdict.WEIGHT_SYNC_BOUND: 0.08}
    )
    found = diagnose(Topology(mode=Mode.SERIAL), Setpoints(), serial)
    assert found.verdict is Verdict.GENERATION_BOUND
    assert "generation" in [phase.name for phase in found.budget]
    assert "unaccounted-time" not in [finding.code for finding in found.findings]


def test_an_overlapped_generator_gives_back_only_what_the_trainer_waits(steps: Steps) -> None:
    slow = steps(6, step_s=100, trainer_wait_s=60, trainer_busy_s=40)
    assert shares(slow, Mode.OVERLAPPED) == pytest.approx({Verdict.GENERATION_BOUND: 0.6})


def test_a_gated_generator_makes_the_trainer_the_limit(steps: Steps) -> None:
    gated = steps(6, step_s=100, trainer_wait_s=2, trainer_busy_s=98, generator_wait_s=40)
    found = shares(gated, Mode.OVERLAPPED)
    assert next(iter(found)) is Verdict.TRAINER_BOUND
    assert found[Verdict.TRAINER_BOUND] == pytest.approx(0.4)


def test_phases_beside_both_sides_are_candidates_too(steps: Steps) -> None:
    beside = {"reward_s": 10, "validation_s": 20, "checkpoint_s": 5, "offload_s": 4, "overhead_s": 3}
    found = shares(steps(4, mode=Mode.SERIAL, step_s=100, rollout_s=30, **beside), Mode.SERIAL)
    assert found[Verdict.REWARD_BOUND] == pytest.approx(0.10)
    assert found[Verdict.VALIDATION_BOUND] == pytest.approx(0.20)
    assert found[Verdict.CHECKPOINT_BOUND] == pytest.approx(0.05)
    assert found[Verdict.OVERHEAD_BOUND] == pytest.approx(0.07)


@given(st.floats(0, 64), st.floats(0, 64))
def test_more_batches_ahead_explain_less_idling(a: float, b: float) -> None:
    low, high = sorted((a, b))
    assert coupling_idle_frac(low) >= coupling_idle_frac(high) > 0.0


def test_a_full_buffer_acquits_the_generator_whatever_the_wait() -> None:
    full = snapshot_of(queue_depth=512, batch_rollouts=512)
    assert not generator_is_slower(Setpoints(), full, 0.6)
    assert generator_is_slower(Setpoints(), snapshot_of(queue_depth=0, batch_rollouts=512), 0.6)


def test_a_queue_that_lacks_a_batch_when_one_is_taken_settles_it_for_a_short_wait_too() -> None:
    """Published: 71 of a batch of 150 left on average while it is taken, and a wait of 8 %; a third replica helped."""
    lacking = {"queue_depth": 71.0, "batch_rollouts": 150.0, "queue_taken_frac": 0.5}
    assert generator_is_slower(Setpoints(), snapshot_of(**lacking), 0.08)
    assert not generator_is_slower(Setpoints(), snapshot_of(**lacking), 0.03)
    assert not generator_is_slower(Setpoints(), snapshot_of(**lacking | {"queue_depth": 80.0}), 0.08)
    assert not generator_is_slower(Setpoints(), snapshot_of(queue_depth=71.0, batch_rollouts=150.0), 0.08)


def test_equal_stations_explain_a_wait_that_a_longer_lead_does_not() -> None:
    assert not generator_is_slower(Setpoints(staleness_bound=1), snapshot_of(), 0.3)
    assert generator_is_slower(Setpoints(staleness_bound=8), snapshot_of(), 0.3)


def test_waiting_on_nearly_every_step_is_no_chance(steps: Steps) -> None:
    always = steps(6, step_s=100, trainer_wait_s=20, trainer_busy_s=80)
    seldom = steps(6, step_s=100, trainer_wait_s=[0, 0, 0, 0, 60, 60], trainer_busy_s=80)
    assert generator_is_slower(Setpoints(), always, 0.2)
    assert not generator_is_slower(Setpoints(), seldom, 0.2)


def test_a_generator_gated_longer_than_the_trainer_waits_is_the_faster_one(steps: Steps) -> None:
    knobs = Setpoints(staleness_bound=8)
    assert generator_is_slower(knobs, steps(6, step_s=100, trainer_wait_s=30, generator_wait_s=10), 0.3)
    assert not generator_is_slower(knobs, steps(6, step_s=100, trainer_wait_s=30, generator_wait_s=40), 0.3)


def test_time_nobody_accounts_for_widens_the_error(steps: Steps) -> None:
    whole = steps(4, mode=Mode.SERIAL, step_s=100, rollout_s=60, trainer_busy_s=40)
    torn = steps(4, mode=Mode.SERIAL, step_s=100, rollout_s=60, trainer_busy_s=10)
    errors = []
    for snapshot in (whole, torn):
        budget = wall_time_budget(Mode.SERIAL, Setpoints(), snapshot)
        assert budget is not None
        errors.append(causes_of(Topology(mode=Mode.SERIAL), Setpoints(), snapshot, budget)[0].error_frac)
    assert errors[0] < errors[1]
