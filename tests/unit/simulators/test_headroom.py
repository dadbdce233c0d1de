"""What a queue that the trainer finds with room says of the generator behind it."""

import random

import pytest

from simulators.calibration import Calibration, calibrate
from simulators.calibration.headroom import headroom_of, queue_room, scatter_frac
from simulators.calibration.priors import HEADROOM
from simulators.plant import Mode, Setpoints, Topology
from simulators.snapshot import snapshot_of

STEPS = 40_000


def reflected_room(excess: float, scatter: float, seed: int) -> float:
    """Mean room before a batch is taken, in batches, of a generator that makes 1 + excess of one a step."""
    dice, room, total = random.Random(seed), 0.0, 0.0
    for _ in range(STEPS):
        room = max(0.0, room + 1.0 - dice.gauss(1.0 + excess, scatter))
        total += room
    return total / STEPS


@pytest.mark.parametrize("scatter", [0.1, 0.2, 0.4])
@pytest.mark.parametrize("excess", [0.02, 0.05, 0.1, 0.2])
def test_no_generator_is_faster_than_the_room_allows(excess: float, scatter: float) -> None:
    room = reflected_room(excess, scatter, seed=1)
    most = headroom_of(room, scatter).high
    assert most >= 1.0 + 0.9 * excess
    assert most <= HEADROOM.high


def test_the_bound_is_close_where_the_two_sides_are_nearly_equal() -> None:
    """Heavy traffic: Kingman's bound is met as the excess falls."""
    room = reflected_room(0.02, 0.2, seed=2)
    assert headroom_of(room, 0.2).high - 1.0 == pytest.approx(0.02, rel=0.3)


@pytest.mark.parametrize(
    ("depth", "taken", "room"),
    [(384.0, 0.0, 0.5), (320.0, 0.5, 0.25), (448.0, 0.5, None), (512.0, 0.0, None), (300.0, None, None)],
)
def test_the_room_is_what_is_left_when_a_batch_begins_to_be_taken(
    depth: float, taken: float | None, room: float | None
) -> None:
    told = {"queue_depth": depth, "queue_capacity": 512.0, "batch_rollouts": 256.0}
    if taken is not None:
        told["queue_taken_frac"] = taken
    assert queue_room(snapshot_of(**told)) == (None if room is None else pytest.approx(room))


def test_a_queue_of_unknown_size_says_nothing() -> None:
    assert queue_room(snapshot_of(queue_depth=3.0, batch_rollouts=64.0, queue_taken_frac=0.0)) is None
    assert queue_room(snapshot_of(queue_depth=3.0, queue_capacity=0.0, batch_rollouts=64.0)) is None
    assert headroom_of(None, 0.1) == HEADROOM


def test_a_batch_of_alike_groups_scatters_more_than_one_of_strangers() -> None:
    alone, alike = (scatter_frac(0.8, between, Setpoints(batch_rollouts=256, group_size=8)) for between in (0.0, 0.5))
    assert alone < alike == pytest.approx((0.8965 * 4.5 / 256 + 0.01) ** 0.5, rel=1e-3)


TOPOLOGY = Topology(mode=Mode.OVERLAPPED, gpus_total=24, gpus_per_engine=1)
SETPOINTS = Setpoints(gpus_trainer=8, gpus_generator=16, batch_rollouts=128, group_size=8, staleness_bound=4.0)


def posterior(**queue: float) -> Calibration:
    known = snapshot_of(step_s=60.0, trainer_wait_s=0.2, batch_rollouts=128.0, queue_capacity=512.0, **queue)
    found = calibrate(TOPOLOGY, SETPOINTS, known, generator_limits=False)
    assert isinstance(found, Calibration)
    return found


def test_a_queue_with_room_leaves_the_generator_little_to_spare_in_every_draw() -> None:
    roomy, full = posterior(queue_depth=300.0, queue_taken_frac=0.0), posterior(queue_depth=500.0)
    assert max(draw.values.headroom for draw in roomy.draws) < 1.1
    assert max(draw.values.headroom for draw in full.draws) > 1.4
    told, believed = (
        next(p for p in found.unidentified if p.name == "generator's headroom") for found in (roomy, full)
    )
    assert "room for 1.7 batches" in told.why
    assert (believed.prior, told.prior.high < 1.1) == (HEADROOM, True)
