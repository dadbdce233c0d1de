"""How far the first step of a split goes."""

import pytest

from policies.stages import FIRST_FRAC, first_most, first_step, nearer, way
from simulators.plant import Setpoints


def test_the_way_is_passed_from_here_to_there_in_either_direction() -> None:
    sizes = range(8, 256, 8)
    assert way(sizes, 64, 40) == [56, 48, 40]
    assert way(sizes, 64, 88) == [72, 80, 88]
    assert way(sizes, 64, 90) == [72, 80, 88, 90]  # a wish beside the lattice is its own end


@pytest.mark.parametrize(
    ("step", "now", "then", "total", "gain", "near"),
    [
        (2, 52, 118, 128, 0.21, 60),  # four of 33 steps prove 2 %
        (8, 64, 32, 256, 0.026, 56),  # four of four would, but an eighth of the trainer is one step
        (8, 64, 32, 256, 0.30, 56),  # one step proves it
        (1, 41, 53, 64, 0.187, 43),
        (8, 16, 8, 256, 0.02, 8),  # one lattice step is always allowed
    ],
)
def test_as_far_as_proves_something_and_no_further_than_an_eighth_of_who_gives(
    step: int, now: int, then: int, total: int, gain: float, near: int
) -> None:
    passed = way(range(step, total, step), now, then)
    assert first_step(passed, now, total, 0.02 / gain) == near


@pytest.mark.parametrize("now", [16, 64, 200])
@pytest.mark.parametrize("step", [1, 2, 8, 32])
def test_the_first_step_takes_no_more_than_its_share_or_one_lattice_step(now: int, step: int) -> None:
    for then in (8, 248):
        passed = way(range(step, 256, step), now, then)
        furthest = passed[first_most(passed, now, 256) - 1]
        giving = now if then < now else 256 - now
        assert abs(furthest - now) <= FIRST_FRAC * giving or furthest == passed[0]


@pytest.mark.parametrize(
    ("then", "refused", "is_nearer"),
    [
        (88, 80, True),
        (80, 80, False),  # the same
        (72, 80, False),  # further
        (104, 80, False),  # the other way
        (88, None, False),
        (None, 80, False),  # another knob
    ],
)
def test_a_split_on_the_way_to_a_refused_one_is_nearer(then: int | None, refused: int | None, is_nearer: bool) -> None:
    here = Setpoints(gpus_trainer=96, gpus_generator=160)
    no = None if refused is None else Setpoints(gpus_trainer=refused)
    assert nearer(here, Setpoints(gpus_trainer=then), no) is is_nearer
