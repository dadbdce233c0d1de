"""A fit finds the parameters that made the figures, stays in its bounds and answers alike every time."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulators.fitting import Bounded, fit


@settings(max_examples=30, deadline=None)
@given(st.floats(0.5, 50), st.floats(0.5, 50))
def test_exact_figures_give_back_their_parameters(base: float, work: float) -> None:
    sizes = (1.0, 2.0, 4.0, 8.0)
    figures = [base + work / n for n in sizes]

    def residuals(values: list[float]) -> list[float]:
        return [(values[0] + values[1] / n - y) / y for n, y in zip(sizes, figures, strict=True)]

    found = fit((Bounded(0.1, 100), Bounded(0.1, 100)), residuals, 4)  # type: ignore[arg-type]
    assert found == pytest.approx((base, work), rel=1e-3)


def test_a_bound_is_kept() -> None:
    assert fit((Bounded(0.0, 1.0),), lambda v: [v[0] - 5.0], 1) == pytest.approx((1.0,), abs=1e-6)


def test_the_same_figures_give_the_same_answer() -> None:
    def once() -> tuple[float, ...]:
        return fit((Bounded(0.01, 10.0), Bounded(-1.0, 1.0)), lambda v: [v[0] ** 2 - 2, v[1] - 0.3, v[0] * v[1]], 3)

    assert once() == once()


def test_a_point_without_an_answer_turns_the_search_back() -> None:
    def residuals(values: list[float]) -> list[float]:
        if values[0] > 0.8:
            raise ValueError("no steady state")
        return [values[0] - 0.7]

    assert fit((Bounded(0.0, 1.0),), residuals, 1) == pytest.approx((0.7,), abs=1e-4)  # type: ignore[arg-type]


def test_nothing_free_is_nothing_fitted() -> None:
    assert fit((), lambda _: [], 0) == ()
