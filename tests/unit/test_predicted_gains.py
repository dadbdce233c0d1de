"""Whether a predicted gain held is asked of what the move truly gained, not of what was measured with a wider error."""

from dataclasses import replace

import pytest

from policies.base import Interval
from policies.settings import merged, with_trainer
from tuner.evaluation.counterfactual import SMALL, Turned, true_gain
from tuner.evaluation.scoring import figures_of, wilson
from tuner.evaluation.tasks import Judged
from tuner.scenario_files import load

PROMISED = Interval(0.02, 0.04, 0.06)


def told(true: float) -> Judged:
    """Promised 2 to 6 %, measured as -20 to 28 %: nothing that is measured so can contradict it."""
    return Judged(0.02, 0.04, 0.06, -0.20, 0.04, 0.28, true, 0.001)


def test_a_gain_outside_of_its_interval_is_a_miss_however_vague_its_measurement() -> None:
    assert [told(true).held for true in (0.01, 0.03, 0.07)] == [False, True, False]
    assert all(told(true).not_contradicted for true in (0.01, 0.03, 0.07))
    assert Judged(0.02, 0.04, 0.06).held is None


def test_the_floor_on_coverage_can_fail() -> None:
    gains = [told(0.03)] * 11 + [told(0.01)] * 6
    figure = next(f for f in figures_of([], "predictive", gains) if f.name.startswith("80 % intervals of a gain"))
    assert figure.value == pytest.approx(11 / 17)
    assert figure.holds is False
    assert "11 of 17: 49%..78%" in figure.where
    assert "17 of 17 not contradicted" in figure.where


@pytest.mark.parametrize(("n", "holds"), [(1, None), (3, None), (4, False), (6, False)])
def test_of_so_few_moves_that_none_could_hold_the_floor_nothing_is_said(n: int, holds: bool | None) -> None:
    """Three of three are 100 %, two are 67 %: neither is between 72 and 88 %. Three of four are."""
    found = [f for f in figures_of([], "predictive", [told(0.03)] * n) if f.value == 1.0]
    assert [f.holds for f in found] == [None if holds is None else True, holds]


def test_the_worked_table_of_a_share_of_few() -> None:
    assert wilson(13, 17) == pytest.approx((0.613, 0.869), abs=0.001)
    assert wilson(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("name", "trainer", "low", "high"), [("padded-batches", 40, -0.4, -0.15), ("uneven-engines", 56, 0.03, 0.07)]
)
def test_both_settings_are_run_on_from_where_the_job_was(name: str, trainer: int, low: float, high: float) -> None:
    scenario = load(name).scenario
    goal = merged(scenario.setpoints, with_trainer(scenario.setpoints, scenario.topology, trainer))
    known = true_gain(scenario, Turned(20, 3000.0, scenario.setpoints, goal), PROMISED)
    assert known is not None
    assert low < known[0] < high
    assert known[1] <= SMALL * (PROMISED.high - PROMISED.low)


def test_the_same_setting_gains_nothing_and_one_that_cannot_run_loses_all() -> None:
    scenario = load("padded-batches").scenario
    now = scenario.setpoints
    assert true_gain(scenario, Turned(20, 3000.0, now, now), PROMISED) == (0.0, 0.0)
    impossible = replace(now, batch_rollouts=(now.batch_rollouts or 0) + 1)
    assert true_gain(scenario, Turned(20, 3000.0, now, impossible), PROMISED) == (-1.0, 0.0)
    assert true_gain(scenario, Turned(20, 3000.0, impossible, now), PROMISED) is None
