"""Settings that cannot be are unknown, and somebody is told; all else passes as it is."""

from dataclasses import replace
from typing import Any

import pytest

from policies.sanity import sane
from simulators.plant import Inventory, Observation
from simulators.snapshot import Snapshot
from tests.plants import START


@pytest.mark.parametrize(
    "wrong", [{"gpus_trainer": True}, {"overlap": 1}, {"gpus_generator": -8}, {"engines": 2.5}, {"max_in_flight": "12"}]
)
def test_an_impossible_setting_is_unknown_and_told(wrong: dict[str, Any]) -> None:
    kept = sane(Observation(0.0, Snapshot({}), replace(START, **wrong)))
    (name,) = wrong
    assert getattr(kept.in_force, name) is None
    assert any(name in note.detail for note in kept.snapshot.notes)


def test_a_sane_observation_is_returned_as_it_is() -> None:
    seen = Observation(0.0, Snapshot({}), replace(START, overlap=True, oversampling_ratio=1.5))
    assert sane(seen) is seen


@pytest.mark.parametrize(
    "wrong",
    [{"gpus_trainer": -8}, {"gpus_generator": "192"}, {"engines_current": 2.5}, {"steps_done": True}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_an_impossible_inventory_is_unknown_and_told(wrong: dict[str, Any]) -> None:
    there = replace(Inventory(64, 192, 24, steps_done=3), **wrong)
    kept = sane(Observation(0.0, Snapshot({}), START, there))
    (name,) = wrong
    assert kept.inventory == replace(there, **{name: None})
    assert any(f"inventory.{name}" in note.detail for note in kept.snapshot.notes)


def test_whoever_cannot_say_whether_a_weight_sync_is_under_way_may_be_in_one() -> None:
    odd: Any = "perhaps"
    assert sane(Observation(0.0, Snapshot({}), START, Inventory(syncing=odd))).inventory.syncing


@pytest.mark.parametrize("wrong", ["12:30", None, float("nan"), -1.0])
def test_an_observation_of_no_time_is_as_old_as_can_be(wrong: Any) -> None:
    kept = sane(Observation(wrong, Snapshot({}), START))
    assert kept.time_s == 0.0
    assert any("time_s" in note.detail for note in kept.snapshot.notes)
