"""The signals of an RL post-training job: each with one name, one unit, one definition.

Every framework's own names are translated into these (tuner/frameworks); the columns of a neutral CSV are these;
the policies read nothing else. Rates are per second, shares are fractions 0..1, times are seconds, lengths tokens.
Absent is `None` (or simply not there), never 0 or NaN.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

LARGEST = 1e15
"""No rate, time, count or size of a job comes near this: 30 million years, a petabyte. Larger is a misprint."""
LARGEST_VALUE = 1e30
"""The same for rewards, norms and divergences, which do explode."""
SMALLEST = 1e-12
"""What is closer to zero than this is zero: nothing that we divide by is measured so finely."""

TINY = 1e-9
"""Floor of a measured divisor: below it a share, a rate or a cost is unknown, not huge."""


class Fold(StrEnum):
    """How several values of one signal become one."""

    MEAN = "mean"
    SUM = "sum"
    MAX = "max"
    MIN = "min"
    LAST = "last"
    LATE = "late"
    """Median of the last quarter: the state a gauge is in now, without the noise of one scrape."""


@dataclass(frozen=True, slots=True)
class SignalSpec:
    """One signal: its unit, its meaning, its legal range and how it folds over replicas and over steps."""

    name: str
    unit: str
    definition: str
    across: Fold = Fold.MEAN
    """Over replicas, ranks and domains that report at the same moment."""
    over: Fold = Fold.MEAN
    """Over the steps (or scrapes) of a window. LAST of a counter is its latest total, kept beside its rate."""
    low: float = 0.0
    high: float = LARGEST
    """Values outside [low, high] are impossible: flagged, never used."""
    also: tuple[str, ...] = ()
    """Other column names that a neutral CSV may use for it."""


def _s(name: str, definition: str, *also: str, across: Fold = Fold.MAX, over: Fold = Fold.MEAN) -> SignalSpec:
    return SignalSpec(name, "s", definition, across, over, also=also)


def _count(name: str, unit: str, definition: str, *also: str, over: Fold = Fold.MEAN) -> SignalSpec:
    return SignalSpec(name, unit, definition, Fold.SUM, over, also=also)


def _frac(name: str, definition: str, *also: str, over: Fold = Fold.MEAN) -> SignalSpec:
    return SignalSpec(name, "1", definition, Fold.MEAN, over, high=1.0, also=also)


def _tokens(name: str, definition: str, *also: str, across: Fold = Fold.MEAN, over: Fold = Fold.MEAN) -> SignalSpec:
    return SignalSpec(name, "tokens", definition, across, over, also=also)


def _value(name: str, definition: str, *also: str, unit: str = "1", low: float = -LARGEST_VALUE) -> SignalSpec:
    return SignalSpec(name, unit, definition, low=low, high=LARGEST_VALUE, also=also)


_STEP = (
    _s("step_s", "wall time between two trainer batches", "t_step_s"),
    _s(
        "trainer_wait_s",
        "part of step_s in which the trainer is blocked on data (overlapped jobs)",
        "t_trainer_wait_s",
    ),
    _s("trainer_busy_s", "forward, backward, optimizer and log-prob passes of one batch", "t_trainer_busy_s"),
    _s(
        "rollout_s",
        "wall time of the generation that makes one batch; in a serial job a phase of step_s",
        "t_rollout_s",
    ),
    _s("update_s", "forward, backward and optimizer of one batch (part of trainer_busy_s)", "t_update_s"),
    _s("logprob_s", "old, reference and value passes of one batch (part of trainer_busy_s)", "t_logprob_s"),
    _s("reward_s", "wall time of reward or verifier outside generation, per step", "t_reward_s"),
    _s(
        "weight_sync_s",
        "publish and apply new weights, per step (amortised over sync_interval)",
        "t_weight_sync_s",
    ),
    _s(
        "generator_wait_s",
        "part of step_s in which the generator is gated by the trainer",
        "t_generator_wait_s",
    ),
    _s("validation_s", "evaluation inside the step; 0 on a step without one", "t_validation_s"),
    _s("checkpoint_s", "saving checkpoints inside the step; 0 on a step without one", "t_checkpoint_s"),
    _s("offload_s", "moving weights and caches between GPU and host, waking and sleeping engines, resharding"),
    _s(
        "overhead_s",
        "named host work that is none of the above: data preparation, advantages, logging, profiling",
    ),
)

_ROLLOUT = (
    _s("rollout_latency_s", "mean end-to-end latency of one rollout, tools included", "generation_s_mean"),
    _s("rollout_p99_s", "99th percentile of the rollout latency"),
    _s("slowest_s", "generation time of the slowest rollout of the batch"),
    _tokens("slowest_tokens", "response tokens of the slowest rollout of the batch", across=Fold.MAX),
    _s(
        "non_generation_mean_s",
        "mean time of one rollout outside the model: tools, environment, user simulator",
        "t_env_s_mean",
        "env_s_mean",
        across=Fold.MEAN,
    ),
    _s(
        "reward_latency_s",
        "mean time of one rollout with its judge or verifier, the wait for it included; part of rollout_latency_s",
        across=Fold.MEAN,
    ),
    _s(
        "sandbox_start_s",
        "mean time to start one sandbox or environment",
        "t_sandbox_start_s",
        across=Fold.MEAN,
    ),
    _s("since_completion_s", "time since the last finished rollout", over=Fold.LAST),
    _tokens("resp_len_mean", "model-generated tokens of a rollout, mean"),
    _tokens("resp_len_p50", "model-generated tokens of a rollout, median"),
    _tokens("resp_len_p99", "model-generated tokens of a rollout, 99th percentile"),
    _tokens("resp_len_max", "model-generated tokens of a rollout, longest of the batch", across=Fold.MAX),
    _tokens("prompt_len_mean", "prompt tokens of a rollout, mean"),
    _tokens("tokens_total", "prompt and response tokens of one trained batch, all ranks", across=Fold.SUM),
    _frac("truncated_frac", "share of rollouts cut at the length cap"),
    _value("turns_mean", "model calls in a rollout, mean", unit="turns", low=0.0),
    _value("turns_max", "model calls in a rollout, most", unit="turns", low=0.0),
    _value("tool_calls_mean", "tool calls in a rollout, mean", unit="calls", low=0.0),
)

_FLOW = (
    _count("batch_rollouts", "rollouts", "rollouts trained per step"),
    _count("dispatched", "rollouts", "rollouts started per step"),
    _count("accepted", "rollouts", "rollouts kept for training per step"),
    _count("dropped_stale", "rollouts", "rollouts dropped per step because they were too old"),
    _count("aborted", "rollouts", "rollouts cancelled per step before they finished"),
    _count("errored", "rollouts", "rollouts lost per step to an infrastructure failure"),
    _count("filtered_zero_adv", "rollouts", "rollouts dropped per step because their group carries no advantage"),
    _count(
        "filtered_groups",
        "groups",
        "groups dropped per step because their rewards are all equal, then refilled",
    ),
    _frac("waste_frac", "1 - accepted / dispatched"),
    _count("queue_depth", "rollouts", "finished rollouts not yet consumed"),
    _count("queue_capacity", "rollouts", "room for finished rollouts"),
    _frac("queue_taken_frac", "share of the next batch that is gone when queue_depth is read: 0 before, 1 after"),
    _count("inflight_rollouts", "rollouts", "rollouts dispatched and not finished"),
    _count("inflight_limit", "rollouts", "cap on rollouts in flight that the job states itself"),
    SignalSpec("staleness_mean", "versions", "trained version minus oldest generating version, mean"),
    SignalSpec(
        "staleness_max",
        "versions",
        "trained version minus oldest generating version, worst",
        Fold.MAX,
        Fold.MAX,
    ),
    SignalSpec("policy_version", "versions", "version last published by the trainer", Fold.MAX, Fold.LAST),
    _count(
        "train_samples_per_s",
        "rollouts/s",
        "rollouts consumed per second of trainer *busy* time: its service rate",
    ),
    _count("gen_samples_per_s", "rollouts/s", "rollouts accepted for training per second of wall time"),
    _count("train_tokens_per_s", "tokens/s", "tokens trained per second of wall time, whole job"),
    _count("gen_tokens_per_s", "tokens/s", "tokens generated per second of wall time, whole generator"),
    _frac("mfu", "model FLOPs utilisation of the trainer"),
    _frac("generator_util_frac", "busy share of the generator's capacity"),
    _frac(
        "published_trainer_idle_frac",
        "trainer idle share as the framework prints it; a cross-check, never the source",
    ),
    _frac(
        "published_generator_idle_frac",
        "generator idle share as the framework prints it; a cross-check, never the source",
    ),
)

_LEARNING = (
    _value("reward_mean", "mean raw reward of the trained rollouts"),
    _frac("solved_all_frac", "share of groups in which every rollout is right"),
    _frac("solved_none_frac", "share of groups in which no rollout is right"),
    _frac("zero_adv_frac", "share of *trained* groups whose rewards are all equal: no advantage, no gradient"),
    _value("reward_min", "lowest raw reward of the trained rollouts"),
    _value("reward_max", "highest raw reward of the trained rollouts"),
    _value("advantage_max", "largest advantage of the batch"),
    _value("entropy", "token entropy of the model", unit="nats"),
    _value("grad_norm", "gradient norm of the update", low=0.0),
    _value("kl", "divergence from the reference or between engine and trainer"),
)

_ENGINE = (
    _count("running", "requests", "requests in the engines' batches", "engine_running", over=Fold.LATE),
    _count("queued", "requests", "requests waiting inside the engines", "engine_waiting", over=Fold.LATE),
    _count("running_limit", "requests", "most requests the engines admit at once (slots)", over=Fold.LATE),
    _frac("kv_usage_frac", "share of the KV pool in use", over=Fold.LATE),
    _count("kv_tokens", "tokens", "tokens held in the KV pools", over=Fold.LATE),
    _count("kv_capacity_tokens", "tokens", "tokens the KV pools can hold", over=Fold.LATE),
    _count("preemptions", "requests", "preempted or retracted requests since the engines started", over=Fold.LAST),
    _count("preemptions_per_s", "requests/s", "preempted or retracted requests per second"),
    _frac("recompute_frac", "share of computed tokens that were computed before"),
    _frac("prefix_hit_frac", "share of prompt tokens found in the prefix cache"),
    _count("prompt_tokens_per_s", "tokens/s", "prompt tokens computed per second"),
    _count("decode_tokens_per_s", "tokens/s", "tokens generated per second by the engines", over=Fold.LATE),
    _s("tpot_s", "time per output token of one request, mean", across=Fold.MEAN),
    _s("ttft_mean_s", "time to first token, mean", across=Fold.MEAN),
    _s("queue_time_mean_s", "time a request waits inside an engine, mean", across=Fold.MEAN),
    _tokens("request_prompt_tokens_mean", "prompt tokens of a finished request, mean"),
    _tokens("request_output_tokens_mean", "generated tokens of a finished request, mean"),
    _count(
        "published_decode_tokens_per_s",
        "tokens/s",
        "generation throughput gauge as the engine prints it (may stick)",
        over=Fold.LATE,
    ),
    _count("engines", "engines", "engines that report", over=Fold.LAST),
    _frac("gpu_util_frac", "GPU utilisation as the driver reports it; high at low power means waiting"),
    _frac("gpu_idle_in_rollout_frac", "share of the generation phase in which the engines' GPUs do no work"),
)

_WORLD = (
    _count("sandbox_active", "sandboxes", "sandboxes alive"),
    _count("sandbox_pending", "sandboxes", "sandboxes asked for and not started"),
    _count("sandbox_quota", "sandboxes", "most sandboxes the provider allows", over=Fold.LAST),
    _frac("sandbox_fail_frac", "share of sandboxes that failed to start or died"),
    SignalSpec("host_memory_bytes", "bytes", "memory of the process that holds the rollout buffer", Fold.MAX),
    SignalSpec("host_memory_limit_bytes", "bytes", "memory at which that process is killed", Fold.MIN),
)

GROUPS: Mapping[str, tuple[SignalSpec, ...]] = {
    "Where the step goes": _STEP,
    "Rollouts": _ROLLOUT,
    "Flow, queue, staleness": _FLOW,
    "Learning": _LEARNING,
    "Engines": _ENGINE,
    "Sandboxes and hosts": _WORLD,
}
"""The measured signals in the order in which docs/signals.md prints them."""

SIGNALS: Mapping[str, SignalSpec] = {spec.name: spec for group in GROUPS.values() for spec in group}
"""The same by name."""


def is_possible(name: str, value: float) -> bool:
    """True when `value` is inside the legal range of signal `name` and of this world (False for NaN, infinities)."""
    spec = SIGNALS[name]
    return spec.low <= value <= spec.high
