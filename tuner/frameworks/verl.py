"""verl and verl V1: console, JSONL, TensorBoard and W&B share one set of keys; the trainer stack decides their meaning.

A serial step is the sum of its phases and `timing_s/gen` is generation. In the asynchronous stacks `timing_s/gen` is
what the trainer waits for its batch, and one record covers all batches up to the next weight publication.
"""

from simulators.plant import Change, Mode
from tuner.frameworks.base import Framework, KnobKey, LineFormat
from tuner.frameworks.verl_config import ACTOR, ROLLOUT, V1, facts_of, mode_of, version_of
from tuner.frameworks.verl_lines import PrintedDict, StartCommand, StepLines, printed_config, rollouter_statistics
from tuner.frameworks.verl_measures import ALIASES, SIGNATURE, interpret

RESTART = Change.RESTART
_V1_STALENESS = f"{V1}sampler.max_off_policy_threshold"
_V1_SYNC = f"{V1}separate_async.parameter_sync_step"
_V1_NODES = f"{ROLLOUT}nnodes"
_PER_NODE = ("rollout.n_gpus_per_node", f"{ROLLOUT}n_gpus_per_node", "trainer.n_gpus_per_node")
KNOBS = (
    KnobKey(
        "gpus_trainer",
        "trainer.nnodes",
        RESTART,
        note="with trainer.n_gpus_per_node; batches must divide",
        per=("trainer.n_gpus_per_node",),
    ),
    KnobKey(
        "gpus_generator",
        "rollout.nnodes",
        RESTART,
        note=f"with rollout.n_gpus_per_node; V1: {_V1_NODES}",
        per=_PER_NODE,
    ),
    KnobKey("gpus_generator", _V1_NODES, RESTART, where_set=_V1_NODES, per=_PER_NODE),
    KnobKey("staleness_bound", "async_training.staleness_threshold", RESTART, data_changing=True),
    KnobKey("staleness_bound", _V1_STALENESS, RESTART, data_changing=True, where_set=_V1_STALENESS),
    KnobKey(
        "sync_interval",
        "async_training.trigger_parameter_sync_step",
        RESTART,
        data_changing=True,
        only=Mode.OVERLAPPED,
    ),
    KnobKey("sync_interval", _V1_SYNC, RESTART, data_changing=True, where_set=_V1_SYNC),
    KnobKey("group_size", f"{ROLLOUT}n", RESTART, data_changing=True),
    KnobKey(
        "overlap",
        f"{V1}trainer_mode",
        RESTART,
        data_changing=True,
        note="separate_async; before V1 start verl.experimental.one_step_off_policy or fully_async_policy",
    ),
    KnobKey("partial_rollout", "async_training.partial_rollout", RESTART, data_changing=True, only=Mode.OVERLAPPED),
    KnobKey(
        "oversampling_ratio",
        "data.gen_batch_size",
        RESTART,
        data_changing=True,
        note="with filter_groups",
        times=("data.train_batch_size",),
    ),
    KnobKey("checkpoint_interval", "trainer.save_freq", RESTART),
    KnobKey("validation_interval", "trainer.test_freq", RESTART),
    KnobKey("kv_memory", f"{ROLLOUT}gpu_memory_utilization", RESTART),
    KnobKey(
        "max_in_flight",
        f"{ROLLOUT}max_num_seqs",
        RESTART,
        setpoint="max_in_flight_per_engine",
        note="per engine; fully async: async_training.concurrent_samples_per_replica, in prompts",
    ),
    KnobKey("client_concurrency", f"{ROLLOUT}agent.num_workers", RESTART),
    KnobKey("packing", f"{ACTOR}use_dynamic_bsz", RESTART, note=f"with {ACTOR}ppo_max_token_len_per_gpu"),
    KnobKey("activation_checkpointing", "actor_rollout_ref.model.enable_gradient_checkpointing", RESTART),
    KnobKey("curriculum_filter", "algorithm.filter_groups.enable", RESTART, data_changing=True),
    KnobKey("prefill_decode_split", f"{ROLLOUT}disaggregation.prefill_replicas", RESTART, note="SGLang only"),
    KnobKey("engine_settings", f"{ROLLOUT}enforce_eager", RESTART),
    KnobKey("reward_concurrency", "reward.num_workers", RESTART, note="older: reward_model.num_workers"),
    KnobKey("logging", "trainer.logger", RESTART, note="add `file` for JSONL without a network"),
)

FORMATS = (
    LineFormat("step", ("step:", *(f" - {part}" for part in ("timing_s/", "critic/", "perf/", "actor/"))), StepLines),
    LineFormat(
        "config",
        ("{'actor_rollout_ref'",),
        lambda: PrintedDict(("{'actor_rollout_ref'",), printed_config("verl")),
        block=True,
    ),
    LineFormat(
        "rollouter",
        ("'count/", "'monitor/", "'static/"),  # every line of the printed dict holds one: no block needed
        lambda: PrintedDict(("{'count/", "{'monitor/", "{'static/"), rollouter_statistics),
    ),
    LineFormat("command", ("-m verl", "-m recipe"), StartCommand),
)

FRAMEWORK = Framework(
    name="verl",
    aliases=ALIASES,
    knobs=KNOBS,
    formats=FORMATS,
    signature=SIGNATURE,
    config_signature=("actor_rollout_ref.", "async_training.", "trainer.v1.", "critic."),
    mode=mode_of,
    version=version_of,
    facts=facts_of,
    config_style="hydra",
    interpret=interpret,
)
