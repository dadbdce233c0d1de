"""A recorded run as a plant: it shows what was seen by then, and does not obey."""

from simulators.clock import VirtualClock
from simulators.plant import Observation, Order, Outcome, Receipt, Setpoints, Status
from simulators.recorded import Past, RecordedPlant, step_by_step
from simulators.snapshot import Row, snapshot_of

ROWS = [Row({"step_s": 10.0, "trainer_wait_s": float(i)}, step=i) for i in range(1, 6)]
ORDER = Order(Setpoints(gpus_trainer=4, max_in_flight=9), "d1")


def plant() -> RecordedPlant:
    return RecordedPlant(step_by_step(Past(ROWS, Setpoints(gpus_trainer=2)), window_rows=3))


def test_nothing_is_known_before_the_first_step() -> None:
    seen = plant().observe(9.9)
    assert (dict(seen.snapshot.signals), seen.in_force) == ({}, Setpoints())


def test_an_observation_shows_the_last_steps_that_were_done_by_then() -> None:
    steps = [row.step for row in plant().observe(40.0).snapshot.rows]
    assert steps == [2, 3, 4]
    assert plant().observe(49.9) == plant().observe(40.0)


def test_the_knobs_in_force_stay_whatever_is_ordered() -> None:
    recorded = plant()
    receipt = recorded.apply(ORDER, 20.0)
    assert receipt.status is Status.REFUSED
    assert set(receipt.outcomes) == {"gpus_trainer", "max_in_flight"}
    assert recorded.observe(50.0).in_force == Setpoints(gpus_trainer=2)


def test_every_order_is_noted_once() -> None:
    recorded = plant()
    recorded.apply(ORDER, 20.0)
    recorded.apply(ORDER, 20.0)
    assert [(note.now_s, note.order) for note in recorded.notes] == [(20.0, ORDER)]


def test_an_order_that_was_given_then_is_answered_as_it_was_then() -> None:
    told = Receipt("d1", {"gpus_trainer": Outcome(Status.APPLIED, "in force", 25.0)})
    seen = Observation(0.0, snapshot_of(step_s=1.0), Setpoints())
    assert RecordedPlant([seen], {"d1": told}).apply(ORDER, 20.0) == told


def test_a_virtual_clock_is_moved_and_never_runs_back() -> None:
    clock = VirtualClock(5.0)
    clock.wait_until(8.0)
    clock.wait_until(3.0)
    assert clock.now_s() == 8.0
