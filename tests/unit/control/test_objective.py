"""What better means, and what no gain buys."""

from dataclasses import replace

import pytest

from policies.objective import Constraint, Objective, StalenessBound, value, violations
from simulators.model import Prediction, Staleness
from simulators.plant import Bounds, Setpoints
from tests.plants import START

GOOD = Prediction(2.5, 2.0, 1e4, 128.0, 0.1, 0.9, staleness=Staleness(2.0, maximum=5.0), kept_length_ratio=0.97)


def broken(prediction: Prediction | None = GOOD, settings: Setpoints = START, **bounds: float) -> list[Constraint]:
    found = violations(Objective(), Bounds(**bounds), settings, prediction)  # type: ignore[arg-type]
    assert all(v.reason for v in found)
    return [v.constraint for v in found]


def test_the_worked_table() -> None:
    assert value(Objective(), GOOD, START) == pytest.approx(28.125)
    assert value(Objective(staleness_discount_frac=0.05), GOOD, START) == pytest.approx(25.4, abs=0.02)


def test_per_dollar_divides_by_the_price() -> None:
    assert value(Objective(usd_per_gpu_hour=2.0), GOOD, START) == pytest.approx(28.125 / 2.0)


def test_unused_rollouts_are_worth_nothing() -> None:
    assert value(Objective(), replace(GOOD, useful_rollouts_per_s=0.0), START) == 0.0


def test_each_bound_by_its_name() -> None:
    assert broken() == []
    assert broken(staleness_max=1.5) == [Constraint.STALENESS]
    assert broken(gpus_total_max=200) == [Constraint.BUDGET]
    assert broken(gpus_trainer_min=72) == [Constraint.TRAINER_SIZE]
    assert broken(gpus_trainer_max=32) == [Constraint.TRAINER_SIZE]
    assert broken(max_in_flight_max=1000) == [Constraint.IN_FLIGHT]
    assert broken(settings=replace(START, sandbox_quota=1000)) == [Constraint.SANDBOX_QUOTA]
    assert broken(replace(GOOD, kept_length_ratio=0.8)) == [Constraint.LENGTH_BIAS]
    assert broken(replace(GOOD, kept_solve_ratio=0.8)) == [Constraint.SOLVE_BIAS]
    assert broken(replace(GOOD, stopped="no batch fits")) == [Constraint.STOPPED]


def test_what_the_bound_speaks_of_is_the_plugs_promise() -> None:
    strict = Objective(staleness=StalenessBound.MAXIMUM)
    assert violations(strict, Bounds(staleness_max=4.0), START, GOOD)
    assert not violations(Objective(), Bounds(staleness_max=4.0), START, GOOD)


def test_what_is_unknown_breaks_nothing() -> None:
    bounds = Bounds(10, 20, 5, 1, 0.1)
    unknown = replace(GOOD, staleness=None, kept_length_ratio=None)
    assert violations(Objective(), bounds, Setpoints(), unknown) == ()


def test_who_starts_more_than_is_kept_has_to_know_what_is_kept() -> None:
    untold = replace(GOOD, kept_length_ratio=None)
    assert broken(untold, replace(START, oversampling_ratio=1.125)) == [Constraint.LENGTH_BIAS]
    assert broken(untold, replace(START, oversampling_ratio=1.0)) == []
    assert broken(GOOD, replace(START, oversampling_ratio=1.125)) == []


def test_a_ratio_that_was_simulated_breaks_its_bound_beyond_its_error() -> None:
    """Two settings of one job, 32 steps each: 90.2 and 89.99 % of the attempted solve rate, both +-0.6 %."""
    near = replace(GOOD, kept_solve_ratio=0.8999, kept_solve_error=0.006)
    assert broken(near) == []
    assert broken(replace(near, kept_solve_error=None)) == [Constraint.SOLVE_BIAS]
    assert broken(replace(near, kept_solve_ratio=0.88)) == [Constraint.SOLVE_BIAS]
    assert broken(replace(GOOD, kept_length_ratio=0.89, kept_length_error=0.01)) == []
    assert broken(replace(GOOD, kept_length_ratio=0.87, kept_length_error=0.01)) == [Constraint.LENGTH_BIAS]
