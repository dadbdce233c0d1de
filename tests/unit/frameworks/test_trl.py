"""TRL: console dicts whole, joined and cut; serial and asynchronous records."""

import json
from pathlib import Path

import pytest

from simulators.plant import Mode
from tuner.frameworks.base import Observed
from tuner.frameworks.trl import FRAMEWORK
from tuner.records import Record

DATA = Path(__file__).parents[2] / "data" / "trl"
STEP = (DATA / "coder-console" / "console.log").read_text(encoding="utf-8").splitlines()[1]


def test_a_console_dict_is_a_step(read_console, neutral):
    reading = read_console(FRAMEWORK, "trl/coder-console/console.log")
    signals = neutral(FRAMEWORK, reading.records[0], Mode.SERIAL)
    assert len(reading.records) == 1
    assert signals["step_s"] == pytest.approx(238.31, rel=1e-4)
    assert (signals["resp_len_mean"], signals["resp_len_max"]) == (506.75, 738.0)
    assert (signals["truncated_frac"], signals["zero_adv_frac"], signals["reward_mean"]) == (0.0, 0.0, 0.5)
    assert "rollout_s" not in signals


def test_a_second_record_cut_on_the_same_line_keeps_what_is_whole(read_lines):
    whole, cut = read_lines(FRAMEWORK, STEP + STEP[:240]).records
    assert (whole.cut, cut.cut) == (False, True)
    assert cut.values["completions/mean_length"] == 506.75
    assert "step_time" not in cut.values


def test_a_record_whose_start_is_missing_keeps_the_rest(read_lines):
    [record] = read_lines(FRAMEWORK, STEP[100:]).records
    assert record.cut
    assert record.values["step_time"] == pytest.approx(238.3076)
    assert "loss" not in record.values


def test_other_trainers_losses_evaluations_and_summaries_are_no_steps(read_lines):
    lines = (
        "{'loss': 0.5, 'grad_norm': 1.0, 'epoch': 0.1}",
        "{'eval_loss': 0.5, 'eval_completions/mean_length': 12.0, 'eval_reward': 0.1}",
        "{'train_runtime': 12.0, 'train_loss': 0.1, 'loss': 0.2}",
    )
    assert read_lines(FRAMEWORK, *lines).records == []


