"""Every name an adapter promises exists: signals, knobs, and no signal is summed by one alias and set by another."""

from dataclasses import asdict

import pytest

from simulators.plant import Mode
from simulators.signals import SIGNALS
from tuner.frameworks import nemo_rl, openrlhf, pipelinerl, sglang, tinker, trl, vllm
from tuner.frameworks.base import Framework, Observed

FRAMEWORKS = [m.FRAMEWORK for m in (nemo_rl, openrlhf, pipelinerl, sglang, tinker, trl, vllm)]
KNOBS = {
    *("gpus_trainer", "gpus_generator", "prefill_decode_split", "oversampling_ratio", "max_in_flight", "overlap"),
    *("staleness_bound", "sync_interval", "in_flight_update", "partial_rollout", "pruning", "group_size"),
    *("curriculum_filter", "kv_memory", "packing", "activation_checkpointing", "checkpoint_interval"),
    *("validation_interval", "sandbox_quota"),
    *("reward_concurrency", "client_concurrency", "engine_settings", "logging"),
}
SETTINGS = (
    *("max_num_seqs", "tensor_parallel_size", "data_parallel_size", "tp_size", "dp_size", "max_running_requests"),
    *("num_generations", "max_inflight_tasks", "max_staleness", "token_budget", "per_device_train_batch_size"),
    *("gradient_accumulation_steps", "num_processes", "save_steps", "vllm.num_engines", "vllm.tensor_parallel_size"),
    *("actor.num_nodes", "actor.num_gpus_per_node", "rollout.batch_size", "rollout.vllm_generate_batch_size"),
    *("train.async_enable", "train.async_queue_size", "rollout.n_samples_per_prompt", "world.actor_fraction"),
    *("world.finetune_fraction", "world.gpus_per_node", "finetune.max_lag", "finetune.train_batch_size", "attempts"),
    *("finetune.gradient_accumulation_passes", "actor.llm_max_rollouts", "cluster.num_nodes", "group_size"),
    *("cluster.gpus_per_node", "policy.generation.colocated.enabled", "groups_per_batch", "max_tokens"),
    *("policy.generation.colocated.resources.gpus_per_node", "grpo.num_prompts_per_step", "grpo.async_grpo.enabled"),
    *("policy.generation.vllm_cfg.tensor_parallel_size", "async_config.max_steps_off_policy", "save_every"),
)


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda f: f.name)
def test_aliases_lead_to_signals_and_knob_keys_to_knobs(framework: Framework):
    assert {alias.signal for alias in framework.aliases} | set(framework.computed_trust) <= set(SIGNALS)
    assert {knob.knob for knob in framework.knobs} <= KNOBS


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda f: f.name)
def test_one_key_means_a_signal_once_in_each_mode(framework: Framework):
    pairs = [(alias.key, alias.signal, alias.only) for alias in framework.aliases]
    assert len(pairs) == len(set(pairs))


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda f: f.name)
def test_nothing_known_gives_no_facts_but_the_name_and_the_mode(framework: Framework):
    topology, setpoints = framework.facts(Observed())
    assert topology.framework == framework.name
    known = {name for name, value in asdict(setpoints).items() if value is not None}
    assert known <= {"overlap", "in_flight_update"}
    assert framework.mode(Observed()) in set(Mode)


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda f: f.name)
def test_odd_settings_are_survived_and_counts_stay_above_zero(framework: Framework):
    for value in (None, "", "auto", [], {}, -1, 0, 1, float("nan"), float("inf"), "1e400", True, False):
        topology, setpoints = framework.facts(Observed(config=dict.fromkeys(SETTINGS, value)))
        counts = (topology.gpus_total, topology.gpus_per_engine, setpoints.gpus_trainer, setpoints.batch_rollouts)
        assert all(count is None or count > 0 for count in counts)
