"""How an uncertain gain is written down, and what no advice may say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.base import Advice, Verdict
from policies.recommendations import advise
from policies.recommendations.case import GAIN_MAX, at_most, freed, saved_by_doubling
from policies.recommendations.engines import batch_gain
from policies.recommendations.warnings import VOID
from simulators.plant import Mode, Setpoints, Topology, TrainerResize
from simulators.snapshot import snapshot_of
from tests.unit.policies.conftest import Steps

STARVING = {"step_s": 100, "trainer_wait_s": 60, "trainer_busy_s": 40}
SPLIT = Setpoints(gpus_trainer=32, gpus_generator=32)


def knobs(advice: Advice) -> set[str]:
    return {r.knob for r in advice.recommendations}


@given(st.floats(-1, 2), st.floats(-1, 2))
def test_more_time_freed_is_more_gain_up_to_a_limit(a: float, b: float) -> None:
    low, high = sorted((a, b))
    assert 0.0 <= freed(low) <= freed(high) <= GAIN_MAX * (1 + 1e-9)
    assert at_most(low).high <= at_most(high).high <= GAIN_MAX
    assert saved_by_doubling(low).high <= freed(high)


@given(st.floats(1, 4096), st.floats(1, 16))
def test_a_larger_batch_never_gains_more_than_its_growth(now: float, times: float) -> None:
    gain = batch_gain(now, now * times)
    assert -1e-9 <= gain.low <= gain.high <= times - 1 + 1e-9


def test_a_starving_trainer_is_told_to_give_gpus_away(steps: Steps) -> None:
    topology = Topology(mode=Mode.OVERLAPPED, gpus_per_engine=8, trainer_gpu_step=8)
    assert "gpus_generator" in knobs(advise(topology, SPLIT, steps(6, **STARVING)))


def test_a_trainer_that_cannot_be_resized_is_left_alone_with_a_warning(steps: Steps) -> None:
    fixed = Topology(mode=Mode.OVERLAPPED, gpus_per_engine=8, trainer_resize=TrainerResize.IMPOSSIBLE)
    advice = advise(fixed, SPLIT, steps(6, **STARVING))
    assert not {"gpus_trainer", "gpus_generator"} & knobs(advice)
    assert "gpus_trainer" in {d.knob for d in advice.do_not}


def test_where_speed_is_void_only_learning_is_mended(steps: Steps) -> None:
    advice = advise(Topology(mode=Mode.OVERLAPPED), SPLIT, steps(6, zero_adv_frac=0.9, **STARVING))
    assert advice.diagnosis.verdict in VOID
    assert advice.recommendations[0].knob == "curriculum_filter"
    assert knobs(advice) <= {"curriculum_filter", "group_size", "engine_settings", "logging"}
    assert advice.split_curve is None


def test_who_cannot_tell_says_what_to_log_first() -> None:
    advice = advise(Topology(mode=Mode.OVERLAPPED), Setpoints(), snapshot_of())
    assert knobs(advice) == {"logging"}
    assert all(gap.how_to_get_it for gap in advice.missing)


@pytest.mark.parametrize("setpoints", [Setpoints(gpus_generator=0), Setpoints(gpus_trainer=0, engines=0)])
def test_a_job_said_to_have_no_gpus_is_still_read(steps: Steps, setpoints: Setpoints) -> None:
    slow = steps(4, slowest_s=200, slowest_tokens=1000, batch_rollouts=64, **STARVING)
    assert advise(Topology(mode=Mode.OVERLAPPED), setpoints, slow).diagnosis.headline


def test_longer_intervals_give_back_half_of_a_phase(steps: Steps) -> None:
    serial = steps(4, mode=Mode.SERIAL, step_s=100, rollout_s=50, trainer_busy_s=30, checkpoint_s=20)
    advice = advise(Topology(mode=Mode.SERIAL), Setpoints(checkpoint_interval=1), serial)
    found = next(r for r in advice.recommendations if r.knob == "checkpoint_interval")
    assert (found.current, found.proposed) == (1, 2)
    assert found.gain_frac is not None
    assert found.gain_frac.high == pytest.approx(0.1 / 0.9)


def test_turns_on_one_gpu_pool_may_overlap_but_not_move(steps: Steps) -> None:
    serial = steps(4, mode=Mode.SERIAL, step_s=100, rollout_s=60, trainer_busy_s=40)
    advice = advise(Topology(mode=Mode.SERIAL), SPLIT, serial)
    overlap = next(r for r in advice.recommendations if r.knob == "overlap")
    assert overlap.gain_frac is not None
    assert overlap.gain_frac.high <= 100 / 60 - 1
    assert not {"gpus_trainer", "gpus_generator"} & knobs(advice)


@pytest.mark.parametrize(("dropped", "told"), [(2, False), (200, True)])
def test_a_wider_bound_gives_back_no_more_than_what_is_dropped(steps: Steps, dropped: float, told: bool) -> None:
    job = steps(6, batch_rollouts=1024, dropped_stale=dropped, **STARVING)
    found = [
        r for r in advise(Topology(mode=Mode.OVERLAPPED), SPLIT, job).recommendations if r.knob == "staleness_bound"
    ]
    assert bool(found) is told
    assert all(r.gain_frac is not None and r.gain_frac.high <= 2 * freed(dropped / (1024 + dropped)) for r in found)


def test_where_no_answer_ends_the_cap_comes_before_the_tasks(steps: Steps) -> None:
    job = steps(6, zero_adv_frac=1.0, truncated_frac=1.0, resp_len_max=128, **STARVING)
    first, second, *_ = advise(Topology(mode=Mode.OVERLAPPED), SPLIT, job).recommendations
    assert (first.knob, first.unit, second.knob) == ("engine_settings", "response tokens", "curriculum_filter")
    assert second.gain_frac is None, "no useful group was seen: nobody knows what useful ones would bring"


def test_a_slow_judge_is_met_by_more_rewards_at_once_and_gives_back_what_the_trainer_waits(steps: Steps) -> None:
    job = steps(6, reward_latency_s=60, rollout_latency_s=100, **STARVING)
    advice = advise(Topology(mode=Mode.OVERLAPPED), SPLIT, job)
    assert advice.diagnosis.verdict is Verdict.REWARD_BOUND
    found = next(r for r in advice.recommendations if r.knob == "reward_concurrency")
    assert "60% of a rollout" in found.reason
    assert found.gain_frac is not None
    assert 0.0 < found.gain_frac.high <= freed(0.6 * (job.get("trainer_idle_frac") or 0.0))


def test_a_wider_bound_that_gains_nothing_at_any_width_is_not_advised(steps: Steps) -> None:
    job = steps(5, step_s=100, trainer_wait_s=26, weight_sync_s=53, rollout_s=60)
    assert "staleness_bound" not in knobs(
        advise(Topology(mode=Mode.OVERLAPPED, gpus_total=1), Setpoints(staleness_bound=0.0), job)
    )
