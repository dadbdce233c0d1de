"""prime-rl v0.5 to today: metrics.jsonl rows and console lines of trainer and orchestrator, which always overlap.

The trainer's `time/step` includes `time/wait_for_batch`; `perf/mfu` is in percent. Names changed at v0.6, v0.7 and
after v0.8: all are listed, each signal's newest first.
"""

from collections.abc import Mapping
from math import isfinite

from simulators.plant import Change, Mode
from tuner.frameworks.base import Alias, Framework, KnobKey, LineFormat, Observed
from tuner.frameworks.prime_rl_config import facts_of
from tuner.frameworks.prime_rl_lines import NEVER_PAUSED, PAUSED, StepLines
from tuner.records import Record


def _matrix(measure: str, signal: str, scale: float = 1.0) -> tuple[Alias, ...]:
    """A measure of what was shipped to the trainer: v0.7-v0.8 by environment, today by environment and agent."""
    keys = (f"train/agg/effective/{measure}", f"train/agg/effective/*/{measure}")
    return tuple(Alias(key, signal, scale) for key in keys)


TIMES = (
    Alias("time/step", "step_s"),
    Alias("orchestrator/time/step", "step_s", trust=0.9),
    Alias("time/wait_for_batch", "trainer_wait_s"),
    Alias("time/forward_backward", "update_s"),
    Alias("time/load_data", "overhead_s"),
    Alias("time/broadcast_weights", "weight_sync_s"),
    Alias("time/save_ckpt", "checkpoint_s"),
    Alias("time/wait_for_policy", "generator_wait_s"),
    Alias("time/wait_for_ckpt", "generator_wait_s"),
    Alias(NEVER_PAUSED, "generator_wait_s", trust=0.6),
)

ROLLOUTS = (
    *_matrix("timing/total/mean", "rollout_latency_s"),
    *_matrix("timing/total/max", "slowest_s"),
    *_matrix("timing/agent/harness/mean", "non_generation_mean_s"),
    *_matrix("timing/scoring/mean", "reward_latency_s"),
    *_matrix("timing/setup/mean", "sandbox_start_s"),
    Alias("generation_ms/all/mean", "rollout_latency_s", 1e-3),
    Alias("generation_ms/all/max", "slowest_s", 1e-3),
    *_matrix("num_output_tokens/mean", "resp_len_mean"),
    *_matrix("num_output_tokens/max", "resp_len_max"),
    *_matrix("num_input_tokens/mean", "prompt_len_mean"),
    Alias("decode_len/all/mean", "resp_len_mean"),
    Alias("prefill_len/all/mean", "prompt_len_mean"),
    Alias("progress/input_tokens", "tokens_total", add=True),
    Alias("progress/output_tokens", "tokens_total", add=True),
    Alias("progress/prefill_tokens", "tokens_total", add=True),
    Alias("progress/decode_tokens", "tokens_total", add=True),
    *_matrix("is_truncated/mean", "truncated_frac"),
    Alias("is_truncated/all/mean", "truncated_frac"),
    *_matrix("num_turns/mean", "turns_mean"),
    *_matrix("num_turns/max", "turns_max"),
    Alias("num_turns/all/mean", "turns_mean"),
    Alias("num_turns/all/max", "turns_max"),
)

FLOW = (
    Alias("trainable/rollouts", "batch_rollouts"),
    Alias("progress/samples", "batch_rollouts"),
    Alias("progress/rollouts", "dispatched", trust=0.8),
    Alias("off_policy/dropped", "dropped_stale", add=True),
    Alias("dispatcher/cancelled/train", "dropped_stale", add=True),
    Alias("scheduler/cancelled_rollouts", "dropped_stale", add=True),
    Alias("dispatcher/errored/train", "errored"),
    Alias("pipeline/train_batch", "queue_depth", add=True),
    Alias("pipeline/buffered", "queue_depth", add=True),
    Alias("dispatcher/inflight/train", "inflight_rollouts"),
    Alias("dispatcher/inflight_train", "inflight_rollouts"),
    Alias("scheduler/inflight_rollouts", "inflight_rollouts"),
    Alias("concurrency/max_inflight", "inflight_limit"),
    Alias("off_policy/mean", "staleness_mean"),
    Alias("off_policy/max", "staleness_max"),
    Alias("off_policy_level/all/mean", "staleness_mean"),
    Alias("off_policy_level/all/max", "staleness_max"),
    Alias("dispatcher/off_policy_level_mean", "staleness_mean", trust=0.7),
    Alias("dispatcher/off_policy_level_max", "staleness_max", trust=0.7),
    Alias("watcher/policy_version", "policy_version"),
    Alias("progress/ckpt_step", "policy_version"),
    Alias("perf/throughput", "train_tokens_per_s", trust=0.8),
    Alias("orchestrator/perf/throughput", "train_tokens_per_s", trust=0.7),
    Alias("perf/mfu", "mfu", 0.01),
    Alias("inference/agg/kv_cache_usage_perc/mean", "kv_usage_frac"),
    Alias("inference/agg/num_requests_running/sum", "running"),
    Alias("inference/agg/num_requests_waiting/sum", "queued"),
)

