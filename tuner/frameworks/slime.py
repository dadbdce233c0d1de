"""slime: two records a rollout (`perf N` of the rollout manager and of the trainer) and the trainer's data line.

`perf/train_wait_time` is everything outside `train()`: publishing, saving, sleeping and waking are inside it.
Raw rewards count; the trainer's `rollout/rewards` are normalised. A serial job generates, then trains.
"""

from collections.abc import Mapping

from simulators.plant import Change, Mode
from tuner.frameworks.base import Alias, Framework, KnobKey, LineFormat
from tuner.frameworks.slime_config import facts_of, mode_of
from tuner.frameworks.slime_lines import Arguments, SlimeLines, StartCommand
from tuner.records import Record

OUTSIDE_TRAIN = {
    "perf/update_weights_time": "weight_sync_s",
    "perf/save_model_time": "checkpoint_s",
    "perf/sleep_time": "offload_s",
    "perf/wake_up_time": "offload_s",
}
"""Timers that run while `train_wait` runs."""

ALIASES = (
    Alias("perf/step_time", "step_s"),
    Alias("perf/total_train_time", "step_s"),  # its name before perf/step_time
    *(Alias(key, signal, add=True) for key, signal in OUTSIDE_TRAIN.items()),
    Alias("perf/actor_train_time", "update_s", add=True),
    Alias("perf/critic_train_time", "update_s", add=True),
    Alias("perf/log_probs_time", "logprob_s", add=True),
    Alias("perf/ref_log_probs_time", "logprob_s", add=True),
    Alias("perf/data_preprocess_time", "overhead_s"),
    Alias("perf/wait_time_ratio", "published_trainer_idle_frac", trust=0.3),
    Alias("perf/non_generation_time/mean", "non_generation_mean_s"),
    Alias("perf/request/queue_time/mean", "queue_time_mean_s"),
    Alias("rollout/response_len/mean", "resp_len_mean"),
    Alias("rollout/response_lengths", "resp_len_mean", trust=0.9),
    Alias("rollout/response_len/median", "resp_len_p50"),
    Alias("rollout/response_len/max", "resp_len_max"),
    Alias("rollout/truncated_ratio", "truncated_frac"),
    Alias("rollout/truncated", "truncated_frac", trust=0.9),
    Alias("rollout/prefix_cache_hit_rate", "prefix_hit_frac"),
    Alias("rollout/dynamic_filter/*", "filtered_groups", add=True),
    Alias("rollout/raw_reward", "reward_mean"),
    Alias("multi_turn/multi_turn_metric/round_number_mean", "turns_mean"),
    Alias("multi_turn/multi_turn_metric/round_number_max", "turns_max"),
    Alias("train/grad_norm", "grad_norm"),
    Alias("train/entropy_loss", "entropy"),
    Alias("train/kl_loss", "kl"),
    Alias("progress/rollouts", "batch_rollouts", trust=0.9),
)


def interpret(record: Record, found: Mapping[str, float], mode: Mode) -> Mapping[str, float]:
    """What slime implies: true starvation, generation against mere collection, lengths, groups without advantage."""
    raw = _with_both_halves(record.values)
    extra: dict[str, float] = {}
    if (busy := raw.get("perf/train_time")) is not None:
        extra["trainer_busy_s"] = max(0.0, busy - raw.get("perf/data_preprocess_time", 0.0))
    if (outside := raw.get("perf/train_wait_time")) is not None:
        starved = max(0.0, outside - sum(raw.get(key, 0.0) for key in OUTSIDE_TRAIN))
        extra["rollout_s" if mode is Mode.SERIAL else "trainer_wait_s"] = starved
    if "perf/step_time" in raw and "perf/save_model_time" not in raw and not record.cut:
        extra["checkpoint_s"] = 0.0  # the timer exists only in rollouts that saved
    generation = raw.get("perf/rollout_time")
    if generation is not None and not raw.get("fully_async/queue_warm", 0.0) > 0.0:
        extra["rollout_s"] = generation  # with a warm queue the time is that of collecting, not of generating
    return extra | _lengths(raw) | _groups(raw)


def _with_both_halves(raw: Mapping[str, float]) -> Mapping[str, float]:
    """A step is its wait and its training: where only the step and the wait's share are told, both follow."""
    step_s, share = raw.get("perf/step_time"), raw.get("perf/wait_time_ratio", -1.0)
    if step_s is None or not 0.0 <= share <= 1.0 or not {"perf/train_time", "perf/train_wait_time"}.isdisjoint(raw):
        return raw
    return {**raw, "perf/train_wait_time": step_s * share, "perf/train_time": step_s * (1.0 - share)}


def _lengths(raw: Mapping[str, float]) -> dict[str, float]:
    told: dict[str, float] = {}
    total, response = raw.get("rollout/total_lengths"), raw.get("rollout/response_lengths")
    if total is not None and response is not None and total >= response:
        told["prompt_len_mean"] = total - response
    per_request = raw.get("perf/decode/throughput/mean", 0.0)
    if per_request > MIN_TOKENS_PER_S:
        told["tpot_s"] = 1.0 / per_request
    return told


