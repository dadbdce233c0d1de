"""What a trial is judged by: pairs, not averages; bounds, not penalties; noise said to be noise."""

from math import exp, isinf, log

import pytest

from tuner.studies.objectives import OBJECTIVES, Measured, central, excess_of, ratios, values_of


def measured(*rates: float) -> list[Measured]:
    return [Measured(rate) for rate in rates]


def test_the_gain_is_the_same_however_large_a_job_is() -> None:
    here, there = measured(10.0, 1000.0), measured(11.0, 1100.0)
    assert values_of(("useful", "worst"), (1.0, 1.0), there, here) == pytest.approx([0.1, 0.1])


def test_twice_and_half_is_no_gain() -> None:
    assert values_of(("useful",), (1.0, 1.0), measured(20.0, 5.0), measured(10.0, 10.0)) == pytest.approx([0.0])


def test_the_worst_case_is_not_bought_by_the_best() -> None:
    assert values_of(("worst",), (1.0, 1.0), measured(30.0, 9.0), measured(10.0, 10.0)) == pytest.approx([-0.1])


def test_a_job_that_stands_still_is_very_slow_not_infinitely() -> None:
    assert ratios(measured(0.0), measured(10.0)) == pytest.approx([log(1e-3)])


def test_likelier_jobs_count_more() -> None:
    (gain,) = values_of(("useful",), (3.0, 1.0), measured(11.0, 10.0), measured(10.0, 10.0))
    assert gain == pytest.approx(exp(0.75 * log(1.1)) - 1.0)


def test_a_bound_kept_today_may_not_be_broken_by_any_gain() -> None:
    here = [Measured(10.0, excess={"staleness": -1.0})]
    there = [Measured(99.0, excess={"staleness": 0.01})]
    assert excess_of(there, here)["staleness"] > 0.0


def test_a_bound_broken_today_may_stay_broken_but_not_more() -> None:
    here = [Measured(10.0, excess={"staleness": 0.5})]
    assert excess_of([Measured(10.0, excess={"staleness": 0.4})], here)["staleness"] <= 0.0
    assert excess_of([Measured(10.0, excess={"staleness": 0.6})], here)["staleness"] > 0.0


def test_one_case_out_of_bounds_is_enough() -> None:
    here = [Measured(10.0, excess={"staleness": -1.0})] * 2
    there = [Measured(10.0, excess={"staleness": s}) for s in (-3.0, 0.2)]
    assert excess_of(there, here)["staleness"] == pytest.approx(0.2)


def test_what_stands_still_breaks_a_bound_too() -> None:
    assert excess_of([Measured(0.0, stopped="deadlock")], measured(1.0))["runs"] > 0.0


def test_noise_has_an_interval_around_nothing() -> None:
    gain = central([0.02, -0.02, 0.01, -0.01], [1.0] * 4, doubt=False)
    assert gain.low < 0.0 < gain.high
    sure = central([0.02, 0.021, 0.019], [1.0] * 3, doubt=False)
    assert 0.0 < sure.low < sure.mean < sure.high


def test_a_single_case_has_no_interval() -> None:
    assert isinf(central([0.1], [1.0], doubt=False).high)


def test_doubt_about_the_job_does_not_shrink_with_more_draws() -> None:
    logs = [0.01 * i for i in range(-5, 16)]
    assert central(logs * 9, [1.0] * len(logs) * 9, doubt=True).high == pytest.approx(
        central(logs, [1.0] * len(logs), doubt=True).high, abs=0.011
    )


def test_every_objective_says_which_way_is_better() -> None:
    assert {name for name, o in OBJECTIVES.items() if o.better == "maximize"} == {"useful", "worst"}
