"""Decisions and their times in words."""

import pytest

from tuner.report.decided import moment


@pytest.mark.parametrize(
    ("at_s", "told"),
    [(0.0, "0 s"), (7200.4, "7200 s"), (1_796_033_974.0, "2026-11-30T10:19:34Z"), (1e18, "1000000000000000000 s")],
)
def test_a_moment_is_of_the_wall_clock_or_of_a_simulated_job(at_s: float, told: str) -> None:
    assert moment(at_s) == told
