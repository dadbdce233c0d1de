"""Derived signals: what follows by arithmetic from what was measured, each with its formula and its inputs.

A derivation applies only when all its inputs are known and the job does not measure the result itself.
Trust of a result is the least trust among its inputs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from math import sqrt

from simulators.plant import Mode, Setpoints, Topology
from simulators.signals import SIGNALS
from simulators.snapshot import Row, Signal, Snapshot

TINY = 1e-9
"""Floor of a measured divisor: below it a share or a rate is unknown, not huge."""


@dataclass(frozen=True, slots=True)
class Derivation:
    """`name = formula(*needs)`; a formula may answer None where its inputs contradict each other."""

    name: str
    unit: str
    needs: tuple[str, ...]
    formula: Callable[..., float | None]
    definition: str
    mode: Mode | None = None
    """Only in this mode."""


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole > TINY else None


def _idle(wait: float, step: float) -> float | None:
    share = _share(wait, step)
    return None if share is None or share > 1.0 else share


def _speedup_to_hide(idle: float) -> float | None:
    return 1.0 / (1.0 - idle) if idle < 1.0 - TINY else None


def _dropped_share(dispatched: float, accepted: float) -> float | None:
    return 1.0 - accepted / dispatched if dispatched > TINY and accepted <= dispatched else None


def group_size_from_advantage(advantage_max: float) -> float | None:
    """Group size n behind the largest group-normalised advantage, or None when it is not that of an integer.

    One success among n gives (n - 1) / sqrt(n): mean 1/n, population deviation sqrt(n - 1)/n. Solved for n and
    accepted only if whole within 1 %.
    # largest advantage: 1.5 -> 4 | 1.789 -> 5 | 2.475 -> 8 | 3.75 -> 16
    """
    root = (advantage_max + sqrt(advantage_max * advantage_max + 4.0)) / 2.0
    size = root * root
    whole = round(size)
    return float(whole) if whole >= 2 and abs(size - whole) <= 0.01 * whole else None


def _usable_bound(reward_mean: float, low: float, high: float, advantage_max: float) -> float | None:
    """Largest share of groups that can carry signal when rewards are binary: each needs one of the rarer answer."""
    size = group_size_from_advantage(advantage_max)
    if size is None or low < 0.0 or high > 1.0 or high <= low:
        return None
    rarer = min(reward_mean - low, high - reward_mean) / (high - low)
    return min(1.0, size * max(0.0, rarer))


DERIVATIONS: tuple[Derivation, ...] = (
    Derivation("trainer_busy_s", "s", ("update_s", "logprob_s"), lambda u, p: u + p, "update and log-prob passes"),
    Derivation("trainer_busy_s", "s", ("update_s",), lambda u: u, "the update alone is known"),
    Derivation(
        "phase_gen_frac", "1", ("rollout_s", "step_s"), _idle, "share of the step spent generating", Mode.SERIAL
    ),
    Derivation(
        "phase_trainer_frac", "1", ("trainer_busy_s", "step_s"), _idle, "share of the step spent training", Mode.SERIAL
    ),
    Derivation("phase_validation_frac", "1", ("validation_s", "step_s"), _idle, "share of the step spent evaluating"),
    Derivation(
        "step_without_validation_s",
        "s",
        ("step_s", "validation_s"),
        lambda s, v: s - v if s > v else None,
        "step less its evaluation",
    ),
    Derivation(
        "gen_frac_without_validation",
        "1",
        ("rollout_s", "step_without_validation_s"),
        _idle,
        "generating share of a step without evaluation",
        Mode.SERIAL,
    ),
    Derivation("trainer_idle_frac", "1", ("trainer_wait_s", "step_s"), _idle, "share of the step the trainer waits"),
    Derivation(
        "trainer_idle_frac",
        "1",
        ("gen_samples_per_s", "train_samples_per_s"),
        lambda lam, mu: 1.0 - lam / mu if mu > TINY and lam <= mu else None,
        "1 - lambda / mu: the generator's effective rate over the trainer's service rate",
    ),
    Derivation(
        "generator_idle_frac", "1", ("generator_wait_s", "step_s"), _idle, "share of the step the generator is gated"
    ),
    Derivation(
        "generator_speedup_to_hide",
        "1",
        ("trainer_idle_frac",),
        _speedup_to_hide,
        "how much faster the generator must be for the trainer never to wait: 1 / (1 - idle)",
    ),
    Derivation("train_samples_per_s", "rollouts/s", ("batch_rollouts", "trainer_busy_s"), _share, "batch / busy"),
    Derivation("gen_samples_per_s", "rollouts/s", ("batch_rollouts", "step_s"), _share, "batch / step"),
    Derivation("gen_samples_per_s", "rollouts/s", ("batch_rollouts", "rollout_s"), _share, "batch / generation"),
    Derivation("utilisation_ratio", "1", ("gen_samples_per_s", "train_samples_per_s"), _share, "rho = lambda_eff / mu"),
    Derivation("waste_frac", "1", ("dispatched", "accepted"), _dropped_share, "1 - accepted / dispatched"),
    Derivation(
        "filtered_frac",
        "1",
        ("filtered_zero_adv", "dispatched"),
        _idle,
        "dispatched rollouts dropped for equal rewards",
    ),
    Derivation(
        "gpu_idle_in_rollout_frac",
        "1",
        ("gpu_util_frac",),
        lambda used: 1.0 - used if used < 0.5 else None,
        "engines' GPUs that do nothing; a high utilisation proves no work (it may be waiting)",
    ),
    Derivation(
        "response_max_over_mean", "1", ("resp_len_max", "resp_len_mean"), _share, "longest response over the mean"
    ),
    Derivation("slowest_over_mean", "1", ("slowest_s", "rollout_latency_s"), _share, "slowest rollout over the mean"),
    Derivation("slowest_s_per_token", "s", ("slowest_s", "slowest_tokens"), _share, "slowest rollout, per token"),
    Derivation(
        "env_share_frac",
        "1",
        ("non_generation_mean_s", "rollout_latency_s"),
        _idle,
        "share of a rollout outside the model",
    ),
    Derivation(
        "env_share_frac",
        "1",
        ("non_generation_mean_s", "rollout_s"),
        _idle,
        "time of the mean rollout outside the model over the phase: a floor of the environment's share",
    ),
    Derivation(
        "zero_adv_frac",
        "1",
        ("solved_all_frac", "solved_none_frac"),
        lambda a, b: a + b if a + b <= 1.0 + TINY else None,
        "groups all right or all wrong",
    ),
    Derivation("usable_group_frac", "1", ("zero_adv_frac",), lambda z: 1.0 - z, "trained groups with advantage"),
    Derivation(
        "group_size_seen",
        "rollouts",
        ("advantage_max",),
        group_size_from_advantage,
        "group size behind the largest normalised advantage",
    ),
    Derivation(
        "usable_group_frac_max",
        "1",
        ("reward_mean", "reward_min", "reward_max", "advantage_max"),
        _usable_bound,
        "most groups that can carry signal with a binary reward: n x share of the rarer answer",
    ),
    Derivation(
        "decode_tokens_per_s", "tokens/s", ("published_decode_tokens_per_s",), lambda v: v, "the engine's own gauge"
    ),
    Derivation(
        "tokens_per_s_per_request", "tokens/s", ("decode_tokens_per_s", "running"), _share, "decode rate of one request"
    ),
    Derivation(
        "decode_tokens_per_s_per_request",
        "tokens/s",
        ("decode_tokens_per_s", "running"),
        _share,
        "decode rate of one request",
    ),
    Derivation(
        "decode_tokens_per_s_from_tpot",
        "tokens/s",
        ("running", "tpot_s"),
        _share,
        "running / time per output token: what the batch must produce",
    ),
    Derivation("kv_per_request_frac", "1", ("kv_usage_frac", "running"), _share, "KV pool share of one request"),
    Derivation(
        "requests_at_full_kv",
        "requests",
        ("running", "kv_usage_frac"),
        _share,
        "requests that fill the KV pool at today's context lengths",
    ),
    Derivation(
        "kv_usage_frac", "1", ("kv_tokens", "kv_capacity_tokens"), _idle, "tokens held over what the pool can hold"
    ),
)
"""In order: a later one may need an earlier one's result; of two for one name the first that applies wins."""

