"""What verl measures: its keys as signals, and what they imply together. Shared with its fork EasyR1."""

from collections.abc import Mapping
from math import isfinite

from simulators.plant import Mode
from tuner.frameworks.base import Alias
from tuner.records import Record

MISLEADING = 0.2
"""Trust in the rollouter's idle ratio: it knows the last pause only."""

MOST = 1e9
"""Rollouts of a step, or responses of a prompt: more is a broken number."""

SERIAL, OVERLAPPED = Mode.SERIAL, Mode.OVERLAPPED


def _summed(signal: str, *phases: str) -> tuple[Alias, ...]:
    return tuple(Alias(f"timing_s/{phase}", signal, add=True) for phase in phases)


PHASES = (
    Alias("timing_s/step", "step_s"),
    Alias("timing_s/gen", "rollout_s", add=True, only=SERIAL),
    Alias("timing_s/gen_max", "rollout_s", add=True, only=SERIAL),
    Alias("timing_s/gen", "trainer_wait_s", add=True, only=OVERLAPPED),
    Alias("timing_s/wait_for_enough_samples", "trainer_wait_s", add=True, only=OVERLAPPED),
    Alias("timing_s/switch_wait", "trainer_wait_s", add=True, only=OVERLAPPED),
    *_summed("logprob_s", "old_log_prob", "ref", "values"),
    *_summed("update_s", "update_actor", "update_critic"),
    *_summed("weight_sync_s", "update_weights", "param_sync", "timing_s/param_sync", "sync_rollout_weights"),
    *_summed("offload_s", "switch_to_trainer", "switch_to_rollout"),
    *_summed("overhead_s", "adv", "start_profile", "stop_profile", "dump_rollout_generations"),
    Alias("timing_s/reward", "reward_s"),
    Alias("timing_s/testing", "validation_s"),
    Alias("timing_s/save_checkpoint", "checkpoint_s"),
)
"""`generate_sequences` and `reshard` are parts of `gen` and stay out."""

ROLLOUTS = (
    Alias("timing_s/agent_loop/slowest/generate_sequences", "slowest_s"),
    Alias("timing_s/agent_loop/slowest/response_length", "slowest_tokens"),
    Alias("timing_s/agent_loop/tool_calls/mean", "non_generation_mean_s"),
    Alias("timing_s/agent_loop/compute_score/mean", "reward_latency_s"),
    Alias("fully_async/processing_time/tp99", "rollout_p99_s"),
    Alias("response_length/mean", "resp_len_mean"),
    Alias("response_length/max", "resp_len_max"),
    Alias("response_length/clip_ratio", "truncated_frac"),
    Alias("prompt_length/mean", "prompt_len_mean"),
    Alias("perf/total_num_tokens", "tokens_total"),
    Alias("num_turns/mean", "turns_mean"),
    Alias("num_turns/max", "turns_max"),
    Alias("training/num_turns/mean", "turns_mean"),
    Alias("training/num_turns/max", "turns_max"),
    Alias("tool_call_counts/mean", "tool_calls_mean"),
)

FLOW = (
    Alias("training/off_policy/trajectory_staleness", "staleness_mean", trust=0.8),
    Alias("training/off_policy/trajectory_staleness_worst/mean", "staleness_mean"),
    Alias("training/off_policy/trajectory_staleness_worst/max", "staleness_max"),
    Alias("training/filter_groups/evicted_samples", "filtered_groups"),
    Alias("train/filter_groups/evicted_samples", "filtered_groups"),
    Alias("fully_async/count/current_param_version", "policy_version"),
    Alias("dynamic_resource/rollout_resource_utilization", "generator_util_frac", trust=0.7),
    Alias("fully_async/trainer/idle_ratio", "published_trainer_idle_frac", trust=0.4),
    Alias("fully_async/rollouter/idle_ratio", "published_generator_idle_frac", trust=MISLEADING),
)

