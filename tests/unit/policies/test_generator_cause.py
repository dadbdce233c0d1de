"""Why a generator is slow: the first cause that explains enough, from the outside in."""

import pytest

from policies.base import Verdict
from policies.diagnosis.generator import generator_cause, residents_per_engine
from simulators.plant import Mode, Setpoints
from simulators.snapshot import snapshot_of
from tests.unit.policies.conftest import Steps

UNKNOWN = Setpoints()


@pytest.mark.parametrize(
    ("verdict", "setpoints", "figures"),
    [
        (Verdict.SANDBOX_BOUND, Setpoints(sandbox_quota=100), {"sandbox_active": 98}),
        (Verdict.SANDBOX_BOUND, UNKNOWN, {"sandbox_fail_frac": 0.2}),
        (Verdict.SANDBOX_BOUND, UNKNOWN, {"sandbox_start_s": 400}),
        (Verdict.SANDBOX_BOUND, UNKNOWN, {"sandbox_start_s": 60, "rollout_latency_s": 100}),
        (Verdict.ENV_BOUND, UNKNOWN, {"non_generation_mean_s": 60, "rollout_latency_s": 100}),
        (Verdict.REWARD_BOUND, UNKNOWN, {"reward_latency_s": 60, "rollout_latency_s": 100}),
        (Verdict.STALENESS_WASTE, UNKNOWN, {"dispatched": 100, "dropped_stale": 60}),
        (Verdict.CLIENT_BOUND, UNKNOWN, {"inflight_rollouts": 512, "running": 40, "queued": 0}),
        (Verdict.CLIENT_BOUND, UNKNOWN, {"gpu_util_frac": 0.2, "batch_rollouts": 1024, "rollout_s": 30}),
        (Verdict.OVERHEAD_BOUND, UNKNOWN, {"gpu_util_frac": 0.2, "batch_rollouts": 64, "rollout_s": 30}),
        (Verdict.KV_BOUND, UNKNOWN, {"running": 64, "queued": 10, "kv_usage_frac": 0.95}),
        (Verdict.CONCURRENCY_CAPPED, Setpoints(engines=16, max_in_flight=64), {}),
        (
            Verdict.SLOW_ENGINE,
            Setpoints(gpus_generator=8),
            {"slowest_s": 200, "slowest_tokens": 1000, "batch_rollouts": 64},
        ),
        (Verdict.TAIL_BOUND, UNKNOWN, {"slowest_s": 300, "rollout_latency_s": 100}),
        (Verdict.GENERATION_BOUND, UNKNOWN, {"rollout_s": 60, "step_s": 100}),
    ],
    ids=lambda x: x if isinstance(x, Verdict) else "",
)
def test_each_cause_is_told_by_its_own_figures(
    steps: Steps, verdict: Verdict, setpoints: Setpoints, figures: dict[str, float]
) -> None:
    cause = generator_cause(setpoints, steps(4, **figures))
    assert cause.verdict is verdict, cause.reason


def test_what_lies_outside_the_engines_is_named_before_what_lies_inside(steps: Steps) -> None:
    both = steps(4, non_generation_mean_s=70, rollout_latency_s=100, slowest_s=300)
    assert generator_cause(UNKNOWN, both).verdict is Verdict.ENV_BOUND


def test_rollouts_that_wait_for_their_judge_are_not_stuck_on_the_way_to_an_engine(steps: Steps) -> None:
    flight = {"inflight_rollouts": 512, "running": 200, "queued": 0, "rollout_latency_s": 100}
    assert generator_cause(UNKNOWN, steps(4, **flight)).verdict is Verdict.CLIENT_BOUND
    assert generator_cause(UNKNOWN, steps(4, reward_latency_s=60, **flight)).verdict is Verdict.REWARD_BOUND
    assert generator_cause(UNKNOWN, steps(4, reward_latency_s=40, **flight)).verdict is Verdict.GENERATION_BOUND


def test_a_cause_that_explains_less_than_half_names_nothing(steps: Steps) -> None:
    short = steps(4, non_generation_mean_s=20, rollout_latency_s=100, slowest_s=150)
    assert generator_cause(UNKNOWN, short).verdict is Verdict.GENERATION_BOUND


def test_sandboxes_at_a_quota_that_fell_are_at_its_wall(steps: Steps) -> None:
    fallen = steps(4, sandbox_active=412, sandbox_quota=[2400, 2400, 2400, 420])
    assert generator_cause(UNKNOWN, fallen).verdict is Verdict.SANDBOX_BOUND


@pytest.mark.parametrize(("dropped", "verdict"), [(35, Verdict.STALENESS_WASTE), (25, Verdict.GENERATION_BOUND)])
def test_a_third_of_the_rollouts_thrown_away_as_too_old_is_the_cause(
    steps: Steps, dropped: float, verdict: Verdict
) -> None:
    cause = generator_cause(UNKNOWN, steps(4, dispatched=100, accepted=100 - dropped, dropped_stale=dropped))
    assert cause.verdict is verdict, cause.reason


def test_a_queue_on_few_gpus_is_no_slow_engine(steps: Steps) -> None:
    crowded = steps(4, slowest_s=200, slowest_tokens=1000, batch_rollouts=1024)
    assert generator_cause(Setpoints(gpus_generator=8), crowded).verdict is Verdict.GENERATION_BOUND


def test_requests_per_engine_come_from_what_is_in_flight_else_from_the_caps() -> None:
    assert residents_per_engine(Setpoints(engines=4), snapshot_of(inflight_rollouts=128)) == 32
    assert residents_per_engine(Setpoints(engines=4, max_in_flight=64), snapshot_of()) == 16
    assert residents_per_engine(Setpoints(max_in_flight_per_engine=48), snapshot_of()) == 48
    assert residents_per_engine(Setpoints(engines=4, overlap=False), snapshot_of(batch_rollouts=256)) == 64
    assert residents_per_engine(Setpoints(), snapshot_of(batch_rollouts=256)) is None


def test_a_serial_phase_has_the_same_causes(steps: Steps) -> None:
    serial = steps(4, mode=Mode.SERIAL, step_s=100, rollout_s=80, slowest_s=60, rollout_latency_s=20)
    assert generator_cause(UNKNOWN, serial).verdict is Verdict.TAIL_BOUND