LAST_VALUES = ("entropy", "grad_norm", "truncated_frac", "reward_mean", "zero_adv_frac", "resp_len_mean")
"""Learning signals whose latest value matters as much as their mean: `<name>_last`."""

WINDOW_NAMES = ("first", "second", "third", "fourth")


def estimate(topology: Topology, setpoints: Setpoints, snapshot: Snapshot) -> Snapshot:
    """The snapshot with every signal that follows from it. Pure; measured signals are never replaced."""
    signals = dict(snapshot.signals)
    if "batch_rollouts" not in signals and setpoints.batch_rollouts:
        signals["batch_rollouts"] = Signal(float(setpoints.batch_rollouts), "rollouts", derived_from=("configuration",))
    for rule in DERIVATIONS:
        if rule.name in signals or (rule.mode is not None and rule.mode is not topology.mode):
            continue
        derived = _apply(rule, signals)
        if derived is not None:
            signals[rule.name] = derived
    signals |= _last_values(snapshot) | _unaccounted(topology.mode, signals) | _window_rates(snapshot, signals)
    return replace(snapshot, signals=signals)


def _apply(rule: Derivation, signals: Mapping[str, Signal]) -> Signal | None:
    inputs = [signals[name] for name in rule.needs if name in signals]
    if len(inputs) < len(rule.needs):
        return None
    value = rule.formula(*(s.value for s in inputs))
    if value is None:
        return None
    ages = [s.age_s for s in inputs if s.age_s is not None]
    return Signal(
        value,
        rule.unit,
        min(s.n for s in inputs),
        min(s.trust for s in inputs),
        max(ages, default=None),
        rule.needs,
    )


