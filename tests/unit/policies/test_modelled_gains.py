"""Gains by the calibrated model, where one formula on one share would promise what the other side cannot take."""

from dataclasses import replace

from policies.base import Interval
from policies.estimators import estimate
from policies.prospects import Prospects, gain_of, prospects_of
from simulators.plant import Mode, Setpoints, Topology
from simulators.snapshot import snapshot_of

OVERLAPPED = Topology(mode=Mode.OVERLAPPED, gpus_total=16, gpus_per_engine=1)
KNOBS = Setpoints(gpus_trainer=8, gpus_generator=8, overlap=True, group_size=8, batch_rollouts=256, staleness_bound=3.0)
FULL_TRAINER = {"step_s": 60.0, "trainer_wait_s": 0.5, "trainer_busy_s": 59.5, "generator_wait_s": 24.0}
STARVING = {"step_s": 60.0, "trainer_wait_s": 36.0, "trainer_busy_s": 24.0}
HALF_DROPPED = {"filtered_zero_adv": 256.0, "dispatched": 512.0}


def prospects(knobs: Setpoints, **signals: float) -> Prospects:
    return prospects_of(OVERLAPPED, knobs, estimate(OVERLAPPED, knobs, snapshot_of(**signals)))


def curriculum(knobs: Setpoints, **signals: float) -> Interval:
    gain = gain_of(prospects(knobs, **signals).answer_of_curriculum(0.9))
    assert gain is not None
    return gain


def test_behind_a_filter_a_full_trainer_gains_nothing_from_better_groups() -> None:
    filtering = replace(KNOBS, filter_zero_adv=True)
    assert curriculum(filtering, **FULL_TRAINER, **HALF_DROPPED).high < 0.05
    assert curriculum(filtering, **STARVING, **HALF_DROPPED).mean > 0.2


def test_without_a_filter_better_groups_are_worth_their_share_to_either_side() -> None:
    """What is trained and useless today becomes useful: u' / u - 1, at most 0.9 / 0.5 - 1."""
    for state in (FULL_TRAINER, STARVING):
        gain = curriculum(KNOBS, zero_adv_frac=0.5, **state)
        assert 0.35 < gain.mean < 0.45
        assert gain.high <= 0.8


def test_a_posterior_of_seven_draws_is_as_open_as_one_of_all() -> None:
    """Draws that nothing reproduces are left out: how many are left must not decide what each is given."""
    whole = prospects(KNOBS, zero_adv_frac=0.5, **FULL_TRAINER).calibration
    assert whole is not None
    gain = gain_of(Prospects(replace(whole, draws=whole.draws[:7])).answer_of_curriculum(0.9))
    assert gain is not None
    assert 0.3 < gain.mean < 0.5
    assert gain.high - gain.low > 0.4


def test_a_share_that_nobody_logs_is_not_made_up() -> None:
    assert prospects(KNOBS, **STARVING).answer_of_curriculum(0.9) is None


def test_a_wider_cap_helps_where_the_cap_is_stated_and_the_generator_waits() -> None:
    capped = replace(KNOBS, max_in_flight=64)
    more = gain_of(prospects(capped, **STARVING).scaled_cap(2.0))
    fewer = gain_of(prospects(capped, **STARVING).scaled_cap(0.5))
    assert more is not None
    assert fewer is not None
    assert more.mean > 0.1
    assert fewer.mean < -0.1
    assert prospects(KNOBS, **STARVING).scaled_cap(2.0) is None


def test_a_wider_cap_brings_a_full_trainer_nothing() -> None:
    gain = gain_of(prospects(replace(KNOBS, max_in_flight=64), **FULL_TRAINER).scaled_cap(2.0))
    assert gain is not None
    assert gain.high < 0.05
