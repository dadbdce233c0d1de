"""Cohorts: what the search sees, what chooses among its best, what the reported comparison sees."""

from dataclasses import replace
from pathlib import Path

import pytest

from simulators.calibration import Draw
from simulators.calibration.draws import Values
from simulators.scenario import job_at
from simulators.snapshot import Row
from simulators.window import assemble
from simulators.workload import Lengths
from tuner.scenario_files import load
from tuner.studies.cases import (
    CHOOSING,
    GOING_ON_STEPS,
    SCORING,
    SEARCHING,
    TREND_MAX,
    Cohorts,
    of_draws,
    of_stories,
    seed_of,
    trend_of,
)

DATA = Path(__file__).parents[2] / "data" / "tuning"
STORY = load(str(DATA / "lopsided.toml")).scenario

VALUES = Values(
    step_s=60.0,
    trainer_s=40.0,
    sync_s=0.0,
    rare_s=0.0,
    trainer_fixed_frac=0.1,
    trainer_exponent=0.8,
    half_rate=4.0,
    response_tokens=1000.0,
    prompt_tokens=300.0,
    length_sigma=0.7,
    length_cap=None,
    between_prompt_frac=0.0,
    turns=1.0,
    tool_s=0.0,
    usable_frac=None,
    group_size=4,
    overlapped_trainer=1.0,
    headroom=1.0,
    one_batch=False,
)


def seeds(cohorts: Cohorts) -> list[set[int]]:
    return [{case.seed for case in part} for part in (cohorts.searching, cohorts.choosing, cohorts.scoring)]


def test_no_seed_is_in_two_cohorts() -> None:
    first, second, third = seeds(of_stories([("a", STORY)], 50, 3))
    assert not first & second
    assert not (first | second) & third


def test_studies_of_different_seeds_share_none() -> None:
    ours, theirs = (set.union(*seeds(of_stories([("a", STORY)], 9, seed))) for seed in (1, 2))
    assert not ours & theirs


def test_every_third_scenario_is_kept_from_the_search() -> None:
    cohorts = of_stories([(name, STORY) for name in "abcdef"], 1)
    assert {case.name for case in cohorts.searching} == set("abde")
    assert {case.name for case in cohorts.scoring} == set("cf")
    assert cohorts.unseen


def test_a_single_scenario_lends_seeds_and_says_so() -> None:
    cohorts = of_stories([("a", STORY)], 3)
    assert not cohorts.unseen
    assert len(cohorts.scoring) == 6


def test_scenarios_named_to_be_held_out_are_never_searched() -> None:
    cohorts = of_stories([(name, STORY) for name in "abcd"], 1, held_out=[("z", STORY)])
    assert {case.name for case in cohorts.searching} == set("abcd")
    assert {case.name for case in cohorts.scoring} == {"z"}


def test_a_seed_outside_its_block_is_refused() -> None:
    with pytest.raises(ValueError, match="seed=1000"):
        seed_of(SEARCHING, 1000, 0)
    assert len({seed_of(cohort, 999, 999) for cohort in (SEARCHING, CHOOSING, SCORING)}) == 3


def test_a_recordings_trend_goes_on_and_is_not_believed_for_ever() -> None:
    rows = [Row({"resp_len_mean": 1000.0 + 100.0 * (i >= 10) + 100.0 * (i >= 20)}, step=i) for i in range(30)]
    slow = trend_of(assemble(rows))
    assert slow == {"workload.response.mean_tokens": pytest.approx(1.2**4)}
    steep = trend_of(assemble([Row({"resp_len_mean": 1000.0 * 1.1**i}, step=i) for i in range(30)]))
    assert steep == {"workload.response.mean_tokens": TREND_MAX}
    assert trend_of(assemble([Row({"resp_len_mean": 1000.0}, step=i) for i in range(30)])) == {}


def draw(response: float) -> Draw:
    workload = replace(STORY.workload, response=Lengths(response, 0.7))
    return Draw(STORY.topology, STORY.setpoints, workload, STORY.stations, values=VALUES)


def test_a_policys_stories_drift_on_from_each_possible_job() -> None:
    trend = {"workload.response.mean_tokens": 2.0}
    cohorts = of_draws("run", [draw(1000.0), draw(1200.0), draw(1100.0)], STORY.bounds, trend=trend)
    ends = [job_at(case.scenario, GOING_ON_STEPS, 0.0).workload.response.mean_tokens for case in cohorts.searching]
    assert ends == [pytest.approx(2000.0), pytest.approx(2400.0)]
    assert [case.draw for case in cohorts.searching] == [None, None]
    assert {move.knob for move in cohorts.scoring[0].scenario.move} >= {"gpus_trainer", "gpus_generator"}


def test_settings_are_tuned_on_jobs_that_stand_still() -> None:
    cohorts = of_draws("run", [draw(1000.0)] * 3, STORY.bounds)
    assert all(not case.scenario.drift and case.draw is not None for case in cohorts.searching)
