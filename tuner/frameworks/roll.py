"""ROLL: the line `metrics_tag: {json}` of its stdout tracker, and the same names in TensorBoard, W&B and SwanLab.

Its two pipelines name their phases differently (`step_rollout` agentic, `step_generate` for verified rewards). What a
step waits for its batch is generation in a serial job, and starvation where `async_generation_ratio` is above 0. The
pipeline of verified rewards logs the total of the step *before*; in the first step it is 0.
"""

import re
from collections.abc import Mapping

from simulators.plant import Change, Mode, Setpoints, Topology
from tuner.adapting import count_setting, number_setting, setting
from tuner.frameworks.base import Alias, Framework, KnobKey, Observed
from tuner.records import Record

NAME = "roll"

TIME = "time/"

RANGE = re.compile(r"range\(\s*(?:(\d{1,6})\s*,\s*)?(\d{1,6})\s*\)")


def _timers(signal: str, *names: str, only: Mode | None = None) -> tuple[Alias, ...]:
    return tuple(Alias(TIME + name, signal, add=True, only=only) for name in names)


ALIASES = (
    *_timers("rollout_s", "step_rollout", "step_generate", only=Mode.SERIAL),
    *_timers("trainer_wait_s", "step_rollout", "step_generate", only=Mode.OVERLAPPED),
    *_timers("update_s", "step_train"),
    *_timers("logprob_s", "step_ref_log_probs_values_reward", "step_old_log_probs_values"),
    *_timers("logprob_s", "ref_log_probs_values", "old_log_probs"),
    *_timers("weight_sync_s", "step_model_update"),
    *_timers("offload_s", "step_shrink", "step_stop_server"),
    *_timers("validation_s", "step_val", "val_step"),
    *_timers("checkpoint_s", "actor_train/do_checkpoint/total"),
    *_timers("overhead_s", "step_adv", "step_log", "step_compute_data_metrics", "step_cal_norm_rewards"),
    *_timers("overhead_s", "step_cal_token_reward", "step_cal_response_level_mask"),
    Alias("critic/score/mean", "reward_mean"),
    Alias("critic/score/max", "reward_max"),
    Alias("critic/score/min", "reward_min"),
    Alias("critic/entropy/mean", "entropy"),
    Alias("actor_train/grad_norm", "grad_norm"),
    Alias("tokens/response_length/mean", "resp_len_mean"),
    Alias("token/response_length/mean", "resp_len_mean"),
    Alias("tokens/response_length/max", "resp_len_max"),
    Alias("token/response_length/max", "resp_len_max"),
    Alias("tokens/prompt_length/mean", "prompt_len_mean"),
    Alias("token/prompt_length/mean", "prompt_len_mean"),
    Alias("scheduler/off_policy_ratio", "staleness_mean", trust=0.8),
    Alias("scheduler/query_filter_count", "filtered_groups"),
    Alias("system/tps", "train_tokens_per_s", trust=0.8),
    Alias("system/batch_size", "batch_rollouts", trust=0.5),
)
"""`off_policy_ratio` is a lag in steps (0.8). `tps` is a mean over five steps (0.8). What `batch_size` counts, prompts
or rollouts, depends on the pipeline (0.5)."""

_PHASES = ("rollout_s", "trainer_wait_s", "update_s", "logprob_s", "weight_sync_s", "offload_s", "overhead_s")


def interpret(record: Record, found: Mapping[str, float], mode: Mode) -> Mapping[str, float]:
    """The step: its own total, or the phases that the record names where the total is that of the step before."""
    raw = record.values
    total = raw.get(TIME + "step_total", 0.0)
    phases_s = sum(found.get(name, 0.0) for name in _PHASES)
    before = TIME + "step_generate" in raw
    told: dict[str, float] = {}
    if total > 0.0 and not before:
        told["step_s"] = total
    elif before and phases_s > 0.0:
        told["step_s"] = phases_s + found.get("validation_s", 0.0) + found.get("checkpoint_s", 0.0)
    if told and mode is not Mode.UNKNOWN and not record.cut:
        told |= {name: 0.0 for name in ("validation_s", "checkpoint_s") if name not in found}
    return told


