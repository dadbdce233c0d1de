"""Service rates as beliefs: they follow, refuse outliers, accept news, and never claim more than they know."""

from dataclasses import replace
from math import exp, log, sqrt
from random import Random
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.beliefs import (
    VARIANCE_CAP,
    VARIANCE_FLOOR,
    Belief,
    Beliefs,
    Reading,
    interval,
    predicted,
    rescaled,
    updated,
)
from policies.laws.static import Static
from policies.noticing import noticed
from policies.readings import readings
from policies.rules import Rules
from policies.state import State
from simulators.plant import Mode, Topology
from tests.plants import START, TOPOLOGY, FluidPlant

ANY_FLOAT = st.floats(allow_nan=True, allow_infinity=True)


def after(readings: list[Reading], belief: Belief | None = None, every_s: float = 60.0) -> Belief:
    for i, reading in enumerate(readings):
        belief, _ = updated(belief, reading, i * every_s)
    assert belief is not None
    return belief


def test_the_worked_table() -> None:
    start = Belief(0.0, 0.04, 0.0)
    taken, _ = updated(start, Reading(exp(0.2), 0.04), 0.0)
    refused, z = updated(start, Reading(exp(1.0), 0.04), 0.0)
    assert taken is not None
    assert refused is not None
    assert (taken.log_mean, taken.variance) == pytest.approx((0.1, 0.02))
    assert (refused.log_mean, refused.variance, refused.refused) == (0.0, 0.04, 1)
    assert z * z == pytest.approx(12.5)


@pytest.mark.parametrize(("y", "mean", "variance"), [(-1.0, 0.00, 0.040), (0.0, 0.11, 0.027), (0.4, 0.26, 0.024)])
def test_the_worked_table_of_lower_bounds(y: float, mean: float, variance: float) -> None:
    raised, _ = updated(Belief(0.0, 0.04, 0.0), Reading(exp(y), 0.04, at_least=True), 0.0)
    assert raised is not None
    assert raised.log_mean == pytest.approx(mean, abs=0.005)
    assert raised.variance == pytest.approx(variance, abs=0.001)


def test_a_lower_bound_is_the_mean_of_what_lies_above_it() -> None:
    """Against sampling: x ~ N(0, .04) of those with x + v > y."""
    drawn, y = Random(1), 0.1
    pairs = [(drawn.gauss(0.0, 0.2), drawn.gauss(0.0, 0.2)) for _ in range(200_000)]
    kept = [x for x, v in pairs if x + v > y]
    mean = sum(kept) / len(kept)
    raised, _ = updated(Belief(0.0, 0.04, 0.0), Reading(exp(y), 0.04, at_least=True), 0.0)
    assert raised is not None
    assert raised.log_mean == pytest.approx(mean, abs=0.003)
    assert raised.variance == pytest.approx(sum((x - mean) ** 2 for x in kept) / len(kept), rel=0.03)


def test_one_outlier_moves_nothing() -> None:
    calm = after([Reading(4.0, 0.001)] * 10)
    hit, _ = updated(calm, Reading(40.0, 0.001), 600.0)
    assert hit is not None
    assert hit.rate == pytest.approx(calm.rate)


def test_three_refusals_of_one_sign_are_news() -> None:
    calm = after([Reading(4.0, 0.001)] * 10)
    two = after([Reading(8.0, 0.001)] * 2, calm)
    assert two.rate == pytest.approx(4.0, rel=0.02)
    three = after([Reading(8.0, 0.001)] * 3, calm)
    assert three.rate == pytest.approx(8.0, rel=0.02)


def test_outliers_of_changing_sign_are_never_news() -> None:
    calm = after([Reading(4.0, 0.001)] * 10)
    shaken = after([Reading(40.0, 0.001), Reading(0.4, 0.001)] * 5, calm)
    assert shaken.rate == pytest.approx(4.0, rel=0.01)


def test_a_gated_side_is_never_believed_slower_for_being_gated() -> None:
    belief = after([Reading(4.0, 0.001)] * 10)
    held_back = after([Reading(2.0, 0.001, at_least=True)] * 50, belief)
    assert held_back.rate >= 0.999 * belief.rate


