"""Several values become one: over replicas, over steps, and over the rows of a window."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulators.signals import SIGNALS, Fold, is_possible
from simulators.snapshot import DroppedStep, Row, Signal, Snapshot, Window, fold_rows, fold_values, snapshot_of

NUMBERS = st.lists(st.floats(-1e6, 1e6), min_size=1)


@given(NUMBERS)
def test_every_fold_but_a_sum_stays_inside_its_values(values: list[float]) -> None:
    for how in set(Fold) - {Fold.SUM}:
        assert min(values) - 1e-6 <= fold_values(how, values) <= max(values) + 1e-6


@given(st.floats(-1e6, 1e6), st.integers(1, 20))
def test_folding_the_same_value_gives_it_back(value: float, count: int) -> None:
    for how in set(Fold) - {Fold.SUM}:
        assert fold_values(how, [value] * count) == pytest.approx(value)


def test_no_value_cannot_be_folded() -> None:
    with pytest.raises(ValueError, match="no values"):
        fold_values(Fold.MEAN, [])


def test_a_row_of_merged_steps_counts_for_as_many() -> None:
    rows = [Row({"step_s": 10.0}, 1, weight=3), Row({"step_s": 50.0}, 4)]
    assert fold_rows(rows)["step_s"] == (20.0, 4)


def test_a_gauge_speaks_for_now_and_a_total_for_the_end() -> None:
    rows = [Row({"running": float(n), "preemptions": float(n)}) for n in (1, 2, 3, 4, 90, 80, 70, 100)]
    folded = fold_rows(rows)
    assert folded["running"][0] == 85.0
    assert folded["preemptions"][0] == 100.0


def test_a_quota_is_the_one_in_force_now_and_no_mean_of_those_there_were() -> None:
    rows = [Row({"sandbox_quota": quota}, step) for step, quota in enumerate((2400.0, 2400.0, 420.0))]
    assert fold_rows(rows)["sandbox_quota"][0] == 420.0


@pytest.mark.parametrize("name", SIGNALS)
def test_what_is_not_finite_is_impossible_for_every_signal(name: str) -> None:
    assert not any(is_possible(name, odd) for odd in (float("nan"), float("inf"), float("-inf")))
    assert is_possible(name, 1.0)


def test_a_share_over_one_and_a_negative_time_are_impossible() -> None:
    assert not is_possible("mfu", 1.018)
    assert not is_possible("step_s", -0.1)
    assert is_possible("kl", -0.1)


def test_a_series_leaves_dropped_steps_out_and_falls_back_on_the_engines() -> None:
    rows = (Row({"step_s": 90.0}, 0), Row({"step_s": 10.0}, 1))
    snapshot = Snapshot({}, rows, (Row({"running": 5.0}),), window=Window(dropped=(DroppedStep(0, "start-up"),)))
    assert snapshot.series("step_s") == [10.0]
    assert snapshot.series("running") == [5.0]
    assert snapshot.series("kl") == []


def test_bare_numbers_make_a_snapshot_and_unknown_names_do_not() -> None:
    assert snapshot_of(step_s=10).signals == {"step_s": Signal(10.0, "s")}
    with pytest.raises(ValueError, match="'step' is not a signal"):
        snapshot_of(step=10)
