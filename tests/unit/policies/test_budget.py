"""Where the wall time of a step goes: shares add up to one, rare events are spread over their period."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.diagnosis.budget import wall_time_budget
from policies.estimators import SERIAL_PHASES
from simulators.plant import Mode, Setpoints
from simulators.snapshot import snapshot_of
from tests.unit.policies.conftest import Steps


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(SERIAL_PHASES), st.floats(0.01, 1e4)), st.floats(1, 1e5))
def test_the_shares_of_a_step_add_up_to_one(phases: dict[str, float], step_s: float) -> None:
    budget = wall_time_budget(Mode.SERIAL, Setpoints(), snapshot_of(step_s=step_s, **phases))
    assert budget is not None
    assert sum(p.frac for p in budget.phases) == pytest.approx(1.0)
    assert budget.phases[-1].name == "unaccounted"


def test_without_a_step_time_a_full_set_of_phases_makes_one() -> None:
    whole = wall_time_budget(Mode.SERIAL, Setpoints(), snapshot_of(rollout_s=60, trainer_busy_s=40))
    assert whole is not None
    assert whole.step_s == pytest.approx(100)
    assert wall_time_budget(Mode.SERIAL, Setpoints(), snapshot_of(rollout_s=60)) is None


def test_an_evaluation_on_one_step_in_five_costs_a_fifth_of_its_seconds(steps: Steps) -> None:
    snapshot = steps(5, mode=Mode.SERIAL, step_s=[100, 100, 150, 100, 100], rollout_s=60, validation_s=[0, 0, 50, 0, 0])
    known = wall_time_budget(Mode.SERIAL, Setpoints(validation_interval=5), snapshot)
    assert known is not None
    assert known.frac("validation_s") == pytest.approx(10 / 110)
    assert known.step_s == pytest.approx(110)


def test_one_evaluation_without_a_known_period_says_that_it_is_unknown(steps: Steps) -> None:
    snapshot = steps(4, mode=Mode.SERIAL, step_s=[100, 100, 150, 100], rollout_s=60, validation_s=[0, 0, 50, 0])
    budget = wall_time_budget(Mode.SERIAL, Setpoints(), snapshot)
    assert budget is not None
    assert budget.unknown_period == {"validation_s"}


def test_the_longer_the_period_the_smaller_the_share(steps: Steps) -> None:
    snapshot = steps(4, mode=Mode.SERIAL, step_s=[100, 100, 150, 100], rollout_s=60, checkpoint_s=[0, 0, 50, 0])
    budgets = [wall_time_budget(Mode.SERIAL, Setpoints(checkpoint_interval=n), snapshot) for n in (2, 10, 100)]
    shares = [b.frac("checkpoint_s") for b in budgets if b is not None]
    assert len(shares) == 3
    assert shares == sorted(shares, reverse=True)
