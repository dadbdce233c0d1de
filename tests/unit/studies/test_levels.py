"""Which points go on to the next level of care."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import optuna
import pytest
from optuna.trial import create_trial

from simulators.scenario import Horizon
from tuner.scenario_files import load
from tuner.studies.cases import of_stories
from tuner.studies.levels import problem_of, telling
from tuner.studies.objectives import Measured
from tuner.studies.samplers import FACTOR, POLICY_FACTOR, pruner_of, quiet, resource
from tuner.studies.space import Dimension, Space
from tuner.studies.trials import Mark
from tuner.studies.workers import Basis

DATA = Path(__file__).parents[2] / "data" / "tuning" / "doubling.toml"
NAMED = (("a", 30), ("b", 80), ("c", 90), ("d", 100), ("e", 110))
"""Stories and their steps."""


def goes_on(own: float, others: list[float], level: int, by_model: bool, broken: tuple[int, ...] = ()) -> bool:
    """Whether a point of this value goes on, after others of these values; those at `broken` broke a bound."""
    quiet()
    study = optuna.create_study(direction="maximize", pruner=pruner_of(3, by_model))
    step = resource(level)
    for i, value in enumerate(others):
        attrs = {"constraints:staleness": 1.0} if i in broken else {}
        study.add_trial(create_trial(value=value, intermediate_values={step: value}, system_attrs=attrs))
    trial = study.ask()
    trial.report(own, step)
    return not trial.should_prune()


def test_the_first_point_goes_on() -> None:
    assert goes_on(-0.5, [], level=0, by_model=True)
    assert goes_on(-0.5, [], level=0, by_model=False)


def test_the_model_rules_out_only_what_is_far_behind() -> None:
    assert goes_on(0.05, [0.2, 0.0], level=0, by_model=True)
    assert not goes_on(0.01, [0.2, 0.0], level=0, by_model=True)


def test_what_broke_a_bound_sets_no_standard() -> None:
    assert goes_on(0.01, [0.9, 0.0], level=0, by_model=True, broken=(0,))


@pytest.mark.parametrize(("by_model", "level", "factor"), [(True, 1, FACTOR), (False, 0, POLICY_FACTOR)])
def test_simulated_points_go_on_by_rank(by_model: bool, level: int, factor: int) -> None:
    others = [0.01 * i for i in range(4 * factor - 1)]
    assert goes_on(others[-4] + 0.001, others, level, by_model)
    assert not goes_on(others[-4] - 0.001, others, level, by_model)


def test_of_equals_the_earlier_goes_on() -> None:
    assert not goes_on(0.0, [0.0, -0.1, -0.2, -0.3], level=0, by_model=False)


STORIES = [(name, replace(load(str(DATA)).scenario, horizon=Horizon(steps))) for name, steps in NAMED]


def measured(moves: float) -> Measured:
    return Measured(1.0, moves=moves)


def levels_of(moves: Sequence[float]) -> list[list[tuple[str, int | None]]]:
    """(story, steps) on each level, where the defaults make so many moves in beginnings and then in whole stories."""
    space = Space((Dimension("policy.busy_frac", 0.5, 0.99, now=0.9),), "threshold")
    problem = problem_of(space, of_stories(STORIES, 1, held_out=STORIES[:1]).searching, ("useful",))
    found = telling(problem, Basis(tuple(Mark(1.0, 1.0) for _ in moves), tuple(map(measured, moves))))
    return [[(found.cases[i].name, found.cases[i].scenario.horizon.steps) for i in level] for level in found.levels]


def test_a_policy_is_asked_first_where_its_defaults_move() -> None:
    levels = levels_of([0, 0, 1, 0, 2, 0, 0, 0, 3, 4])
    assert levels[0] == [("c", 40), ("e", 40)]
    assert levels[1] == [("d", 100), ("e", 110)]
    assert [name for name, _ in levels[2]] == ["a", "b", "c", "d", "e"]


def test_where_nothing_moves_in_the_beginnings_whole_stories_are_asked() -> None:
    assert levels_of([0, 0, 0, 0, 0, 0, 0, 1, 0, 1])[0] == [("c", 90), ("e", 110)]


def test_where_nothing_moves_at_all_the_lightest_are_asked() -> None:
    assert levels_of([0] * 10)[0] == [("b", 40), ("c", 40)], "a is short anyway, and has no beginning"
