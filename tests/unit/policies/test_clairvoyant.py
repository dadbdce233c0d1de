"""The yardstick finds what a clairvoyant would do, on worlds small enough to know the answer."""

from dataclasses import replace
from pathlib import Path

import pytest

from policies.blocks import Progress, analytic_rates, corrected, progress_of
from policies.clairvoyant import earliest, envelope, promising, statics
from policies.options import FLIGHT_STEPS
from policies.reachable import FLIGHT_MOVES, Reach, climbed, half_turned
from simulators.plant import Bounds, Setpoints
from simulators.scenario import Move, Scenario
from tuner.scenario_files import load, shipped

SCENARIO = replace(
    load("steady-noise-24h").scenario,
    move=tuple(Move(knob, actuation_s=40.0) for knob in ("gpus_trainer", "gpus_generator")),
)
LEFT = SCENARIO.setpoints
RIGHT = replace(LEFT, gpus_trainer=72, gpus_generator=184)
PROGRESS = Progress((100.0, 200.0), (0.0, 1.0))


def rates(block: int, setting: Setpoints, at_s: float) -> float:
    """1 then 2 on the left, 2 then 1 on the right, a quarter of 2 between them."""
    if setting not in (LEFT, RIGHT):
        return 0.5
    return (1.0, 2.0)[block] if setting == LEFT else (2.0, 1.0)[block]


def test_it_moves_when_the_move_pays() -> None:
    """Starting right: 50 s, a move of 40 s x (1 - 0.5/2) = 30 s, 50 s."""
    start_right = replace(SCENARIO, setpoints=RIGHT)
    schedule = earliest(start_right, PROGRESS, (RIGHT, LEFT), rates)
    assert schedule.settings == (RIGHT, LEFT)
    assert schedule.seconds == pytest.approx(130.0)


def test_it_stays_when_it_does_not() -> None:
    start_right = replace(SCENARIO, setpoints=RIGHT)
    assert earliest(start_right, PROGRESS, (RIGHT, LEFT), rates, dear=4.0).settings == (RIGHT, RIGHT)


def test_free_moves_are_the_bound() -> None:
    assert envelope(PROGRESS, (RIGHT, LEFT), rates).seconds == pytest.approx(100.0)
    assert statics(PROGRESS, (RIGHT, LEFT), rates, 1)[0] in (LEFT, RIGHT)


def test_in_flight_goes_as_far_in_one_change_as_a_law_may_turn_it_and_further_in_two() -> None:
    limits = (100, 244, 400)  # 1.25 to the fourth is 2.44
    start, near, far = (replace(LEFT, max_in_flight=n) for n in limits)
    scenario = replace(SCENARIO, setpoints=start, move=(Move("max_in_flight"),))

    def said(block: int, setting: Setpoints, at_s: float) -> float:
        return (setting.max_in_flight or 0) / 100.0

    assert earliest(scenario, PROGRESS, (start, near, far), said).settings == (near, far)
    assert statics(PROGRESS, (start, near, far), said, 3) == [near, start]
    reach = Reach(scenario)
    _, looked_at = climbed(reach, reach.start, lambda setting: float(setting.max_in_flight or 0))
    assert max(spot[2] for spot in looked_at) == FLIGHT_MOVES * FLIGHT_STEPS


def test_rates_are_corrected_by_what_a_run_took() -> None:
    slower = corrected(rates, PROGRESS, {LEFT: (125.0, 175.0)})
    assert slower(0, LEFT, 0.0) == pytest.approx(0.8)
    assert slower(1, LEFT, 0.0) == pytest.approx(2.0)
    assert slower(0, RIGHT, 0.0) == pytest.approx(1.6), "the nearest setting that was run speaks for it"


def test_rates_that_are_far_off_are_replaced_by_what_a_run_did() -> None:
    far = corrected(rates, PROGRESS, {LEFT: (1000.0, 1050.0)})
    assert far(0, RIGHT, 0.0) == pytest.approx(0.1), "and not by twice that: the shape is not believed either"


def test_a_setting_that_cannot_run_stays_so() -> None:
    stuck = corrected(lambda block, setting, at_s: 0.0, PROGRESS, {LEFT: (125.0, 175.0)})
    assert stuck(0, RIGHT, 0.0) == 0.0


