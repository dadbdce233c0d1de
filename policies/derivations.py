"""The table of derived signals: what follows by arithmetic from what was measured, each with its formula and inputs."""

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

from simulators.plant import Mode
from simulators.signals import TINY

PROVES_IDLE = 0.5
"""Only a GPU utilisation under this says how idle the GPUs are; above it they may be busy waiting."""
ADVANTAGE_DIGITS = 1e-3
"""Relative error of a printed largest advantage (three decimals); a value further off is not that of a lone success."""


@dataclass(frozen=True, slots=True)
class Derivation:
    """`name = formula(*needs)`; a formula answers None where its inputs contradict each other or divide by nothing."""

    name: str
    unit: str
    needs: tuple[str, ...]
    written: str
    """The formula as docs/signals.md prints it, in the names of `needs`; a test compares the two."""
    formula: Callable[..., float | None]
    definition: str
    mode: Mode | None = None
    """Only in this mode."""


def _quotient(part: float, whole: float) -> float | None:
    return part / whole if whole > TINY else None


def _part(part: float, whole: float) -> float | None:
    """A share of something: more than all of it is a contradiction."""
    share = _quotient(part, whole)
    return None if share is None or share > 1.0 else share


def _speedup_to_hide(idle: float) -> float | None:
    return 1.0 / (1.0 - idle) if idle < 1.0 - TINY else None


def _dropped_share(dispatched: float, accepted: float) -> float | None:
    return 1.0 - accepted / dispatched if dispatched > TINY and accepted <= dispatched else None


def group_size_from_advantage(advantage_max: float) -> float | None:
    """Group size n behind the largest group-normalised advantage, or None when no whole n gives it.

    A lone success among n has mean 1/n and sample deviation 1/sqrt(n), so its advantage is (n - 1) / sqrt(n).
    # largest advantage: 1.5 -> 4 | 1.789 -> 5 | 2.475 -> 8 | 3.75 -> 16
    """
    root = (advantage_max + sqrt(advantage_max * advantage_max + 4.0)) / 2.0
    whole = round(root * root)
    if whole < 2 or abs((whole - 1) / sqrt(whole) - advantage_max) > ADVANTAGE_DIGITS * advantage_max:
        return None
    return float(whole)


def _usable_bound(reward_mean: float, low: float, high: float, size: float) -> float | None:
    """Largest share of groups that can carry signal when rewards are binary: each needs one of the rarer answer."""
    if low < 0.0 or high > 1.0 or high <= low:
        return None
    rarer = min(reward_mean - low, high - reward_mean) / (high - low)
    return min(1.0, size * max(0.0, rarer))


def _ratio(name: str, above: str, below: str, definition: str, unit: str = "1") -> Derivation:
    """One signal over another."""
    return Derivation(name, unit, (above, below), f"{above} / {below}", _quotient, definition)


def _share(name: str, part: str, whole: str, definition: str, mode: Mode | None = None) -> Derivation:
    """A part of a whole, never more than all of it."""
    return Derivation(name, "1", (part, whole), f"{part} / {whole}", _part, definition, mode)


