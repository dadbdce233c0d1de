"""Where rising functions pass zero."""

import math
from collections.abc import Callable

import pytest

from simulators.queueing.roots import crossing


@pytest.mark.parametrize(
    ("excess", "low", "high", "root"),
    [
        (lambda x: x * x - 2.0, 0.0, 2.0, math.sqrt(2.0)),
        (lambda x: math.exp(x) - 10.0, 0.0, 50.0, math.log(10.0)),
        (lambda x: max(0.0, x - 3.0) - 0.5 + min(x, 1.0) * 0.25, 0.0, 100.0, 3.25),
        (lambda x: math.log(max(x, 1e-300)), 1e-6, 1e6, 1.0),
    ],
    ids=["parabola", "steep", "kinked", "flat"],
)
def test_the_crossing_is_found_to_rounding(
    excess: Callable[[float], float], low: float, high: float, root: float
) -> None:
    assert crossing(excess, low, high) == pytest.approx(root, rel=1e-9)


def test_a_zero_at_either_end_is_the_crossing() -> None:
    assert crossing(lambda x: x, 0.0, 1.0) == pytest.approx(0.0, abs=1e-12)
    assert crossing(lambda x: x - 1.0, 0.0, 1.0) == pytest.approx(1.0, abs=1e-12)


def test_a_function_that_stays_at_zero_has_a_crossing_inside() -> None:
    assert 0.0 <= crossing(lambda x: 0.0 * x, 0.0, 1.0) <= 1.0
