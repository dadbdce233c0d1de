"""A move that changed what is learned is told from a model that learns as it did before."""

from random import Random

import pytest

from policies.health import baseline, recovered, shifted
from tests.unit.policies.conftest import Steps

BEFORE, AFTER = 24, 6
MOVED_S = 60.0 * (BEFORE - 1)


def noisy(levels: list[float], seed: int) -> list[float]:
    drawn = Random(seed)
    return [value * (1.0 + drawn.gauss(0.0, 0.05)) for value in levels]


def told(steps: Steps, name: str, levels: list[float], seed: int) -> str | None:
    """What is said of a signal with these levels before and after a move, seen through noise of 5 %."""
    whole = steps(len(levels), step_s=60.0, **{name: noisy(levels, seed)})
    return shifted(baseline(whole, MOVED_S), whole, MOVED_S)


def falling(per_step: float) -> list[float]:
    return [per_step**i for i in range(BEFORE + AFTER)]


@pytest.mark.parametrize("name", ["entropy", "grad_norm", "resp_len_mean"])
@pytest.mark.parametrize("per_step", [0.98, 0.95, 0.93])
def test_what_fell_before_the_move_may_go_on_falling(steps: Steps, name: str, per_step: float) -> None:
    said = [told(steps, name, falling(per_step), seed) for seed in range(20)]
    assert sum(word is not None for word in said) <= 1


def test_a_run_that_just_warmed_up_is_held_against_its_end(steps: Steps) -> None:
    warm_up = [3.0 - 0.25 * i for i in range(8)] + [1.0] * (BEFORE + AFTER - 8)
    assert not any(told(steps, "grad_norm", warm_up, seed) for seed in range(20))


@pytest.mark.parametrize("factor", [0.6, 1.6])
def test_what_stood_still_and_jumps_with_the_move_is_a_shift(steps: Steps, factor: float) -> None:
    jumped = [1.0] * BEFORE + [factor] * AFTER
    assert all("entropy went from" in (told(steps, "entropy", jumped, seed) or "") for seed in range(20))


def test_kept_answers_that_grow_longer_are_no_shift_and_shorter_ones_are(steps: Steps) -> None:
    """Whatever throws long answers away makes the kept ones shorter; longer ones are what models learn to write."""
    for factor, shift in ((1.6, False), (0.6, True)):
        jumped = [1.0] * BEFORE + [factor] * AFTER
        said = [told(steps, "resp_len_mean", jumped, seed) for seed in range(20)]
        assert all(("length of what is kept went from" in (word or "")) is shift for word in said)


def test_what_fell_slowly_and_collapses_with_the_move_is_a_shift(steps: Steps) -> None:
    collapsed = falling(0.98)[:BEFORE] + [0.25 * 0.98**i for i in range(BEFORE, BEFORE + AFTER)]
    assert all(told(steps, "entropy", collapsed, seed) for seed in range(20))


def test_answers_that_grow_are_what_models_learn_and_shorter_ones_are_a_shift(steps: Steps) -> None:
    """Who throws long answers away keeps short ones; longer ones are kept by nobody's fault."""
    shorter, longer = ([1000.0] * BEFORE + [1000.0 * factor] * AFTER for factor in (0.6, 1.6))
    assert all("length of what is kept" in (told(steps, "resp_len_mean", shorter, seed) or "") for seed in range(20))
    assert not any(told(steps, "resp_len_mean", longer, seed) for seed in range(20))


@pytest.mark.parametrize(
    ("since", "said"),
    [
        ([1.0] * 4, None),
        ([1.0] * 5, "where it was"),
        ([0.5] * 12, None),
        ([0.5] * 16, "stands still"),
        ([0.7] * 8 + [0.4] * 8, None),
    ],
    ids=["too few to tell", "back", "not back", "stands", "shifts again"],
)
def test_a_shift_is_over_when_learning_is_back_or_stands(steps: Steps, since: list[float], said: str | None) -> None:
    whole = steps(BEFORE + len(since), step_s=60.0, entropy=noisy([1.0] * BEFORE + since, 3))
    why = recovered(baseline(whole, MOVED_S), whole, MOVED_S)
    assert (why is None) if said is None else (why is not None and said in why)


@pytest.mark.parametrize(("factor", "shifts"), [(0.85, False), (1.15, False), (0.75, True), (1.25, True)])
def test_less_than_a_fifth_is_no_reason_to_undo_a_move(steps: Steps, factor: float, shifts: bool) -> None:
    """However sure it is: there is no noise here at all."""
    whole = steps(BEFORE + AFTER, step_s=60.0, entropy=[1.0] * BEFORE + [factor] * AFTER)
    assert (shifted(baseline(whole, MOVED_S), whole, MOVED_S) is not None) is shifts


@pytest.mark.parametrize(("low_steps", "shifts"), [(4, False), (10, True)])
def test_short_answers_that_end_first_are_no_shift(steps: Steps, low_steps: int, shifts: bool) -> None:
    """What a move starts besides ends by its length: for four steps of a pipeline of four batches the short ones."""
    levels = [1.0] * BEFORE + [0.7] * low_steps + [1.0] * (10 - low_steps)
    whole = steps(len(levels), step_s=60.0, resp_len_mean=noisy(levels, 3), entropy=noisy([1.0] * len(levels), 4))
    assert (shifted(baseline(whole, MOVED_S), whole, MOVED_S, filling_steps=4) is not None) is shifts
    assert shifted(baseline(whole, MOVED_S), whole, MOVED_S) is not None or low_steps < 5
