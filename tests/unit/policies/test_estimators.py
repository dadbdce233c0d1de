"""What follows from a snapshot: measured signals stay, derived ones say where they come from."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.estimators import estimate, phases_of, segments
from simulators.plant import Mode, Setpoints, Topology
from simulators.signals import SIGNALS
from simulators.snapshot import DroppedStep, Row, Signal, Snapshot, Window, snapshot_of
from tests.unit.policies.conftest import Steps

OVERLAPPED = Topology(mode=Mode.OVERLAPPED)
NUMBERS = st.floats(0.0, 1e6, allow_nan=False)
READINGS = st.dictionaries(st.sampled_from(sorted(SIGNALS)), NUMBERS, max_size=25).map(
    lambda values: {name: min(value, SIGNALS[name].high) for name, value in values.items()}
)


def known(topology: Topology = OVERLAPPED, setpoints: Setpoints | None = None, **values: float) -> Snapshot:
    return estimate(topology, setpoints or Setpoints(), snapshot_of(**values))


@settings(deadline=None)
@given(READINGS, st.sampled_from(Mode))
def test_a_measured_signal_is_never_replaced(values: dict[str, float], mode: Mode) -> None:
    raw = snapshot_of(**values)
    after = estimate(Topology(mode=mode), Setpoints(), raw).signals
    assert {name: after[name] for name in raw.signals} == dict(raw.signals)


@settings(deadline=None)
@given(READINGS, st.sampled_from(Mode))
def test_estimating_twice_adds_nothing(values: dict[str, float], mode: Mode) -> None:
    once = estimate(Topology(mode=mode), Setpoints(), snapshot_of(**values))
    twice = estimate(Topology(mode=mode), Setpoints(), once)
    late = {"trainer_idle_frac", "generator_speedup_to_hide"}
    assert twice.signals.keys() - once.signals.keys() <= late


@settings(deadline=None)
@given(READINGS, st.sampled_from(Mode))
def test_every_derived_share_stays_between_nothing_and_all(values: dict[str, float], mode: Mode) -> None:
    found = estimate(Topology(mode=mode), Setpoints(), snapshot_of(**values)).signals
    shares = {
        n: s.value for n, s in found.items() if n.endswith("_frac") and n != "unaccounted_frac" and n not in SIGNALS
    }
    per_request = {"kv_per_request_frac"}
    assert all(0.0 <= v <= 1.0 for n, v in shares.items() if n not in per_request)


def test_a_derived_signal_names_its_inputs_and_trusts_the_least_of_them() -> None:
    signals = {
        "dispatched": Signal(100, "rollouts", n=5),
        "accepted": Signal(80, "rollouts", n=3, trust=0.5, age_s=9.0),
    }
    waste = estimate(OVERLAPPED, Setpoints(), Snapshot(signals)).signals["waste_frac"]
    assert waste == Signal(pytest.approx(0.2), "1", 3, 0.5, 9.0, ("dispatched", "accepted"))


def test_contradicting_inputs_derive_nothing() -> None:
    assert known(trainer_wait_s=120, step_s=100).get("trainer_idle_frac") is None
    assert known(dispatched=10, accepted=20).get("waste_frac") is None
    assert known(solved_all_frac=0.8, solved_none_frac=0.5).get("zero_adv_frac") is None
    assert known(batch_rollouts=128, step_s=0).get("gen_samples_per_s") is None


def test_the_generating_share_of_a_step_means_something_in_a_serial_job_only() -> None:
    assert known(Topology(mode=Mode.SERIAL), rollout_s=60, step_s=100).get("phase_gen_frac") == pytest.approx(0.6)
    assert known(rollout_s=60, step_s=100).get("phase_gen_frac") is None


def test_the_configured_batch_and_group_serve_where_none_is_measured() -> None:
    found = known(setpoints=Setpoints(batch_rollouts=512, group_size=16), step_s=100, advantage_max=1.789)
    assert found.signals["batch_rollouts"].derived_from == ("configuration",)
    assert found.get("gen_samples_per_s") == pytest.approx(5.12)
    assert found.get("group_size_seen") == 16
    assert known(Topology(queue_capacity=512)).get("queue_capacity") == 512
    assert known(Topology(queue_capacity=512), queue_capacity=1024).get("queue_capacity") == 1024


def test_a_pool_fill_from_tokens_serves_what_is_said_of_one_request() -> None:
    found = known(Topology(mode=Mode.ENGINE), kv_tokens=8_000, kv_capacity_tokens=10_000, running=40)
    assert found.get("kv_usage_frac") == pytest.approx(0.8)
    assert found.get("requests_at_full_kv") == pytest.approx(50)


def test_a_busy_gpu_proves_no_work() -> None:
    assert known(gpu_util_frac=0.99).get("gpu_idle_in_rollout_frac") is None
    assert known(gpu_util_frac=0.2).get("gpu_idle_in_rollout_frac") == pytest.approx(0.8)


def test_the_latest_values_of_learning_stand_beside_their_means(steps: Steps) -> None:
    found = steps(3, entropy=[0.5, 0.3, 0.1])
    assert (found.get("entropy"), found.get("entropy_last")) == (pytest.approx(0.3), 0.1)


def test_what_no_phase_claims_is_summed_step_by_step(steps: Steps) -> None:
    found = steps(2, mode=Mode.SERIAL, step_s=[100, 200], rollout_s=[60, 160], trainer_busy_s=[30, 20])
    assert found.get("unaccounted_frac") == pytest.approx(0.1)


def test_evaluation_shares_are_silent_when_its_steps_are_left_out() -> None:
    raw = snapshot_of(step_s=100, validation_s=10, rollout_s=60)
    dropped = Snapshot(raw.signals, window=Window(dropped=(DroppedStep(20, "evaluation"),)))
    assert estimate(Topology(mode=Mode.SERIAL), Setpoints(), raw).get("phase_validation_frac") == pytest.approx(0.1)
    assert estimate(Topology(mode=Mode.SERIAL), Setpoints(), dropped).get("phase_validation_frac") is None


def test_a_wait_takes_the_place_of_generation_where_the_sides_overlap() -> None:
    assert phases_of(Mode.OVERLAPPED, ())[0] == "trainer_wait_s"
    assert phases_of(Mode.SERIAL, ("trainer_wait_s",))[0] == "rollout_s"
    assert phases_of(Mode.UNKNOWN, ("trainer_wait_s",))[0] == "trainer_wait_s"
    assert phases_of(Mode.UNKNOWN, ())[0] == "rollout_s"


def test_a_jump_in_the_step_number_starts_another_stretch() -> None:
    rows = tuple(Row({"step_s": s}, step) for step, s in ((1, 10.0), (2, 10.0), (30, 20.0), (31, 20.0)))
    assert [len(stretch) for stretch in segments(rows)] == [2, 2]
    assert segments(()) == []
    raw = Snapshot({"batch_rollouts": Signal(100, "rollouts"), "step_s": Signal(15, "s")}, rows)
    found = estimate(OVERLAPPED, Setpoints(), raw)
    assert found.get("rollouts_per_s_first_window") == pytest.approx(10.0)
    assert found.get("rollouts_per_s_second_window") == pytest.approx(5.0)


def test_merged_steps_are_no_jump() -> None:
    rows = tuple(Row({"step_s": 10.0}, step, weight=4, last_step=step + 3) for step in (0, 4, 8))
    assert len(segments(rows)) == 1


def test_what_the_trainer_of_a_serial_job_waits_for_is_generation(steps: Steps) -> None:
    waits = {"step_s": [100, 200], "trainer_wait_s": [60, 160], "trainer_busy_s": [40, 40]}
    found = steps(2, mode=Mode.SERIAL, **waits)
    assert found.get("rollout_s") == pytest.approx(110)
    assert found.get("unaccounted_frac") == pytest.approx(0.0)
    assert steps(2, mode=Mode.SERIAL, rollout_s=50, **waits).get("rollout_s") == pytest.approx(50)
    assert steps(2, **waits).get("rollout_s") is None
