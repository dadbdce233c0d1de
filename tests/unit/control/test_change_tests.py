"""Change tests: false alarms come as rarely as stated, true ones come soon."""

from random import Random

import pytest

from policies.base import Direction
from policies.change_tests import Cusum, steps_to_false_alarm, summed, threshold_for


def steps_to_alarm(drawn: Random, threshold: float, shift: float = 0.0) -> tuple[int, Direction]:
    test, steps = Cusum(), 0
    while True:
        steps += 1
        test, alarm = summed(test, drawn.gauss(shift, 1.0), threshold)
        if alarm is not None:
            return steps, alarm


@pytest.mark.parametrize("threshold", [3.0, 4.0])
def test_the_stated_run_length_is_what_noise_gives(threshold: float) -> None:
    drawn = Random(3)
    runs = [steps_to_alarm(drawn, threshold)[0] for _ in range(1500)]
    assert sum(runs) / len(runs) == pytest.approx(steps_to_false_alarm(threshold), rel=0.12)


@pytest.mark.parametrize("horizon", [1.0, 20.0, 50.0, 200.0])
def test_false_alarms_are_at_least_ten_horizons_apart(horizon: float) -> None:
    assert steps_to_false_alarm(threshold_for(horizon)) >= 10.0 * horizon
    assert steps_to_false_alarm(0.99 * threshold_for(horizon)) < 10.0 * horizon


@pytest.mark.parametrize(("shift", "direction"), [(1.5, Direction.UP), (-1.5, Direction.DOWN)])
def test_a_shift_is_found_soon_and_in_its_direction(shift: float, direction: Direction) -> None:
    drawn = Random(4)
    found = [steps_to_alarm(drawn, threshold_for(50.0), shift) for _ in range(200)]
    assert sum(steps for steps, _ in found) / len(found) < 10
    assert sum(d is direction for _, d in found) >= 198


def test_one_outlier_is_no_change() -> None:
    assert summed(Cusum(), 1e9, threshold_for(50.0))[1] is None


def test_nonsense_changes_nothing() -> None:
    test = Cusum(1.0, 2.0)
    assert summed(test, float("nan"), 4.0) == (test, None)
    assert summed(test, float("inf"), 4.0) == (test, None)


def test_the_worked_table() -> None:
    assert [round(steps_to_false_alarm(h)) for h in (3.0, 4.0, 5.0, 6.0)] == [59, 169, 469, 1286]
    assert [round(threshold_for(n), 1) for n in (20.0, 50.0, 200.0)] == [4.2, 5.1, 6.4]