LEARNING = (
    Alias("critic/score/mean", "reward_mean"),
    Alias("critic/score/min", "reward_min"),
    Alias("critic/score/max", "reward_max"),
    Alias("critic/advantages/max", "advantage_max"),
    Alias("actor/entropy", "entropy"),
    Alias("actor/entropy_loss", "entropy"),
    Alias("actor/grad_norm", "grad_norm"),
    Alias("actor/kl_loss", "kl"),
)

ALIASES = PHASES + ROLLOUTS + FLOW + LEARNING

_PER_TOKEN_OF_ALL = ("update_actor", "old_log_prob", "old", "ref", "values", "update_critic", "adv")
"""Phases whose time per token counts prompt and response tokens (generation's counts response tokens only)."""


def tokens_of_batch(values: Mapping[str, float]) -> float | None:
    """Tokens of the batch: stated, or time over time per token of the longest phase that has both."""
    stated = values.get("perf/total_num_tokens")
    if _above_zero(stated):
        return stated
    timed = [(values.get(f"timing_s/{p}"), values.get(f"timing_per_token_ms/{p}")) for p in _PER_TOKEN_OF_ALL]
    both = [(seconds, per_token_ms) for seconds, per_token_ms in timed if _above_zero(seconds, per_token_ms)]
    seconds, per_token_ms = max(both, default=(None, None), key=lambda pair: pair[0] or 0.0)
    return None if seconds is None or per_token_ms is None else 1_000.0 * seconds / per_token_ms


def _above_zero(*numbers: float | None) -> bool:
    return all(n is not None and isfinite(n) and n > 0.0 for n in numbers)


def interpret(record: Record, found: Mapping[str, float], mode: Mode) -> Mapping[str, float]:
    """What verl implies: tokens, rollouts of the batch, busy time, phases that did not run, where validation stands."""
    raw = record.values
    extra: dict[str, float] = {}
    tokens = tokens_of_batch(raw)
    if tokens is not None:
        extra["tokens_total"] = tokens
    if (mfu := raw.get("perf/mfu/actor", raw.get("mfu/actor", 0.0))) > 0.0:
        extra["mfu"] = mfu  # exactly 0 means that no peak is known for this GPU
    extra |= _rollouts(raw) | _latency(raw) | _fully_async(raw, _group_size(raw))
    if raw.get("critic/advantages/max") == raw.get("critic/advantages/min") == 0.0:
        extra["zero_adv_frac"] = 1.0  # a critic's are never all 0: the rewards of every group are equal
    extra |= _update_from_tokens(raw, tokens)
    busy = [extra.get("update_s", found.get("update_s")), found.get("logprob_s")]
    if any(part is not None for part in busy):
        extra["trainer_busy_s"] = sum(part for part in busy if part is not None)
    extra |= _phases_not_run(record)
    extra |= _whole_step(raw, {**found, **extra}, mode)
    return extra


def _update_from_tokens(raw: Mapping[str, float], tokens: float | None) -> dict[str, float]:
    per_token_ms = raw.get("timing_per_token_ms/update_actor")
    if "timing_s/update_actor" in raw or tokens is None or not _above_zero(per_token_ms) or per_token_ms is None:
        return {}
    return {"update_s": tokens * per_token_ms / 1_000.0 + raw.get("timing_s/update_critic", 0.0)}


def _rollouts(raw: Mapping[str, float]) -> dict[str, float]:
    """All tokens over the mean length of a rollout is the number of rollouts."""
    prompt, response = raw.get("prompt_length/mean"), raw.get("response_length/mean")
    tokens = raw.get("perf/total_num_tokens")
    if prompt is None or response is None or tokens is None or not _above_zero(prompt + response, tokens):
        return {}
    ratio = tokens / (prompt + response)
    if not 0.5 <= ratio < MOST:
        return {}
    rollouts = round(ratio)
    counts = {"batch_rollouts": float(rollouts)}
    if isfinite(aborted := raw.get("response/aborted_ratio", float("nan"))):
        counts["aborted"] = aborted * rollouts
    return counts


