"""Whether activations are computed again, where each framework's configuration says so."""

import pytest

from tuner.frameworks import areal, easyr1, nemo_rl, open_instruct, openrlhf, pipelinerl, skyrl, slime, trl, verl
from tuner.frameworks.base import Framework, Observed

SWITCHES = [
    (areal.FRAMEWORK, "actor.gradient_checkpointing"),
    (easyr1.FRAMEWORK, "worker.actor.model.enable_gradient_checkpointing"),
    (nemo_rl.FRAMEWORK, "policy.dtensor_cfg.activation_checkpointing"),
    (open_instruct.FRAMEWORK, "gradient_checkpointing"),
    (openrlhf.FRAMEWORK, "actor.gradient_checkpointing_enable"),
    (pipelinerl.FRAMEWORK, "finetune.gradient_checkpointing"),
    (skyrl.FRAMEWORK, "trainer.gradient_checkpointing"),
    (trl.FRAMEWORK, "gradient_checkpointing"),
    (verl.FRAMEWORK, "actor_rollout_ref.model.enable_gradient_checkpointing"),
]
RECOMPUTING = "activation_checkpointing"


@pytest.mark.parametrize(("framework", "key"), SWITCHES, ids=lambda value: getattr(value, "name", ""))
def test_a_switch_is_read_both_ways_and_named_in_advice(framework: Framework, key: str) -> None:
    read = [framework.facts(Observed(config={key: value}))[1].activation_checkpointing for value in (True, False)]
    assert read == [True, False]
    assert [knob.key.removeprefix("--") for knob in framework.knobs if knob.knob == RECOMPUTING] == [key]


def test_nemo_rl_asks_the_backend_that_is_enabled() -> None:
    config = {"policy.megatron_cfg.enabled": True, "policy.megatron_cfg.activation_checkpointing": True}
    beside = {"policy.dtensor_cfg.activation_checkpointing": False}
    assert nemo_rl.FRAMEWORK.facts(Observed(config=config | beside))[1].activation_checkpointing is True


def test_slime_recomputes_all_of_it_or_nobody_knows_how_much() -> None:
    read = [
        slime.FRAMEWORK.facts(Observed(config={"recompute_granularity": how}))[1].activation_checkpointing
        for how in ("full", "selective")
    ]
    assert read == [True, None]
