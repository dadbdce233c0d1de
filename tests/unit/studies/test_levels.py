"""Which points go on to the next level of care."""

import optuna
import pytest
from optuna.trial import create_trial

from tuner.studies.samplers import FACTOR, POLICY_FACTOR, pruner_of, quiet, resource


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