def test_a_jsonl_of_every_tenth_step_shows_truncation_and_collapse(neutral):
    lines = (DATA / "dapo-truncation" / "log.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [Record({k: v for k, v in json.loads(line).items() if not isinstance(v, str)}) for line in lines]
    last = neutral(FRAMEWORK, rows[-1], Mode.SERIAL)
    assert last["truncated_frac"] == pytest.approx(0.9953, rel=1e-4)
    assert (last["entropy"], last["grad_norm"], last["step_s"]) == (0.00849, 0.0, 77.09)
    assert next(a for a in FRAMEWORK.aliases if a.key == "s_per_it").trust == 0.7


def test_tensorboard_and_wandb_names_mean_the_same(neutral):
    values = {"reward": 0.5, "completions/mean_length": 100.0, "step_time": 3.0, "tools/call_frequency": 2.5}
    prefixed = {f"train/{key}": value for key, value in values.items()}
    plain, tagged = (neutral(FRAMEWORK, Record(v), Mode.SERIAL) for v in (values, prefixed))
    assert plain == tagged == {"reward_mean": 0.5, "resp_len_mean": 100.0, "step_s": 3.0, "tool_calls_mean": 2.5}


def test_profiling_timers_give_the_generation_phase(neutral):
    record = Record({"profiling/Time taken: GRPOTrainer.vLLM.generate": 41.0})
    assert neutral(FRAMEWORK, record, Mode.SERIAL) == {"rollout_s": 41.0}


def test_an_asynchronous_record_carries_the_drops_since_the_one_before(read_console, neutral):
    reading = read_console(FRAMEWORK, "trl/async-1.9/console.log")
    [record] = reading.records
    signals = neutral(FRAMEWORK, record, Mode.OVERLAPPED)
    assert (signals["dropped_stale"], signals["queue_depth"], signals["queue_capacity"]) == (2.0, 476.0, 1024.0)
    assert signals["generator_wait_s"] == pytest.approx(0.1)
    assert (signals["gen_tokens_per_s"], signals["train_tokens_per_s"]) == (4600.0, 4543.0)
    assert reading.configuration == {"max_inflight_tasks": 512, "max_staleness": 4, "samples_per_step": 128}


def test_drops_count_for_one_record_only(read_lines, neutral):
    record = "{'reward': 0.5, 'queue_wait_time_s': 0.1, 'completions/mean_length': 8.0}"
    records = read_lines(FRAMEWORK, "dropping stale sample (staleness=5, max=4)", record, record).records
    assert [neutral(FRAMEWORK, r, Mode.OVERLAPPED)["dropped_stale"] for r in records] == [1.0, 0.0]


def test_waits_per_sample_and_per_group_are_not_taken_for_seconds_of_a_step(neutral):
    record = Record({"queue_wait_time_s": 0.4, "backpressure_s": 15.0, "reward": 0.5})
    signals = neutral(FRAMEWORK, record, Mode.OVERLAPPED)
    assert "trainer_wait_s" not in signals
    assert "generator_wait_s" not in signals


def test_a_step_without_a_weight_sync_had_none_so_that_the_mean_is_per_step(neutral):
    synced = Record({"training_tok/s": 4000.0, "weight_sync_time_s": 8.5})
    others = Record({"training_tok/s": 4000.0})
    values = [neutral(FRAMEWORK, r, Mode.OVERLAPPED)["weight_sync_s"] for r in (synced, others, others, others)]
    assert sum(values) / 4 == pytest.approx(8.5 / 4)
    assert "weight_sync_s" not in neutral(FRAMEWORK, others, Mode.SERIAL)
    assert "weight_sync_s" not in neutral(FRAMEWORK, Record({"reward": 0.5}), Mode.OVERLAPPED)


def test_the_queue_is_counted_while_its_batch_is_taken(neutral):
    counted = [
        neutral(FRAMEWORK, Record({key: 420.0}), Mode.OVERLAPPED)
        for key in ("sample/rollout_queue_size", "train/sample/rollout_queue_size", "buffer_qsize")
    ]
    assert [(c["queue_depth"], c.get("queue_taken_frac")) for c in counted] == [
        (420.0, 0.5),
        (420.0, 0.5),
        (420.0, None),
    ]


def test_a_step_is_told_by_the_names_that_say_what_they_count(neutral):
    step = {"perf/step_s": 5.9, "perf/fwd_bwd_s": 5.5, "perf/optimizer_s": 0.1, "perf/rollout_wait_s": 0.04}
    flow = {"batch/samples_per_step": 150.0, "rollout/inflight": 127.0, "rollout/generated_tok_s": 25000.0}
    age = {"sample/staleness_mean": 1.5, "sample/staleness_max": 3.0, "sample/dropped_stale_total": 2.0}
    record = Record(step | flow | age | {"rollout/backpressure_s": 5.0})
    told = {"step_s": 5.9, "update_s": 5.6, "trainer_wait_s": 0.04, "weight_sync_s": 0.0, "batch_rollouts": 150.0}
    made = {"inflight_rollouts": 127.0, "gen_tokens_per_s": 25000.0}
    aged = {"staleness_mean": 1.5, "staleness_max": 3.0, "dropped_stale": 2.0}
    assert neutral(FRAMEWORK, record, Mode.OVERLAPPED) == pytest.approx(told | made | aged)
    prefixed = Record({f"train/{key}": value for key, value in record.values.items()})
    assert neutral(FRAMEWORK, prefixed, Mode.OVERLAPPED) == pytest.approx(told | made | aged)


def test_the_mode_follows_the_trainer_that_writes():
    assert FRAMEWORK.mode(Observed(keys=frozenset({"step_time", "reward"}))) is Mode.SERIAL
    assert FRAMEWORK.mode(Observed(keys=frozenset({"train/queue_wait_time_s"}))) is Mode.OVERLAPPED


def test_facts_come_from_the_arguments_and_a_cap_of_minus_one_is_resolved():
    arguments = {
        "num_generations": 8,
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 8,
        "num_processes": 4,
        "max_completion_length": 2048,
        "max_inflight_tasks": -1,
        "max_staleness": 4,
        "weight_sync_steps": 4,
        "token_budget": 16384,
        "gradient_checkpointing": False,
        "queue_maxsize": 512,
    }
    topology, setpoints = FRAMEWORK.facts(Observed(config=arguments))
    assert (topology.mode, topology.max_response_tokens) == (Mode.OVERLAPPED, 2048)
    assert (setpoints.batch_rollouts, setpoints.max_in_flight, setpoints.staleness_bound) == (128, 512, 4.0)
    assert (setpoints.sync_interval, setpoints.group_size, setpoints.packing) == (4, 8, True)
    assert (setpoints.in_flight_update, setpoints.activation_checkpointing) == (True, False)
    assert topology.queue_capacity == 512
    assert FRAMEWORK.facts(Observed(config={"num_generations": 8}))[1].batch_rollouts is None
