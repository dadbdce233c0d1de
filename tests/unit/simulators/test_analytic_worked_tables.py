"""The tables and figures that the docstrings of the analytic model print."""

from math import exp

import pytest

from simulators.analytic import AnalyticModel
from simulators.analytic.engine import Demand, Server, Stops, flow, iteration_s
from simulators.analytic.oversampling import Round
from simulators.analytic.sandbox import Pressing, start_of, starts_of
from simulators.analytic.waiting import waiting_between
from simulators.event_state import Job
from simulators.limits import binding_limits
from simulators.plant import Mode, Setpoints, Topology
from simulators.queueing.closed import Station, convolution
from simulators.queueing.order_statistics import Part, mixture
from simulators.stations import (
    Admission,
    Engine,
    Plug,
    Sandboxes,
    Stations,
    StepTime,
    SyncMode,
    Trainer,
    WeightSync,
    affine,
)
from simulators.workload import Duration, Lengths, Turns, Workload


@pytest.mark.parametrize(("starting", "longer"), [(50, 1.0), (150, 3.5), (300, 11.0)])
def test_sandbox_starts_beyond_the_quota(starting: int, longer: float) -> None:
    seconds, _ = start_of(Sandboxes(2.0, overload_factor=5.0), starting, 100.0)
    assert seconds == pytest.approx(2.0 * longer)


@pytest.mark.parametrize(("in_flight", "told"), [(1536, (20.3, 0.082, -0.07)), (2304, (51.1, 0.191, -0.27))])
def test_what_waits_for_a_sandbox_presses_on_the_provider(in_flight: int, told: tuple[float, float, float]) -> None:
    fleet = Sandboxes(12.0, 700, overload_factor=2.0, failure_frac=0.005, overload_failure_frac=0.3)

    def asked(waiting: float) -> tuple[float, float, float]:
        seconds, failed = starts_of(fleet, 700.0, Pressing(1e9, 123.0, waiting_between(waiting, waiting)))
        return seconds, failed, 700.0 / (seconds / (1.0 - failed) + 123.0)

    seconds, failed, per_s = asked(in_flight - 700.0)
    assert seconds == pytest.approx(told[0], abs=0.1)
    assert failed == pytest.approx(told[1], abs=1e-3)
    assert per_s / asked(0.0)[2] - 1.0 == pytest.approx(told[2], abs=0.006)


@pytest.mark.parametrize(("slots", "means"), [(256, 11.2), (128, 11.6)])
def test_a_serial_step_in_mean_rollouts(slots: int, means: float) -> None:
    stations = Stations(Engine(affine(0.01, 0.0), slots), Trainer(1.0, 0.0))
    topology = Topology(mode=Mode.SERIAL, gpus_total=8, gpus_per_engine=8)
    workload = Workload(Lengths(1.0), Lengths(1000.0, 1.0))
    found = AnalyticModel(stations).predict(topology, workload, Setpoints(group_size=8, batch_rollouts=256))
    assert (found.step_s - 1.0) / 10.0 == pytest.approx(means, abs=0.06)


@pytest.mark.parametrize(
    ("groups", "usable", "opened", "given_up"),
    [
        *((80, 1.0, 80.0, 0.2), (80, 0.9, 82.0, 0.13), (80, 0.8, 84.3, 0.05), (80, 0.7, 91.8, 0.004)),
        *((80, 0.6, 106.7, 0.0), (96, 1.0, 96.0, 0.33), (96, 0.9, 98.4, 0.28), (96, 0.8, 100.9, 0.21)),
        *((96, 0.7, 103.6, 0.12), (96, 0.6, 109.2, 0.02)),
    ],
)
def test_what_a_round_opens_and_gives_up(groups: int, usable: float, opened: float, given_up: float) -> None:
    of_eight = mixture([(1.0, [Part(1.0, 1.0, 1.0)])]).curve(8)
    found = Round(64.0, groups, usable).endings(of_eight, 3.0)
    assert found.opened(64.0, usable) == pytest.approx(opened, abs=0.06)
    assert 1.0 - found.groups_frac == pytest.approx(given_up, abs=0.005)


