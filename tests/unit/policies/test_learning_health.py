"""What makes every word about speed void, and what is only worth a word."""

import pytest

from policies.base import Severity, Verdict
from policies.diagnosis.learning import Health, learning_health
from tests.unit.policies.conftest import Steps


def verdict(health: Health) -> Verdict | None:
    return health.void.verdict if health.void else None


@pytest.mark.parametrize(
    "series",
    [
        {"entropy": [0.5, 0.3, 0.005]},
        {"entropy": [0.5, 0.2, 0.04]},
        {"grad_norm": [0.3, 0.0, 0.0]},
        {"truncated_frac": [0.1, 0.6, 0.95]},
    ],
    ids=["entropy near zero", "entropy under a tenth of its start", "no gradient twice", "truncation runs away"],
)
def test_a_collapsed_model_voids_speed(steps: Steps, series: dict[str, list[float]]) -> None:
    assert verdict(learning_health(steps(3, **series))) is Verdict.POLICY_COLLAPSE


@pytest.mark.parametrize(
    "series",
    [
        {"entropy": [0.5, 0.3, 0.2]},
        {"entropy": [-0.1, -0.2, -0.3]},
        {"grad_norm": [0.0, 0.2, 0.0]},
        {"truncated_frac": [0.92, 0.94, 0.95]},
    ],
    ids=["entropy falls", "a negative estimate of entropy", "a zero gradient once", "cut from the start"],
)
def test_a_bad_moment_is_no_collapse(steps: Steps, series: dict[str, list[float]]) -> None:
    assert verdict(learning_health(steps(3, **series))) is None


def test_a_reward_that_fell_out_is_a_collapse_and_a_noisy_one_is_not(steps: Steps) -> None:
    fell = [0.60, 0.62, 0.61, 0.63, 0.60, 0.62, 0.10, 0.12, 0.11]
    noisy = [0.9, 0.1, 0.8, 0.2, 0.9, 0.1, 0.1, 0.9, 0.0]
    assert verdict(learning_health(steps(9, reward_mean=fell))) is Verdict.POLICY_COLLAPSE
    assert verdict(learning_health(steps(9, reward_mean=noisy))) is None


def test_a_third_of_the_groups_must_carry_advantage(steps: Steps) -> None:
    assert verdict(learning_health(steps(3, zero_adv_frac=0.70))) is Verdict.NO_SIGNAL
    assert verdict(learning_health(steps(3, zero_adv_frac=0.60))) is None


def test_answers_that_never_end_and_teach_nothing_void_speed(steps: Steps) -> None:
    assert verdict(learning_health(steps(1, truncated_frac=1.0, grad_norm=0.0))) is Verdict.NO_SIGNAL
    assert verdict(learning_health(steps(1, truncated_frac=1.0, grad_norm=0.1))) is None
    assert verdict(learning_health(steps(1, truncated_frac=0.5, grad_norm=0.0))) is None


def test_a_rare_binary_reward_bounds_the_groups_that_can_teach(steps: Steps) -> None:
    rare = {"reward_mean": 0.011, "reward_min": 0, "reward_max": 1, "advantage_max": 1.789}
    health = learning_health(steps(3, **rare))
    assert verdict(health) is Verdict.NO_SIGNAL
    assert health.void is not None
    assert "5.5%" in health.void.reason


def test_a_collapse_outranks_missing_signal(steps: Steps) -> None:
    assert verdict(learning_health(steps(3, entropy=0.001, zero_adv_frac=0.9))) is Verdict.POLICY_COLLAPSE


def test_truncation_is_critical_from_one_half(steps: Steps) -> None:
    said = {cut: learning_health(steps(3, truncated_frac=cut)).findings for cut in (0.05, 0.2, 0.5)}
    assert [[f.severity for f in findings] for findings in said.values()] == [
        [],
        [Severity.WARNING],
        [Severity.CRITICAL],
    ]


def test_a_batch_of_useful_groups_costs_more_the_fewer_there_are(steps: Steps) -> None:
    finding = next(f for f in learning_health(steps(3, zero_adv_frac=0.75)).findings if f.code == "zero-advantage")
    assert finding.evidence["generation_per_useful_group"] == pytest.approx(4.0)
