"""What a queue that the trainer finds with room says of the generator behind it."""

import random

import pytest

from simulators.calibration import Calibration, calibrate
from simulators.calibration.headroom import Room, headroom_of, queue_room, scatter_frac
from simulators.calibration.priors import HEADROOM
from simulators.plant import Mode, Setpoints, Topology
from simulators.snapshot import Row, Snapshot, snapshot_of
from simulators.window import assemble

STEPS = 40_000


def rooms_of(excess: float, scatter: float, seed: int, first: float = 0.0, steps: int = STEPS) -> list[float]:
    """Room before each batch is taken, in batches, of a generator that makes 1 + excess of one a step."""
    dice, rooms = random.Random(seed), [first]
    for _ in range(steps):
        rooms.append(max(0.0, rooms[-1] + 1.0 - dice.gauss(1.0 + excess, scatter)))
    return rooms


def settled(excess: float, scatter: float, seed: int) -> Room:
    rooms = rooms_of(excess, scatter, seed)
    return Room(sum(rooms) / len(rooms))


@pytest.mark.parametrize("scatter", [0.1, 0.2, 0.4])
@pytest.mark.parametrize("excess", [0.02, 0.05, 0.1, 0.2])
def test_no_generator_is_faster_than_the_room_allows(excess: float, scatter: float) -> None:
    room = settled(excess, scatter, seed=1)
    most = headroom_of(room, scatter).high
    assert most >= 1.0 + 0.9 * excess
    assert most <= HEADROOM.high


def test_the_bound_is_close_where_the_two_sides_are_nearly_equal() -> None:
    """Heavy traffic: Kingman's bound is met as the excess falls."""
    room = settled(0.02, 0.2, seed=2)
    assert headroom_of(room, 0.2).high - 1.0 == pytest.approx(0.02, rel=0.3)


def watched(first: float, depths: list[float], capacity: float = 2048.0) -> Snapshot:
    """Steps of a job whose queue is read before a batch of 128 is taken."""
    rows = [
        Row(
            {
                "step_s": 20.0,
                "queue_depth": at,
                "queue_capacity": capacity,
                "queue_taken_frac": 0.0,
                "batch_rollouts": 128.0,
            },
            i,
        )
        for i, at in enumerate([first, *depths], start=2)
    ]
    return assemble(rows)


@pytest.mark.parametrize("steps", [10, 40])
@pytest.mark.parametrize(("first", "excess"), [(15.0, 0.3), (6.0, 0.3), (15.0, 0.02), (2.0, 0.1)])
def test_a_queue_that_still_fills_tells_of_the_generator_by_how_it_grows(
    first: float, excess: float, steps: int
) -> None:
    """Filling all the while, filled half-way, hardly filling: two standard errors hold the truth (95 %)."""
    held = 0
    for seed in range(400):
        rooms = rooms_of(excess, 0.15, seed, first, steps)
        room = queue_room(Setpoints(), watched(2048.0 - 128.0 * first, [2048.0 - 128.0 * room for room in rooms[1:]]))
        believed = headroom_of(room, 0.15)
        held += believed.low <= 1.0 + excess <= believed.high
    assert held >= 370


def test_a_few_steps_do_not_tell_a_queue_that_fills_from_one_with_room() -> None:
    assert queue_room(Setpoints(), watched(100.0, [100.0, 100.0])) is None
    assert queue_room(Setpoints(), watched(100.0, [100.0] * 9)) is not None


def test_a_staleness_bound_may_hold_the_generator_up_before_its_queue_is_full() -> None:
    """4 batches of 128 may be ahead: with 1.5 in flight the generator stops at 3.5 stored, whatever the capacity."""
    bound, told = Setpoints(staleness_bound=4.0), {"queue_capacity": 2048.0, "batch_rollouts": 128.0}
    flying = {"inflight_rollouts": 192.0, "queue_taken_frac": 0.0}
    assert queue_room(bound, snapshot_of(queue_depth=448.0, **told, **flying)) is None
    roomy = queue_room(bound, snapshot_of(queue_depth=320.0, **told, **flying))
    assert roomy is not None
    assert roomy.mean == pytest.approx(1.0)
    assert queue_room(bound, snapshot_of(queue_depth=320.0, queue_taken_frac=0.0, **told)) is None


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
    found = queue_room(Setpoints(), snapshot_of(**told))
    assert (None if found is None else found.mean) == (None if room is None else pytest.approx(room))


def test_a_queue_of_unknown_size_says_nothing() -> None:
    assert queue_room(Setpoints(), snapshot_of(queue_depth=3.0, batch_rollouts=64.0, queue_taken_frac=0.0)) is None
    assert queue_room(Setpoints(), snapshot_of(queue_depth=3.0, queue_capacity=0.0, batch_rollouts=64.0)) is None
    assert headroom_of(None, 0.1) == HEADROOM


def test_a_batch_of_alike_groups_scatters_more_than_one_of_strangers() -> None:
    alone, alike = (scatter_frac(0.8, between, Setpoints(batch_rollouts=256, group_size=8)) for between in (0.0, 0.5))
    assert alone < alike == pytest.approx((0.8965 * 4.5 / 256 + 0.01) ** 0.5, rel=1e-3)


TOPOLOGY = Topology(mode=Mode.OVERLAPPED, gpus_total=24, gpus_per_engine=1)
SETPOINTS = Setpoints(gpus_trainer=8, gpus_generator=16, batch_rollouts=128, group_size=8, max_in_flight=128)


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
