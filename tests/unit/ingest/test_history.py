"""A run's rows in bounded memory: any length fits, means and ends stay what they were."""

from math import nan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulators.signals import Fold
from tuner.ingest.history import History, RawRow, is_same, merge

FOLDS = {"mean": Fold.MEAN, "rare": Fold.SUM, "worst": Fold.MAX, "total": Fold.LAST}


def kept(values: list[dict[str, float]], rows_max: int) -> list[RawRow]:
    history = History(FOLDS.__getitem__, rows_max=rows_max)
    for step, row in enumerate(values):
        history.append(RawRow(row, step, float(step), step))
    return history.rows


@settings(deadline=None)
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=200), st.sampled_from([2, 4, 16]))
def test_whatever_the_length_nothing_is_lost_from_means_extremes_and_ends(values: list[float], rows_max: int) -> None:
    rows = kept([{"mean": v, "worst": v, "total": v} for v in values], rows_max)
    steps = sum(row.weight for row in rows)
    assert len(rows) <= rows_max + 1
    assert steps == len(values)
    mean = sum(row.values["mean"] * row.weight for row in rows) / steps
    assert mean == pytest.approx(sum(values) / len(values), abs=1e-6)
    assert max(row.values["worst"] for row in rows) == max(values)
    assert rows[-1].values["total"] == values[-1]
    assert (rows[0].step, rows[-1].last_step) == (0, len(values) - 1)


@settings(deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=100))
def test_seconds_of_rare_events_stay_the_same_per_step(hits: list[bool]) -> None:
    rows = kept([{"mean": 1.0} | ({"rare": 60.0} if hit else {}) for hit in hits], 4)
    seconds = sum(row.values.get("rare", 0.0) * row.weight for row in rows)
    assert seconds == pytest.approx(60.0 * sum(hits))


def test_a_key_that_only_one_neighbour_has_keeps_its_value() -> None:
    merged = merge(RawRow({"mean": 4.0}, 1, None, 1), RawRow({"worst": 9.0}, 2, None, 2), FOLDS.__getitem__)
    assert merged.values == {"mean": 4.0, "worst": 9.0}
    assert (merged.step, merged.last_step, merged.weight) == (1, 2, 2)


def test_one_line_rounded_differently_is_the_same() -> None:
    assert is_same({"loss": 0.12345, "step": 7.0}, {"loss": 0.123, "other": 1.0})
    assert is_same({"loss": nan}, {"loss": 3.0})
    assert not is_same({"loss": 0.5}, {"loss": 0.7})
