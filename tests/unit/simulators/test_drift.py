"""Drift: each shape starts where the file says, arrives where it should, and touches nothing else."""

from dataclasses import replace
from itertools import pairwise

import pytest

from simulators.drift import Drift, Shape, drifted, number_at, with_number
from simulators.event_state import Job
from simulators.plant import Setpoints, Topology
from simulators.stations import Engine, Stations, Trainer, affine
from simulators.workload import Lengths, SolvePart, SolveRates, Workload

JOB = Job(
    Topology(),
    Stations(Engine(affine(0.01, 0.001), slots=8), Trainer(1.0, 1e-4)),
    Workload(Lengths(100.0), Lengths(1000.0, max_tokens=4096), solve=SolveRates((SolvePart(1.0, 2.0, 3.0),))),
    Setpoints(),
)
ARRIVING = (Shape.LINEAR, Shape.EXPONENTIAL, Shape.LOGISTIC)


@pytest.mark.parametrize(
    ("shape", "half_way"),
    [(Shape.LINEAR, 20.0), (Shape.EXPONENTIAL, 17.320508), (Shape.LOGISTIC, 20.0), (Shape.STEP, 30.0)],
)
def test_a_drift_of_10_to_30_is_half_way_where_its_shape_says(shape: Shape, half_way: float) -> None:
    assert drifted(Drift("x", shape, to=30.0, end=100.0), 10.0, 50.0) == pytest.approx(half_way)


@pytest.mark.parametrize("shape", ARRIVING)
def test_before_its_start_and_after_its_end_a_drift_stands_still(shape: Shape) -> None:
    drift = Drift("x", shape, to=30.0, start=20.0, end=100.0)
    assert [drifted(drift, 10.0, at) for at in (0.0, 19.9, 20.0)] == pytest.approx([10.0, 10.0, 10.0])
    assert [drifted(drift, 10.0, at) for at in (100.0, 1e9)] == [30.0, 30.0]


@pytest.mark.parametrize("shape", ARRIVING)
def test_a_drift_never_turns_back_and_never_jumps(shape: Shape) -> None:
    drift = Drift("x", shape, to=30.0, end=1000.0)
    way = [drifted(drift, 10.0, float(at)) for at in range(1001)]
    steps = [b - a for a, b in pairwise(way)]
    assert min(steps) >= 0.0
    assert max(steps) < 0.1


def test_a_step_with_an_end_goes_back() -> None:
    drift = Drift("x", Shape.STEP, to=30.0, start=5.0, end=9.0)
    assert [drifted(drift, 10.0, float(at)) for at in (4, 5, 8, 9)] == [10.0, 30.0, 30.0, 10.0]


def test_a_sine_swings_evenly_around_the_value_in_the_file() -> None:
    drift = Drift("x", Shape.SINE, to=15.0, period=20.0)
    way = [drifted(drift, 10.0, float(at)) for at in range(20)]
    assert (max(way), min(way)) == pytest.approx((15.0, 5.0))
    assert sum(way) / len(way) == pytest.approx(10.0)
    assert drifted(replace(drift, end=7.0), 10.0, 7.0) == 10.0


def test_points_are_joined_by_straight_lines_and_stay_beyond_their_ends() -> None:
    drift = Drift("x", Shape.POINTS, points=((10.0, 1.0), (20.0, 3.0), (30.0, 0.0)))
    assert [drifted(drift, 99.0, float(at)) for at in (0, 10, 15, 20, 25, 30, 99)] == [1, 1, 2, 3, 1.5, 0, 0]


def test_one_number_is_replaced_and_nothing_else() -> None:
    changed = with_number(JOB, "workload.solve.parts.0.b", 7.0)
    assert number_at(changed, "workload.solve.parts.0.b") == 7.0
    assert with_number(changed, "workload.solve.parts.0.b", 3.0) == JOB


def test_a_count_stays_a_whole_number() -> None:
    assert with_number(JOB, "workload.response.max_tokens", 2000.6).workload.response.max_tokens == 2001


@pytest.mark.parametrize("path", ["workload.respnse.sigma", "workload.solve.parts.1.a", "stations.engine.slots.x"])
def test_a_path_that_leads_nowhere_is_named(path: str) -> None:
    with pytest.raises(ValueError, match="leads nowhere"):
        number_at(JOB, path)


@pytest.mark.parametrize("path", ["stations.sandboxes", "stations.engine.prefix_cache", "workload.turns.law"])
def test_what_is_no_number_is_none(path: str) -> None:
    assert number_at(JOB, path) is None
