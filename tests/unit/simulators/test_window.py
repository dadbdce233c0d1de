"""Which steps speak for the job."""

import pytest

from simulators.snapshot import Row
from simulators.window import Sources, assemble


def timed(*seconds: float, start: int = 1, **more: list[float]) -> list[Row]:
    return [
        Row({"step_s": s, **{name: column[i] for name, column in more.items()}}, start + i)
        for i, s in enumerate(seconds)
    ]


def dropped(rows: list[Row]) -> dict[int, str]:
    return {d.step: d.why for d in assemble(rows).window.dropped}


def test_a_long_first_step_is_start_up_and_speaks_for_nothing() -> None:
    rows = timed(300, 100, 110, 90, 100)
    assert dropped(rows) == {1: "start-up"}
    assert assemble(rows).get("step_s") == 100
    assert len(assemble(rows).rows) == 5


def test_the_first_line_of_a_log_that_starts_later_is_no_start_up() -> None:
    assert dropped(timed(300, 100, 110, 90, 100, start=40)) == {}


def test_with_few_steps_nothing_is_left_out() -> None:
    assert dropped(timed(300, 100, 110)) == {}


def test_rare_evaluations_are_left_out_and_one_on_every_step_is_part_of_it() -> None:
    seldom = timed(100, 100, 160, 100, 100, validation_s=[0, 0, 60, 0, 0])
    always = timed(160, 160, 160, 160, 160, validation_s=[60, 60, 60, 60, 60])
    assert dropped(seldom) == {3: "evaluation"}
    assert dropped(always) == {}


def test_three_steps_remain_whatever_is_odd() -> None:
    rows = timed(300, 100, 160, 100, 100, validation_s=[0, 0, 60, 0, 0], checkpoint_s=[0, 30, 0, 0, 0])
    kept = [row for row in rows if row.step not in dropped(rows)]
    assert len(kept) >= 3


def test_seconds_of_what_is_rare_are_spread_over_all_steps() -> None:
    seldom = timed(100, 100, 160, 100, 100, validation_s=[0, 0, 60, 0, 0])
    assert assemble(seldom).get("validation_s") == pytest.approx(12)


def test_a_window_tells_its_ends_and_its_seconds() -> None:
    window = assemble([Row({"step_s": 10.0}, 5, weight=4, last_step=8), Row({"step_s": 20.0}, 9)]).window
    assert (window.steps, window.from_step, window.to_step, window.seconds) == (5, 5, 9, 60.0)
    scrapes = assemble([], [Row({"running": 1.0}, time_s=100.0), Row({"running": 2.0}, time_s=160.0)]).window
    assert (scrapes.steps, scrapes.seconds) == (0, 60.0)
    assert assemble([]).window.seconds is None


def test_a_signal_keeps_the_trust_and_the_keys_of_its_source() -> None:
    sources = Sources({"step_s": 0.5}, {"step_s": ("timing_s/step",)}, age_s=3.0)
    signal = assemble(timed(10, 20), sources=sources).signals["step_s"]
    assert (signal.trust, signal.derived_from, signal.age_s, signal.n) == (0.5, ("timing_s/step",), 3.0, 2)
