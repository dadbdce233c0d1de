"""EasyR1, a serial fork of verl: the same measures, some under other names (`timing_s/old`, `timing_s/validation`).

Its JSONL, W&B summary and saved experiment_config.json are read; its console record (YAML over many lines) is not.
"""

from collections.abc import Mapping
from dataclasses import replace

from simulators.plant import Change, Mode, Setpoints, Topology, TrainerResize
from tuner.frameworks import verl_measures
from tuner.frameworks.base import Alias, Framework, KnobKey, Observed
from tuner.frameworks.verl_config import gpus_from_throughput
from tuner.lookup import positive, times, truth
from tuner.records import Record

_SERIAL_STACK = ("fully_async", "off_policy", "dynamic_resource", "wait", "switch")
"""verl's asynchronous stacks, which the fork does not have."""

ALIASES = (
    *(
        replace(alias, only=None)
        for alias in verl_measures.ALIASES
        if alias.only is not Mode.OVERLAPPED and not any(word in alias.key for word in _SERIAL_STACK)
    ),
    Alias("timing_s/old", "logprob_s", add=True),
    Alias("timing_s/validation", "validation_s"),
)

KNOBS = (
    KnobKey("group_size", "worker.rollout.n", Change.RESTART, data_changing=True),
    KnobKey("oversampling_ratio", "data.mini_rollout_batch_size", Change.RESTART, data_changing=True),
    KnobKey("checkpoint_interval", "trainer.save_freq", Change.RESTART),
    KnobKey("validation_interval", "trainer.val_freq", Change.RESTART),
    KnobKey("kv_memory", "worker.rollout.gpu_memory_utilization", Change.RESTART),
    KnobKey("packing", "worker.actor.dynamic_batching", Change.RESTART, note="with worker.actor.padding_free"),
    KnobKey("activation_checkpointing", "worker.actor.model.enable_gradient_checkpointing", Change.RESTART),
    KnobKey("curriculum_filter", "algorithm.online_filtering", Change.RESTART, data_changing=True),
    KnobKey("engine_settings", "worker.rollout.enforce_eager", Change.RESTART),
    KnobKey("logging", "trainer.logger", Change.RESTART, note="add `file` for JSONL without a network"),
)


def serial(seen: Observed) -> Mode:
    return Mode.SERIAL if seen.keys or seen.config else Mode.UNKNOWN


def facts(seen: Observed) -> tuple[Topology, Setpoints]:
    config = seen.config
    gpus = times(positive(config, "trainer.nnodes"), positive(config, "trainer.n_gpus_per_node"))
    tensor = positive(config, "worker.rollout.tensor_parallel_size")
    group, prompts = positive(config, "worker.rollout.n"), positive(config, "data.rollout_batch_size")
    update_batch = positive(config, "worker.actor.global_batch_size")
    topology = Topology(
        framework="easyr1",
        mode=serial(seen),
        gpus_total=gpus or gpus_from_throughput(seen.values),
        gpus_per_engine=tensor,
        trainer_gpu_step=positive(config, "worker.actor.ulysses_size"),
        batch_must_divide=True,
        trainer_resize=TrainerResize.IMPOSSIBLE if config else None,
        max_response_tokens=positive(config, "data.max_response_length"),
        updates_per_step=max(1, prompts // update_batch) if prompts and update_batch else None,
    )
    filters = truth(config, "algorithm.online_filtering")
    asked = positive(config, "data.mini_rollout_batch_size") if filters else None
    return topology, Setpoints(
        engines=gpus // tensor if gpus and tensor and gpus >= tensor else None,
        oversampling_ratio=asked / prompts if asked and prompts and asked >= prompts else None,
        staleness_bound=0.0,
        sync_interval=1,
        group_size=group,
        batch_rollouts=times(prompts, group),
        overlap=False,
        filter_zero_adv=filters,
        packing=truth(config, "worker.actor.dynamic_batching", "worker.actor.padding_free"),
        activation_checkpointing=truth(config, "worker.actor.model.enable_gradient_checkpointing"),
        checkpoint_interval=positive(config, "trainer.save_freq"),
        validation_interval=positive(config, "trainer.val_freq"),
    )


def interpret(record: Record, found: Mapping[str, float], mode: Mode) -> Mapping[str, float]:
    extra = dict(verl_measures.interpret(record, found, mode))
    if "timing_s/validation" in record.values:
        extra.pop("validation_s", None)
    return extra


FRAMEWORK = Framework(
    name="easyr1",
    aliases=ALIASES,
    knobs=KNOBS,
    signature=(
        *verl_measures.SIGNATURE,
        *("timing_s/old", "timing_per_token_ms/old", "timing_s/validation", "timing_per_token_ms/reward"),
        "reward/overall",
    ),
    config_signature=("worker.rollout.", "worker.actor.", "worker.ref.", "worker.reward."),
    mode=serial,
    facts=facts,
    interpret=interpret,
)
