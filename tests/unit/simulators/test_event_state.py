"""From a job to the engine's numbers: tables are right where it matters, impossible jobs are named."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from simulators.distributions import Law, beta_share, length_law, solve_law
from simulators.event_parameters import parameters, step_seconds
from simulators.event_state import Job
from simulators.plant import Mode
from simulators.stations import Admission, Plug, StepTime
from simulators.workload import Lengths, SolvePart, SolveRates, Turns
from tests.jobs import plain_job, with_stations, with_work
from tests.oracles.events_reference import quantile

SHARES = [(i + 0.5) / 200_000 for i in range(200_000)]


def mean(law: Law) -> float:
    return sum(quantile(law, share) for share in SHARES) / len(SHARES)


@pytest.mark.parametrize("sigma", [0.3, 0.7, 1.0])
def test_a_tabled_lognormal_keeps_its_mean(sigma: float) -> None:
    assert mean(length_law(Lengths(8000.0, sigma))) == pytest.approx(8000.0, rel=2e-4)


def test_empirical_quantiles_are_taken_as_they_stand() -> None:
    law = length_law(Lengths(0.0, quantiles=((0.0, 10.0), (0.5, 100.0), (0.999, 400.0), (1.0, 9000.0))))
    assert [quantile(law, share) for share in (0.25, 0.5, 0.9995)] == pytest.approx([55.0, 100.0, 4700.0])


@pytest.mark.parametrize(
    ("a", "b", "x", "share"),
    [(1.0, 1.0, 0.3, 0.3), (2.0, 3.0, 0.5, 0.6875), (0.5, 0.5, 0.5, 0.5), (5.0, 1.0, 0.9, 0.59049)],
)
def test_the_beta_distribution(a: float, b: float, x: float, share: float) -> None:
    assert beta_share(a, b, x) == pytest.approx(share, rel=1e-10)


def test_solve_rates_have_the_mean_of_their_mixture() -> None:
    solve = SolveRates((SolvePart(3.0, 0.5, 2.0), SolvePart(1.0, 4.0, 1.0)), always_frac=0.1, never_frac=0.2)
    table = solve_law(solve).table
    assert sum(table) / len(table) == pytest.approx(0.1 + 0.7 * (0.75 * 0.2 + 0.25 * 0.8), abs=2e-3)
    assert table[int(0.15 * 1024)] == 0.0
    assert table[int(0.95 * 1024)] == 1.0


def test_the_step_time_goes_on_beyond_its_table() -> None:
    step = StepTime(((1.0, 0.01), (8.0, 0.017), (16.0, 0.033)))
    assert [step_seconds(step, b) for b in (1, 4.5, 16, 20)] == pytest.approx([0.01, 0.0135, 0.033, 0.041])


def serial(job: Job) -> Job:
    knobs = replace(job.setpoints, engines=None)
    return replace(job, topology=replace(job.topology, mode=Mode.SERIAL), setpoints=knobs)


BROKEN: list[tuple[Callable[[Job], Job], str]] = [
    (lambda j: replace(j, setpoints=replace(j.setpoints, batch_rollouts=10)), "batch_rollouts=10"),
    (lambda j: replace(j, setpoints=replace(j.setpoints, batch_rollouts=None)), "batch_rollouts=None"),
    (lambda j: replace(j, setpoints=replace(j.setpoints, engines=0)), "engines=0"),
    (lambda j: replace(j, setpoints=replace(j.setpoints, engines=None)), "gpus_generator=None"),
    (lambda j: replace(j, setpoints=replace(j.setpoints, gpus_trainer=None)), "gpus_trainer=None"),
    (
        lambda j: replace(
            j, topology=replace(j.topology, mode=Mode.SERIAL), setpoints=replace(j.setpoints, engines=None)
        ),
        "gpus_total=None",
    ),
    (lambda j: with_work(j, response=Lengths(-1.0)), "mean_tokens=-1.0"),
    (lambda j: with_work(j, response=Lengths(float("nan"))), "mean_tokens=nan"),
    (lambda j: with_work(j, response=Lengths(1.0, between_prompt_frac=2.0)), "between_prompt_frac=2.0"),
    (lambda j: with_work(j, response=Lengths(1.0, quantiles=((0.0, 5.0), (0.9, 3.0)))), "quantiles="),
    (lambda j: with_work(j, turns=Turns(0.5)), "turns.mean=0.5"),
    (lambda j: with_stations(j, engine=replace(j.stations.engine, slots=0)), "slots=0"),
    (
        lambda j: with_stations(j, engine=replace(j.stations.engine, step=StepTime(((0.0, 0.0), (1.0, 0.0))))),
        "step.table=",
    ),
    (lambda j: with_stations(j, admission=Admission(Plug.BUFFER_CAP)), "limit_groups=None"),
]


@pytest.mark.parametrize(("broken", "named"), BROKEN, ids=[named for _, named in BROKEN])
def test_an_impossible_job_is_refused_by_field_and_value(broken: Callable[[Job], Job], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        parameters(broken(plain_job()))
