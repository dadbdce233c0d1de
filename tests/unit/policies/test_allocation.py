"""How many GPUs each side should have, and which splits are looked at."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from policies.allocation import SPLITS_MAX, capacities, central, quantile, split_curve
from policies.base import SplitCurve
from policies.estimators import estimate
from simulators.legality import divides, lattice
from simulators.plant import Bounds, Mode, Setpoints, Topology
from simulators.snapshot import snapshot_of

JOB = Topology(mode=Mode.OVERLAPPED, gpus_per_engine=8, trainer_gpu_step=8)
SPLIT = Setpoints(gpus_trainer=64, gpus_generator=192, batch_rollouts=512)


def curve(wait_s: float, gated_s: float | None, topology: Topology = JOB, setpoints: Setpoints = SPLIT) -> SplitCurve:
    known = {"step_s": 100.0, "trainer_wait_s": wait_s} | ({} if gated_s is None else {"generator_wait_s": gated_s})
    found = split_curve(topology, setpoints, estimate(topology, setpoints, snapshot_of(**known)), Bounds())
    assert found is not None
    return found


def test_a_starving_trainer_gives_gpus_to_the_generator() -> None:
    assert (curve(50, 0).proposed_gpus_trainer or 64) < 64


def test_a_gated_generator_gives_gpus_to_the_trainer() -> None:
    assert (curve(0, 50).proposed_gpus_trainer or 0) > 64


def test_while_the_generators_own_rate_is_a_guess_it_is_one_step_only() -> None:
    assert curve(0, None).proposed_gpus_trainer in (None, 72)


def test_a_split_goes_by_steps_that_leave_the_giving_side_its_pace() -> None:
    single = Topology(mode=Mode.OVERLAPPED, gpus_per_engine=1, trainer_gpu_step=1)
    found = curve(90, 0, single, Setpoints(gpus_trainer=8, gpus_generator=8))
    assert found.proposed_gpus_trainer == 4  # 3 : 13 would bring more, if either side scales that far
    tight = curve(30, 0, single, Setpoints(gpus_trainer=8, gpus_generator=8))
    assert 0.7 * 8 <= (tight.proposed_gpus_trainer or 0) < 8


def test_where_half_a_side_is_less_than_one_size_a_single_size_is_a_step() -> None:
    single = Topology(mode=Mode.OVERLAPPED, gpus_per_engine=1, trainer_gpu_step=1)
    assert curve(90, 0, single, Setpoints(gpus_trainer=7, gpus_generator=1)).proposed_gpus_trainer == 6


def test_todays_split_is_the_measure_of_all_others() -> None:
    today = next(p for p in curve(30, 0).points if p.gpus_trainer == 64)
    assert (today.throughput.low, today.throughput.mean, today.throughput.high) == (1.0, 1.0, 1.0)


@settings(deadline=None, max_examples=50)
@given(st.floats(0, 95), st.floats(0, 95))
def test_no_split_promises_more_than_removing_the_idle_time(wait_s: float, gated_s: float) -> None:
    assume(wait_s + gated_s > 0)
    roof = 1.0 / (1.0 - max(wait_s, gated_s) / 100.0)
    for point in curve(wait_s, gated_s).points:
        assert point.throughput.low <= point.throughput.mean <= point.throughput.high <= roof * (1 + 1e-9)
        assert point.gpus_trainer + point.gpus_generator == 256


@pytest.mark.parametrize(
    ("topology", "bounds", "sizes"),
    [
        (Topology(mode=Mode.OVERLAPPED, gpus_total=8), Bounds(), list(range(1, 8))),
        (Topology(mode=Mode.OVERLAPPED, gpus_total=64), Bounds(), [8, 16, 24, 32, 40, 48, 56]),
        (Topology(mode=Mode.OVERLAPPED, gpus_total=64, trainer_gpus_min=24), Bounds(), [24, 32, 40, 48, 56]),
        (Topology(mode=Mode.OVERLAPPED, gpus_total=64, gpus_per_engine=16), Bounds(), [16, 32, 48]),
        (Topology(mode=Mode.OVERLAPPED, gpus_total=64), Bounds(gpus_trainer_max=24), [8, 16, 24]),
        (Topology(mode=Mode.OVERLAPPED, gpus_total=64, trainer_sizes=(16, 48)), Bounds(), [16, 48]),
        (Topology(mode=Mode.SERIAL, gpus_total=64), Bounds(), []),
        (Topology(mode=Mode.OVERLAPPED), Bounds(), []),
    ],
)
def test_only_sizes_that_both_sides_allow_are_looked_at(topology: Topology, bounds: Bounds, sizes: list[int]) -> None:
    assert lattice(topology, Setpoints(), bounds) == sizes


def test_thousands_of_gpus_are_looked_at_in_few_splits_with_the_next_ones_among_them() -> None:
    single = Topology(mode=Mode.OVERLAPPED, gpus_per_engine=1, trainer_gpu_step=1)
    found = curve(2, None, single, Setpoints(gpus_trainer=1000, gpus_generator=7000))
    sizes = [point.gpus_trainer for point in found.points]
    assert len(sizes) <= SPLITS_MAX + 4
    assert {999, 1000, 1001} <= set(sizes)
    assert sizes[-1] > 7000


def test_a_batch_must_divide_over_the_trainers_ranks_not_its_gpus() -> None:
    assert divides(Topology(trainer_gpu_step=8), Setpoints(batch_rollouts=512), 64) is True
    assert divides(Topology(trainer_gpu_step=8), Setpoints(batch_rollouts=512), 48) is False
    assert divides(Topology(), Setpoints(), 48) is None


def test_a_split_that_the_framework_refuses_is_shown_and_not_proposed() -> None:
    strict = Topology(mode=Mode.OVERLAPPED, gpus_per_engine=8, trainer_gpu_step=8, batch_must_divide=True)
    found = curve(50, 0, strict)
    refused = {p.gpus_trainer for p in found.points if not p.legal}
    assert 48 in refused
    assert found.proposed_gpus_trainer not in refused


def test_nothing_is_known_of_a_split_without_the_trainers_idle_share() -> None:
    assert capacities(SPLIT, snapshot_of(step_s=100)) is None
    assert split_curve(JOB, SPLIT, snapshot_of(step_s=100), Bounds()) is None
    idle = estimate(JOB, Setpoints(), snapshot_of(step_s=100, trainer_wait_s=20))
    assert split_curve(JOB, Setpoints(), idle, Bounds()) is None


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.floats(0, 1), st.floats(0, 1))
def test_a_quantile_grows_with_its_share_and_stays_inside(values: list[float], a: float, b: float) -> None:
    low, high = sorted((a, b))
    assert min(values) - 1e-6 <= quantile(values, low) <= quantile(values, high) + 1e-6 <= max(values) + 2e-6


def test_an_interval_holds_the_middle_eighty_percent() -> None:
    interval = central(range(101))
    assert (interval.low, interval.mean, interval.high) == (10, 50, 90)
