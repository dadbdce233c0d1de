"""Two runs side by side: what is slower, and is it the tokens or the pace?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.comparison import Comparison, Side, compare
from simulators.plant import Mode
from simulators.snapshot import snapshot_of


def side(name: str = "A", mode: Mode = Mode.SERIAL, **values: float) -> Side:
    return Side(name, mode, snapshot_of(**values))


BASE = {
    "step_s": 100.0,
    "rollout_s": 60.0,
    "trainer_busy_s": 35.0,
    "batch_rollouts": 100.0,
    "resp_len_mean": 1000.0,
    "prompt_len_mean": 500.0,
}


def share_of(result: Comparison, phase: str, because: str) -> float:
    found = next(c for c in result.contributions if (c.phase, c.because) == (phase, because))
    assert found.share is not None
    return found.share


def test_longer_answers_at_the_same_pace_are_explained_by_tokens() -> None:
    longer = BASE | {"resp_len_mean": 2000.0, "rollout_s": 120.0, "step_s": 160.0}
    result = compare(side(**BASE), side("B", **longer))
    assert share_of(result, "rollout_s", "tokens") == pytest.approx(1.0, abs=0.01)
    assert share_of(result, "rollout_s", "pace") == pytest.approx(0.0, abs=0.01)
    assert "number of tokens in rollout_s" in result.headline


def test_a_slower_engine_at_the_same_length_is_explained_by_pace() -> None:
    slower = BASE | {"rollout_s": 120.0, "step_s": 160.0}
    result = compare(side(**BASE), side("B", **slower))
    assert share_of(result, "rollout_s", "pace") == pytest.approx(1.0, abs=0.01)
    assert "B takes 1.60 times as long as A" in result.headline


def test_a_job_that_overlaps_and_one_that_takes_turns_are_told_apart_and_nothing_is_blamed() -> None:
    overlapped = BASE | {"step_s": 60.0, "trainer_wait_s": 20.0}
    result = compare(side(mode=Mode.OVERLAPPED, **overlapped), side("B", **BASE))
    assert result.headline.startswith("B (serial) takes 1.67 times as long as A (overlapped): ")
    assert "largest part" not in result.headline


def test_long_steps_are_told_without_powers_of_ten() -> None:
    assert "8,553 against 12,345 s per step" in compare(side(step_s=8553.2), side("B", step_s=12345.0)).headline


def test_a_larger_batch_is_compared_per_rollout() -> None:
    doubled = {name: value * (1 if "len" in name else 2) for name, value in BASE.items()}
    result = compare(side(**BASE), side("B", **doubled))
    assert result.basis == "rollout"
    assert "same pace" in result.headline


def test_without_a_batch_size_steps_are_compared_and_that_is_said() -> None:
    plain = {"step_s": 100.0, "rollout_s": 60.0}
    result = compare(side(**plain), side("B", **(plain | {"step_s": 130.0})))
    assert result.basis == "step"
    assert any("batch size is unknown" in note for note in result.notes)


def test_runs_without_step_times_cannot_be_compared_and_the_culprit_is_named() -> None:
    result = compare(side(**BASE), side("B", running=5))
    assert result.basis == "none"
    assert "no step time in B" in result.headline


def test_a_phase_that_one_run_does_not_log_is_left_out_and_named() -> None:
    result = compare(side(**BASE, weight_sync_s=5.0), side("B", **BASE))
    assert all(c.phase != "weight_sync_s" for c in result.contributions)
    assert any("Not logged by B" in note and "weight_sync_s" in note for note in result.notes)


def test_runs_of_different_modes_come_with_a_warning() -> None:
    result = compare(side(**BASE), side("B", Mode.OVERLAPPED, step_s=60.0, batch_rollouts=100.0, trainer_wait_s=10.0))
    assert any("phases do not mean the same" in note for note in result.notes)


positive = st.floats(0.1, 1e5)


@given(st.fixed_dictionaries(dict.fromkeys(BASE, positive)), st.fixed_dictionaries(dict.fromkeys(BASE, positive)))
def test_contributions_always_add_up_to_the_difference(a: dict[str, float], b: dict[str, float]) -> None:
    result = compare(side(**a), side("B", **b))
    assert result.whole.a is not None
    assert result.whole.b is not None
    difference = result.whole.b - result.whole.a
    scale = sum(abs(c.seconds) for c in result.contributions)
    assert sum(c.seconds for c in result.contributions) == pytest.approx(difference, abs=1e-9 * (1 + scale))
