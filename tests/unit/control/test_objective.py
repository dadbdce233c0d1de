"""What better means, and what no gain buys."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.objective import Constraint, Objective, StalenessBound, objective_of, value, violations, worsened
from simulators.model import Prediction, Staleness
from simulators.plant import Bounds, Setpoints
from simulators.stations import Admission, Order, Plug
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
    unknown = replace(GOOD, staleness=None, kept_length_ratio=None)
    assert violations(Objective(), Bounds(10, 20, 5, 1), Setpoints(), unknown) == ()


def test_a_staleness_that_nobody_can_tell_breaks_its_bound_unless_the_framework_keeps_it() -> None:
    unknown = replace(GOOD, staleness=None)
    (found,) = violations(Objective(), Bounds(staleness_max=4.0), START, unknown)
    assert (found.constraint, found.told) == (Constraint.STALENESS, False)
    assert broken(unknown, replace(START, staleness_bound=4.0), staleness_max=4.0) == []
    assert broken(unknown, replace(START, staleness_bound=5.0), staleness_max=4.0) == [Constraint.STALENESS]
    strict, worst_unknown = Objective(staleness=StalenessBound.MAXIMUM), replace(GOOD, staleness=Staleness(2.0))
    assert not violations(strict, Bounds(staleness_max=4.0), START, worst_unknown)[0].told
    assert violations(strict, Bounds(staleness_max=1.5), START, worst_unknown)[0].told, "the worst is no better"


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


# ---- a bound that is broken already ----


def aged(age: float, error: float | None = None, **kept: float) -> Prediction:
    return replace(GOOD, staleness=Staleness(age), standard_error_frac=error, **kept)


def newly(was: Prediction, will: Prediction, now: Setpoints = START, then: Setpoints = START) -> list[Constraint]:
    """What a change breaks, or breaks further, where staleness may be 4."""
    bounds = Bounds(staleness_max=4.0, max_in_flight_max=1000)
    before, after = (violations(Objective(), bounds, s, p) for s, p in ((now, was), (then, will)))
    return [v.constraint for v in worsened(before, after)]


@given(st.floats(0.0, 20.0), st.floats(0.0, 20.0))
def test_a_change_may_not_break_a_bound_nor_worsen_a_broken_one_and_may_always_mend_it(was: float, will: float) -> None:
    found = newly(aged(was), aged(will))
    if will <= max(4.0, was):
        assert found == []
    elif will > max(4.0, was) + 1e-6:
        assert found == [Constraint.STALENESS]


def test_each_bound_is_worsened_in_its_own_unit() -> None:
    assert newly(aged(6.0), aged(6.1)) == [Constraint.STALENESS]
    assert newly(aged(2.0, kept_length_ratio=0.8), aged(2.0, kept_length_ratio=0.7)) == [Constraint.LENGTH_BIAS]
    assert newly(aged(2.0, kept_length_ratio=0.8), aged(2.0, kept_length_ratio=0.85)) == []
    assert newly(aged(2.0, kept_solve_ratio=0.8), aged(2.0, kept_solve_ratio=0.7)) == [Constraint.SOLVE_BIAS]
    more, less = replace(START, max_in_flight=2000), replace(START, max_in_flight=1200)
    assert newly(GOOD, GOOD, then=more) == [Constraint.IN_FLIGHT]
    assert newly(GOOD, GOOD, then=less) == []
    assert newly(aged(6.0, kept_length_ratio=0.8), aged(5.0, kept_length_ratio=0.7)) == [Constraint.LENGTH_BIAS]


def test_what_was_simulated_is_worse_beyond_twice_the_error_of_both() -> None:
    """2 x 6 x 1 % x sqrt(2) = 0.17 versions; 2 x 0.01 x sqrt(2) = 2.8 % of the length."""
    assert newly(aged(6.0, 0.01), aged(6.15, 0.01)) == []
    assert newly(aged(6.0, 0.01), aged(6.2, 0.01)) == [Constraint.STALENESS]
    was = aged(2.0, kept_length_ratio=0.8, kept_length_error=0.01)
    assert newly(was, aged(2.0, kept_length_ratio=0.78, kept_length_error=0.01)) == []
    assert newly(was, aged(2.0, kept_length_ratio=0.76, kept_length_error=0.01)) == [Constraint.LENGTH_BIAS]


def test_the_more_there_is_of_what_could_break_an_untold_bound_the_worse() -> None:
    """More is started than is kept, and nobody can tell what that does."""
    untold = replace(GOOD, kept_length_ratio=None, in_flight=100.0)
    some, more = (replace(START, oversampling_ratio=ratio) for ratio in (1.25, 1.5))
    assert newly(untold, untold, START, some) == [Constraint.LENGTH_BIAS]
    assert newly(untold, untold, some, more) == [Constraint.LENGTH_BIAS]
    assert newly(untold, untold, more, some) == []
    blind = replace(GOOD, staleness=None, in_flight=100.0)
    assert newly(blind, replace(blind, in_flight=110.0)) == [Constraint.STALENESS]
    assert newly(blind, replace(blind, in_flight=90.0)) == []
    assert newly(aged(3.0), blind) == [Constraint.STALENESS], "kept and told is better than untold"
    assert newly(aged(9.0), replace(blind, in_flight=1.0)) == [Constraint.STALENESS]
    assert newly(replace(blind, in_flight=1.0), aged(9.0)) == [], "what it was nobody knows"


@pytest.mark.parametrize(
    ("admission", "speaks_of"),
    [
        (Admission(Plug.WIP_CAP), StalenessBound.MEAN),
        (Admission(Plug.WIP_CAP, order=Order.ADMISSION), StalenessBound.MAXIMUM),
        (Admission(Plug.DISCARD_STALE), StalenessBound.MAXIMUM),
        (Admission(), StalenessBound.MEAN),
    ],
)
def test_a_bound_on_staleness_speaks_of_what_the_plug_promises(admission: Admission, speaks_of: StalenessBound) -> None:
    assert objective_of(admission).staleness is speaks_of