def _last_values(snapshot: Snapshot) -> dict[str, Signal]:
    found: dict[str, Signal] = {}
    for name in LAST_VALUES:
        series = snapshot.series(name)
        if series:
            found[f"{name}_last"] = Signal(series[-1], SIGNALS[name].unit, 1, derived_from=(name,))
    return found


SERIAL_PHASES = (
    "rollout_s",
    "reward_s",
    "trainer_busy_s",
    "weight_sync_s",
    "validation_s",
    "checkpoint_s",
    "offload_s",
    "overhead_s",
)
OVERLAPPED_PHASES = ("trainer_wait_s", *SERIAL_PHASES[1:])
"""In an overlapped job generation runs beside the step; what the trainer sees of it is its wait."""


def phases_of(mode: Mode) -> tuple[str, ...]:
    """The signals that add up to step_s, in step order."""
    return OVERLAPPED_PHASES if mode is Mode.OVERLAPPED else SERIAL_PHASES


def _unaccounted(mode: Mode, signals: Mapping[str, Signal]) -> dict[str, Signal]:
    step = signals.get("step_s")
    parts = [name for name in phases_of(mode) if name in signals]
    if step is None or step.value <= TINY or not parts:
        return {}
    rest = 1.0 - sum(signals[name].value for name in parts) / step.value
    return {"unaccounted_frac": Signal(rest, "1", step.n, derived_from=("step_s", *parts))}


def segments(rows: tuple[Row, ...]) -> list[tuple[Row, ...]]:
    """Unbroken stretches of steps: a log that was cut and joined shows a jump in the step number."""
    if not rows:
        return []
    cuts = [0]
    for i, (before, after) in enumerate(pairwise(rows), start=1):
        end = before.last_step if before.last_step is not None else before.step
        if end is not None and after.step is not None and after.step > end + max(1, before.weight):
            cuts.append(i)
    return [rows[a:b] for a, b in pairwise([*cuts, len(rows)])]


def _window_rates(snapshot: Snapshot, signals: Mapping[str, Signal]) -> dict[str, Signal]:
    """Rollouts per second of each unbroken stretch, where the log has a few of them."""
    batch = signals.get("batch_rollouts")
    stretches = segments(snapshot.rows)
    if batch is None or not 2 <= len(stretches) <= len(WINDOW_NAMES):
        return {}
    rates: dict[str, Signal] = {}
    for name, rows in zip(WINDOW_NAMES, stretches, strict=False):
        steps = [(row.values["step_s"], row.weight) for row in rows if "step_s" in row.values]
        seconds = sum(s * w for s, w in steps)
        if seconds > TINY:
            rate = batch.value * sum(w for _, w in steps) / seconds
            rates[f"rollouts_per_s_{name}_window"] = Signal(
                rate, "rollouts/s", len(steps), derived_from=("batch_rollouts", "step_s")
            )
    return rates
