"""What the engines' own figures say, row by row of the table in policies/diagnosis/engine.py."""

import pytest

from policies.base import Verdict
from policies.diagnosis.engine import EngineState, engine_findings, engine_state
from simulators.plant import Setpoints
from tests.unit.policies.conftest import Steps

CAP_64 = Setpoints(max_in_flight_per_engine=64)


def state(scrapes: Steps, setpoints: Setpoints = CAP_64, count: int = 4, **series: object) -> EngineState:
    return engine_state(scrapes(count, **series), setpoints)


def test_work_done_twice_is_thrash_before_anything_else(scrapes: Steps) -> None:
    found = state(scrapes, recompute_frac=0.2, running=64, queued=30, kv_usage_frac=0.99)
    assert found.verdict is Verdict.KV_THRASH
    assert "20%" in found.reason


def test_a_little_work_done_twice_is_the_price_of_a_full_pool(scrapes: Steps) -> None:
    assert state(scrapes, recompute_frac=0.05, running=64, queued=30, kv_usage_frac=0.99).verdict is Verdict.KV_BOUND


def test_flat_prompt_throughput_under_a_growing_batch_is_prefill(scrapes: Steps) -> None:
    growing = {"running": [20, 26, 32, 38], "queued": 50, "kv_usage_frac": 0.4, "decode_tokens_per_s": 90}
    assert state(scrapes, prompt_tokens_per_s=24_000, **growing).verdict is Verdict.PREFILL_BOUND
    assert state(scrapes, prompt_tokens_per_s=[12_000, 16_000, 20_000, 24_000], **growing).verdict is not (
        Verdict.PREFILL_BOUND
    )


def test_a_batch_that_the_queue_still_empties_into_is_a_ramp_and_no_cap(scrapes: Steps) -> None:
    filling = state(scrapes, running=[4, 13, 29, 46], queued=[186, 170, 153, 141], kv_usage_frac=0.05)
    assert filling.verdict is None
    assert "ramp" in filling.reason
    assert state(scrapes, running=46, queued=141, kv_usage_frac=0.05).verdict is Verdict.CONCURRENCY_CAPPED


def test_a_full_pool_with_a_queue_is_the_limit(scrapes: Steps) -> None:
    assert state(scrapes, running=64, queued=10, kv_usage_frac=0.95).verdict is Verdict.KV_BOUND


def test_a_full_pool_without_a_queue_is_no_limit(scrapes: Steps) -> None:
    assert state(scrapes, running=64, queued=0, kv_usage_frac=0.95).verdict is None


def test_a_filling_pool_that_will_not_hold_what_waits_is_a_limit_to_come(scrapes: Steps) -> None:
    found = state(scrapes, running=26, queued=18, kv_usage_frac=[0.55, 0.65, 0.72, 0.77])
    assert found.verdict is Verdict.KV_BOUND
    assert found.confidence <= 0.4


def test_requests_that_were_all_admitted_just_now_are_a_ramp_and_no_state(scrapes: Steps) -> None:
    lengths = {"request_prompt_tokens_mean": 724, "request_output_tokens_mean": 673, "kv_tokens": 162 * 765}
    found = state(scrapes, count=1, running=162, queued=2826, **lengths)
    assert found.verdict is None
    assert "ramp" in found.reason


def test_a_batch_at_its_cap_is_capped_with_more_confidence_than_one_below_it(scrapes: Steps) -> None:
    at_cap = state(scrapes, count=2, running=64, queued=32, kv_usage_frac=0.1)
    below = state(scrapes, count=2, running=40, queued=32, kv_usage_frac=0.1)
    assert at_cap.verdict is below.verdict is Verdict.CONCURRENCY_CAPPED
    assert at_cap.confidence > below.confidence


def test_empty_engines_for_minutes_get_too_little_and_for_a_moment_say_nothing(scrapes: Steps) -> None:
    empty = {"running": 6, "queued": 0, "kv_usage_frac": 0.04}
    assert state(scrapes, count=4, **empty).verdict is Verdict.CONCURRENCY_CAPPED
    assert state(scrapes, count=1, **empty).verdict is None


def test_a_queue_that_was_there_a_minute_ago_is_no_empty_engine(scrapes: Steps) -> None:
    assert state(scrapes, running=6, queued=[20, 0, 0, 0], kv_usage_frac=0.04).verdict is None


@pytest.mark.parametrize("known", [{}, {"running": 12}, {"queued": 3}, {"kv_usage_frac": 0.99}])
def test_without_running_and_waiting_requests_nothing_is_said(scrapes: Steps, known: dict[str, float]) -> None:
    found = state(scrapes, **known)
    assert found.verdict is None
    assert all(("running" in found.reason) != (name == "running") for name in known if name != "kv_usage_frac")


def test_preemptions_a_pool_too_small_and_a_stuck_gauge_are_findings(scrapes: Steps) -> None:
    snapshot = scrapes(1, running=16, queued=67, kv_usage_frac=0.97, preemptions=24)
    assert {f.code for f in engine_findings(snapshot)} == {"preemptions", "kv-forecast"}
    stuck = scrapes(1, running=162, tpot_s=0.1171, published_decode_tokens_per_s=86.5)
    assert [f.code for f in engine_findings(stuck)] == ["sticky-gauge"]
    honest = scrapes(1, running=162, tpot_s=0.1171, published_decode_tokens_per_s=1300)
    assert engine_findings(honest) == []