def mode_of(observed: Observed) -> Mode:
    """As configured; else overlapped where batches are older than the model, and serial, as by default, where not."""
    ratio = number_setting(observed.config, "async_generation_ratio")
    if ratio is not None:
        return Mode.OVERLAPPED if ratio > 0.0 else Mode.SERIAL
    older = observed.values.get("scheduler/off_policy_ratio", 0.0) > 0.0
    return Mode.OVERLAPPED if older or TIME + "step_shrink" in observed.keys else Mode.SERIAL


def facts(observed: Observed) -> tuple[Topology, Setpoints]:
    config, mode = observed.config, mode_of(observed)
    trainer, generator = _gpus(config, "actor_train"), _gpus(config, "actor_infer")
    split = bool(trainer and generator and not trainer & generator)
    group = count_setting(config, "num_return_sequences_in_group", "train_env_manager.group_size")
    prompts = count_setting(config, "rollout_batch_size")
    ratio = number_setting(config, "async_generation_ratio")
    both = trainer | generator
    topology = Topology(
        framework=NAME, mode=mode, gpus_total=len(both) or None, max_response_tokens=count_setting(config, _CAP)
    )
    return topology, Setpoints(
        gpus_trainer=len(trainer) if split else None,
        gpus_generator=len(generator) if split else None,
        max_in_flight_per_engine=count_setting(config, "max_running_requests"),
        staleness_bound=ratio if mode is Mode.OVERLAPPED else None,
        group_size=group,
        batch_rollouts=prompts * group if prompts and group else None,
        overlap=mode is Mode.OVERLAPPED,
        checkpoint_interval=count_setting(config, "save_steps"),
        validation_interval=count_setting(config, "eval_steps"),
    )


_CAP = "response_length"


def _gpus(config: Mapping[str, object], role: str) -> frozenset[int]:
    """The GPU numbers of `list(range(0,8)) + list(range(12,16))`, or of a list of numbers."""
    written = setting(config, f"{role}.device_mapping")
    if isinstance(written, list | tuple):
        return frozenset(gpu for gpu in written if isinstance(gpu, int) and not isinstance(gpu, bool))
    gpus: set[int] = set()
    for first, end in RANGE.findall(str(written)):
        gpus.update(range(int(first or 0), min(int(end), GPUS_MOST)))
    return frozenset(gpus)


GPUS_MOST = 100_000

RESTART = Change.RESTART
FRAMEWORK = Framework(
    name=NAME,
    aliases=ALIASES,
    knobs=(
        KnobKey("gpus_trainer", "actor_train.device_mapping", RESTART, note="a list of GPU numbers"),
        KnobKey("gpus_generator", "actor_infer.device_mapping", RESTART, note="apart from the trainer's: a split"),
        KnobKey("overlap", "async_generation_ratio", RESTART, data_changing=True, note="above 0"),
        KnobKey("staleness_bound", "async_generation_ratio", RESTART, data_changing=True),
        KnobKey("max_in_flight", "max_running_requests", RESTART, note="per engine"),
        KnobKey("oversampling_ratio", "max_additional_running_prompts", RESTART, data_changing=True, note="prompts"),
        KnobKey("group_size", "num_return_sequences_in_group", RESTART, data_changing=True),
        KnobKey("curriculum_filter", "query_filter_config", RESTART, data_changing=True, note="of each reward worker"),
        KnobKey("packing", "actor_train.use_dynamic_batching_in_train", RESTART, note="or use_sequence_packing"),
        KnobKey("engine_settings", "actor_infer.strategy_args.strategy_config", RESTART, note="the engine's own"),
        KnobKey("kv_memory", "actor_infer.strategy_args.strategy_config.gpu_memory_utilization", RESTART),
        KnobKey("checkpoint_interval", "save_steps", RESTART),
        KnobKey("validation_interval", "eval_steps", RESTART),
        KnobKey("logging", "track_with", RESTART, note="stdout prints every metric as JSON"),
    ),
    signature=(
        *(TIME + name for name in ("step_total", "step_rollout", "step_generate", "step_train", "step_model_update")),
        *(TIME + name for name in ("step_stop_server", "old_log_probs", "ref_log_probs_values")),
        *("scheduler/off_policy_ratio", "scheduler/query_filter_count", "scheduler/collect_query_count"),
        *("system/tps", "system/samples", "tokens/response_length/", "critic/ref_log_prob/mean"),
    ),
    config_signature=("actor_train.", "actor_infer.", "async_generation_ratio", "num_return_sequences_in_group"),
    mode=mode_of,
    facts=facts,
    interpret=interpret,
    computed_trust={"step_s": 0.9},
)
