"""Moves that cannot be finished or undone at once: steps that are long, orders that land late, by half, or never.

Whatever the plant does, no GPU of the job stays unused while it could be given back, and none is used twice.
"""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from policies.commands import Command, CommandKind, ControlMode
from policies.control import Action, Capability, HoldCode
from policies.controller import tick
from policies.moves import Stage
from policies.settings import SPLIT, gpus
from policies.state import State
from simulators.plant import Change, Order, Receipt, Setpoints, Status
from tests.plants import START, FluidPlant
from tests.stories.driving import HOUR, Kept, WantsThree, driven, rules

LONG = replace(START, batch_rollouts=3072)
"""Steps of 768 s."""
AT_THE_BOUNDARY = rules(
    capabilities=(
        Capability(SPLIT, Change.BOUNDARY, actuation_s=60.0, cost_s=60.0),
        Capability("max_in_flight", Change.BOUNDARY),
    )
)


@dataclass
class Stubborn(FluidPlant):
    """What it has begun it ends: no other order is taken before."""

    def apply(self, order: Order, now_s: float) -> Receipt:
        self.observe(now_s)
        if self.wish is not None and order.setpoints != self.wish:
            return self._answer(order, Status.REFUSED, "the order before is still under way")
        return super().apply(order, now_s)


@dataclass
class Broken(FluidPlant):
    """Shrinks; from its first growth on nothing moves, and nothing is confirmed, until it is repaired."""

    repaired_s: float = 1e9
    broke_s: float | None = None

    def apply(self, order: Order, now_s: float) -> Receipt:
        there, then = self.setpoints, order.setpoints
        grows = (then.gpus_generator or 0) > (there.gpus_generator or 0)
        if grows and self.broke_s is None:
            self.broke_s = now_s
        if self.broke_s is not None and now_s < self.repaired_s:
            return self._answer(order, Status.REFUSED, "out of order")
        return super().apply(order, now_s)


def until_it_is(plant: FluidPlant, stage: Stage, at: int, by: Any = None) -> State:
    """The state at the first tick at which a move is there."""
    state: State | None = None
    for _ in range(1000):
        state, _ = driven(plant, 60.0 / HOUR, by, state)
        if state.move is not None and (state.move.stage, state.move.at) == (stage, at):
            return state
    pytest.fail("nothing moved")


@pytest.mark.parametrize("plant", [FluidPlant, Stubborn])
def test_a_split_that_turns_at_the_end_of_long_steps_arrives(plant: type[FluidPlant]) -> None:
    """At the end of a step of 768 s no leg is late after 300 s."""
    job = plant(LONG, boundary=True)
    state, kept = driven(job, 5, AT_THE_BOUNDARY)
    assert job.setpoints.gpus_trainer == 56
    assert gpus(job.setpoints) == 256
    assert state.kept_moves == 1
    assert len(kept.moves) == 1
    assert max(job.totals) == 256


def test_new_engines_have_steps_for_their_weights() -> None:
    """The weights come with a publication, at the end of a step of 768 s, however fast the engines start."""

    @dataclass
    class ByPublication(FluidPlant):
        published: int = -1

        def observe(self, now_s: float) -> Any:
            seen = super().observe(now_s)
            if self.step != self.published:
                self.published, self.current = self.step, seen.inventory.engines_current
            return replace(seen, inventory=replace(seen.inventory, engines_current=self.current))

    plant = ByPublication(LONG)
    _, kept = driven(plant, 5)
    assert plant.setpoints.gpus_trainer == 56
    assert not any("back" in d.reason for d in kept.decisions)


def test_an_order_that_lands_late_is_known_as_ours_and_taken_back_whole() -> None:
    plant = Stubborn(actuation_s=900.0)
    state, kept = driven(plant, 1.5)
    assert not any("without us" in note for d in kept.decisions for note in d.notes)
    assert HoldCode.STRANDED in kept.codes()
    assert any("64 GPUs" not in d.reason and "is undone" in d.reason for d in kept.decisions)
    assert plant.setpoints == START
    assert max(plant.totals) == 256
    assert state.actuation_s[SPLIT] >= 900.0


@dataclass
class Forgetful(FluidPlant):
    """Says that an order is called off, and lets it come true all the same."""

    def apply(self, order: Order, now_s: float) -> Receipt:
        before = self.wish
        receipt = super().apply(order, now_s)
        self.wish = before if receipt.status is Status.APPLIED else self.wish
        return receipt


def test_an_order_that_lands_after_it_was_called_off_is_known_as_ours() -> None:
    plant = Forgetful(actuation_s=900.0)
    _, kept = driven(plant, 1.2)
    notes = [note for d in kept.decisions for note in d.notes]
    assert any("gpus_trainer went from 64 to 56 by a late order of" in note for note in notes)
    assert not any("without us" in note for note in notes)
    assert plant.setpoints == START
    assert max(plant.totals) == 256


def test_a_knob_that_was_late_once_is_waited_for_the_next_time() -> None:
    plant = Stubborn(actuation_s=900.0)
    _, kept = driven(plant, 5)
    assert len(kept.moves) == 2
    assert plant.setpoints.gpus_trainer == 56
    assert gpus(plant.setpoints) == 256


