"""The same tick on a simulated job, and again on its recording."""

from dataclasses import replace

import pytest

from policies.commands import ControlMode
from policies.control import Action, Capability
from policies.laws.rate_balance import RateBalance
from policies.laws.threshold import Threshold
from policies.rules import Rules
from policies.settings import SPLIT
from policies.state import State
from simulators.clock import VirtualClock
from simulators.pipeline import SimulatedPlant
from simulators.plant import Change, Plant
from simulators.recorded import RecordedPlant
from simulators.scenario import Horizon
from tests.stories.driving import Kept
from tuner.journal import encoded_decision
from tuner.loop import NoInbox, Parts, replayed, run
from tuner.scenario_files import load

HOURS = 1.5
PERIOD_S = 60.0


def simulated(name: str) -> tuple[SimulatedPlant, Rules]:
    scenario = replace(load(name).scenario, horizon=Horizon(seconds=HOURS * 3600.0))
    split = next(move for move in scenario.move if move.knob == "gpus_trainer")
    rules = Rules(
        Threshold(persist_ticks=2),
        scenario.topology,
        scenario.bounds,
        capabilities=(Capability(SPLIT, actuation_s=2.0 * split.actuation_s, cost_s=8.0), Capability("max_in_flight")),
        gate=None,
        earn_auto=False,
    )
    return SimulatedPlant(scenario, seed=1), rules


def controlled(plant: Plant, rules: Rules, hours: float = HOURS) -> Kept:
    kept = Kept()
    run(
        Parts(plant, rules, VirtualClock(), kept, NoInbox(), PERIOD_S),
        State(mode=ControlMode.AUTO),
        hours * 3600.0,
    )
    return kept


@pytest.mark.slow
def test_a_simulated_job_is_controlled_and_its_recording_decides_the_same() -> None:
    plant, rules = simulated("length-x3-in-25-steps")
    live = controlled(plant, rules)
    assert any(d.action is Action.APPLY for d in live.decisions)
    assert list(replayed(rules, live.entries, State(mode=ControlMode.AUTO))) == []
    told = {e.receipt.decision_id: e.receipt for e in live.entries if e.receipt is not None}
    again = controlled(RecordedPlant([e.seen for e in live.entries], told), rules)
    assert [encoded_decision(d) for d in again.decisions] == [encoded_decision(d) for d in live.decisions]


@pytest.mark.slow
def test_steps_of_a_quarter_of_an_hour_lose_no_gpus() -> None:
    """A split that turns at a step's end: each leg waits for one, and no GPU is left between the sides."""
    scenario = load("steady-noise-24h").scenario
    knobs = replace(scenario.setpoints, gpus_trainer=160, gpus_generator=96, batch_rollouts=2048)
    moves = tuple(replace(move, change=Change.BOUNDARY, failure_frac=0.0) for move in scenario.move)
    long = replace(scenario, setpoints=knobs, move=moves, horizon=Horizon(steps=24))
    able = tuple(Capability(knob, Change.BOUNDARY, actuation_s=120.0) for knob in (SPLIT, "max_in_flight"))
    plant = SimulatedPlant(long, seed=1)
    kept = controlled(plant, replace(simulated("steady-noise-24h")[1], capabilities=able), hours=6.0)
    assert [log.row.values["step_s"] for log in plant.log if log.row.values["step_s"] > 600.0]
    assert len(kept.moves) >= 2
    settings = plant.observe(plant.now_s).in_force
    assert (settings.gpus_trainer or 0) + (settings.gpus_generator or 0) == 256
    assert (settings.gpus_trainer or 0) < 160
    assert not any("without us" in note for d in kept.decisions for note in d.notes)


@pytest.mark.slow
def test_hours_of_steady_noise_move_nothing() -> None:
    plant, rules = simulated("steady-noise-24h")
    kept = controlled(plant, replace(rules, policy=RateBalance()))
    assert kept.moves == set()
