"""Cohorts: what the search sees, what chooses among its best, what the reported comparison sees."""

from pathlib import Path

import pytest

from tuner.scenario_files import load
from tuner.studies.cases import CHOOSING, SCORING, SEARCHING, Cohorts, of_stories, seed_of

DATA = Path(__file__).parents[2] / "data" / "tuning"
STORY = load(str(DATA / "lopsided.toml")).scenario


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
