"""vLLM: the figures a reader would take from its console and from its metrics page."""

import pytest

from simulators.plant import Mode
from tuner.frameworks.base import Observed
from tuner.frameworks.vllm import FRAMEWORK
from tuner.records import Record

PREFILL = "vllm/pr-37307-prefill/console.log"


def test_a_statistics_line_gives_load_pool_and_both_throughputs(read_console, neutral):
    records = read_console(FRAMEWORK, PREFILL).records
    signals = neutral(FRAMEWORK, records[-1], Mode.ENGINE)
    assert len(records) == 5
    assert signals == pytest.approx(
        {
            "running": 34.0,
            "queued": 66.0,
            "kv_usage_frac": 0.654,
            "prefix_hit_frac": 0.0,
            "prompt_tokens_per_s": 24000.7,
            "decode_tokens_per_s": 83.7,
        }
    )
    assert records[0].labels == {"engine": "0"}
    assert records[1].time_s - records[0].time_s == 10.0


def test_replicas_that_all_call_themselves_engine_0_are_told_apart_by_their_process(read_console):
    first = read_console(FRAMEWORK, PREFILL, speaker="vLLMHttpServer pid=1").records[0]
    second = read_console(FRAMEWORK, PREFILL, speaker="vLLMHttpServer pid=2").records[0]
    assert first.labels != second.labels


def test_the_first_engine_generation_calls_the_queue_pending(read_console, neutral):
    records = read_console(FRAMEWORK, "vllm/start-up/console.log").records
    old = next(r for r in records if "Pending" in r.values)
    assert neutral(FRAMEWORK, old, Mode.ENGINE)["queued"] == 0.0
    assert neutral(FRAMEWORK, old, Mode.ENGINE)["decode_tokens_per_s"] == 33.5


def test_the_preemption_warning_states_the_total_so_far(read_console, neutral):
    last = read_console(FRAMEWORK, "vllm/start-up/console.log").records[-1]
    assert neutral(FRAMEWORK, last, Mode.ENGINE) == {"preemptions": 3501.0}


def test_preemptions_per_interval_are_summed_per_engine(read_lines):
    line = "Engine 00{}: Avg prompt throughput: 1.0 tokens/s, Running: 4 reqs, Waiting: 0 reqs, Preemptions: {}, GPU KV"
    lines = (line.format(0, 3), line.format(1, 5), line.format(0, 2))
    records = read_lines(FRAMEWORK, *(f"{text} cache usage: 9.0%" for text in lines)).records
    assert [r.values["Preemptions"] for r in records] == [3.0, 5.0, 5.0]


def test_start_up_states_the_pool_once_though_every_worker_prints_it(read_console, read_lines):
    reading = read_console(FRAMEWORK, "vllm/start-up/console.log")
    assert reading.configuration["max_model_len"] == 8192
    pools = [r.values["KV cache size"] for r in reading.records if "KV cache size" in r.values]
    assert pools == [78800.0]
    twice = read_lines(FRAMEWORK, *["INFO GPU KV cache size: 251,328 tokens"] * 2)
    assert [r.values["KV cache size"] for r in twice.records] == [251328.0]


def test_without_a_printed_size_the_pool_is_longest_request_times_concurrency(read_lines):
    old = read_lines(FRAMEWORK, "Maximum concurrency for 32,768 tokens per request: 7.67x")
    assert old.records[0].values["KV cache size"] == pytest.approx(32768 * 7.67)


def test_printed_arguments_become_settings_and_nothing_else_of_them_is_kept(read_lines):
    reading = read_lines(
        FRAMEWORK,
        "non-default args: {'api_key': 'secret', 'max_num_seqs': 64, 'tensor_parallel_size': 2, "
        "'gpu_memory_utilization': 0.85, 'max_model_len': None}",
    )
    assert reading.configuration == {"max_num_seqs": 64, "tensor_parallel_size": 2, "gpu_memory_utilization": 0.85}
    topology, setpoints = FRAMEWORK.facts(Observed(config=reading.configuration))
    assert (topology.gpus_per_engine, setpoints.max_in_flight_per_engine) == (2, 64)


def test_dashes_and_underscores_name_the_same_setting():
    _, setpoints = FRAMEWORK.facts(Observed(config={"--max-num-seqs": 48, "data-parallel-size": 4}))
    assert (setpoints.max_in_flight_per_engine, setpoints.engines) == (48, 4)


@pytest.mark.parametrize(
    ("dump", "running", "queued", "kv", "tpot_s", "preemptions", "pool"),
    [
        ("running-64", 64.0, 32.0, 0.0117, 0.00603, 0.0, None),
        ("preempting", 16.0, 67.0, 0.9744, 0.005534, 24.0, 5120.0),
    ],
)
def test_a_metrics_page_gives_the_state_of_the_engine(
    scrape, neutral_across, dump, running, queued, kv, tpot_s, preemptions, pool
):
    signals = neutral_across(FRAMEWORK, scrape(f"vllm/cpu-0.32/{dump}.prom"))
    assert (signals["running"], signals["queued"], signals["preemptions"]) == (running, queued, preemptions)
    assert signals["kv_usage_frac"] == pytest.approx(kv, rel=0.01)
    assert signals["tpot_s"] == pytest.approx(tpot_s, rel=0.01)
    assert pool is None or signals["kv_capacity_tokens"] == pool


def test_old_and_new_metric_names_say_the_same(neutral):
    old = {"vllm:gpu_cache_usage_perc": 0.5, "vllm:time_per_output_token_seconds_sum": 2.0}
    new = {"vllm:kv_cache_usage_perc": 0.5, "vllm:inter_token_latency_seconds_sum": 2.0}
    counted = ({"vllm:time_per_output_token_seconds_count": 100.0}, {"vllm:inter_token_latency_seconds_count": 100.0})
    signals = [neutral(FRAMEWORK, Record(v | c), Mode.ENGINE) for v, c in zip((old, new), counted, strict=True)]
    assert signals[0] == signals[1] == {"kv_usage_frac": 0.5, "tpot_s": 0.02}


def test_a_histogram_that_counted_nothing_has_no_mean(neutral):
    idle = Record({"vllm:time_to_first_token_seconds_sum": 0.0, "vllm:time_to_first_token_seconds_count": 0.0})
    assert neutral(FRAMEWORK, idle, Mode.ENGINE) == {}


def test_token_totals_are_read_as_rates():
    rates = {alias.signal for alias in FRAMEWORK.aliases if alias.counter}
    assert rates == {"preemptions_per_s", "prompt_tokens_per_s", "decode_tokens_per_s"}


def test_computed_prompt_tokens_are_preferred_to_a_total_that_counts_the_cache(neutral):
    aliases = [alias for alias in FRAMEWORK.aliases if alias.signal == "prompt_tokens_per_s" and alias.counter]
    best = max(aliases, key=lambda alias: alias.trust)
    assert best.key == "vllm:prompt_tokens_by_source_total{source=local_compute}"