def _latency(raw: Mapping[str, float]) -> dict[str, float]:
    """Generation, tool calls and scoring of a rollout are timed apart; a rollout lasts for all three."""
    generated = raw.get("timing_s/agent_loop/generate_sequences/mean", raw.get("fully_async/processing_time/avg"))
    timed: dict[str, float] = {}
    if generated is not None:
        apart = (raw.get(f"timing_s/agent_loop/{part}/mean", 0.0) for part in ("tool_calls", "compute_score"))
        timed["rollout_latency_s"] = generated + sum(apart)
    if "timing_s/agent_loop/slowest/generate_sequences" not in raw:
        longest = raw.get("timing_s/agent_loop/generate_sequences/max", raw.get("fully_async/processing_time/max"))
        timed |= {} if longest is None else {"slowest_s": longest}
    return timed


def _group_size(raw: Mapping[str, float]) -> int | None:
    """Responses of a prompt in a fully asynchronous record, from its own limits and its tokens."""
    required = raw.get("fully_async/static/required_samples")
    most, bound = raw.get("fully_async/static/max_required_samples"), raw.get("fully_async/static/staleness_threshold")
    rollouts = _rollouts(raw).get("batch_rollouts")
    if required is None or most is None or bound is None or rollouts is None or not _above_zero(required, most):
        return None
    cycle = most / (1.0 + bound) if bound >= 0.0 else required
    size = rollouts / max(required, cycle)
    return round(size) if 0.95 <= size < MOST and abs(size - round(size)) < 0.05 * size else None


_COUNTED_IN_PROMPTS = {
    "fully_async/monitor/queue/mq_queue_size": "queue_depth",
    "fully_async/static/max_queue_size": "queue_capacity",
    "fully_async/monitor/active_tasks_size": "inflight_rollouts",
    "fully_async/static/max_concurrent_samples": "inflight_limit",
}
"""A `sample` of the fully asynchronous rollouter is a prompt with all its responses."""


def _fully_async(raw: Mapping[str, float], group: int | None) -> dict[str, float]:
    told: dict[str, float] = {}
    version_s = raw.get("fully_async/rollouter/version_time")
    active_s = raw.get("fully_async/rollouter/active_time")
    if version_s is not None and active_s is not None:
        told["generator_wait_s"] = version_s - active_s
    if group is None:
        return told
    told |= {signal: raw[key] * group for key, signal in _COUNTED_IN_PROMPTS.items() if key in raw}
    generated = raw.get("fully_async/rollouter/step_generated_samples")
    if generated is not None and version_s is not None and _above_zero(version_s):
        told["gen_samples_per_s"] = generated * group / version_s
    return told


def _phases_not_run(record: Record) -> dict[str, float]:
    """In a whole record an absent timer means that the phase did not run (fully async never times validation)."""
    raw = record.values
    if record.cut or "timing_s/step" not in raw or "response_length/mean" not in raw:
        return {}
    idle = {} if "timing_s/save_checkpoint" in raw else {"checkpoint_s": 0.0}
    if "timing_s/testing" not in raw and not any(key.startswith("fully_async/") for key in raw):
        idle["validation_s"] = 0.0
    return idle


_INSIDE = ("rollout_s", "trainer_wait_s", "trainer_busy_s", "reward_s", "weight_sync_s", "offload_s", "overhead_s")


def _whole_step(raw: Mapping[str, float], found: Mapping[str, float], mode: Mode) -> dict[str, float]:
    """Some stacks stop the step's clock before validation or checkpoint: wall time is longer than timing_s/step."""
    step_s = raw.get("timing_s/step")
    after = {name: found.get(name, 0.0) for name in ("validation_s", "checkpoint_s")}
    if mode is Mode.UNKNOWN or step_s is None or sum(after.values()) <= 0.0:
        return {}
    inside_s = sum(found.get(name, 0.0) for name in _INSIDE)
    outside_s = sum(after.values())
    fits = inside_s + outside_s <= 1.01 * step_s
    return {} if fits or inside_s > 1.01 * step_s else {"step_s": step_s + outside_s}


SIGNATURE = (
    *("timing_s/", "timing_per_token_ms/", "fully_async/", "global_seqlen/", "separate_async/", "actor/"),
    *("response_length/", "perf/mfu/actor", "mfu/actor", "dynamic_resource/"),
)
"""Keys that only verl and its forks write."""
