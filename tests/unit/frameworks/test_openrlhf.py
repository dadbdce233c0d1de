"""OpenRLHF: the step line of the serial and of the asynchronous trainer."""

import pytest

from simulators.plant import Mode
from tuner.frameworks.base import Observed
from tuner.frameworks.openrlhf import FRAMEWORK
from tuner.records import Record

SERIAL = "openrlhf/0.11/serial.log"
ASYNC = "openrlhf/0.11/async.log"


def test_a_serial_step_splits_into_its_phases(read_console, neutral):
    record = read_console(FRAMEWORK, SERIAL).records[0]
    signals = neutral(FRAMEWORK, record, Mode.SERIAL)
    assert record.step == 41
    assert signals["step_s"] == pytest.approx(
        sum(signals[n] for n in ("rollout_s", "update_s", "logprob_s", "weight_sync_s"))
    )
    assert (signals["batch_rollouts"], signals["truncated_frac"], signals["resp_len_mean"]) == (8192.0, 0.08, 3120.5)
    assert signals["waste_frac"] == pytest.approx(0.375)
    assert "trainer_wait_s" not in signals


def test_an_asynchronous_step_leaves_a_lower_bound_of_the_wait(read_console, neutral):
    signals = neutral(FRAMEWORK, read_console(FRAMEWORK, ASYNC).records[0], Mode.OVERLAPPED)
    assert signals["trainer_wait_s"] == pytest.approx(249.0 - 61.0 - 119.0 - 20.0)
    assert FRAMEWORK.computed_trust["trainer_wait_s"] < 1.0


def test_generation_inside_make_experience_is_taken_out_of_the_log_probs(neutral):
    older = {
        "timing/generation": 240.0,
        "timing/make_experience": 300.0,
        "timing/ppo_train": 100.0,
        "timing/broadcast": 5.0,
        "timing/step_total": 405.0,
    }
    assert neutral(FRAMEWORK, Record(older), Mode.SERIAL)["logprob_s"] == pytest.approx(60.0)
    assert FRAMEWORK.mode(Observed(values=older)) is Mode.SERIAL


def test_the_mode_is_configured_or_shows_in_the_sum(read_console):
    serial, overlapped = (read_console(FRAMEWORK, path).records[0].values for path in (SERIAL, ASYNC))
    assert FRAMEWORK.mode(Observed(values=serial)) is Mode.SERIAL
    assert FRAMEWORK.mode(Observed(values=overlapped)) is Mode.OVERLAPPED
    assert FRAMEWORK.mode(Observed(values=serial, config={"train.async_enable": True})) is Mode.OVERLAPPED
    assert FRAMEWORK.mode(Observed()) is Mode.UNKNOWN


def test_tensorboard_puts_train_before_the_same_names(neutral):
    values = {"timing/generation": 240.0, "rollout/reward_mean": 0.5, "dynamic_filtering_pass_rate": 50.0}
    plain, tagged = (
        neutral(FRAMEWORK, Record(v), Mode.SERIAL) for v in (values, {f"train/{k}": v for k, v in values.items()})
    )
    assert plain == tagged == {"rollout_s": 240.0, "reward_mean": 0.5, "waste_frac": 0.5}


def test_two_records_joined_on_one_line_are_two_steps(read_lines):
    record = "Global step {}: {{'timing/step_total': 10.0, 'kl': 0.1}}"
    records = read_lines(FRAMEWORK, record.format(7) + record.format(8) + record.format(9)[:46]).records
    assert [r.step for r in records] == [7, 8, 9]
    assert records[2].cut


def test_arguments_state_engines_split_and_oversampling():
    arguments = {
        "--vllm.num_engines": 4,
        "--vllm.tensor_parallel_size": 2,
        "--actor.num_nodes": 1,
        "--actor.num_gpus_per_node": 8,
        "--train.async_enable": True,
        "--train.async_queue_size": 1,
        "--rollout.batch_size": 1024,
        "--rollout.vllm_generate_batch_size": 1536,
        "--rollout.n_samples_per_prompt": 8,
    }
    topology, setpoints = FRAMEWORK.facts(Observed(config=arguments))
    assert (setpoints.gpus_trainer, setpoints.gpus_generator, setpoints.engines) == (8, 8, 4)
    assert (setpoints.batch_rollouts, setpoints.oversampling_ratio, setpoints.staleness_bound) == (8192, 1.5, 1.0)
    assert topology.batch_must_divide


def test_a_colocated_job_has_no_split():
    arguments = {"actor.num_nodes": 1, "actor.num_gpus_per_node": 8, "train.colocate_all": True, "vllm.num_engines": 4}
    topology, setpoints = FRAMEWORK.facts(Observed(config=arguments))
    assert (topology.gpus_total, setpoints.gpus_trainer, setpoints.gpus_generator) == (8, None, None)
