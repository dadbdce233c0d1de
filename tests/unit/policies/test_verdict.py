"""One verdict: what voids, what stands still, else the largest recoverable share beyond its error."""

import pytest

from policies.base import Diagnosis, Verdict
from policies.diagnosis import diagnose
from policies.estimators import estimate
from simulators.plant import Mode, Setpoints, Topology
from simulators.snapshot import Snapshot, snapshot_of
from tests.unit.policies.conftest import Steps


def diagnosis(snapshot: Snapshot, mode: Mode = Mode.OVERLAPPED, setpoints: Setpoints | None = None) -> Diagnosis:
    topology, knobs = Topology(mode=mode), setpoints or Setpoints()
    return diagnose(topology, knobs, estimate(topology, knobs, snapshot))


def test_nothing_known_is_no_verdict_with_a_reason() -> None:
    for mode in Mode:
        empty = diagnosis(snapshot_of(), mode)
        assert empty.verdict is Verdict.CANNOT_TELL
        assert empty.headline.endswith(".")


def test_what_voids_outranks_what_stands_still_and_both_outrank_speed(steps: Steps) -> None:
    slow = {"step_s": 100, "trainer_wait_s": 60, "trainer_busy_s": 40}
    wedged = {"since_completion_s": 4000, "rollout_p99_s": 600}
    assert diagnosis(steps(4, **slow)).verdict is Verdict.GENERATION_BOUND
    assert diagnosis(steps(4, **slow, **wedged)).verdict is Verdict.STRAGGLER_WEDGE
    assert diagnosis(steps(4, **slow, **wedged, entropy=0.001)).verdict is Verdict.POLICY_COLLAPSE


def test_a_buffer_that_grows_without_a_cap_is_memory_growth(steps: Steps) -> None:
    growing = {"step_s": 100, "trainer_wait_s": 0, "batch_rollouts": 64, "queue_depth": [100, 200, 300, 400]}
    assert diagnosis(steps(4, **growing)).verdict is Verdict.MEMORY_GROWTH
    assert diagnosis(steps(4, **growing, queue_capacity=512)).verdict is not Verdict.MEMORY_GROWTH


def test_a_process_near_its_memory_limit_is_memory_growth(steps: Steps) -> None:
    near = steps(4, step_s=100, host_memory_bytes=90 * 2**30, host_memory_limit_bytes=100 * 2**30)
    assert diagnosis(near).verdict is Verdict.MEMORY_GROWTH


def test_two_shares_closer_than_their_error_are_no_verdict(steps: Steps) -> None:
    close = steps(4, mode=Mode.SERIAL, step_s=100, rollout_s=[55, 45, 56, 44], trainer_busy_s=[45, 55, 44, 56])
    found = diagnosis(close, Mode.SERIAL)
    assert found.verdict is Verdict.CANNOT_TELL
    assert {c.verdict for c in found.causes} == {Verdict.GENERATION_BOUND, Verdict.TRAINER_BOUND}


def test_the_winner_stands_first_among_the_causes(steps: Steps) -> None:
    serial = steps(4, mode=Mode.SERIAL, step_s=100, rollout_s=30, trainer_busy_s=50, checkpoint_s=20)
    found = diagnosis(serial, Mode.SERIAL)
    assert found.verdict is found.causes[0].verdict is Verdict.TRAINER_BOUND
    assert [c.recoverable_frac for c in found.causes] == sorted(
        (c.recoverable_frac for c in found.causes), reverse=True
    )


def test_two_sides_that_hardly_wait_are_balanced(steps: Steps) -> None:
    even = steps(6, step_s=100, trainer_wait_s=5, trainer_busy_s=95, generator_wait_s=4)
    assert diagnosis(even).verdict is Verdict.BALANCED


def test_balanced_sides_with_long_evaluations_are_not_balanced(steps: Steps) -> None:
    evaluated = steps(6, step_s=100, trainer_wait_s=5, trainer_busy_s=60, generator_wait_s=4, validation_s=35)
    assert diagnosis(evaluated).verdict is Verdict.VALIDATION_BOUND


@pytest.mark.parametrize(("count", "most"), [(1, 0.3), (2, 0.3), (12, 0.95)])
def test_few_steps_carry_little_confidence_and_the_headline_says_so(steps: Steps, count: int, most: float) -> None:
    found = diagnosis(steps(count, step_s=100, trainer_wait_s=60, trainer_busy_s=40))
    assert 0.0 < found.confidence <= most
    assert ("read" in found.headline) is (count < 3)
    assert ("few-steps" in {f.code for f in found.findings}) is (count < 3)


def test_rates_alone_tell_who_waits() -> None:
    found = diagnosis(snapshot_of(gen_samples_per_s=5, train_samples_per_s=10))
    assert found.verdict is Verdict.GENERATION_BOUND
    assert found.rates.trainer_idle_frac == pytest.approx(0.5)
    assert found.rates.utilisation_ratio == pytest.approx(0.5)


def test_rollouts_started_per_second_follow_littles_law_where_they_are_not_counted() -> None:
    rates = diagnosis(snapshot_of(inflight_rollouts=512, rollout_latency_s=128)).rates
    assert rates.generator_rollouts_per_s == pytest.approx(4.0)


def test_findings_stand_worst_first(steps: Steps) -> None:
    mixed = steps(2, mode=Mode.SERIAL, step_s=100, rollout_s=60, trainer_busy_s=20, truncated_frac=0.8)
    severities = [f.severity.value for f in diagnosis(mixed, Mode.SERIAL).findings]
    assert severities == sorted(severities, key=["critical", "warning", "info"].index)
    assert len(set(severities)) == 3


def test_a_named_cause_is_no_surer_than_what_names_it(steps: Steps) -> None:
    tail = diagnosis(
        steps(4, step_s=100, trainer_wait_s=90, trainer_busy_s=10, slowest_s=300, rollout_latency_s=100),
        setpoints=Setpoints(overlap=False),
    )
    assert tail.verdict is Verdict.TAIL_BOUND
    assert tail.confidence <= 0.5 < tail.causes[0].recoverable_frac
