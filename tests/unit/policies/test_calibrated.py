"""A job that no file describes is modelled from its own history, well enough to be moved the right way."""

from dataclasses import replace

import pytest

from policies.calibrated import CalibratedModeller
from policies.control import Proposal
from policies.controller import question_of
from policies.gate import GateLimits, confirm
from policies.laws.predictive import Predictive
from policies.rules import Rules
from policies.state import State
from policies.viewing import view_of
from simulators.pipeline import SimulatedPlant
from simulators.plant import Observation, Setpoints
from simulators.scenario import Scenario
from tuner.evaluation.controlled import capabilities_of
from tuner.scenario_files import load

STEPS = 24


def scene(trainer: int) -> tuple[Scenario, Observation]:
    scenario = load("steady-noise-24h").scenario
    knobs = replace(scenario.setpoints, gpus_trainer=trainer, gpus_generator=256 - trainer)
    plant = SimulatedPlant(replace(scenario, setpoints=knobs), 0)
    while plant.step < STEPS:
        plant.run_step()
    return plant.scenario, plant.observe(plant.now_s)


@pytest.mark.parametrize(("trainer", "smaller"), [(112, True), (40, False)])
def test_gpus_go_to_the_side_that_is_slower_without_a_job_file(trainer: int, smaller: bool) -> None:
    scenario, seen = scene(trainer)
    modeller = CalibratedModeller(scenario.topology)
    rules = Rules(Predictive(), scenario.topology, scenario.bounds, capabilities=capabilities_of(scenario))
    view = view_of(replace(rules, modeller=modeller), State(), seen)
    answer = Predictive().decide(view)
    assert isinstance(answer, Proposal), answer.reason
    assert ((answer.changes.gpus_trainer or 0) < trainer) is smaller
    verdict = confirm(question_of(view, answer.changes), modeller.draws(seen, 30, 0), GateLimits())
    assert verdict.probability is not None
    assert verdict.probability >= 0.9


def test_the_same_history_gives_the_same_draws() -> None:
    scenario, seen = scene(112)
    modeller = CalibratedModeller(scenario.topology)
    assert modeller.draws(seen, 30, 7) == modeller.draws(seen, 30, 7)


def test_without_a_known_split_there_is_no_model() -> None:
    scenario, seen = scene(112)
    unknown = replace(seen, in_force=Setpoints(batch_rollouts=512))
    assert CalibratedModeller(scenario.topology).central(unknown) is None
    assert "how many GPUs" in CalibratedModeller(scenario.topology).why_not(unknown)
    assert CalibratedModeller(scenario.topology).draws(unknown, 30, 0) == ()
