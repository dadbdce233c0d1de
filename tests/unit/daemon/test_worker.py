"""The gate's simulator: a child that answers as this process would, and is a no with a reason when it does not."""

import os
import pickle
import signal
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from policies.gate import GateLimits, Question, confirm
from policies.modelling import NominalModeller
from policies.objective import Objective
from simulators.event_model import EventModel
from simulators.pipeline import SimulatedPlant
from simulators.plant import Bounds, Observation, Setpoints
from simulators.scenario import job_at
from tuner import worker
from tuner.charter import Charter, decoded, encoded, rules_of
from tuner.scenario_files import load
from tuner.worker import DRAWS, STRUCTURE, Child, Here, Simulated

pytestmark = pytest.mark.slow

SCENARIO = load("length-x3-in-25-steps").scenario
JOB = job_at(SCENARIO, 0, 0.0)
MODEL = EventModel(JOB.stations, 1, 8, 1, 2)
ASKED = worker.Question(worker.LAW, MODEL, JOB.topology, JOB.workload, JOB.setpoints)


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    with closing(Child(deadline_s=120.0)) as found:
        yield found


@pytest.fixture(scope="module")
def seen() -> Observation:
    return SimulatedPlant(SCENARIO).observe(9000.0)


def confirmed(engine: Child | Here, seen: Observation, trainer: int) -> str:
    """What the gate says to another split, in its own words."""
    now = seen.in_force
    total = (now.gpus_trainer or 0) + (now.gpus_generator or 0)
    changes = Setpoints(gpus_trainer=trainer, gpus_generator=total - trainer)
    question = Question(JOB.topology, now, changes, 60.0, 6 * 3600.0, Bounds(), Objective())
    draws = Simulated(NominalModeller(JOB), engine).draws(seen, 30, seed=3)
    verdict = confirm(question, draws, GateLimits())
    assert verdict.structures[STRUCTURE] in (0.0, 1.0)
    return f"{verdict.passed}: {verdict.reason}"


def test_a_child_says_what_this_process_says(child: Child) -> None:
    child.begin()
    assert child.ask(ASKED) == Here().ask(ASKED)


def test_what_cannot_be_simulated_is_told_as_such(child: Child) -> None:
    child.begin()
    with pytest.raises(ValueError, match=r"\w"):
        child.ask(replace(ASKED, setpoints=replace(ASKED.setpoints, gpus_trainer=None)))
    assert child.ask(ASKED) == Here().ask(ASKED)


def test_the_gate_hears_the_simulator_in_a_child_and_here_alike(child: Child, seen: Observation) -> None:
    better, worse = confirmed(child, seen, 64), confirmed(child, seen, 112)
    assert better.startswith("True: ")
    assert worse.startswith("False: ")
    assert (better, worse) == (confirmed(Here(), seen, 64), confirmed(Here(), seen, 112))


def test_so_many_draws_are_simulated_and_all_others_stay(seen: Observation) -> None:
    plain = NominalModeller(JOB)
    draws = Simulated(plain).draws(seen, 30, 3)
    assert [d.structure for d in draws].count(STRUCTURE) == DRAWS
    assert tuple(d for d in draws if d.structure != STRUCTURE) == tuple(plain.draws(seen, 30, 3))


def test_a_law_may_ask_the_simulator_of_the_job_as_fitted(seen: Observation) -> None:
    central = Simulated(NominalModeller(JOB)).central(seen)
    assert central is not None
    assert central.simulator is not None
    asked = (JOB.topology, central.workload, seen.in_force)
    simulated, said = central.simulator.predict(*asked), central.model.predict(*asked)
    assert simulated.standard_error_frac is not None
    assert simulated.rollouts_per_s == pytest.approx(said.rollouts_per_s, rel=0.1)


def test_a_child_that_is_late_is_a_no_with_its_reason_and_is_replaced(seen: Observation) -> None:
    with closing(Child(deadline_s=0.01)) as late:
        first = late.pid
        told = confirmed(late, seen, 64)
        assert told.startswith("False: ")
        assert "the simulator model gives 0%: the simulator gave no answer within 0.01 s" in told
        assert late.pid != first


def test_after_its_deadline_nothing_is_asked_and_no_other_child_started() -> None:
    with closing(Child(deadline_s=0.01)) as late:
        late.begin()
        for _ in range(3):
            with pytest.raises(ValueError, match="no answer within"):
                late.ask(ASKED)
            replaced = late.pid
            with pytest.raises(ValueError, match="no answer within"):
                late.ask(ASKED)
            assert late.pid == replaced


def test_a_law_is_answered_by_longer_runs_than_a_gate(seen: Observation) -> None:
    """It goes to the best of what it hears: half the variance."""
    modeller = Simulated(NominalModeller(JOB))
    central, gate = modeller.central(seen), modeller.draws(seen, 30, 0)
    assert central is not None
    assert central.simulator is not None
    drawn = next(d for d in gate if d.structure == STRUCTURE)
    errors = [
        model.predict(JOB.topology, central.workload, seen.in_force).standard_error_frac
        for model in (central.simulator, drawn.model)
    ]
    assert errors[0] is not None
    assert errors[1] is not None
    assert errors[0] < errors[1]


def test_a_child_that_was_killed_is_replaced_and_answers_again(seen: Observation) -> None:
    with closing(Child(deadline_s=120.0)) as killed:
        killed.begin()
        assert killed.ask(ASKED) == Here().ask(ASKED)
        assert killed.pid is not None
        os.kill(killed.pid, signal.SIGKILL)
        with pytest.raises(ValueError, match="the simulator's process ended"):
            killed.ask(ASKED)
        assert killed.ask(ASKED) == Here().ask(ASKED)


def test_a_child_ends_with_its_owner() -> None:
    child = Child()
    pid = child.pid
    assert pid is not None
    child.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_charter_that_simulates_survives_its_journal_and_its_questions_travel() -> None:
    charter = Charter("predictive", JOB.topology, stated=JOB, simulated=True)
    assert decoded(encoded(charter)) == charter
    assert isinstance(rules_of(charter).modeller, Simulated)
    assert pickle.loads(pickle.dumps(ASKED)) == ASKED
