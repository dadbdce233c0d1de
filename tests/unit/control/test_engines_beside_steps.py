"""A live job's steps and its engines' scrapes come apart: what a step ran on is read from both."""

from dataclasses import replace

import pytest

from policies.fitted import fit
from policies.readings import of_one_setting, with_engines
from simulators.plant import Observation
from simulators.scenario import job_at
from simulators.snapshot import Row, Snapshot
from simulators.window import assemble
from tuner.scenario_files import load

STEP_S = 120.0


def scrape(time_s: float, **values: float) -> Row:
    return Row(values, None, time_s)


def step(number: int, **values: float) -> Row:
    return Row({"step_s": STEP_S, **values}, number, number * STEP_S)


def test_a_step_takes_the_mean_of_the_scrapes_within_it() -> None:
    scrapes = [scrape(t, engines=2.0, running=r) for t, r in ((57, 8.0), (58, 10.0), (59, 12.0), (60, 14.0))]
    joined = with_engines([Row({"step_s": 3.0}, 1, 60.0)], scrapes)
    assert joined[0].values == {"step_s": 3.0, "engines": 2.0, "running": 12.0}


def test_a_step_between_two_scrapes_takes_the_last_one_before() -> None:
    joined = with_engines([Row({"step_s": 3.0}, 1, 60.0)], [scrape(30.0, running=8.0), scrape(90.0, running=20.0)])
    assert joined[0].values["running"] == 8.0


def test_a_step_that_says_it_itself_is_left_alone() -> None:
    row = Row({"step_s": 3.0, "engines": 4.0, "running": 1.0}, 1, 60.0)
    assert with_engines([row], [scrape(60.0, engines=2.0, running=9.0)]) == [row]


def test_steps_before_and_in_a_move_do_not_speak_for_the_setting_after_it() -> None:
    scrapes = [scrape(30.0 * i, engines=2.0 if i <= 17 else 3.0) for i in range(1, 41)]
    kept = of_one_setting(assemble([step(n) for n in range(1, 11)], scrapes))
    assert [row.step for row in kept] == [6, 7, 8, 9, 10]


def test_steps_under_another_quota_of_sandboxes_do_not_speak_for_this_one() -> None:
    quotas = (700.0, 700.0, 2400.0, 700.0, 2400.0, 2400.0)
    kept = of_one_setting(Snapshot({}, rows=tuple(step(i + 1, sandbox_quota=q) for i, q in enumerate(quotas))))
    assert [row.step for row in kept] == [5, 6]
    unsaid = Snapshot({}, rows=(step(1), step(2, sandbox_quota=700.0), step(3)))
    assert len(of_one_setting(unsaid)) == 3


def test_steps_from_before_the_first_scrape_in_view_still_speak() -> None:
    """Scrapes are kept for a quarter of an hour or so: of long steps that is two or three."""
    scrapes = [scrape(15.0 * i, engines=2.0) for i in range(60, 81)]
    assert len(of_one_setting(assemble([step(n) for n in range(1, 11)], scrapes))) == 10


@pytest.mark.parametrize("slower", [0.8, 1.0, 1.5])
def test_the_engines_of_a_live_job_are_followed(slower: float) -> None:
    """Their seconds per token stand in their own scrapes only; the trainer limits, so what is delivered hides them."""
    job = job_at(load("steady-noise-24h").scenario, 0, 0.0)
    setpoints = replace(job.setpoints, gpus_trainer=32, gpus_generator=224)
    stated = replace(job, setpoints=setpoints)
    table = job.stations.engine.step.table
    pace = (table[0][1] + (table[1][1] - table[0][1]) * 10.0) * slower
    engines = {"engines": 28.0, "running": 280.0, "tpot_s": pace, "kv_usage_frac": 0.0}
    scrapes = [scrape(15.0 * i, **engines) for i in range(1, 120)]
    steps = [step(n, trainer_busy_s=115.0, tokens_total=512 * 8600.0, batch_rollouts=512.0) for n in range(1, 13)]
    seen = Observation(12 * STEP_S, assemble(steps, scrapes), setpoints)
    fitted = fit(stated, seen)
    assert fitted is not None
    found = fitted.job.stations.engine.step.table
    assert found[0][1] == pytest.approx(table[0][1] * slower, rel=0.08)
