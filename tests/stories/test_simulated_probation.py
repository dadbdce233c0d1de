"""Splits of simulated jobs that were ordered with a false promise: what loses is taken back, what gains stays."""

from dataclasses import replace

import pytest

from policies.base import Interval
from policies.commands import ControlMode
from policies.control import Hold, Proposal, View, split_to
from policies.guardrails.case import Limits
from policies.probation import STEPS_MOST
from policies.state import State
from simulators.clock import VirtualClock
from simulators.pipeline import SimulatedPlant
from simulators.scenario import Horizon
from tests.stories.driving import Kept
from tuner.charter import rules_of
from tuner.evaluation.controlled import charter_of
from tuner.evaluation.tasks import Task
from tuner.loop import NoInbox, Parts, step
from tuner.scenario_files import load

ORDERED_AT = 16
"""Trainer steps: the pipeline has filled long ago."""
SETTLED_WITHIN = 10
"""Steps from the order to the first that counts."""


class WantsOnce:
    """Wants this split, once, and promises 10 %."""

    def __init__(self, gpus_trainer: int) -> None:
        self.gpus_trainer, self.origin = gpus_trainer, 0

    def decide(self, view: View) -> Proposal | Hold:
        done = view.inventory.steps_done or 0
        if done < ORDERED_AT or self.origin not in (0, view.in_force.gpus_trainer):
            return Hold("its time has not come, or is over")
        self.origin = view.in_force.gpus_trainer or 0
        return Proposal(split_to(view, self.gpus_trainer), "a false promise", Interval(0.08, 0.1, 0.12))


def trainer_after(name: str, now: int, then: int, seed: int) -> int | None:
    """GPUs of the trainer once a move from `now` to `then` has been judged."""
    scenario = load(name).scenario
    total = (scenario.setpoints.gpus_trainer or 0) + (scenario.setpoints.gpus_generator or 0)
    begun = replace(scenario.setpoints, gpus_trainer=now, gpus_generator=total - now)
    scenario = replace(scenario, setpoints=begun, horizon=Horizon(steps=ORDERED_AT + SETTLED_WITHIN + STEPS_MOST + 10))
    limits = Limits(trusted_moves=0, confirm_starved=1, confirm_shrink=1, donor_load_max=9.0)
    rules = replace(rules_of(charter_of(Task(name, scenario, "static", seed))), policy=WantsOnce(then), limits=limits)
    plant, clock, kept = SimulatedPlant(scenario, seed), VirtualClock(), Kept()
    parts, state = Parts(plant, rules, clock, kept, NoInbox()), State(mode=ControlMode.AUTO)
    judged = False
    while not plant.done and not (judged and state.move is None):
        state = step(parts, state, clock.now_s())
        judged = judged or kept.decisions[-1].outcome is not None
        clock.wait_until(clock.now_s() + 60.0)
    assert kept.moves, "nothing was ordered"
    assert judged, f"undecided {STEPS_MOST} steps after it had settled"
    return plant.observe(plant.now_s).in_force.gpus_trainer


@pytest.mark.parametrize(
    ("name", "now", "then"),
    [
        ("padded-batches", 64, 40),
        ("uneven-engines", 64, 96),
        ("steady-noise-24h", 64, 40),
        ("correlated-lengths", 7, 11),
    ],
)
def test_a_split_that_loses_over_a_tenth_is_taken_back(name: str, now: int, then: int) -> None:
    """They lose 15 to 40 %."""
    assert trainer_after(name, now, then, seed=1) == now


@pytest.mark.parametrize(
    ("name", "now", "then"),
    [
        ("padded-batches", 40, 56),
        ("uneven-engines", 40, 56),
        ("steady-noise-24h", 96, 64),
        ("correlated-lengths", 4, 6),
    ],
)
def test_a_split_that_gains_stays(name: str, now: int, then: int) -> None:
    assert trainer_after(name, now, then, seed=1) == then
