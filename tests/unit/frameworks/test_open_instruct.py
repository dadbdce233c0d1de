"""open-instruct: the panel of a step, also where the terminal broke its rows."""

import pytest

from simulators.plant import Mode
from tuner.frameworks.base import Observed
from tuner.frameworks.open_instruct import FRAMEWORK
from tuner.records import Record

PANEL = "open-instruct/panel/console.log"


def test_a_panel_is_one_record_and_broken_rows_go_on(read_console, neutral):
    [record] = read_console(FRAMEWORK, PANEL).records
    assert record.values["training_step"] == 4.0
    signals = neutral(FRAMEWORK, record, Mode.OVERLAPPED)
    assert (signals["step_s"], signals["trainer_wait_s"], signals["update_s"]) == (412.3, 301.5, 96.2)
    assert (signals["generator_wait_s"], signals["weight_sync_s"]) == (0.0, 9.8)
    assert (signals["mfu"], signals["truncated_frac"]) == (pytest.approx(0.124), pytest.approx(0.09))


def test_the_older_names_of_both_waits_are_known(neutral):
    values = {"time/trainer_idle_waiting_for_inference": 3.0, "time/generation_idle_waiting_for_trainer": 4.0}
    assert neutral(FRAMEWORK, Record(values), Mode.OVERLAPPED) == {"trainer_wait_s": 3.0, "generator_wait_s": 4.0}


def test_without_steps_ahead_the_wait_is_generation(neutral):
    assert FRAMEWORK.mode(Observed(config={"--async_steps": 0})) is Mode.SERIAL
    assert neutral(FRAMEWORK, Record({"time/trainer_waiting_for_data": 3.0}), Mode.SERIAL) == {"rollout_s": 3.0}


def test_learners_are_one_number_for_each_node():
    config = {"num_learners_per_node": "8 8", "vllm_num_engines": 16, "num_unique_prompts_rollout": 64}
    topology, setpoints = FRAMEWORK.facts(Observed(config=config))
    assert (setpoints.gpus_trainer, setpoints.gpus_generator, topology.gpus_total) == (16, 16, 32)
