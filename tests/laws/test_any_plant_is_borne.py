"""Whatever a plant answers or shows, the loop goes on: it was refused, or nothing was seen, and it says what it was."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.commands import ControlMode
from policies.state import State
from simulators.clock import VirtualClock
from simulators.plant import Observation, Order, Receipt, Setpoints, Status
from tests.laws.test_controller_is_total import VALUES, rules
from tests.plants import FluidPlant
from tests.stories.driving import Kept
from tuner.loop import NoInbox, Parts, run


class Odd(FluidPlant):
    """Shows and answers whatever comes to its mind."""

    shows: Any = None
    answers: Any = None

    def observe(self, now_s: float) -> Observation:
        seen: Any = super().observe(now_s)
        return seen if self.shows is None else self.shows[0]

    def apply(self, order: Order, now_s: float) -> Receipt:
        said: Any = self.answers[0]
        return said


THINGS: Any = st.one_of(
    VALUES,
    st.sampled_from([Setpoints(), {}, (), Receipt]),
    st.builds(Receipt, st.just("d1"), st.dictionaries(st.sampled_from(["gpus_trainer"]), VALUES, min_size=1)),
)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(THINGS)
def test_a_plant_that_answers_anything_refuses_its_order_and_says_what_it_was(thing: Any) -> None:
    plant, kept = Odd(), Kept()
    plant.answers = (thing,)
    parts = Parts(plant, rules(), VirtualClock(), kept, NoInbox())
    run(parts, State(mode=ControlMode.AUTO), 1200.0)
    told = [entry.receipt for entry in kept.entries if entry.receipt is not None]
    assert told
    for receipt in told:
        assert receipt.status is Status.REFUSED
        assert all("no Receipt" in outcome.reason for outcome in receipt.outcomes.values())


@settings(max_examples=15, deadline=None)
@given(THINGS)
def test_a_plant_that_shows_anything_is_a_plant_that_shows_nothing(thing: Any) -> None:
    plant = Odd()
    plant.shows = (thing,)
    kept = Kept()
    run(Parts(plant, rules(), VirtualClock(), kept, NoInbox()), State(mode=ControlMode.AUTO), 100.0)
    assert all(entry.decision.code == "stale" or "known" in entry.decision.reason for entry in kept.entries)
    assert all("no Observation" in entry.seen.snapshot.notes[0].detail for entry in kept.entries)
