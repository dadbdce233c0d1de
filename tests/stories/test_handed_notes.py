"""Stories: what the hand-made notes on the files say beyond verdict and figures, sentence by sentence."""

import re

import pytest

from tests.stories.answers import FIRST, codes, figure, gains, moves, rank_of, said
from tests.stories.conftest import AskCase

SPEED_KNOBS = (
    "gpus_trainer",
    "gpus_generator",
    "prefill_decode_split",
    "oversampling_ratio",
    "max_in_flight",
    "overlap",
    "staleness_bound",
    "sync_interval",
    "in_flight_update",
    "partial_rollout",
    "kv_memory",
    "packing",
    "checkpoint_interval",
    "validation_interval",
    "sandbox_quota",
    "reward_concurrency",
    "client_concurrency",
)
"""Knobs that make a job faster, not better."""


def test_a01_two_runs_in_one_file_are_not_averaged_into_one(answer_of: AskCase) -> None:
    answer = answer_of("A01_tinker_qwen3_4b_metrics.jsonl")
    assert answer["window"]["steps"] <= 69
    assert answer["window"]["to_step"] <= 68


def test_a01_publishing_less_often_is_the_first_lever_of_a_hosted_job(answer_of: AskCase) -> None:
    answer = answer_of("A01_tinker_qwen3_4b_metrics.jsonl")
    rank = rank_of(answer, ["checkpoint_interval", "sync_interval"])
    assert rank in range(1, FIRST + 1), moves(answer)
    saving = figure(answer, "checkpoint_s") or figure(answer, "weight_sync_s")
    step = figure(answer, "step_s")
    assert saving is not None
    assert step is not None
    assert 0.10 <= saving / step <= 0.25


def test_a02_an_impossible_mfu_is_flagged_and_not_used(answer_of: AskCase) -> None:
    answer = answer_of("A02_verl_gh200_sglang_step2.log")
    assert "mfu" in said(answer, "impossible-value").lower()
    assert "1.018" in said(answer, "impossible-value")
    assert "mfu" not in answer["signals"]


def test_a02_at_most_one_group_in_eighteen_can_carry_signal(answer_of: AskCase) -> None:
    answer = answer_of("A02_verl_gh200_sglang_step2.log")
    assert figure(answer, "group_size_seen") == 5
    assert figure(answer, "usable_group_frac_max") == pytest.approx(0.055, rel=0.02)


def test_a02_ranks_and_samples_are_not_invented(answer_of: AskCase) -> None:
    job = answer_of("A02_verl_gh200_sglang_step2.log")["job"]
    assert job["gpus_total"] is None
    assert job["batch_rollouts"] is None


def test_a04_says_what_validation_would_cost_at_another_period(answer_of: AskCase) -> None:
    answer = answer_of("A04_verl_ppo_last_step_validation_bound.log")
    assert re.search(r"every \d+", said(answer, "validation-share", "validation_interval"))


def test_a05_asks_for_the_tool_time_that_hides_inside_generation(answer_of: AskCase) -> None:
    answer = answer_of("A05_verl_swe_2xA30_step1.txt")
    asked = " ".join(f"{gap['signal']} {gap['how_to_get_it']}" for gap in answer["missing"])
    assert re.search(r"tool|non_generation|environment", asked)


def test_a06_overlap_promises_no_more_than_the_smaller_side_can_give(answer_of: AskCase) -> None:
    answer = answer_of("A06_verl_long_tail_7412.log")
    for gain in gains(answer, "overlap"):
        assert gain["high"] <= 0.88
    assert rank_of(answer, ["overlap"]) is not None


def test_a06_names_the_slow_decode_of_176_ms_a_token(answer_of: AskCase) -> None:
    answer = answer_of("A06_verl_long_tail_7412.log")
    assert re.search(r"17[56](\.\d+)? ms|0\.17[56]\d* s", said(answer))


def test_a06_does_not_join_fragments_of_maybe_two_steps(answer_of: AskCase) -> None:
    assert figure(answer_of("A06_verl_long_tail_7412.log"), "train_tokens_per_s") is None


def test_a08_reads_the_raw_reward_not_the_normalised_one(answer_of: AskCase) -> None:
    assert figure(answer_of("A08_slime_tau2_rollout0.log"), "reward_mean") == pytest.approx(0.2083, rel=0.01)


def test_a08_fills_the_engines_first(answer_of: AskCase) -> None:
    answer = answer_of("A08_slime_tau2_rollout0.log")
    assert rank_of(answer, ["oversampling_ratio", "max_in_flight"]) == 1, moves(answer)


def test_a09_says_that_it_slows_and_claims_no_pause(answer_of: AskCase) -> None:
    answer = answer_of("A09_prime_rl_console_generation_paced.log")
    assert "drift" in codes(answer)
    gated = answer["rates"]["generator_idle_frac"]
    assert gated is None or gated <= 0.02


def test_a10_says_how_many_more_rollouts_a_full_batch_takes(answer_of: AskCase) -> None:
    assert re.search(r"\b3\.9", said(answer_of("A10_prime_rl_console_saturated_curriculum.log")))


def test_a11_leaves_a_harmless_weight_sync_alone(answer_of: AskCase) -> None:
    answer = answer_of("A11_nemo_rl_async_timing.txt")
    assert rank_of(answer, ["sync_interval", "in_flight_update"]) not in range(1, FIRST + 1)


def test_a13_gives_no_speed_advice_to_a_collapsed_model(answer_of: AskCase) -> None:
    answer = answer_of("A13_trl_grpo_truncation.jsonl")
    assert [m for m in moves(answer)[:FIRST] if m.knob in SPEED_KNOBS] == []
    assert "256" in said(answer, "truncation")


def test_a14_asks_for_the_phases(answer_of: AskCase) -> None:
    missing = {gap["signal"] for gap in answer_of("A14_trl_grpo_coder_console.log")["missing"]}
    assert missing & {"rollout_s", "trainer_busy_s", "update_s"}


def test_a15_is_unsure_and_lists_what_would_tell(answer_of: AskCase) -> None:
    answer = answer_of("A15_sglang_underfilled_engine.log")
    assert answer["verdict_confidence"] <= 0.5
    assert answer["missing"]


def test_a16_about_27_requests_fit(answer_of: AskCase) -> None:
    answer = answer_of("A16_sglang_prefill_ramp.log")
    assert figure(answer, "requests_at_full_kv") == pytest.approx(27.3, rel=0.03)


def test_a18_asks_for_a_second_scrape_and_contradicts_the_stuck_gauge(answer_of: AskCase) -> None:
    answer = answer_of("A18_sglang_metrics_dump.prom")
    assert re.search(r"two scrapes|second scrape|another scrape", said(answer))
    assert "86.5" in said(answer, "sticky-gauge")


def test_v01_promises_what_raising_the_cap_was_measured_to_give(answer_of: AskCase) -> None:
    """Two paired runs gave +15 % and +5 %."""
    for gain in gains(answer_of("V01_vllm_cpu_64_running.prom"), "max_in_flight:up"):
        assert gain["mean"] < 0.30
        assert gain["low"] <= 0.15


def test_v02_does_not_take_requests_from_a_batch_that_is_already_too_small(answer_of: AskCase) -> None:
    answer = answer_of("V02_vllm_cpu_preempting.prom")
    assert rank_of(answer, ["max_in_flight:down"]) is None, moves(answer)