LEARNING = (
    *_matrix("reward/mean", "reward_mean"),
    Alias("reward/all/mean", "reward_mean"),
    *_matrix("solved_all", "solved_all_frac"),
    *_matrix("solved_none", "solved_none_frac"),
    Alias("solve_all/all", "solved_all_frac"),
    Alias("solve_none/all", "solved_none_frac"),
    Alias("filter/zero_advantage_rate", "zero_adv_frac"),
    Alias("entropy/all/mean", "entropy"),
    Alias("entropy/mean", "entropy"),
    Alias("optim/grad_norm", "grad_norm"),
    Alias("mismatch_kl/all/mean", "kl"),
    Alias("mismatch_kl/mean", "kl"),
)

SERVED = (
    Alias("trainer_last_step_timestamp_seconds", "step_s", trust=0.9, counter=True),
    Alias("trainer_throughput_tokens_per_sec", "train_tokens_per_s", trust=0.8),
    Alias("trainer_mfu_percent", "mfu", 0.01),
    Alias("trainer_entropy", "entropy"),
    Alias("trainer_grad_norm", "grad_norm"),
    Alias("trainer_mismatch_kl", "kl"),
)
"""Gauges of the trainer's own metrics server, set once a step."""

ALIASES = TIMES + ROLLOUTS + FLOW + LEARNING + SERVED

COLLECTED_S_MIN = 1.0
"""The bar counts whole seconds; a batch collected in less had been finished before and says nothing of generation."""


def interpret(record: Record, found: Mapping[str, float], mode: Mode) -> Mapping[str, float]:
    """Busy time, tokens and rollouts of the batch, generation time where the generator was not gated, losses."""
    raw = record.values
    extra: dict[str, float] = {}
    if (update_s := raw.get("time/forward_backward")) is not None:
        extra["trainer_busy_s"] = update_s
    collected_s = raw.get("time/generate_completions", 0.0)
    if collected_s >= COLLECTED_S_MIN and not raw.get("time/wait_for_ckpt", 0.0) > 0.0:
        extra["rollout_s"] = collected_s
    if "tokens_total" not in found and "seq_len/all/mean" in raw and "progress/samples" in raw:
        extra["tokens_total"] = raw["seq_len/all/mean"] * raw["progress/samples"]
    extra |= _batch(raw) | _losses(raw) | _signal(raw)
    return extra


def _of_shipped(raw: Mapping[str, float], measure: str) -> float | None:
    """The mean over agents of a measure of what was shipped; None when the row has none."""
    whole = raw.get(f"train/agg/effective/{measure}")
    if whole is not None:
        return whole
    values = [v for k, v in raw.items() if k.startswith("train/agg/effective/") and k.endswith(f"/{measure}")]
    return sum(values) / len(values) if values else None


def _batch(raw: Mapping[str, float]) -> dict[str, float]:
    """Output tokens of the batch over the mean output of a rollout."""
    tokens, mean = raw.get("progress/output_tokens"), _of_shipped(raw, "num_output_tokens/mean")
    if tokens is None or mean is None or not mean > 0.0 or "progress/samples" in raw:
        return {}
    rollouts = tokens / mean
    return {"batch_rollouts": float(round(rollouts))} if isfinite(rollouts) and rollouts >= 0.5 else {}


def _losses(raw: Mapping[str, float]) -> dict[str, float]:
    """Rates over all rollouts that arrived, as counts."""
    arrived = raw.get("progress/rollouts")
    if arrived is None:
        return {}
    rates = {"errored": "train/agg/all/has_error/mean", "aborted": "train/agg/all/cancelled/mean"}
    return {signal: raw[key] * arrived for signal, key in rates.items() if key in raw}


def _signal(raw: Mapping[str, float]) -> dict[str, float]:
    """Share without advantage: counted by the filter, else what is not trainable, else what is not `effective`."""
    if "filter/zero_advantage_rate" in raw:
        return {}
    useful = _of_shipped(raw, "is_trainable/mean")
    useful = raw.get("effective_batch_size/all") if useful is None else useful
    return {} if useful is None else {"zero_adv_frac": 1.0 - useful}


