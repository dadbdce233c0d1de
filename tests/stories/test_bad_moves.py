"""A move that is refused half-way or makes the job slower is taken back once, and in no way that does more harm."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from policies.base import Direction
from policies.commands import ControlMode
from policies.control import HoldCode
from policies.guardrails.case import Pause
from policies.settings import SPLIT
from policies.state import State
from simulators.plant import Observation, Receipt
from tests.plants import START, FluidPlant
from tests.stories.driving import HOUR, Kept, WantsThree, driven, rules


@dataclass
class RefusesGrowth(FluidPlant):
    """Takes GPUs away, never gives any."""

    def apply(self, order: Any, now_s: float) -> Receipt:
        self.refuses = (order.setpoints.gpus_generator or 0) > 192
        return super().apply(order, now_s)


def test_7_a_rebalance_is_applied_by_half_and_wedges() -> None:
    plant = RefusesGrowth()
    state, kept = driven(plant, 2)
    assert plant.setpoints == START
    assert max(plant.totals) <= 256
    assert state.move is None
    assert any("is undone" in d.reason for d in kept.decisions)


@dataclass
class OddSize(FluidPlant):
    """A trainer that is half as fast on any number of GPUs but 64: no model of ours knows."""

    def observe(self, now_s: float) -> Observation:
        self.trainer_factor = lambda t: 1.0 if self.setpoints.gpus_trainer == 64 else 0.5
        return super().observe(now_s)


def test_a_bad_move_is_reverted_once_and_rests() -> None:
    """The law is wrong about this job: what it promises is a loss."""
    plant = OddSize()
    state, kept = driven(plant, 3, rules(WantsThree(), freeze_s=6 * HOUR))
    assert plant.setpoints == START
    assert sum("is reverted" in d.reason for d in kept.decisions) == 1
    assert [d.outcome.good for d in kept.decisions if d.outcome is not None] == [False]
    assert len(kept.moves) == 1
    assert SPLIT in {f.knob for f in state.freezes}


def bad_move_on_probation(*, syncing: bool = False, **since: Any) -> tuple[OddSize, Kept, State]:
    """The same until the move has arrived, then an hour inside a weight sync, or with this changed of the state."""
    plant, by = OddSize(), rules(WantsThree(), freeze_s=6 * HOUR)
    state, _ = driven(plant, 0.25, by)
    while state.probation is None:
        state, _ = driven(plant, 1.0 / 60.0, by, state)
    plant.syncing = syncing
    state, kept = driven(plant, 1, by, replace(state, **since))
    return plant, kept, state


def test_longer_strides_are_earned_anew_after_a_bad_move() -> None:
    plant, _, state = bad_move_on_probation(kept_moves=3)
    assert plant.setpoints == START
    assert state.kept_moves == 0


def test_a_bad_move_is_not_taken_back_inside_a_weight_sync() -> None:
    plant, kept, _ = bad_move_on_probation(syncing=True)
    assert any("is reverted" in d.reason and "weight sync" in d.reason for d in kept.decisions)
    assert all(d.order is None for d in kept.decisions)
    assert plant.setpoints.gpus_trainer == 56


def test_a_pause_of_the_way_there_does_not_stop_the_way_back() -> None:
    """It does stop it where the way back itself is paused."""
    plant, _, _ = bad_move_on_probation(pauses=(Pause(SPLIT, Direction.DOWN),))
    assert plant.setpoints == START
    plant, kept, _ = bad_move_on_probation(pauses=(Pause(SPLIT, Direction.UP),))
    assert HoldCode.FROZEN in kept.codes()
    assert plant.setpoints.gpus_trainer == 56


@pytest.mark.parametrize("mode", [ControlMode.OBSERVE, ControlMode.ADVISE])
def test_whoever_takes_the_orders_away_while_a_move_is_judged_gets_none(mode: ControlMode) -> None:
    plant, kept, _ = bad_move_on_probation(mode=mode)
    assert any(f"{mode} gives no orders" in d.reason for d in kept.decisions)
    assert all(d.order is None for d in kept.decisions)
    assert plant.setpoints.gpus_trainer == 56
