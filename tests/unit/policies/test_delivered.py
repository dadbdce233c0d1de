"""The fit is brought to what the job delivers, and knows when it cannot be."""

from dataclasses import replace
from math import log

import pytest

from policies.delivered import UNLIKE, Doubt, Fitted, delivering
from policies.readings import row_rate
from policies.sides import with_engine_factor, with_trainer_factor
from simulators.analytic import AnalyticModel
from simulators.event_state import Job
from simulators.scenario import job_at
from simulators.snapshot import Row
from tuner.scenario_files import load

JOB = job_at(load("length-x3-in-25-steps").scenario, 0, 0.0)


def made(job: Job) -> float:
    return AnalyticModel(job.stations).predict(job.topology, job.workload, job.setpoints).useful_rollouts_per_s


def rows_of(rate: float, count: int = 40) -> list[Row]:
    """Steps that deliver so many useful rollouts per second, a little more and a little less in turn."""
    steps = []
    for i in range(count):
        step_s = 512.0 / rate * (1.01 if i % 2 else 0.99)
        steps.append(Row({"step_s": step_s, "accepted": 512.0, "batch_rollouts": 512.0}, i, 100.0 * i))
    return steps


def test_a_row_says_what_the_test_means() -> None:
    assert row_rate(rows_of(2.0)[0].values) == pytest.approx(2.0, rel=0.02)


@pytest.mark.parametrize("slower", [0.8, 1.1, 1.3])
def test_the_side_that_limits_is_brought_to_what_is_delivered(slower: float) -> None:
    """Engines that are much too slow in the fit limit by mistake: corrected until the trainer does, and not beyond."""
    truth = made(JOB)
    wrong = with_engine_factor(JOB, slower)
    found = delivering(Fitted(wrong, Doubt(engine=0.1, trainer=0.001)), rows_of(truth))
    assert found is not None
    assert made(found.job) == pytest.approx(truth, rel=0.04)
    assert found.doubt.misfit < 0.002


def test_what_no_speed_of_either_side_explains_is_no_model_of_the_job() -> None:
    sure = Doubt(engine=1e-6, trainer=1e-6)
    assert delivering(Fitted(JOB, sure), rows_of(3.0 * made(JOB))) is None


def test_what_is_left_unexplained_widens_the_doubt_of_the_ratio() -> None:
    sure = Doubt(engine=1e-6, trainer=1e-6)
    found = delivering(Fitted(JOB, sure), rows_of(1.3 * made(JOB)))
    assert found is not None
    assert found.doubt.misfit == pytest.approx(log(1.3) ** 2, rel=0.1)
    assert found.doubt.ratio > found.doubt.misfit
    assert log(1.3) < UNLIKE


def test_a_slower_trainer_alone_moves_only_the_trainer() -> None:
    bound = replace(JOB, setpoints=replace(JOB.setpoints, gpus_trainer=32, gpus_generator=224))
    found = delivering(Fitted(with_trainer_factor(bound, 1.2), Doubt(engine=0.003, trainer=0.04)), rows_of(made(bound)))
    assert found is not None
    engines = found.job.stations.engine.step.table[0][1] / bound.stations.engine.step.table[0][1]
    assert engines == pytest.approx(1.0, abs=0.02)
    assert found.job.stations.trainer.base_s == pytest.approx(bound.stations.trainer.base_s, rel=0.04)
