"""A move under any plant: it ends, and the GPUs never exceed what there is."""

from dataclasses import dataclass, field, replace
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.between import outside, peak
from policies.moves import Move, Scene, Stage, advanced, answered, back, due, order_of, path_of, unused
from policies.settings import SPLIT, gpus, knobs_of, merged, met, values, with_trainer
from simulators.plant import Setpoints, Status
from tests.plants import START, TOPOLOGY

TO_GENERATOR = Setpoints(gpus_trainer=48, gpus_generator=208, max_in_flight=1664)
TO_TRAINER = Setpoints(gpus_trainer=80, gpus_generator=176, max_in_flight=1408)


def move(changes: Setpoints = TO_GENERATOR, settle_s: float = 100.0) -> Move:
    return Move("d1", path_of(START, changes), 0.0, 300.0, settle_s, "a test")


@pytest.mark.parametrize("changes", [TO_GENERATOR, TO_TRAINER])
def test_the_donor_shrinks_before_the_receiver_grows(changes: Setpoints) -> None:
    origin, between, goal = path_of(START, changes)
    assert (origin, goal) == (START, merged(START, changes))
    assert gpus(between) == 256 - 16


def test_in_flight_shrinks_with_the_generator_and_grows_with_it() -> None:
    assert path_of(START, TO_TRAINER)[1].max_in_flight == 1408
    assert path_of(START, TO_GENERATOR)[1].max_in_flight == START.max_in_flight


def test_a_knob_that_takes_no_gpus_is_one_leg() -> None:
    assert path_of(START, Setpoints(oversampling_ratio=1.2)) == (
        START,
        merged(START, Setpoints(oversampling_ratio=1.2)),
    )


def test_a_split_of_unknown_sides_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown"):
        path_of(Setpoints(gpus_trainer=64), TO_GENERATOR)


def test_a_good_move_goes_through_its_stages() -> None:
    stages, now = [], move()
    for at_s, in_force in enumerate([START, now.path[1], now.goal, now.goal, now.goal]):
        now = advanced(now, Scene(100.0 * at_s, in_force))
        stages.append(now.stage)
    assert stages == [Stage.WALK, Stage.WALK, Stage.VERIFY, Stage.SETTLE, Stage.DONE]


def test_nothing_is_ordered_inside_a_weight_sync() -> None:
    assert order_of(move(), Scene(0.0, START)) is not None
    assert order_of(move(), Scene(0.0, START, syncing=True)) is None


def test_an_engine_without_the_current_weights_is_no_success() -> None:
    now = move()
    for at_s in (0.0, 10.0, 20.0):
        now = advanced(now, Scene(at_s, now.goal if at_s else now.path[1], unready="25 of 26 engines serve"))
    assert now.stage is Stage.VERIFY
    now = advanced(now, Scene(1000.0, now.goal, unready="25 of 26 engines serve"))
    assert (now.stage, now.why_back) == (Stage.BACK, "25 of 26 engines serve")


def test_a_late_leg_is_called_off_before_its_gpus_are_given_back() -> None:
    """The growing leg may still arrive: the donor gets nothing until the plant confirms the old setting."""
    now = back(Move("d1", path_of(START, TO_GENERATOR), 0.0, 300.0, 0.0, "a test", at=2), 0.0, "late")
    between = now.path[1]
    assert due(now).gpus_generator == 192
    assert advanced(now, Scene(10.0, between)).at == 1
    assert order_of(now, Scene(10.0, between)) == due(now)
    confirmed = advanced(answered(now, Status.APPLIED), Scene(20.0, between))
    assert (confirmed.at, due(confirmed).gpus_trainer) == (0, 64)


def seen_every(seconds: float, until_s: float, now: Move, syncing: bool, since_s: float = 0.0) -> Move:
    """The move after looks at a plant that does nothing."""
    at_s = since_s
    while at_s < until_s and now.stage is Stage.WALK:
        at_s += seconds
        now = advanced(now, Scene(at_s, START, syncing))
    return now


def test_the_time_of_a_weight_sync_is_not_the_leg_s() -> None:
    """Nothing can be ordered in it: a leg that had to wait for one has not failed."""
    now = seen_every(30.0, 1200.0, move(), syncing=True)
    assert now.stage is Stage.WALK
    now = advanced(now, Scene(1230.0, START))
    assert order_of(now, Scene(1230.0, START)) is not None
    assert seen_every(30.0, 1470.0, now, syncing=False, since_s=1230.0).stage is Stage.WALK
    late = seen_every(30.0, 1620.0, now, syncing=False, since_s=1230.0)
    assert (late.stage, late.why_back) == (Stage.BACK, "leg 1 was not in force after 300 s")


def test_an_actuator_that_gives_up_by_itself_is_waited_for() -> None:
    """Else what it is still about would come true after the move was given up, or nobody would hear how it ended."""
    slow = replace(move(), gives_up_s=1800.0)
    assert seen_every(30.0, 2070.0, slow, syncing=False).stage is Stage.WALK
    assert seen_every(30.0, 2130.0, slow, syncing=False).stage is Stage.BACK


