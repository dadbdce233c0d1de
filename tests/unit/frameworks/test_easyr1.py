"""EasyR1: its own names, and what follows from times per token."""

import re

import pytest

from simulators.plant import Mode
from tests.unit.frameworks.conftest import DATA
from tuner.frameworks import verl
from tuner.frameworks.base import Observed
from tuner.frameworks.easyr1 import FRAMEWORK
from tuner.records import Record


@pytest.fixture
def summary() -> Record:
    text = (DATA / "easyr1/issue-24/wandb-summary.txt").read_text(encoding="utf-8")
    return Record({key: float(value) for key, value in re.findall(r"wandb:\s+(\S+/\S+)\s+(\S+)", text)})


def test_the_missing_update_follows_from_time_per_token(summary, neutral):
    signals = neutral(FRAMEWORK, summary, Mode.SERIAL)
    assert signals["tokens_total"] == pytest.approx(1_977_240, rel=0.02)
    assert signals["update_s"] == pytest.approx(119.4, rel=0.02)
    assert signals["logprob_s"] == pytest.approx(35.65 + 29.0, rel=0.01)
    assert signals["trainer_busy_s"] == pytest.approx(signals["update_s"] + signals["logprob_s"])
    assert signals["rollout_s"] == pytest.approx(72.02, rel=0.01)


def test_generation_counts_response_tokens_only_and_is_not_used_for_the_batch(neutral):
    values = {"timing_s/gen": 100.0, "timing_per_token_ms/gen": 0.1}
    assert "tokens_total" not in neutral(FRAMEWORK, Record(values), Mode.SERIAL)


def test_its_validation_has_another_name(neutral):
    whole = {"timing_s/step": 10.0, "response_length/mean": 5.0}
    assert neutral(FRAMEWORK, Record({**whole, "timing_s/validation": 4.0}), Mode.SERIAL)["validation_s"] == 4.0
    assert neutral(FRAMEWORK, Record(whole), Mode.SERIAL)["validation_s"] == 0.0


def test_it_is_always_serial_and_has_no_split():
    config = {"trainer.nnodes": 1, "trainer.n_gpus_per_node": 8, "worker.rollout.tensor_parallel_size": 2}
    config |= {"worker.rollout.n": 5, "data.rollout_batch_size": 512, "worker.actor.global_batch_size": 128}
    topology, setpoints = FRAMEWORK.facts(Observed(config=config))
    assert (topology.mode, topology.gpus_total, topology.updates_per_step) == (Mode.SERIAL, 8, 4)
    assert (setpoints.engines, setpoints.batch_rollouts, setpoints.gpus_generator) == (4, 2560, None)


def test_its_knobs_have_its_own_keys():
    own = {knob.key for knob in FRAMEWORK.knobs}
    shared = own & {knob.key for knob in verl.FRAMEWORK.knobs}
    assert shared <= {"trainer.save_freq", "trainer.logger"}