def test_gpus_that_no_side_has_are_given_back_once_the_plant_takes_orders_again() -> None:
    plant = Broken(repaired_s=2 * HOUR)
    _, kept = driven(plant, 5, rules(freeze_s=6 * HOUR))
    stranded = [d for d in kept.decisions if d.code is HoldCode.STRANDED]
    assert "8 GPUs are unused" in stranded[0].reason
    assert plant.setpoints == START
    assert max(plant.totals) == 256


def test_the_way_home_is_tried_more_and_more_rarely_and_then_when_told_to() -> None:
    plant = Broken()
    state, kept = driven(plant, 8)
    tries = {d.decision_id for d in kept.decisions if ".1b" in d.decision_id}
    assert len(tries) == 6
    assert gpus(plant.setpoints) == 248
    assert kept.decisions[-1].code is HoldCode.STRANDED
    assert "when told to resume" in kept.decisions[-1].reason
    plant.repaired_s = 0.0
    now_s = (state.at_s or 0.0) + 30.0
    state, told = tick(rules(), state, plant.observe(now_s), (Command(CommandKind.RESUME),), now_s)
    assert told.order is not None
    driven(plant, 0.2, state=state)
    assert plant.setpoints == START


@pytest.mark.parametrize("mode", [ControlMode.OBSERVE, ControlMode.ADVISE])
def test_whoever_takes_the_orders_away_while_a_move_is_stranded_gets_none(mode: ControlMode) -> None:
    plant = Broken(repaired_s=HOUR)
    state = until_it_is(plant, Stage.STUCK, 1)
    before = len(plant.orders)
    state, kept = driven(plant, 2, state=replace(state, mode=mode))
    assert len(plant.orders) == before
    assert f"{mode} gives no orders" in kept.decisions[-1].reason
    driven(plant, 2, state=replace(state, mode=ControlMode.AUTO))
    assert gpus(plant.setpoints) == 256


HANDS = [
    # (leg under way, what somebody sets meanwhile, what is in force in the end)
    (1, Setpoints(max_in_flight=1000), replace(START, max_in_flight=1000)),
    (2, Setpoints(max_in_flight=1000), replace(START, max_in_flight=1000)),
    (1, Setpoints(gpus_trainer=40), replace(START, gpus_trainer=40)),
    (2, Setpoints(gpus_generator=216), replace(START, gpus_trainer=56, gpus_generator=216)),
    (2, Setpoints(gpus_trainer=64), START),
]


@pytest.mark.parametrize(("leg", "theirs", "left"), HANDS)
def test_what_another_hand_sets_while_a_move_walks_stays(leg: int, theirs: Setpoints, left: Setpoints) -> None:
    """The move ends, and gives back what it took as far as there is room: adopt, never fight."""
    plant, by = FluidPlant(actuation_s=90.0), rules(freeze_s=6 * HOUR)
    state = until_it_is(plant, Stage.WALK, leg, by)
    changes = {name: value for name in Setpoints.__slots__ if (value := getattr(theirs, name)) is not None}
    plant.setpoints, plant.wish = replace(plant.setpoints, **changes), None
    ordered = len(plant.orders)
    state, kept = driven(plant, 1, by, state)
    name, value = next(iter(changes.items()))
    assert any(f"to {value} without us: adopted" in note for d in kept.decisions for note in d.notes)
    assert plant.setpoints == left
    assert state.move is None
    assert state.accepted == left
    assert all(getattr(order.setpoints, name) in (None, value) for order in plant.orders[ordered:])


def test_a_node_that_is_back_soon_does_not_end_a_move() -> None:
    """Fewer engines than any setting of the walk has: one that starts anew looks so, and nobody turned a knob."""
    plant = FluidPlant(actuation_s=90.0)
    state = until_it_is(plant, Stage.WALK, 2)
    whole = plant.setpoints
    plant.setpoints = replace(whole, gpus_generator=176)
    state, kept = driven(plant, 120.0 / HOUR, state=state)
    assert all(d.order is None for d in kept.decisions)
    plant.setpoints = replace(plant.setpoints, gpus_generator=whole.gpus_generator)
    _, kept = driven(plant, 0.5, state=state)
    assert plant.setpoints.gpus_trainer == 56
    assert gpus(plant.setpoints) == 256


def stale_at(kept: Kept) -> list[float]:
    return [d.at_s for d in kept.decisions if d.code is HoldCode.STALE]


def test_evidence_that_comes_once_a_step_is_not_stale_within_one() -> None:
    _, kept = driven(FluidPlant(LONG), 5, rules(WantsThree()), State(mode=ControlMode.ADVISE))
    assert [at_s for at_s in stale_at(kept) if at_s > HOUR] == []
    assert Action.ADVISE in {d.action for d in kept.decisions}


def test_a_silence_of_more_than_three_long_steps_is_stale() -> None:
    plant = FluidPlant(LONG)
    now = plant.observe(5 * HOUR)

    @dataclass
    class Silent:
        def observe(self, now_s: float) -> Any:
            return replace(now, time_s=now_s)

        def apply(self, order: Order, now_s: float) -> Receipt:
            return plant.apply(order, now_s)

    _, kept = driven(Silent(), 2, rules(WantsThree()), State(mode=ControlMode.ADVISE, at_s=5 * HOUR))
    last_s = plant.rows[-1].time_s or 0.0
    assert min(stale_at(kept)) == pytest.approx(last_s + 3 * 768, abs=90.0)
