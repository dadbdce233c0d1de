"""ROLL: the JSON of its stdout tracker, its two pipelines, and what its device mappings say."""

import pytest

from simulators.plant import Mode
from tests.stories.answers import figure
from tests.stories.command import ask
from tuner.frameworks.base import Observed
from tuner.frameworks.roll import FRAMEWORK
from tuner.records import Record


def test_the_stdout_tracker_is_read(data_path):
    answer = ask(data_path("roll/stdout/console.log"))
    assert (answer["job"]["framework"], answer["job"]["mode"], answer["verdict"]) == ("roll", "serial", "trainer-bound")
    assert (answer["window"]["from_step"], answer["window"]["to_step"]) == (41, 42)
    assert figure(answer, "step_s") == pytest.approx((361.2 + 364.2) / 2)


def test_the_total_of_the_step_before_is_not_taken_for_this_one(neutral):
    values = {"time/step_total": 0.0, "time/step_generate": 60.0, "time/step_train": 30.0, "time/old_log_probs": 5.0}
    assert neutral(FRAMEWORK, Record(values), Mode.SERIAL)["step_s"] == 95.0


def test_generation_ahead_makes_the_rollout_a_wait(neutral):
    values = {"time/step_total": 100.0, "time/step_rollout": 40.0, "scheduler/off_policy_ratio": 0.9}
    assert FRAMEWORK.mode(Observed(frozenset(values), values=values)) is Mode.OVERLAPPED
    assert FRAMEWORK.mode(Observed(config={"async_generation_ratio": 0})) is Mode.SERIAL
    assert neutral(FRAMEWORK, Record(values), Mode.OVERLAPPED)["trainer_wait_s"] == 40.0


def test_device_mappings_that_share_gpus_are_no_split():
    train, infer = "actor_train.device_mapping", "actor_infer.device_mapping"
    apart = {train: "list(range(0,4))", infer: "list(range(4, 16))"}
    shared = {train: "list(range(0,16))", infer: [0, 1, 2, 3]}
    topology, setpoints = FRAMEWORK.facts(Observed(config=apart))
    assert (setpoints.gpus_trainer, setpoints.gpus_generator, topology.gpus_total) == (4, 12, 16)
    topology, setpoints = FRAMEWORK.facts(Observed(config=shared))
    assert (setpoints.gpus_trainer, setpoints.gpus_generator, topology.gpus_total) == (None, None, 16)
