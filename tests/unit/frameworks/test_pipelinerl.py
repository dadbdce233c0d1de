"""PipelineRL: what follows from the trainer's and the actor's statistics."""

import json
from pathlib import Path

import pytest

from simulators.plant import Mode
from tuner.frameworks.base import Observed
from tuner.frameworks.pipelinerl import FRAMEWORK
from tuner.records import Record

ACTOR = Path(__file__).parents[2] / "data" / "pipelinerl" / "58d3934" / "actor-stats.jsonl"


def test_the_trainers_line_gives_step_passes_batch_and_lag_in_steps(read_console, neutral):
    [record] = read_console(FRAMEWORK, "pipelinerl/58d3934/trainer.log").records
    signals = neutral(FRAMEWORK, record, Mode.OVERLAPPED)
    assert (record.step, signals["step_s"], signals["update_s"]) == (17, 58.0, 40.0)
    assert signals["batch_rollouts"] == pytest.approx(1024.0)
    assert signals["staleness_max"] == pytest.approx(2.0)
    assert signals["train_samples_per_s"] * signals["update_s"] == pytest.approx(signals["batch_rollouts"])


def test_running_totals_are_marked_as_such():
    totals = {alias.key: alias.signal for alias in FRAMEWORK.aliases if alias.counter}
    assert totals == {
        "stats/time_waiting_for_data": "trainer_wait_s",
        "stats/samples": "batch_rollouts",
        "stats/samples_too_old_to_queue": "dropped_stale",
        "stats/samples_too_old_to_train": "dropped_stale",
    }


def test_the_actors_stream_gives_lengths_latency_and_signal(neutral):
    values = json.loads(ACTOR.read_text(encoding="utf-8"))
    signals = neutral(FRAMEWORK, Record(values), Mode.OVERLAPPED)
    assert (signals["solved_all_frac"], signals["solved_none_frac"]) == (0.31, 0.12)
    assert (signals["resp_len_mean"], signals["truncated_frac"], signals["rollout_latency_s"]) == (2100.5, 0.04, 41.2)
    wandb = Record({f"actor/{key}": value for key, value in values.items()})
    assert neutral(FRAMEWORK, wandb, Mode.OVERLAPPED) == signals


def test_lag_in_samples_is_no_staleness_while_the_batch_is_unknown(neutral):
    assert neutral(FRAMEWORK, Record({"stats/lag": 2048.0}), Mode.OVERLAPPED) == {}


def test_lag_told_by_its_mean_and_its_oldest_is_both(neutral):
    rates = {"throughput/tokens_per_step": 4e4, "throughput/tokens_per_sec": 1e3, "throughput/samples_per_sec": 10.0}
    record = Record({**rates, "stats/lag_min": 0.0, "stats/lag_mean": 200.0, "stats/lag_max": 800.0})
    signals = neutral(FRAMEWORK, record, Mode.OVERLAPPED)
    assert (signals["staleness_mean"], signals["staleness_max"]) == (0.5, 2.0)


def test_fractions_are_gpus_only_where_the_size_of_the_world_is_known():
    config = {"world.actor_fraction": 4, "world.finetune_fraction": 4, "world.preprocessor_fraction": 0}
    assert FRAMEWORK.facts(Observed(config=config))[1].gpus_trainer is None
    _, known = FRAMEWORK.facts(Observed(config=config | {"world.gpus_per_node": 8}))
    assert (known.gpus_trainer, known.gpus_generator) == (4, 4)


def test_a_bound_in_samples_becomes_one_in_steps():
    config = {"finetune.max_lag": 2048, "finetune.train_batch_size": 1, "finetune.gradient_accumulation_passes": 1024}
    _, setpoints = FRAMEWORK.facts(Observed(config=config))
    assert (setpoints.staleness_bound, setpoints.batch_rollouts) == (2.0, 1024)