def test_waiting_ends_at_the_cap() -> None:
    assert predicted(Belief(0.0, 0.01, 0.0), 1e9).variance == VARIANCE_CAP


def test_a_clock_that_went_back_changes_nothing() -> None:
    belief = Belief(0.0, 0.01, 100.0)
    assert predicted(belief, 50.0) == belief


def test_intervals_hold_the_truth_four_times_in_five() -> None:
    """A walking rate, read with noise, filtered: 80 % of the intervals hold it."""
    drawn, x, held, n = Random(2), log(4.0), 0, 4000
    belief: Belief | None = None
    for i in range(n):
        x += drawn.gauss(0.0, sqrt(1e-6 * 600.0))
        belief, _ = updated(belief, Reading(exp(x + drawn.gauss(0.0, 0.1)), 0.01), 600.0 * i)
        assert belief is not None
        span = interval(belief)
        held += span.low <= exp(x) <= span.high
    assert held / n == pytest.approx(0.8, abs=0.04)


def test_more_gpus_serve_more_and_are_known_less() -> None:
    here = Belief(log(5.6), 0.0001, 0.0, 64)
    there = rescaled(here, 48)
    assert 5.6 * 48 / 64 < there.rate < 5.6 * (48 / 64) ** 0.5
    assert there.variance > here.variance
    assert rescaled(there, 64).rate == pytest.approx(5.6)


def test_a_belief_follows_its_side_to_another_number_of_gpus() -> None:
    """Sure of 64 GPUs it would refuse what 48 show, as an outlier; of what 48 will show it is less sure."""
    fewer = replace(START, gpus_trainer=48, gpus_generator=208)
    seen = FluidPlant(setpoints=fewer).observe(600.0)
    sure = Beliefs({"trainer": Belief(log(5.6), 1e-4, 500.0, 64)}, used_s=500.0)
    state, _ = noticed(Rules(Static(), TOPOLOGY), State(accepted=fewer, beliefs=sure), seen, ())
    trainer = state.beliefs.rates["trainer"]
    assert (trainer.gpus, trainer.refused) == (48, 0)
    assert trainer.rate == pytest.approx(5.6 * 48 / 64, rel=0.05)


@given(st.lists(st.tuples(ANY_FLOAT, ANY_FLOAT, st.booleans()), max_size=20), st.floats(0, 1e9))
def test_nothing_that_is_read_makes_a_belief_impossible(told: list[tuple[float, float, bool]], every_s: float) -> None:
    belief: Belief | None = Belief(0.0, 0.04, 0.0)
    for i, (value, variance, at_least) in enumerate(told):
        belief, z = updated(belief, Reading(value, variance, at_least), i * every_s)
        assert belief is not None
        assert z == z
        assert VARIANCE_FLOOR <= belief.variance <= VARIANCE_CAP
        assert abs(belief.log_mean) < 1000.0


def test_the_limit_of_the_gate_is_the_quantile_it_says() -> None:
    z = NormalDist().inv_cdf(0.9875)
    taken, _ = updated(Belief(0.0, 0.02, 0.0), Reading(exp(0.99 * z * 0.2), 0.02), 0.0)
    refused, _ = updated(Belief(0.0, 0.02, 0.0), Reading(exp(1.01 * z * 0.2), 0.02), 0.0)
    assert taken is not None
    assert refused is not None
    assert (taken.refused, refused.refused) == (0, 1)


def test_a_serial_step_that_logs_only_what_its_trainer_waits_for_shows_both_rates() -> None:
    serial, step = Topology(mode=Mode.SERIAL), {"step_s": 100.0, "trainer_wait_s": 64.0, "trainer_busy_s": 32.0}
    found = readings(step, serial, 512)
    assert {side: reading.per_s for side, reading in found.items()} == {"generator": 8.0, "trainer": 16.0}
    assert not found["generator"].at_least
    assert readings(step | {"rollout_s": 32.0}, serial, 512)["generator"].per_s == 16.0
