"""Keyed random numbers: uniform, independent of each other, the same in CPython and in the compiled engine."""

from math import isclose
from statistics import NormalDist, fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from simulators import streams
from simulators.events import draws

WORDS = st.integers(0, 2**40)


def test_draws_are_uniform_and_do_not_depend_on_their_neighbours() -> None:
    key = streams.seed_key(3)
    draws = np.array([streams.uniform(key, streams.RESPONSE, g, m, 0) for g in range(5000) for m in range(8)])
    counts = np.histogram(draws, 100, (0.0, 1.0))[0]
    assert 50 < ((counts - 400.0) ** 2 / 400.0).sum() < 160  # chi-squared with 99 degrees of freedom
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 0.02
    assert abs(np.corrcoef(draws[:-8], draws[8:])[0, 1]) < 0.02


@settings(deadline=None)
@given(WORDS, st.integers(0, 14), WORDS, st.integers(0, 4096), st.integers(0, 1000))
def test_a_draw_lies_inside_0_and_1_and_is_the_same_when_compiled(
    s: int, stream: int, g: int, m: int, turn: int
) -> None:
    key = streams.seed_key(s)
    value = streams.uniform(key, stream, g, m, turn)
    assert 0.0 < value < 1.0
    assert compiled_uniform(np.uint64(key).astype(np.int64), stream, g, m, turn) == value


@njit(_nrt=False)
def compiled_uniform(key, stream, group, member, turn):
    return draws.uniform(key, stream, group, member, turn)


@settings(deadline=None)
@given(st.floats(1e-300, 1.0, exclude_max=True))
def test_the_normal_quantile_is_right_and_the_same_when_compiled(share: float) -> None:
    z = streams.normal_quantile(share)
    assert isclose(z, NormalDist().inv_cdf(share), rel_tol=1e-12, abs_tol=1e-12) or share < 1e-15
    assert draws.normal_quantile(share) == z


@settings(deadline=None)
@given(st.floats(-40.0, 40.0))
def test_the_normal_distribution_is_right_and_the_same_when_compiled(z: float) -> None:
    assert isclose(streams.normal_share(z), NormalDist().cdf(z), rel_tol=1e-8, abs_tol=1e-14)
    assert draws.normal_share(z) == streams.normal_share(z)


@pytest.mark.parametrize("other", [(1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)])
def test_draws_for_different_uses_have_nothing_to_do_with_each_other(other: tuple[int, int, int, int]) -> None:
    key = streams.seed_key(0)
    pairs = [
        (
            streams.uniform(key, 2, g, 3, 4),
            streams.uniform(key, 2 + other[0], g + other[1], 3 + other[2], 4 + other[3]),
        )
        for g in range(0, 20_000, 2)
    ]
    assert fmean((a - 0.5) * (b - 0.5) * 12.0 for a, b in pairs) == pytest.approx(0.0, abs=0.04)
