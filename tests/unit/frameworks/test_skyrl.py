"""SkyRL: printed metrics, timers where metrics go to W&B only, and the fully asynchronous trainer's keys."""

import pytest

from simulators.plant import Mode
from tests.stories.answers import figure
from tests.stories.command import ask
from tuner.frameworks.base import Observed
from tuner.frameworks.skyrl import FRAMEWORK
from tuner.records import Record

PRINTED = "skyrl/console/printed.log"
TIMERS = "skyrl/console/timers.log"


def test_timers_make_a_record_of_each_step(read_console, neutral):
    [record] = read_console(FRAMEWORK, TIMERS).records
    signals = neutral(FRAMEWORK, record, Mode.SERIAL)
    assert (signals["step_s"], signals["rollout_s"], signals["update_s"]) == (288.78, 45.11, 191.74)
    assert (signals["validation_s"], signals["checkpoint_s"]) == (0.0, 0.0)


def test_timers_of_a_step_that_is_printed_are_left_to_the_print(read_console):
    assert read_console(FRAMEWORK, PRINTED).records == []


def test_numbers_printed_as_texts_over_many_lines_are_one_step(data_path):
    answer = ask(data_path(PRINTED))
    assert (answer["job"]["framework"], answer["verdict"]) == ("skyrl", "trainer-bound")
    assert (answer["window"]["steps"], answer["window"]["from_step"]) == (1, 12)
    assert figure(answer, "trainer_busy_s") == pytest.approx(191.74 + 47.4)
    assert figure(answer, "reward_mean") == pytest.approx(-0.0609)


def test_the_wait_for_the_buffer_says_overlapped(neutral):
    values = {"timing/step": 200.3, "timing/wait_for_generation_buffer": 187.4, "timing/run_training": 11.0}
    assert FRAMEWORK.mode(Observed(frozenset(values))) is Mode.OVERLAPPED
    signals = neutral(FRAMEWORK, Record(values), Mode.OVERLAPPED)
    assert (signals["trainer_wait_s"], signals["update_s"]) == (187.4, 11.0)
    assert "rollout_s" not in signals


def test_evaluation_after_the_step_is_added_to_it(neutral):
    values = {"timing/step": 100.0, "timing/generate": 60.0, "timing/policy_train": 38.0, "timing/eval": 50.0}
    assert neutral(FRAMEWORK, Record(values), Mode.SERIAL)["step_s"] == 150.0
    within = values | {"timing/generate": 12.0}
    assert neutral(FRAMEWORK, Record(within), Mode.SERIAL)["step_s"] == 100.0


def test_colocated_engines_have_no_split():
    placement = {"trainer.placement.policy_num_gpus_per_node": 8, "generator.inference_engine.num_engines": 8}
    together = Observed(frozenset({"timing/generate"}), placement | {"trainer.placement.colocate_all": True})
    apart = Observed(frozenset({"timing/generate"}), placement | {"trainer.placement.colocate_all": False})
    assert (FRAMEWORK.facts(together)[0].gpus_total, FRAMEWORK.facts(together)[1].gpus_generator) == (8, None)
    assert (FRAMEWORK.facts(apart)[0].gpus_total, FRAMEWORK.facts(apart)[1].gpus_generator) == (16, 8)