def test_the_age_of_what_is_under_way_is_that_of_renewal_theory() -> None:
    """E[X^2] / 2 E[X]: of a constant half of it, of a lognormal exp(sigma^2) / 2."""
    assert mixture([(1.0, [Part(1.0, 3.0, 0.0)])]).curve().age == pytest.approx(1.5, rel=2e-3)
    assert mixture([(1.0, [Part(1.0, 1.0, 0.5)])]).curve().age == pytest.approx(exp(0.25) / 2.0, rel=2e-3)


def test_limits_of_a_capped_job() -> None:
    stations = Stations(
        Engine(affine(0.008, 0.0001), 64),
        Trainer(5.0, 64 / 200_000),
        WeightSync(2.0, trainer_waits=False),
        Admission(Plug.WIP_CAP, 192, True),
    )
    knobs = Setpoints(gpus_trainer=64, gpus_generator=192, group_size=8, batch_rollouts=512)
    topology = Topology(mode=Mode.OVERLAPPED, gpus_per_engine=8)
    job = Job(topology, stations, Workload(Lengths(1.0), Lengths(8000.0, 1.0)), knobs)
    found = {limit.name: limit.gain_frac for limit in binding_limits(AnalyticModel, job)}
    assert found == {
        "admission.limit_groups": pytest.approx(0.23, abs=0.01),
        "gpus_generator": pytest.approx(0.04, abs=0.01),
    }


def test_step_time_between_and_beyond_its_points() -> None:
    step = StepTime(((1.0, 0.010), (8.0, 0.017), (16.0, 0.041)), 1e-6)
    assert iteration_s(step, 4.5, 0.0) == pytest.approx(0.0135)
    assert iteration_s(step, 24.0, 1000.0) == pytest.approx(0.065 + 0.001)


@pytest.mark.parametrize("population", [1, 4, 12, 40])
def test_one_engine_with_tools_is_the_textbook_network(population: int) -> None:
    """Constant step time: a station of as many servers as slots, and a delay."""
    server = Server(affine(0.01, 0.0), Demand(100.0, 0.0), 8.0)
    found = flow(server, population, 5.0, Stops())
    exact = convolution((Station(1.0, servers=8.0),), population, think=5.0)
    assert found.turns_per_s == pytest.approx(exact.throughput, rel=1e-9)
    assert found.residents + found.queueing == pytest.approx(exact.numbers[0], rel=1e-9)


def test_stops_cost_their_share_and_long_ones_more_where_tools_return_meanwhile() -> None:
    server = Server(affine(0.01, 0.0), Demand(100.0, 0.0), 8.0)
    free = flow(server, 20.0, 5.0, Stops()).turns_per_s
    short = flow(server, 20.0, 5.0, Stops(0.01, 0.1)).turns_per_s
    long = flow(server, 20.0, 5.0, Stops(30.0, 300.0)).turns_per_s
    assert 0.85 * free < long < short < free


def drain_s(step: StepTime) -> float:
    """What the trainer waits for when 64 residents, each of 100 s at a full engine, finish their turns."""
    per_token = 100.0 / 1000.0 / iteration_s(step, 64.0, 0.0)
    scaled = StepTime(tuple((b, t * per_token) for b, t in step.table))
    sync, admission = WeightSync(0.0, SyncMode.DRAIN), Admission(Plug.DROP_OLDEST, 64)
    stations = Stations(Engine(scaled, 64), Trainer(1e4, 0.0), sync, admission)
    workload = Workload(Lengths(1.0), Lengths(1000.0, 1.0), Turns(50.0), tool=Duration(1e-3))
    knobs = Setpoints(gpus_trainer=1, gpus_generator=1, group_size=1, batch_rollouts=1)
    topology = Topology(mode=Mode.OVERLAPPED, gpus_per_engine=1)
    return AnalyticModel(stations).predict(topology, workload, knobs).step_s - 1e4


def test_an_engine_whose_pace_is_its_residents_drains_in_the_mean_of_what_is_left_and_others_take_longer() -> None:
    proportional, affine_s, constant = map(drain_s, (affine(1e-6, 0.1), affine(8.0, 0.1), affine(14.4, 0.0)))
    left_s = 100.0 * 0.5 * exp(1.0)  # E[L^2] / 2 E[L] of sigma 1
    assert proportional == pytest.approx(left_s, rel=0.05)
    assert affine_s == pytest.approx(8.0 / 14.4 * constant + 6.4 / 14.4 * proportional, rel=0.01)
    assert constant > 4.0 * proportional
