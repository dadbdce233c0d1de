"""Forecasts are scored, intervals learn their width, wrong ones cost the right to act, good shadows earn it."""

from math import exp
from random import Random

import pytest

from policies.base import Direction, Interval
from policies.scorecard import (
    MEMORY,
    Forecast,
    Scorecard,
    Shadow,
    conformal_scale,
    coverage,
    demoted,
    forecasted,
    interval_score,
    scored,
    settled_shadow,
    shadowed,
    unlocked,
)
from simulators.snapshot import Row, Snapshot


def history(n: int, true_sigma: float, said_sigma: float, adapt: bool = False) -> Scorecard:
    """n forecasts of a rate near 2 whose error is `true_sigma`, each given out as if it were `said_sigma`."""
    drawn, card = Random(6), Scorecard()
    for i in range(n):
        mean, now_s = 2.0, 1000.0 * i
        half = 1.2816 * said_sigma
        scale = conformal_scale(card) if adapt else 1.0
        span = Interval(mean * exp(-half), mean, mean * exp(half))
        card = forecasted(card, Forecast(now_s, now_s + 900.0, span, scale))
        card = scored(card, now_s + 1000.0, steps_of(mean * exp(drawn.gauss(0.0, true_sigma)), now_s))
    return card


def steps_of(rate: float, since_s: float) -> Snapshot:
    rows = tuple(Row({"step_s": 512 / rate, "batch_rollouts": 512.0}, i, since_s + 100.0 * i) for i in range(1, 9))
    return Snapshot({}, rows)


def test_honest_intervals_hold_four_in_five_and_stay() -> None:
    card = history(50, 0.05, 0.05)
    assert coverage(card) == pytest.approx(0.8, abs=0.12)
    assert conformal_scale(card) == pytest.approx(1.0, abs=0.3)
    assert demoted(card) is None


def test_boasting_intervals_cost_the_right_to_act() -> None:
    why = demoted(history(50, 0.05, 0.01))
    assert why is not None
    assert "forecasts held; honest 80 % intervals come to this once in" in why


def test_the_worked_table_of_demotion() -> None:
    def said(held: str) -> bool:
        return demoted(Scorecard(held=tuple(h == "x" for h in held))) is not None

    assert said("x" * 20 + "." * 8)
    assert not said("." * 7)
    assert not said("xxxx." * 10)
    assert not said("." * 7 + "xx" + ".")
    assert said("." + "x." * 20)


def test_honest_intervals_are_hardly_ever_demoted() -> None:
    """200 controllers of 400 forecasts each."""
    drawn, lost = Random(11), 0
    for _ in range(200):
        held = [drawn.random() < 0.8 for _ in range(400)]
        lost += any(demoted(Scorecard(held=tuple(held[max(0, i - MEMORY) : i]))) is not None for i in range(1, 401))
    assert lost / 200 <= 400 / 1000.0


def test_a_controller_that_is_wrong_half_of_the_time_is_found() -> None:
    drawn, found = Random(12), 0
    for _ in range(100):
        held = [drawn.random() < 0.5 for _ in range(120)]
        found += any(demoted(Scorecard(held=tuple(held[max(0, i - MEMORY) : i]))) is not None for i in range(1, 121))
    assert found >= 90


def test_boasting_intervals_learn_their_width() -> None:
    card = history(120, 0.05, 0.02, adapt=True)
    assert conformal_scale(card) == pytest.approx(2.5, rel=0.35)
    assert coverage(card) == pytest.approx(0.8, abs=0.12)
    assert demoted(card) is None


def test_memory_is_bounded() -> None:
    card = history(200, 0.05, 0.05)
    assert len(card.errors) == len(card.held) == len(card.scores) == MEMORY


def test_forecasts_of_the_same_steps_are_made_once() -> None:
    span = Interval(1.0, 2.0, 3.0)
    card = forecasted(forecasted(Scorecard(), Forecast(0.0, 900.0, span)), Forecast(30.0, 930.0, span))
    assert len(card.open) == 1


def test_a_forecast_without_steps_to_compare_is_dropped() -> None:
    card = forecasted(Scorecard(), Forecast(0.0, 900.0, Interval(1.0, 2.0, 3.0)))
    assert scored(card, 1000.0, Snapshot({})) == Scorecard()


def test_the_interval_score_prefers_the_honest_width() -> None:
    drawn = Random(7)
    actual = [2.0 + drawn.gauss(0.0, 0.1) for _ in range(4000)]

    def mean_score(sigma: float) -> float:
        half = 1.2816 * sigma
        return sum(interval_score(Interval(2.0 - half, 2.0, 2.0 + half), x) for x in actual) / len(actual)

    assert mean_score(0.1) < min(mean_score(0.03), mean_score(0.3))


@pytest.mark.parametrize(("n", "kth"), [(8, None), (9, 8), (19, 16), (50, 41)])
def test_the_worked_table_of_the_conformal_scale(n: int, kth: int | None) -> None:
    """The ceil(0.8 (n + 1))-th smallest error: a share of 0.8 of n would hold too little."""
    errors = tuple((-1.0) ** i * 0.07 * i for i in range(1, n + 1))
    assert conformal_scale(Scorecard(errors=errors)) == pytest.approx(1.0 if kth is None else max(0.5, 0.07 * kth))


def test_a_shadow_is_kept_with_its_promise_and_the_rate_that_came() -> None:
    promised = Interval(0.05, 0.1, 0.15)
    shadow = Shadow("d1", "gpus_trainer", Direction.DOWN, 900.0, 0.0, promised, 2.0)
    card = settled_shadow(shadowed(Scorecard(), shadow), shadow, True, steps_of(1.9, 0.0))
    (past,) = card.past
    assert (past.shadow, past.good) == (shadow, True)
    assert past.rate_since == pytest.approx(1.9)
    assert past.promised_rate == pytest.approx(1.9 * 1.1)
    assert settled_shadow(card, shadow, True, Snapshot({})).past[-1].rate_since is None


def test_five_good_shadows_unlock_a_knob_and_bad_ones_lock_it() -> None:
    card = Scorecard()
    for i in range(5):
        assert not unlocked(card, "gpus_trainer")
        shadow = Shadow(f"d{i}", "gpus_trainer", Direction.DOWN, 100.0 * i)
        card = settled_shadow(shadowed(card, shadow), shadow, True, Snapshot({}))
    assert unlocked(card, "gpus_trainer")
    assert not unlocked(card, "max_in_flight")
    for i in range(2):
        shadow = Shadow(f"e{i}", "gpus_trainer", Direction.DOWN, 1000.0)
        card = settled_shadow(shadowed(card, shadow), shadow, False, Snapshot({}))
    assert not unlocked(card, "gpus_trainer")
