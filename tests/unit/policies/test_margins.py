"""Predictions keep a bound by as much more as rollouts are seen to be older than predicted."""

import pytest

from policies.margins import for_predictions
from policies.objective import Objective, StalenessBound
from simulators.model import Prediction, Staleness
from simulators.plant import Bounds
from simulators.snapshot import Row

BOUNDS = Bounds(staleness_max=16.0)


def said(mean: float) -> Prediction:
    return Prediction(1.0, 1.0, 1000.0, 512.0, 0.1, 0.9, staleness=Staleness(mean, maximum=2.0 * mean))


def rows(*ages: float) -> list[Row]:
    return [Row({"staleness_mean": age, "staleness_max": 2.0 * age}, i, 60.0 * i) for i, age in enumerate(ages)]


def kept(ages: tuple[float, ...], mean: float, of: StalenessBound = StalenessBound.MEAN) -> float | None:
    return for_predictions(BOUNDS, Objective(staleness=of), rows(*ages), said(mean)).staleness_max


def test_a_model_that_makes_rollouts_too_young_is_held_to_less() -> None:
    assert kept((10.0,) * 8, 8.0) == pytest.approx(16.0 * 8.0 / 10.0)
    assert kept((10.0,) * 8, 8.0, StalenessBound.MAXIMUM) == pytest.approx(16.0 * 8.0 / 10.0)


def test_steps_scatter_around_their_mean_and_are_to_keep_the_bound_too() -> None:
    narrow, wide = kept((7.9, 8.1) * 8, 8.0), kept((6.0, 10.0) * 8, 8.0)
    assert narrow is not None
    assert wide is not None
    assert wide < narrow < 16.0


def test_a_bound_is_never_widened_nor_guessed() -> None:
    assert kept((4.0,) * 8, 8.0) == 16.0
    assert kept((10.0,) * 3, 8.0) == 16.0
    assert for_predictions(BOUNDS, Objective(), rows(*(10.0,) * 8), None) == BOUNDS
    assert for_predictions(Bounds(), Objective(), rows(*(10.0,) * 8), said(8.0)) == Bounds()
