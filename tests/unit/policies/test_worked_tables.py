"""The worked tables above the code are true as they are printed."""

import re
from collections.abc import Callable

import pytest

from policies.allocation import split_curve
from policies.derivations import group_size_from_advantage
from policies.diagnosis.waiting import coupling_idle_frac
from policies.estimators import estimate
from policies.recommendations.case import at_most
from policies.recommendations.engines import batch_gain
from simulators.plant import Bounds, Mode, Setpoints, Topology
from simulators.snapshot import snapshot_of

NUMBER = re.compile(r"\d+(?:\.\d+)?")


def cells(function: Callable[..., object]) -> list[tuple[float, ...]]:
    """The numbers of each cell of the tables in a docstring: lines that start with `#`, cells between `|`."""
    lines = [line.strip()[1:] for line in (function.__doc__ or "").splitlines() if line.strip().startswith("#")]
    found = [tuple(map(float, NUMBER.findall(cell))) for line in lines for cell in line.split("|")]
    assert len(found) >= 3, f"{function.__name__} has no table"
    return found


def test_two_equal_stations_idle_as_the_table_says() -> None:
    for ahead, percent in cells(coupling_idle_frac):
        assert 100 * coupling_idle_frac(ahead) == pytest.approx(percent, abs=0.5)


def test_a_lone_success_gives_the_advantage_of_the_table() -> None:
    for advantage, size in cells(group_size_from_advantage):
        assert group_size_from_advantage(advantage) == size


def test_a_gain_of_which_only_the_bound_is_known_is_spread_as_the_table_says() -> None:
    (bound, low), (mean,), (high,) = cells(at_most)
    gain = at_most(bound)
    assert (gain.low, gain.mean, gain.high) == pytest.approx((low, mean, high))


def test_larger_batches_gain_what_the_table_says() -> None:
    for now, then, low, high in cells(batch_gain):
        gain = batch_gain(now, then)
        assert (100 * gain.low, 100 * gain.high) == pytest.approx((low, high), abs=0.5)


def test_splits_give_what_the_table_says() -> None:
    now_t, now_g, idle = re.findall(r"# (\d+) : (\d+), trainer idle (\d+) %", split_curve.__doc__ or "")[0]
    topology = Topology(mode=Mode.OVERLAPPED, gpus_per_engine=8, trainer_gpu_step=8)
    setpoints = Setpoints(gpus_trainer=int(now_t), gpus_generator=int(now_g))
    snapshot = snapshot_of(step_s=100.0, trainer_wait_s=float(idle), generator_wait_s=0.0)
    curve = split_curve(topology, setpoints, estimate(topology, setpoints, snapshot), Bounds())
    assert curve is not None
    by_trainer = {point.gpus_trainer: point for point in curve.points}
    printed = re.findall(r"(\d+) : (\d+) -> ([\d.]+?)(?:\.\.([\d.]+))?(?= |\n)", split_curve.__doc__ or "")
    assert len(printed) == 3
    for trainer, generator, low, high in printed:
        point = by_trainer[int(trainer)]
        assert point.gpus_generator == int(generator)
        assert point.throughput.low == pytest.approx(float(low), abs=0.006)
        assert point.throughput.high == pytest.approx(float(high or low), abs=0.006)