def overlapped(seen: Observed) -> Mode:
    return Mode.OVERLAPPED if seen.keys or seen.config else Mode.UNKNOWN


def version_of(seen: Observed) -> str | None:
    """The first release that writes these names."""
    probes = (
        ("after v0.8", ("dispatcher/inflight/train", "off_policy/mean", "concurrency/max_inflight", "time/pack")),
        ("v0.7-v0.8", ("time/wait_for_policy", "progress/rollouts")),
        ("v0.6", ("dispatcher/inflight_train", "decode_len/all/mean", "filters/all/is_filtered")),
        ("v0.5", ("scheduler/async_level", "off_policy_level/all/max", "time/wait_for_ckpt")),
    )
    return next((name for name, keys in probes if any(key in seen.keys for key in keys)), None)


RESTART = Change.RESTART
_TRAIN_NODES, _INFER_NODES = "deployment.num_train_nodes", "deployment.num_infer_nodes"
_PER_NODE = ("deployment.gpus_per_node",)
KNOBS = (
    KnobKey("gpus_trainer", "deployment.num_train_gpus", RESTART),
    KnobKey("gpus_trainer", _TRAIN_NODES, RESTART, note="in nodes", where_set=_TRAIN_NODES, per=_PER_NODE),
    KnobKey("gpus_generator", "deployment.num_infer_gpus", RESTART),
    KnobKey(
        "gpus_generator",
        _INFER_NODES,
        RESTART,
        note="in nodes of one replica",
        where_set=_INFER_NODES,
        per=_PER_NODE,
    ),
    KnobKey("prefill_decode_split", "inference.deployment.num_prefill_replicas", RESTART, note="type=disaggregated"),
    KnobKey(
        "max_in_flight",
        "orchestrator.concurrency.max_inflight",
        RESTART,
        note="a bound: the job moves its own cap; v0.8: max_inflight_episodes, earlier: max_inflight_rollouts",
    ),
    KnobKey("oversampling_ratio", "orchestrator.oversampling_factor", RESTART, data_changing=True, note="to v0.8"),
    KnobKey(
        "staleness_bound",
        "orchestrator.max_off_policy_steps",
        RESTART,
        data_changing=True,
        note="the dispatch gate stops one batch ahead; v0.5: max_async_level",
    ),
    KnobKey("group_size", "orchestrator.group_size", RESTART, data_changing=True, note="v0.5: rollouts_per_example"),
    KnobKey("curriculum_filter", "orchestrator.train.filter_zero_advantages", RESTART, data_changing=True),
    KnobKey("sandbox_quota", "orchestrator.tasks_per_minute", RESTART, note="rate of new episodes"),
    KnobKey("client_concurrency", "orchestrator.train.env.serve.max_concurrent", RESTART, note="per env worker"),
    KnobKey("checkpoint_interval", "ckpt.interval", RESTART),
    KnobKey("validation_interval", "orchestrator.eval.interval", RESTART),
    KnobKey("kv_memory", "inference.gpu_memory_utilization", RESTART),
    KnobKey("engine_settings", "inference.model.enforce_eager", RESTART),
    KnobKey("logging", "monitors.file", RESTART, note="metrics.jsonl; on by default after v0.8"),
)

FRAMEWORK = Framework(
    name="prime-rl",
    aliases=ALIASES,
    knobs=KNOBS,
    formats=(
        LineFormat(
            "step",
            (
                *("Step ", "orchestrator step", "Generating rollouts", PAUSED, "Orchestrator resumed"),
                *("rollouts (", "Train batch "),
            ),
            StepLines,
        ),
    ),
    signature=(
        *("time/wait_for_batch", "time/wait_for_policy", "time/wait_for_ckpt", "time/forward_backward", "off_policy/"),
        *("off_policy_level/", "dispatcher/", "scheduler/", "watcher/", "concurrency/", "train/agg/", "progress/"),
        *("trainer_step", "trainer_last_step_timestamp_seconds"),
        *("solve_all/", "solve_none/", "effective_batch_size/", "inference/agg/", "mismatch_kl/", "time/pack"),
    ),
    serves=("trainer_", "trainer_step"),
    step_keys=("step", "trainer_step"),
    config_signature=("orchestrator.", "deployment.num_train_", "deployment.num_infer_", "max_off_policy_steps"),
    mode=overlapped,
    version=version_of,
    facts=facts_of,
    config_style="toml",
    interpret=interpret,
)