DERIVATIONS: tuple[Derivation, ...] = (
    Derivation(
        "trainer_busy_s",
        "s",
        ("update_s", "logprob_s"),
        "update_s + logprob_s",
        lambda u, p: u + p,
        "update and log-prob passes of one batch",
    ),
    Derivation(
        "trainer_busy_s",
        "s",
        ("update_s",),
        "update_s",
        lambda u: u,
        "the update alone, where no log-prob pass is known",
    ),
    Derivation(
        "rollout_s",
        "s",
        ("trainer_wait_s",),
        "trainer_wait_s",
        lambda w: w,
        "what the trainer of a serial job waits for is generation",
        Mode.SERIAL,
    ),
    _share("phase_gen_frac", "rollout_s", "step_s", "share of the step spent generating", Mode.SERIAL),
    _share("phase_trainer_frac", "trainer_busy_s", "step_s", "share of the step spent training", Mode.SERIAL),
    _share("phase_validation_frac", "validation_s", "step_s", "share of the step spent evaluating"),
    Derivation(
        "step_without_validation_s",
        "s",
        ("step_s", "validation_s"),
        "step_s - validation_s",
        lambda s, v: s - v if s > v else None,
        "step less its evaluation",
    ),
    _share(
        "gen_frac_without_validation",
        "rollout_s",
        "step_without_validation_s",
        "generating share of a step without evaluation",
        Mode.SERIAL,
    ),
    _share("trainer_idle_frac", "trainer_wait_s", "step_s", "share of the step the trainer waits"),
    Derivation(
        "trainer_idle_frac",
        "1",
        ("gen_samples_per_s", "train_samples_per_s"),
        "1 - gen_samples_per_s / train_samples_per_s",
        lambda lam, mu: 1.0 - lam / mu if mu > TINY and lam <= mu else None,
        "the same from rates: the generator's effective rate (lambda) over the trainer's service rate (mu)",
    ),
    _share("generator_idle_frac", "generator_wait_s", "step_s", "share of the step the generator is gated"),
    Derivation(
        "generator_speedup_to_hide",
        "1",
        ("trainer_idle_frac",),
        "1 / (1 - trainer_idle_frac)",
        _speedup_to_hide,
        "how much faster the generator must be for the trainer never to wait",
    ),
    _ratio("train_samples_per_s", "batch_rollouts", "trainer_busy_s", "the trainer's service rate", "rollouts/s"),
    _ratio(
        "gen_samples_per_s",
        "batch_rollouts",
        "step_s",
        "what the trainer takes is what the generator delivers",
        "rollouts/s",
    ),
    _ratio(
        "gen_samples_per_s",
        "batch_rollouts",
        "rollout_s",
        "the rate inside the generation phase, where no step time is known",
        "rollouts/s",
    ),
    _ratio(
        "utilisation_ratio",
        "gen_samples_per_s",
        "train_samples_per_s",
        "rho: effective generator rate over the service rate of the trainer",
    ),
    Derivation(
        "waste_frac",
        "1",
        ("dispatched", "accepted"),
        "1 - accepted / dispatched",
        _dropped_share,
        "dispatched rollouts that are never trained",
    ),
    _share("filtered_frac", "filtered_zero_adv", "dispatched", "dispatched rollouts dropped for equal rewards"),
    Derivation(
        "gpu_idle_in_rollout_frac",
        "1",
        ("gpu_util_frac",),
        "1 - gpu_util_frac",
        lambda used: 1.0 - used if used < PROVES_IDLE else None,
        "engines' GPUs that do nothing; a high utilisation proves no work (it may be waiting)",
    ),
    _ratio("response_max_over_mean", "resp_len_max", "resp_len_mean", "longest response over the mean"),
    _ratio("slowest_over_mean", "slowest_s", "rollout_latency_s", "slowest rollout over the mean"),
    _ratio("slowest_s_per_token", "slowest_s", "slowest_tokens", "slowest rollout, per token", "s"),
    _share("env_share_frac", "non_generation_mean_s", "rollout_latency_s", "share of a rollout outside the model"),
    _share(
        "env_share_frac",
        "non_generation_mean_s",
        "rollout_s",
        "time of the mean rollout outside the model over the phase: a floor of the environment's share",
    ),
    _share("reward_share_frac", "reward_latency_s", "rollout_latency_s", "share of a rollout with its judge"),
    Derivation(
        "zero_adv_frac",
        "1",
        ("solved_all_frac", "solved_none_frac"),
        "min(1, solved_all_frac + solved_none_frac)",
        lambda a, b: min(1.0, a + b) if a + b <= 1.0 + TINY else None,
        "groups all right or all wrong",
    ),
    Derivation(
        "usable_group_frac",
        "1",
        ("zero_adv_frac",),
        "1 - zero_adv_frac",
        lambda z: 1.0 - z,
        "trained groups with advantage",
    ),
    Derivation(
        "group_size_seen",
        "rollouts",
        ("advantage_max",),
        "round(((advantage_max + sqrt(advantage_max**2 + 4)) / 2) ** 2)",
        group_size_from_advantage,
        "the n whose lone success has advantage (n - 1) / sqrt(n); the configured group size where it is known",
    ),
    Derivation(
        "usable_group_frac_max",
        "1",
        ("reward_mean", "reward_min", "reward_max", "group_size_seen"),
        "min(1, group_size_seen * max(0, min(reward_mean - reward_min, reward_max - reward_mean))"
        " / (reward_max - reward_min))",
        _usable_bound,
        "most groups that can carry signal with a binary reward: each needs one of the rarer answer",
    ),
    Derivation(
        "decode_tokens_per_s",
        "tokens/s",
        ("published_decode_tokens_per_s",),
        "published_decode_tokens_per_s",
        lambda v: v,
        "the engine's own gauge, where no counter says it",
    ),
    _ratio("tokens_per_s_per_request", "decode_tokens_per_s", "running", "decode rate of one request", "tokens/s"),
    _ratio(
        "decode_tokens_per_s_per_request", "decode_tokens_per_s", "running", "the same under its full name", "tokens/s"
    ),
    _ratio(
        "decode_tokens_per_s_from_tpot",
        "running",
        "tpot_s",
        "what the batch must produce for its time per output token",
        "tokens/s",
    ),
    _share("kv_usage_frac", "kv_tokens", "kv_capacity_tokens", "tokens held over what the pool can hold"),
    _ratio("kv_per_request_frac", "kv_usage_frac", "running", "KV pool share of one request"),
    _ratio(
        "requests_at_full_kv",
        "running",
        "kv_usage_frac",
        "requests that fill the KV pool at today's context lengths",
        "requests",
    ),
)
"""In order: a later one may need an earlier one's result; of two for one name the first that applies wins.

`trainer_idle_frac` stands before the rates on purpose: only measured rates say who idles, not batch over busy time.
"""
