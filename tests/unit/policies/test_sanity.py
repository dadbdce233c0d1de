"""Settings that cannot be are unknown, and somebody is told; all else passes as it is."""

from dataclasses import replace
from typing import Any

import pytest

from policies.sanity import sane
from simulators.plant import Observation
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
