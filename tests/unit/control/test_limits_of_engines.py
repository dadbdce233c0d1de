"""Where only each engine has a limit in flight, all of them together are what a bound and a price speak of."""

from dataclasses import replace

import pytest

from policies.control import HoldCode
from policies.guardrails.case import cost_s
from simulators.plant import Bounds, Setpoints
from tests.plants import START
from tests.unit.control.test_bounds import budget
from tests.unit.control.test_guardrails import case, with_signals

ENGINES = replace(START, max_in_flight=None, max_in_flight_per_engine=50)
"""24 of them: 1,200 in all."""


@pytest.mark.parametrize(("each", "code"), [(54, None), (60, HoldCode.BUDGET), (40, None)])
def test_a_bound_on_all_in_flight_holds_for_them(each: int, code: HoldCode | None) -> None:
    wish = Setpoints(max_in_flight_per_engine=each)
    assert budget(in_force=ENGINES, changes=wish, bounds=Bounds(max_in_flight_max=1300)) is code


def test_what_a_wider_limit_takes_into_stock_is_paid_for() -> None:
    seen = with_signals(inflight_rollouts=1200.0, gen_samples_per_s=3.0, zero_adv_frac=0.0)
    view = case(snapshot=seen, in_force=ENGINES).view
    assert cost_s(view, Setpoints(max_in_flight_per_engine=60)) == pytest.approx(24 * 10 / 2.0 / 3.0)
    assert cost_s(view, Setpoints(max_in_flight_per_engine=40)) == 0.0