def test_what_looks_like_a_weight_sync_for_ever_does_not_hold_a_move_for_ever() -> None:
    now = seen_every(30.0, 1800.0, move(), syncing=True)
    assert now.stage is Stage.WALK
    assert seen_every(30.0, 2400.0, now, syncing=True, since_s=1800.0).stage is Stage.BACK


@dataclass
class Fickle:
    """A plant that may take an order, leave it, put it off or lose it, as drawn."""

    whims: list[int]
    setpoints: Setpoints = START
    coming: Setpoints | None = None
    totals: list[int] = field(default_factory=list)

    def look(self) -> Setpoints:
        if self.coming is not None and self._whim() % 3 == 0:
            self.setpoints, self.coming = merged(self.setpoints, self.coming), None
        self._count()
        return self.setpoints

    def take(self, wish: Setpoints) -> Status:
        whim = self._whim()
        if whim % 4 == 0:
            return Status.REFUSED
        if met(self.setpoints, wish):
            self.coming = None
            return Status.APPLIED
        if whim % 4 == 1:
            self.coming = None
            return Status.PENDING
        self.coming = wish
        self._count()
        return Status.PENDING

    def _whim(self) -> int:
        return self.whims.pop() if self.whims else 2

    def _count(self) -> None:
        """What is in force, and what would be if everything under way arrived at the worst moment."""
        now = values(self.setpoints)
        worst = {n: max(v, values(self.coming or Setpoints()).get(n, v)) for n, v in now.items()}
        one_leg = self.coming is None or gpus(merged(self.setpoints, self.coming)) != gpus(self.setpoints)
        self.totals.append((gpus(Setpoints(**worst)) if one_leg else gpus(self.setpoints)) or 0)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.integers(0, 11), max_size=80),
    st.sampled_from([TO_GENERATOR, TO_TRAINER]),
    st.sampled_from([30.0, 90.0, 400.0]),
    st.lists(st.booleans(), max_size=40),
)
def test_whatever_the_plant_does_the_move_ends_and_no_gpu_is_invented_or_forgotten(
    whims: list[int], changes: Setpoints, every_s: float, syncs: list[bool]
) -> None:
    plant, now, at_s = Fickle(whims), move(changes), 0.0
    for tick in range(1000):
        scene = Scene(at_s, plant.look(), syncing=tick < len(syncs) and syncs[tick])
        now = advanced(now, scene)
        wish = order_of(now, scene)
        if now.ended or now.retry_s == inf:
            break
        if wish is not None:
            now = answered(now, plant.take(wish))
        at_s += every_s
    assert now.ended or unused(now, plant.setpoints) > 0
    assert max(plant.totals) <= 256
    if now.stage is Stage.DONE:
        assert met(plant.setpoints, changes)
    if now.stage is Stage.UNDONE:
        assert plant.setpoints == START


def test_decoding_engines_take_the_change_of_a_disaggregated_generator() -> None:
    now = Setpoints(gpus_trainer=96, gpus_generator=160, gpus_prefill=64, gpus_decode=96)
    wish = with_trainer(now, TOPOLOGY, 88)
    assert (wish.gpus_generator, wish.gpus_prefill, wish.gpus_decode) == (168, None, 104)
    assert knobs_of(wish) == (SPLIT,)
    assert [s.gpus_decode for s in path_of(now, wish)] == [96, 96, 104]
    assert [s.gpus_decode for s in path_of(now, with_trainer(now, TOPOLOGY, 104))] == [96, 88, 88]


def test_what_lies_between_two_settings_is_on_its_way() -> None:
    ours = [Setpoints(gpus_generator=192, max_in_flight=1536), Setpoints(gpus_generator=208)]
    assert outside(ours, Setpoints(gpus_generator=200, max_in_flight=1)) == {}
    assert outside(ours, Setpoints(gpus_generator=216)) == {"gpus_generator": 216}
    assert outside(ours, Setpoints(gpus_generator=184)) == {"gpus_generator": 184}
    assert outside(ours, Setpoints()) == {}


def test_the_halves_of_an_order_may_come_in_any_order() -> None:
    home = Setpoints(gpus_trainer=64, gpus_generator=192)
    assert peak(Setpoints(gpus_trainer=48, gpus_generator=192), home) == 256
    assert peak(Setpoints(gpus_trainer=48, gpus_generator=208), home) == 272
    assert peak(Setpoints(gpus_trainer=48), home) == 0


def test_a_leg_that_came_after_it_was_called_off_shrinks_before_the_donor_grows() -> None:
    now = replace(move(), stage=Stage.BACK, at=0)
    now = advanced(now, Scene(10.0, now.goal))
    assert order_of(now, Scene(10.0, now.goal)) == due(now)
    assert (due(now).gpus_trainer, due(now).gpus_generator) == (48, 192)
