"""What better means: useful rollouts per GPU-hour, under bounds that no gain may buy.

    value = useful rollouts/s x 3600 / GPUs x (1 - learning discount)^(mean staleness)

Without a stated discount staleness costs nothing inside its bound and everything outside.
"""

from dataclasses import dataclass
from enum import StrEnum

from policies.settings import gpus
from simulators.model import Prediction, Staleness
from simulators.plant import Bounds, Setpoints

SECONDS_PER_HOUR = 3600.0
CHANCE = 2.0
"""So many standard errors under a bound may be chance."""


class StalenessBound(StrEnum):
    """Which staleness a user's bound speaks of: what the job's plug can promise."""

    MEAN = "mean"
    """A cap on work in progress promises the mean."""
    MAXIMUM = "maximum"
    """Strict order and discarding promise the worst."""


class Constraint(StrEnum):
    """The hard bounds by name."""

    STOPPED = "stopped"
    STALENESS = "staleness"
    LENGTH_BIAS = "length-bias"
    SOLVE_BIAS = "solve-bias"
    BUDGET = "budget"
    TRAINER_SIZE = "trainer-size"
    IN_FLIGHT = "in-flight"
    SANDBOX_QUOTA = "sandbox-quota"


@dataclass(frozen=True, slots=True)
class Violation:
    constraint: Constraint
    reason: str


@dataclass(frozen=True, slots=True)
class Objective:
    staleness_discount_frac: float = 0.0
    """What one version of staleness takes from the worth of a rollout; 0: nothing inside the bound."""
    staleness: StalenessBound = StalenessBound.MEAN
    usd_per_gpu_hour: float | None = None
    """Known: the value is useful rollouts per dollar."""


def value(objective: Objective, prediction: Prediction, settings: Setpoints) -> float:
    """Useful rollouts per GPU-hour (or per dollar); per hour of the whole job where its GPUs are not known.

    # 2 useful rollouts/s on 256 GPUs -> 28.1 per GPU-hour; staleness 2 at a discount of 5 % -> 25.4
    """
    per_hour = prediction.useful_rollouts_per_s * SECONDS_PER_HOUR / max(1, gpus(settings) or 1)
    age = prediction.staleness.mean if prediction.staleness is not None else 0.0
    worth: float = per_hour * (1.0 - objective.staleness_discount_frac) ** max(0.0, age)
    return worth / objective.usd_per_gpu_hour if objective.usd_per_gpu_hour else worth


def violations(
    objective: Objective, bounds: Bounds, settings: Setpoints, prediction: Prediction | None = None
) -> tuple[Violation, ...]:
    """Every bound that a setting breaks, as far as it can be told; empty where none is."""
    found = _by_settings(bounds, settings)
    if prediction is not None:
        found += [*_by_prediction(objective, bounds, prediction), *_untold(settings, prediction)]
    return tuple(Violation(constraint, reason) for constraint, reason in found)


def _by_settings(bounds: Bounds, settings: Setpoints) -> list[tuple[Constraint, str]]:
    total, trainer = gpus(settings), settings.gpus_trainer
    in_flight, quota = settings.max_in_flight, settings.sandbox_quota
    checks = (
        (Constraint.BUDGET, "GPUs", total, None, bounds.gpus_total_max),
        (Constraint.TRAINER_SIZE, "trainer GPUs", trainer, bounds.gpus_trainer_min, bounds.gpus_trainer_max),
        (Constraint.IN_FLIGHT, "rollouts in flight", in_flight, 1, bounds.max_in_flight_max),
        (Constraint.SANDBOX_QUOTA, "rollouts in flight, each in a sandbox,", in_flight, None, quota),
    )
    found = []
    for constraint, what, number, low, high in checks:
        if number is not None and low is not None and number < low:
            found.append((constraint, f"{number} {what} are fewer than the least allowed, {low}"))
        if number is not None and high is not None and number > high:
            found.append((constraint, f"{number} {what} exceed {high}"))
    return found


def _by_prediction(objective: Objective, bounds: Bounds, prediction: Prediction) -> list[tuple[Constraint, str]]:
    found = []
    if prediction.stopped is not None:
        found.append((Constraint.STOPPED, f"the job would stop: {prediction.stopped}"))
    age, limit = _bounded(objective, prediction.staleness), bounds.staleness_max
    if age is not None and limit is not None and age > limit:
        found.append((Constraint.STALENESS, f"{objective.staleness} staleness {age:.2f} exceeds {limit:g} versions"))
    for constraint, what, ratio, error in (
        (Constraint.LENGTH_BIAS, "mean length", prediction.kept_length_ratio, prediction.kept_length_error),
        (Constraint.SOLVE_BIAS, "solve rate", prediction.kept_solve_ratio, prediction.kept_solve_error),
    ):
        # What a short simulation tells is off by chance: two settings alike may lie on either side of a bound.
        if ratio is not None and ratio + CHANCE * (error or 0.0) < bounds.kept_over_attempted_min:
            detail = (
                f"kept rollouts have {ratio:.0%} of the attempted {what}, under {bounds.kept_over_attempted_min:.0%}"
            )
            found.append((constraint, detail))
    return found


def _untold(settings: Setpoints, prediction: Prediction) -> list[tuple[Constraint, str]]:
    """Who starts more than is kept has to know what is kept."""
    if prediction.kept_length_ratio is not None or (settings.oversampling_ratio or 1.0) <= 1.0:
        return []
    return [(Constraint.LENGTH_BIAS, "how much shorter than the attempted rollouts the kept ones are cannot be told")]


def _bounded(objective: Objective, staleness: Staleness | None) -> float | None:
    if staleness is None:
        return None
    return staleness.maximum if objective.staleness is StalenessBound.MAXIMUM else staleness.mean