MIN_TOKENS_PER_S = 1e-3
"""A slower request has no meaningful time per token."""


def _groups(raw: Mapping[str, float]) -> dict[str, float]:
    """Counts of groups with equal rewards become shares where the rollout states its groups (`target=`)."""
    told: dict[str, float] = {}
    if (left := raw.get("fully_async/queue_left", raw.get("fully_async/queue"))) is not None:
        size = raw.get("progress/rollouts", 0.0) / max(raw.get("fully_async/target", 0.0), 1.0)
        told |= {"queue_depth": left * size} if size >= 1.0 else {}
    groups = raw.get("fully_async/target", 0.0)
    if not groups >= 1.0 or "rollout/response_len/mean" not in raw:
        return told
    equal = {key: count for key, count in raw.items() if key.startswith("rollout/zero_std/count_")}
    told["zero_adv_frac"] = sum(equal.values()) / groups
    told["solved_none_frac"] = equal.get("rollout/zero_std/count_0.0", 0.0) / groups
    told["solved_all_frac"] = equal.get("rollout/zero_std/count_1.0", 0.0) / groups
    return told


RESTART = Change.RESTART
KNOBS = (
    KnobKey(
        "gpus_trainer",
        "--actor-num-nodes",
        RESTART,
        note="with --actor-num-gpus-per-node",
        per=("actor_num_gpus_per_node",),
    ),
    KnobKey("gpus_generator", "--rollout-num-gpus", RESTART, note="in steps of --rollout-num-gpus-per-engine"),
    KnobKey("prefill_decode_split", "--prefill-num-servers", RESTART, note="or server_groups of --sglang-config"),
    KnobKey(
        "oversampling_ratio",
        "--over-sampling-batch-size",
        RESTART,
        data_changing=True,
        note="prompts",
        times=("rollout_batch_size",),
    ),
    KnobKey(
        "max_in_flight",
        "--sglang-server-concurrency",
        RESTART,
        note="per engine; fully async: groups",
        setpoint="max_in_flight_per_engine",
    ),
    KnobKey("client_concurrency", "--sglang-server-concurrency", RESTART, note="also sizes the HTTP pool"),
    KnobKey("group_size", "--n-samples-per-prompt", RESTART, data_changing=True),
    KnobKey("sync_interval", "--update-weights-interval", RESTART, data_changing=True),
    KnobKey("overlap", "train_async.py", RESTART, data_changing=True, note="instead of train.py; not with --colocate"),
    KnobKey("partial_rollout", "--partial-rollout", RESTART, data_changing=True),
    KnobKey("curriculum_filter", "--dynamic-sampling-filter-path", RESTART, data_changing=True),
    KnobKey("pruning", "--rollout-sample-filter-path", RESTART, data_changing=True),
    KnobKey("kv_memory", "--sglang-mem-fraction-static", RESTART),
    KnobKey("packing", "--use-dynamic-batch-size", RESTART, note="with --max-tokens-per-gpu"),
    KnobKey("activation_checkpointing", "--recompute-granularity", RESTART, note="full, selective or left out"),
    KnobKey("checkpoint_interval", "--save-interval", RESTART),
    KnobKey("validation_interval", "--eval-interval", RESTART),
    KnobKey("engine_settings", "--sglang-disable-cuda-graph", RESTART, note="any --sglang-... flag"),
    KnobKey("logging", "--use-tensorboard", RESTART, note="turns: --log-multi-turn; solve rates: --log-passrate"),
)

FRAMEWORK = Framework(
    name="slime",
    aliases=ALIASES,
    knobs=KNOBS,
    formats=(
        LineFormat("record", ("perf ", "rollout ", "Rollout generation"), SlimeLines),
        LineFormat("arguments", ("arguments ---", " ....", "end of arguments"), Arguments),
        LineFormat("command", ("--rollout-batch-size",), StartCommand),
    ),
    signature=(
        *("perf/train_wait_time", "perf/actor_train_time", "perf/rollout_time", "perf/wait_time_ratio"),
        *(
            "perf/tokens_per_gpu_per_sec",
            "perf/update_weights_time",
            "rollout/response_len/",
            "rollout/dynamic_filter/",
        ),
        *("rollout/raw_reward", "rollout/zero_std/", "rollout/truncated_ratio", "perf/non_generation_time/"),
        *("multi_turn/", "passrate/", "perf/actor_train_tflops"),
    ),
    config_signature=(
        *("rollout_function_path", "over_sampling_batch_size", "rollout_num_gpus", "rollout_num_gpus_per_engine"),
        *("n_samples_per_prompt", "num_steps_per_rollout", "actor_num_gpus_per_node", "sglang_server_concurrency"),
    ),
    step_keys=("rollout/step", "train/step"),
    mode=mode_of,
    facts=facts_of,
    config_style="arguments",
    interpret=interpret,
)
