"""SGLang: batch lines of several ranks, start-up facts, metrics under both spellings."""

import pytest

from simulators.plant import Mode
from tuner.frameworks.base import Observed
from tuner.frameworks.sglang import FRAMEWORK
from tuner.records import Record

RAMP = "sglang/issue-1612-ramp/console.log"
DECODE = "[2026-03-22 13:53:37 {}] Decode batch, #running-req: {}, #token: 100, token usage: 0.04, #queue-req: 0, "


def test_a_decode_line_gives_the_batch_and_the_gauge(read_console, neutral):
    records = read_console(FRAMEWORK, "sglang/openclaw-underfilled/console.log").records
    signals = neutral(FRAMEWORK, records[-1], Mode.ENGINE)
    assert len(records) == 7
    assert (signals["running"], signals["queued"], signals["kv_tokens"]) == (6.0, 0.0, 43854.0)
    assert signals["kv_usage_frac"] == 0.04
    assert signals["published_decode_tokens_per_s"] == 1370.83


def test_a_prefill_line_gives_the_requests_before_admission(read_console, neutral):
    records = read_console(FRAMEWORK, RAMP).records
    signals = neutral(FRAMEWORK, records[-1], Mode.ENGINE)
    assert (signals["running"], signals["queued"], signals["kv_usage_frac"]) == (21.0, 18.0, 0.77)
    assert signals["prefix_hit_frac"] == pytest.approx(0.1192)


def test_prompt_tokens_per_second_follow_from_whole_second_stamps(read_console, neutral):
    records = read_console(FRAMEWORK, RAMP).records
    rates = [neutral(FRAMEWORK, r, Mode.ENGINE).get("prompt_tokens_per_s") for r in records]
    assert rates == [None, None, 2062.0 + 8192.0, None, 2 * 8192.0, 8192.0, 8192.0]


def test_of_tensor_parallel_ranks_only_the_first_speaks(read_lines):
    lines = [DECODE.format(f"TP{rank}", 6) for rank in (1, 0, 3, 2)]
    assert len(read_lines(FRAMEWORK, *lines).records) == 1


def test_each_data_parallel_replica_speaks_through_its_first_rank(read_lines):
    lines = [DECODE.format(rank, 6) for rank in ("DP0 TP0 EP0", "DP1 TP2 EP2", "DP1 TP3 EP3", "DP0 TP1 EP1")]
    records = read_lines(FRAMEWORK, *lines).records
    assert [r.labels["dp_rank"] for r in records] == ["0", "1"]


def test_lines_without_ranks_count(read_lines):
    assert len(read_lines(FRAMEWORK, "Decode batch. #running-req: 5, #token: 9, token usage: 0.1, ").records) == 1


def test_the_fullest_pool_of_a_hybrid_model_is_the_pool(read_lines, neutral):
    line = "[.. TP0] Decode batch, #running-req: 4, #full token: 900, full token usage: 0.20, mamba usage: 0.91, "
    signals = neutral(FRAMEWORK, read_lines(FRAMEWORK, line).records[0], Mode.ENGINE)
    assert (signals["kv_usage_frac"], signals["kv_tokens"]) == (0.91, 900.0)


def test_waiting_rooms_between_prefill_and_decode_are_not_the_queue(read_console, neutral):
    records = read_console(FRAMEWORK, "sglang/retract/console.log").records
    prefill, decode, *_ = (neutral(FRAMEWORK, r, Mode.ENGINE) for r in records)
    assert prefill["prompt_tokens_per_s"] == 0.0
    assert (decode["queued"], decode["running"]) == (0.0, 4.0)


def test_retractions_add_up(read_console, neutral):
    records = read_console(FRAMEWORK, "sglang/retract/console.log").records
    assert [neutral(FRAMEWORK, r, Mode.ENGINE) for r in records[-2:]] == [{"preemptions": 2.0}, {"preemptions": 3.0}]


def test_server_arguments_and_the_allocated_pool_become_settings_and_signals(read_lines, neutral):
    reading = read_lines(
        FRAMEWORK,
        "server_args=ServerArgs(model_path='m', api_key='secret', mem_fraction_static=0.85, "
        "max_running_requests=None, chunked_prefill_size=8192, tp_size=4, dp_size=2)",
        "[2025-11-04 05:31:43 TP0] max_total_num_tokens=171008, chunked_prefill_size=8192, max_running_requests=128",
        "[2025-11-04 05:31:43 TP1] max_total_num_tokens=171008, chunked_prefill_size=8192, max_running_requests=128",
    )
    assert reading.configuration["mem_fraction_static"] == 0.85
    assert reading.configuration["max_running_requests"] == 128
    assert "api_key" not in reading.configuration
    assert [neutral(FRAMEWORK, r, Mode.ENGINE) for r in reading.records] == [
        {"kv_capacity_tokens": 171008.0, "running_limit": 128.0}
    ]


def test_replicas_inside_data_parallel_attention_are_no_engines_of_their_own():
    topology, apart = FRAMEWORK.facts(Observed(config={"tp_size": 4, "dp_size": 2}))
    _, inside = FRAMEWORK.facts(Observed(config={"tp_size": 4, "dp_size": 2, "enable_dp_attention": True}))
    assert (topology.gpus_per_engine, apart.engines, inside.engines) == (4, 2, None)


def test_a_metrics_page_gives_means_since_the_start(scrape, neutral_across):
    signals = neutral_across(FRAMEWORK, scrape("sglang/metrics-llama-8b/metrics.prom"))
    assert (signals["running"], signals["queued"], signals["kv_tokens"]) == (162.0, 2826.0, 123859.0)
    assert signals["tpot_s"] == pytest.approx(0.1171, rel=0.01)
    assert signals["ttft_mean_s"] == pytest.approx(213.7, rel=0.01)
    assert signals["request_prompt_tokens_mean"] == pytest.approx(724, rel=0.01)
    assert signals["request_output_tokens_mean"] == pytest.approx(673, rel=0.01)


def test_the_sticky_gauge_is_trusted_less_than_anything_else():
    gauge = next(alias for alias in FRAMEWORK.aliases if alias.key == "sglang:gen_throughput")
    assert gauge.trust < 0.5


def test_a_router_that_re_exports_the_engines_spells_without_a_colon(neutral):
    plain = {"num_running_reqs": 8.0, "token_usage": 0.4, "queue_time_seconds_sum": 4.0, "queue_time_seconds_count": 8}
    spelled = [Record({f"sglang{mark}{k}": v for k, v in plain.items()}) for mark in ":_"]
    engine, router = (neutral(FRAMEWORK, record, Mode.ENGINE) for record in spelled)
    assert engine == router == {"running": 8.0, "kv_usage_frac": 0.4, "queue_time_mean_s": 0.5}


def test_ranks_of_one_engine_are_named_as_copies():
    assert "tp_rank" in FRAMEWORK.copy_labels
    assert "dp_rank" not in FRAMEWORK.copy_labels
