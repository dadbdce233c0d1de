"""Charts: honest scales, hatched exclusions, gaps where nothing is known, valid markup at any size of data."""

from math import isfinite
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.base import Interval, SplitCurve, SplitPoint
from simulators.plant import Mode
from simulators.snapshot import DroppedStep, Row, Window
from tests.unit.report.answers_by_hand import overlapped_rows, snapshot_from
from tuner.report.pictures import Chart, Series, lines, split, stacked, ticks
from tuner.report.story import MOST_ROWS, excluded_positions, phases, thin

SVG = "{http://www.w3.org/2000/svg}"


def chart(*values: float | None, excluded: frozenset[int] = frozenset(), share: bool = False) -> Chart:
    x = tuple(float(i) for i in range(len(values)))
    return Chart("c", "label", x, "step", "s", (Series("a <b>", values, 0),), excluded, share)


def shapes(svg: str, kind: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(svg).iter(f"{SVG}{kind}"))


numbers = st.floats(0, 1.7e308, allow_nan=False) | st.none()


@given(st.lists(numbers, min_size=1, max_size=80), st.sampled_from([330, 490, 720]))
def test_any_series_gives_valid_markup_inside_its_frame(values: list[float | None], width: int) -> None:
    for draw in (lines, stacked):
        root = ElementTree.fromstring(draw(chart(*values), width))
        for mark in root.iter(f"{SVG}circle"):
            assert 0 <= float(mark.attrib["cx"]) <= width
            assert 0 <= float(mark.attrib["cy"]) <= 220
        for box in root.iter(f"{SVG}rect"):
            assert float(box.attrib["height"]) >= 0
            assert isfinite(float(box.attrib.get("y", 0)))


@given(st.floats(-1e6, 1e6), st.floats(1e-2, 1e9), st.integers(2, 9))
def test_ticks_cover_the_range_with_few_round_numbers(low: float, span: float, most: int) -> None:
    found = ticks(low, low + span, most)
    assert found[0] <= low + 1e-6 * span
    assert found[-1] >= low + span - 1e-6 * span
    assert len(found) <= 2 * most + 3


def test_a_line_is_broken_where_a_value_is_unknown() -> None:
    assert len(shapes(lines(chart(1, 2, None, 3, 4), 490), "polyline")) == 2


def test_a_single_point_is_still_seen() -> None:
    assert len(shapes(lines(chart(None, 5, None), 490), "circle")) == 1


def test_excluded_steps_are_hatched() -> None:
    for draw in (lines, stacked):
        hatched = [
            r for r in shapes(draw(chart(1, 2, 3, excluded=frozenset({1})), 490), "rect") if r.get("class") == "hatched"
        ]
        assert len(hatched) == 1


def test_bars_stand_on_one_another_in_proportion() -> None:
    two = Chart("c", "l", (0.0,), "step", "s", (Series("a", (30.0,), 0), Series("b", (60.0,), 1)))
    low, high = (r for r in shapes(stacked(two, 490), "rect") if r.get("class") in ("t0", "t1"))
    assert float(high.attrib["height"]) == pytest.approx(2 * float(low.attrib["height"]), abs=0.3)
    assert float(high.attrib["y"]) + float(high.attrib["height"]) == pytest.approx(float(low.attrib["y"]), abs=0.3)


def test_names_from_outside_are_escaped() -> None:
    assert "<b>" not in lines(chart(1, 2), 490)


def test_the_split_picture_names_now_and_the_proposal_and_marks_what_is_not_legal() -> None:
    points = tuple(SplitPoint(n, 64 - n, Interval(0.8, 0.9, 1.0), n != 24) for n in (16, 24, 32))
    svg = split(SplitCurve(points, 32, 16), "s", 490)
    words = [t.text for t in shapes(svg, "text")]
    assert "now" in words
    assert "proposed" in words
    assert len([c for c in shapes(svg, "circle") if c.get("class") == "mark illegal"]) == 1


def test_the_phases_of_a_step_add_up_to_it() -> None:
    row = Row({"step_s": 100.0, "rollout_s": 50.0, "update_s": 20.0, "logprob_s": 10.0})
    found = phases(row, Mode.SERIAL)
    assert found == {"rollout_s": 50.0, "trainer_busy_s": 30.0, "unaccounted": 20.0}


def test_in_a_serial_job_the_wait_is_drawn_as_generation_where_that_is_not_logged() -> None:
    row = Row({"step_s": 100.0, "trainer_wait_s": 60.0, "trainer_busy_s": 40.0})
    assert phases(row, Mode.SERIAL) == {"rollout_s": 60.0, "trainer_busy_s": 40.0, "unaccounted": 0.0}


def test_in_an_overlapped_job_the_wait_is_a_phase_and_the_generation_is_not() -> None:
    row = Row({"step_s": 100.0, "rollout_s": 95.0, "trainer_wait_s": 30.0, "trainer_busy_s": 70.0})
    assert phases(row, Mode.OVERLAPPED) == {"trainer_busy_s": 70.0, "trainer_wait_s": 30.0, "unaccounted": 0.0}


def test_a_long_run_is_thinned_and_keeps_its_means() -> None:
    rows = overlapped_rows(1000)
    few = thin(rows)
    assert len(few) <= MOST_ROWS
    assert sum(r.weight for r in few) == 1000
    mean = sum(r.values["step_s"] * r.weight for r in few) / 1000
    assert mean == pytest.approx(sum(r.values["step_s"] for r in rows) / 1000)


def test_only_rows_of_dropped_steps_are_hatched() -> None:
    rows = overlapped_rows(4)
    snapshot = snapshot_from(rows, window=Window(4, 0, 3, None, (DroppedStep(0, "start-up"),)))
    assert excluded_positions(rows, snapshot) == frozenset({0})