def test_on_a_real_story_the_bound_is_before_the_schedule_and_that_before_staying() -> None:
    scenario = load("length-x16-in-1000-steps").scenario
    progress = progress_of(scenario, 1000 * 256.0, 8)
    said = analytic_rates(scenario, progress)
    settings = promising(Reach(scenario), progress, said, 8)
    assert settings[0] == scenario.setpoints
    best = earliest(scenario, progress, settings, said).seconds
    stays = earliest(scenario, progress, settings[:1], said).seconds
    assert envelope(progress, settings, said).seconds <= best <= stays


def starved_and_oversampled() -> Scenario:
    """Each engine's limit binds, and every fourth rollout is started in vain."""
    base = load("steady-noise-24h").scenario
    knobs = replace(base.setpoints, max_in_flight=240, max_in_flight_per_engine=10, oversampling_ratio=1.3)
    knobs = replace(knobs, filter_zero_adv=False)  # else the round fills up with what the filter drops
    able = ("max_in_flight", "max_in_flight_per_engine", "oversampling_ratio")
    return replace(base, setpoints=knobs, move=tuple(Move(knob) for knob in able))


def test_all_knobs_that_can_be_turned_are_within_its_reach() -> None:
    """What a policy may turn and the yardstick may not would make a policy the better clairvoyant."""
    scenario = starved_and_oversampled()
    progress = progress_of(scenario, 10 * 256.0, 4)
    said = analytic_rates(scenario, progress)
    settings = promising(Reach(scenario), progress, said, 8)
    best = max(settings, key=lambda s: said(0, s, 0.0))
    assert (best.oversampling_ratio or 1.0) < 1.3
    assert (best.max_in_flight or 0) > 240
    assert (best.max_in_flight_per_engine or 0) > 10
    assert said(0, best, 0.0) > 1.3 * said(0, scenario.setpoints, 0.0)


def test_a_limit_that_only_engines_have_is_within_its_reach() -> None:
    starved = starved_and_oversampled()
    knobs = replace(starved.setpoints, max_in_flight=None, oversampling_ratio=None)
    reach = Reach(replace(starved, setpoints=knobs, move=(Move("max_in_flight_per_engine"),)))
    progress = progress_of(reach.scenario, 10 * 256.0, 4)
    settings = promising(reach, progress, analytic_rates(reach.scenario, progress), 8)
    assert max(s.max_in_flight_per_engine or 0 for s in settings) > 10
    assert {replace(s, max_in_flight_per_engine=10) for s in settings} == {knobs}


def test_a_setting_that_breaks_a_bound_makes_nothing_and_one_that_mends_it_does() -> None:
    """At most 1,000 in flight, and no more than there are at the start where that is broken."""
    base = load("steady-noise-24h").scenario

    def made(start: int, then: int) -> float:
        begins = replace(
            base, setpoints=replace(base.setpoints, max_in_flight=start), bounds=Bounds(max_in_flight_max=1000)
        )
        said = analytic_rates(begins, progress_of(begins, 10 * 256.0, 4))
        return said(0, replace(begins.setpoints, max_in_flight=then), 0.0)

    assert made(900, 1000) > 0.0
    assert made(900, 1001) == 0.0
    assert made(1500, 1501) == 0.0
    assert made(1500, 1400) > 0.0


def test_a_ratio_that_gains_nothing_takes_no_other_setting_s_place() -> None:
    scenario = load("steady-noise-24h").scenario
    progress = progress_of(scenario, 10 * 256.0, 4)
    settings = promising(Reach(scenario), progress, analytic_rates(scenario, progress), 8)
    assert {s.oversampling_ratio for s in settings} == {scenario.setpoints.oversampling_ratio}


def test_a_knob_of_which_only_one_part_can_be_turned_is_named() -> None:
    assert half_turned(SCENARIO) == []
    lone = replace(SCENARIO, move=(Move("gpus_generator"), Move("gpus_prefill"), Move("gpus_decode")))
    assert half_turned(lone) == ["gpus_generator has a [[move]] and gpus_trainer has none, so neither is turned"]
    capped = replace(starved_and_oversampled(), move=(Move("max_in_flight"),))
    assert [told.split()[0] for told in half_turned(capped)] == ["max_in_flight_per_engine"]


@pytest.mark.parametrize("path", shipped(), ids=lambda path: path.stem)
def test_the_shipped_scenarios_have_no_such_knob(path: Path) -> None:
    assert half_turned(load(str(path)).scenario) == []
