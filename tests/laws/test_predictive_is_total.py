"""The law with a model: whatever a job with pools shows, a possible order or a hold with a reason, never a fault."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policies.commands import ControlMode
from policies.controller import tick
from policies.laws.predictive import Predictive
from policies.modelling import NominalModeller
from policies.settings import gpus
from policies.state import State
from simulators.plant import Bounds, Observation
from simulators.scenario import job_at
from tests.laws.test_controller_is_total import hostile, possible, rules
from tuner.journal import encoded_decision, encoded_state
from tuner.scenario_files import load

STATED = job_at(load("tool-calls-20-to-51").scenario, 0, 0.0)


@pytest.mark.slow
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(hostile((STATED.setpoints,)), min_size=1, max_size=3))
def test_the_law_with_a_model_is_total_too(story: list[Observation]) -> None:
    """Of a stated job with pools, whose model follows whatever it is shown."""
    by = rules(Predictive(review_s=10.0), modeller=NominalModeller(STATED), horizon_s=86400.0)
    by = replace(by, topology=STATED.topology, bounds=Bounds(gpus_total_max=gpus(STATED.setpoints)))
    state = State(mode=ControlMode.AUTO)
    for seen in story:
        state, decision = tick(by, state, seen, (), seen.time_s)
        assert decision.reason.strip()
        assert decision.code != "fault", decision.reason
        encoded_state(state)
        encoded_decision(decision)
        if decision.order is not None:
            assert state.move is not None
            possible(STATED.topology, decision, state.move)
