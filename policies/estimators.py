"""Adds to a snapshot what follows from it: the table of derivations, latest values, rates of each stretch.

A derivation applies only when all its inputs are known and the job does not measure the result itself.
Trust of a result is the least trust among its inputs.
"""

from collections.abc import Container, Mapping
from dataclasses import replace
from itertools import pairwise

from policies.derivations import DERIVATIONS, Derivation
from simulators.plant import Mode, Setpoints, Topology
from simulators.signals import SIGNALS, TINY, is_possible
from simulators.snapshot import Row, Signal, Snapshot

OF_EVALUATION_STEPS = frozenset({"phase_validation_frac", "step_without_validation_s", "gen_frac_without_validation"})
"""Meaningless once the steps with an evaluation are left out of step_s; the budget has their share then."""

LAST_VALUES = ("entropy", "grad_norm", "truncated_frac", "reward_mean", "zero_adv_frac", "resp_len_mean")
"""Learning signals whose latest value matters as much as their mean: `<name>_last`."""

WINDOW_NAMES = ("first", "second", "third", "fourth")
"""Unbroken stretches of a log, by place; with more of them a rate of each says nothing to a reader."""

FROM_ROWS: Mapping[str, str] = {
    **{f"{name}_last": f"latest value of `{name}` in the window" for name in LAST_VALUES},
    "unaccounted_frac": "share of the step that no phase claims: 1 - sum(phases) / step_s, mean over the steps",
    **{
        f"rollouts_per_s_{name}_window": f"batch_rollouts / step_s over the {name} unbroken stretch of steps"
        for name in WINDOW_NAMES
    },
}
"""What is derived from single steps rather than from the window's values, and how."""


def estimate(topology: Topology, setpoints: Setpoints, snapshot: Snapshot) -> Snapshot:
    """The snapshot with every signal that follows from it. Pure; measured signals are never replaced."""
    signals = {n: s for n, s in snapshot.signals.items() if n not in SIGNALS or is_possible(n, s.value)}
    if "batch_rollouts" not in signals and setpoints.batch_rollouts:
        signals["batch_rollouts"] = Signal(float(setpoints.batch_rollouts), "rollouts", derived_from=("configuration",))
    if "queue_capacity" not in signals and topology.queue_capacity:
        signals["queue_capacity"] = Signal(float(topology.queue_capacity), "rollouts", derived_from=("configuration",))
    if setpoints.group_size:
        signals["group_size_seen"] = Signal(float(setpoints.group_size), "rollouts", derived_from=("configuration",))
    without_evaluation = any(d.why == "evaluation" for d in snapshot.window.dropped)
    for rule in DERIVATIONS:
        if rule.name in signals or (rule.mode is not None and rule.mode is not topology.mode):
            continue
        if without_evaluation and rule.name in OF_EVALUATION_STEPS:
            continue
        derived = _apply(rule, signals)
        if derived is not None:
            signals[rule.name] = derived
    signals |= (
        _last_values(snapshot) | _unaccounted(topology.mode, snapshot, signals) | _window_rates(snapshot, signals)
    )
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
"""What takes turns on the same GPUs."""
OVERLAPPED_PHASES = ("trainer_wait_s", *SERIAL_PHASES[1:])
"""In an overlapped job generation runs beside the step; what the trainer sees of it is its wait."""


def phases_of(mode: Mode, known: Container[str]) -> tuple[str, ...]:
    """The signals that add up to step_s, in step order; in an unknown mode a logged wait speaks for generation."""
    waits = mode is Mode.OVERLAPPED or (mode is Mode.UNKNOWN and "trainer_wait_s" in known)
    return OVERLAPPED_PHASES if waits else SERIAL_PHASES


STAND_INS: Mapping[str, tuple[str, ...]] = {
    "rollout_s": ("trainer_wait_s",),
    "trainer_busy_s": ("update_s", "logprob_s"),
}
"""Whose sum a phase is, in a step that does not log the phase itself."""


def phase_s(values: Mapping[str, float], name: str) -> float | None:
    """Seconds of a phase that `phases_of` names in one step, from its stand-ins where need be; None: not known."""
    parts = [values[part] for part in STAND_INS.get(name, ()) if part in values]
    return values.get(name, sum(parts) if parts else None)


def _unaccounted(mode: Mode, snapshot: Snapshot, signals: Mapping[str, Signal]) -> dict[str, Signal]:
    """Share of the step that no phase claims: step by step where there are steps, else from the averages."""
    step = signals.get("step_s")
    parts = [name for name in phases_of(mode, signals) if name in signals]
    if step is None or step.value <= TINY or not parts:
        return {}
    rests = [rest for row in _kept(snapshot) if (rest := _rest_of(row, parts)) is not None]
    whole = 1.0 - sum(signals[name].value for name in parts) / step.value
    rest = sum(rests) / len(rests) if rests else whole
    return {"unaccounted_frac": Signal(rest, "1", step.n, derived_from=("step_s", *parts))}


def _kept(snapshot: Snapshot) -> list[Row]:
    dropped = {d.step for d in snapshot.window.dropped}
    return [row for row in snapshot.rows if row.step not in dropped]


def _rest_of(row: Row, parts: list[str]) -> float | None:
    step = row.values.get("step_s", 0.0)
    if step <= TINY:
        return None
    return 1.0 - sum(phase_s(row.values, name) or 0.0 for name in parts) / step


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
