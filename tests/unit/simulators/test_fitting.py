"""A fit finds the parameters that made the figures, stays in its bounds and answers alike every time."""

from collections.abc import Sequence

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


@pytest.mark.parametrize("smooth", [True, False])
def test_a_search_with_and_without_gradients_ends_at_the_same_figures(smooth: bool) -> None:
    sizes = (1.0, 2.0, 4.0, 8.0)

    def residuals(values: Sequence[float]) -> list[float]:
        return [(values[0] + values[1] / n) / (3.0 + 20.0 / n) - 1.0 for n in sizes]

    assert fit((Bounded(0.1, 100), Bounded(0.1, 100)), residuals, 4, smooth) == pytest.approx((3.0, 20.0), rel=0.03)


def test_a_model_that_answers_in_steps_is_fitted_without_gradients() -> None:
    """A simulation counts tokens and batches: what is next to nothing of its input changes nothing."""

    def residuals(values: Sequence[float]) -> list[float]:
        return [round(values[0], 2) - 0.62]

    assert fit((Bounded(0.0, 1.0),), residuals, 1, smooth=False) == pytest.approx((0.62,), abs=0.006)


def test_nothing_free_is_nothing_fitted() -> None:
    assert fit((), lambda _: [], 0) == ()
