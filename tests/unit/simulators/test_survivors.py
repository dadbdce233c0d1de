"""Rollouts that an abort may spare: the limits of the chain's formula."""

import pytest

from simulators.analytic.rollout import rollout_of
from simulators.analytic.syncing import _survivors
from simulators.queueing.order_statistics import Curve
from simulators.scenario import job_at
from tuner.scenario_files import load


@pytest.fixture(scope="module")
def times() -> Curve:
    job = job_at(load("length-x3-in-25-steps").scenario, 0, 0.0)
    return rollout_of(job.workload, None).turn_times().curve()


def second_moment(times: Curve, steps: int = 4000) -> float:
    """E[L^2] = 2 x integral of x P(L > x)."""
    width = times.xs[-1] / steps
    return 2.0 * width * sum(width * (i + 0.5) * times.over(width * (i + 0.5)) for i in range(steps))


def test_where_no_abort_stops_anybody_nothing_is_lost(times: Curve) -> None:
    assert _survivors(times, times.mean, 0.0) * times.mean == pytest.approx(1.0, rel=0.01)


@pytest.mark.parametrize("hit", [0.3, 0.7, 1.0])
def test_rare_aborts_cost_what_renewal_theory_says(times: Curve, hit: float) -> None:
    period = 30.0 * times.mean
    expected = 1.0 / (times.mean + hit * (times.mean**2 - second_moment(times) / 2.0) / period)
    assert _survivors(times, period, hit) == pytest.approx(expected, rel=0.02)


def test_the_more_are_hit_the_less_is_done_of_rollouts_that_take_several_periods(times: Curve) -> None:
    done = [_survivors(times, 0.5 * times.mean, hit) for hit in (0.0, 0.3, 0.6, 0.9)]
    assert done == sorted(done, reverse=True)
