"""Tinker cookbook: phases of a hosted service's step, and what is left for sampling where it is not logged."""

import json
from pathlib import Path

import pytest

from simulators.plant import Mode
from tuner.frameworks.base import Observed
from tuner.frameworks.tinker import FRAMEWORK
from tuner.records import Record

METRICS = Path(__file__).parents[2] / "data" / "tinker" / "qwen3-4b" / "metrics.jsonl"


@pytest.fixture(scope="module")
def rows():
    return [Record(json.loads(line)) for line in METRICS.read_text(encoding="utf-8").splitlines()]


def test_a_step_gives_its_named_phases_and_its_batch(rows, neutral):
    signals = neutral(FRAMEWORK, rows[0], Mode.SERIAL)
    assert (signals["step_s"], signals["update_s"], signals["validation_s"]) == (304.4973, 45.012, 150.4427)
    assert (signals["checkpoint_s"], signals["overhead_s"], signals["batch_rollouts"]) == (4.4476, 0.9851, 512)
    assert signals["resp_len_mean"] == pytest.approx(330.707, rel=1e-5)
    assert signals["zero_adv_frac"] == pytest.approx(0.0625)


def test_what_the_named_phases_leave_is_sampling_at_half_trust(rows, neutral):
    for row in rows:
        signals = neutral(FRAMEWORK, row, Mode.SERIAL)
        parts = sum(
            signals.get(n, 0.0) for n in ("rollout_s", "update_s", "validation_s", "checkpoint_s", "overhead_s")
        )
        assert parts == pytest.approx(signals["step_s"])
    assert FRAMEWORK.computed_trust["rollout_s"] == 0.5


def test_a_logged_sampling_time_is_taken_as_it_is(neutral):
    record = Record({"time/total": 100.0, "time/train": 30.0, "time/sampling": 55.0})
    assert neutral(FRAMEWORK, record, Mode.SERIAL)["rollout_s"] == 55.0


def test_phases_longer_than_the_step_leave_no_sampling_rather_than_a_negative_one(neutral):
    record = Record({"time/total": 20.0, "time/train": 30.0})
    assert "rollout_s" not in neutral(FRAMEWORK, record, Mode.SERIAL)


def test_an_asynchronous_window_is_no_step_time_and_nothing_is_left_over_in_it(neutral):
    record = Record(
        {
            "time/total": 20.0,
            "time/train_step": 15.0,
            "progress/batch": 9.0,
            "sampling_client/step_mean": 7.5,
            "sampling_client/step_min": 6.0,
        }
    )
    signals = neutral(FRAMEWORK, record, Mode.OVERLAPPED)
    assert signals == {"update_s": 15.0, "staleness_mean": 1.5, "staleness_max": 3.0}


def test_the_mode_is_serial_unless_the_run_says_otherwise():
    assert FRAMEWORK.mode(Observed(keys=frozenset({"time/total"}))) is Mode.SERIAL
    assert FRAMEWORK.mode(Observed(keys=frozenset({"sampling_client/step_mean"}))) is Mode.OVERLAPPED
    assert FRAMEWORK.mode(Observed(config={"async_config.max_steps_off_policy": 2})) is Mode.OVERLAPPED


def test_facts_come_from_the_run_configuration():
    config = {
        "dataset_builder.group_size": 16,
        "dataset_builder.groups_per_batch": 32,
        "max_tokens": 512,
        "save_every": 20,
    }
    topology, setpoints = FRAMEWORK.facts(Observed(config=config))
    assert (topology.max_response_tokens, topology.gpus_total) == (512, None)
    assert (setpoints.batch_rollouts, setpoints.group_size, setpoints.checkpoint_interval) == (512, 16, 20)
