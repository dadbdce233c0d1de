"""A change over the window counts when it is large and beyond the noise of both ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.drift import change_over_window, drift_findings
from tests.unit.policies.conftest import Steps


@pytest.mark.parametrize(
    ("series", "moved"),
    [
        ([10, 10, 12, 13, 15, 15], True),
        ([10, 10, 10, 10, 10, 10], False),
        ([10, 10, 10, 10.5, 10.5, 10.5], False),
        ([10, 30, 10, 30, 10, 30, 12, 33, 11], False),
        ([10, 20, 30, 40, 50], False),
    ],
    ids=["grows", "constant", "within a tenth", "within the noise", "too short"],
)
def test_a_change_is_told_when_it_is_real(series: list[float], moved: bool) -> None:
    assert (change_over_window([float(x) for x in series]) is not None) is moved


@given(st.floats(-1e6, 1e6), st.integers(0, 60))
def test_a_constant_never_drifts(value: float, count: int) -> None:
    assert change_over_window([value] * count) is None


@given(st.lists(st.floats(1, 1e4), min_size=6, max_size=60), st.sampled_from([0.25, 0.5, 2.0, 1024.0]))
def test_drift_does_not_depend_on_the_unit(series: list[float], scale: float) -> None:
    once = change_over_window(series)
    expected = None if once is None else (once[0] * scale, once[1] * scale)
    assert change_over_window([x * scale for x in series]) == expected


def test_each_watched_signal_that_moved_is_one_finding_with_both_ends(steps: Steps) -> None:
    found = drift_findings(steps(6, step_s=[100, 100, 120, 130, 150, 150], grad_norm=[1, 1, 2, 3, 4, 4]))
    assert [(f.evidence["signal"], f.evidence["before"], f.evidence["after"]) for f in found] == [("step_s", 100, 150)]
