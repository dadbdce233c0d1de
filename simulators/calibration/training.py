"""The trainer's step c0 + c1 tokens / n^alpha, from steps that trained different numbers of tokens."""

from dataclasses import dataclass

from simulators.calibration.estimates import Estimate, Parameter, Unidentified, line_through, mean_of
from simulators.calibration.priors import EXPONENT, TRAINER_FIXED
from simulators.snapshot import Row, Snapshot

SPREAD_MIN = 0.1
"""Tokens per step must vary by this share of their mean, or c0 and c1 cannot be told apart."""


@dataclass(frozen=True, slots=True)
class TrainingFit:
    busy_s: Estimate | None
    """Seconds of the trainer's own work per step."""
    fixed_frac: Parameter
    """c0 over the step: what neither tokens nor GPUs shorten."""
    exponent: Parameter
    residual: float | None = None


def fit_training(snapshot: Snapshot) -> TrainingFit:
    exponent = Unidentified("alpha of the trainer", "it never ran on another number of GPUs", EXPONENT)
    busy = snapshot.get("trainer_busy_s")
    series = snapshot.series("trainer_busy_s")
    mean = mean_of("trainer busy", series or [busy], "s", "mean over steps") if busy else None
    fixed: Parameter
    points = [p for row in snapshot.rows if (p := _point(row)) is not None]
    line = line_through(points)
    if line is None or line.spread < SPREAD_MIN:
        why = "all steps train about as many tokens" if points else "no step logs both its tokens and its seconds"
        fixed = Unidentified("c0 of the trainer", why, TRAINER_FIXED)
        return TrainingFit(mean, fixed, exponent)
    whole = line.intercept + line.slope * sum(x for x, _ in points) / len(points)
    share, error = line.intercept / whole, line.intercept_error / whole
    if error > TRAINER_FIXED.high or not -error <= share <= 1.0:
        why = f"{len(points)} steps give its share only within {error:.2g}"
        return TrainingFit(mean, Unidentified("c0 of the trainer", why, TRAINER_FIXED), exponent, line.residual)
    source = f"{len(points)} steps, tokens varying by {line.spread:.0%}"
    fixed = Estimate("c0 of the trainer", max(0.0, share), error, "of its step", source)
    return TrainingFit(mean, fixed, exponent, line.residual)


def _point(row: Row) -> tuple[float, float] | None:
    tokens = row.values.get("tokens_total")
    busy = row.values.get("trainer_busy_s") or row.values.get("update_s", 0.0) + row.values.get("logprob_s", 0.0)
    return (tokens, busy) if tokens and busy else None
