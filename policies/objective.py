"""What better means: useful rollouts per GPU-hour, under bounds that no gain may buy.

    value = useful rollouts/s x 3600 / GPUs x (1 - learning discount)^(mean staleness)

Without a stated discount staleness costs nothing inside its bound and everything outside.

A change may break no bound, and make none worse that is broken already: by how much one is broken is its `excess`, in
the bound's own unit. What nobody can tell counts as broken, and the more of what could break it the worse (`told`).

# staleness at most 4: 6.1 -> 6.0 or 3.9 may be, 6.1 -> 6.2 may not | simulated, all +-0.1: 6.1 -> 6.3 may be, 6.5 not
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from math import hypot

from policies.settings import gpus
from simulators.model import Prediction, Staleness
from simulators.plant import Bounds, Setpoints
from simulators.stations import Admission, Order, Plug

SECONDS_PER_HOUR = 3600.0
CHANCE = 2.0
"""So many standard errors under a bound may be chance."""
ROUNDING = 1e-9
"""No difference between two numbers, as a share of them."""


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
    excess: float = 1.0
    """How far beyond the bound, in its own unit; of what nobody can tell: how much there is of what could break it."""
    error: float = 0.0
    """Standard error of the excess, where it was simulated."""
    told: bool = True
    """False where nobody can tell whether the bound is broken."""


@dataclass(frozen=True, slots=True)
class Told:
    """Of an age: what it goes with, and how uncertain it is."""

    in_flight: float
    error_frac: float = 0.0


@dataclass(frozen=True, slots=True)
class Objective:
    staleness_discount_frac: float = 0.0
    """What one version of staleness takes from the worth of a rollout; 0: nothing inside the bound."""
    staleness: StalenessBound = StalenessBound.MEAN
    usd_per_gpu_hour: float | None = None
    """Known: the value is useful rollouts per dollar."""


def objective_of(admission: Admission) -> Objective:
    """The objective of a job whose plug is known: a bound on staleness speaks of what that promises."""
    worst = admission.plug is Plug.DISCARD_STALE or admission.order is Order.ADMISSION
    return Objective(staleness=StalenessBound.MAXIMUM if worst else StalenessBound.MEAN)


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
    """Every bound that a setting breaks, or may break for all that a model can tell; empty where none is."""
    found = _by_settings(bounds, settings)
    if prediction is not None:
        found += _by_prediction(objective, bounds, settings, prediction)
    return tuple(found)


def worsened(before: Iterable[Violation], after: Iterable[Violation]) -> tuple[Violation, ...]:
    """Of what is broken after a change that which the change breaks, or breaks further than chance would."""
    was = {violation.constraint: violation for violation in before}
    return tuple(now for now in after if now.constraint not in was or _further(was[now.constraint], now))


def _further(was: Violation, now: Violation) -> bool:
    if was.told is not now.told:
        return was.told
    return now.excess > was.excess + CHANCE * hypot(was.error, now.error) + ROUNDING * max(1.0, was.excess)


def _by_settings(bounds: Bounds, settings: Setpoints) -> list[Violation]:
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
            why = f"{number} {what} are fewer than the least allowed, {low}"
            found.append(Violation(constraint, why, low - number))
        if number is not None and high is not None and number > high:
            found.append(Violation(constraint, f"{number} {what} exceed {high}", number - high))
    return found


def _by_prediction(
    objective: Objective, bounds: Bounds, settings: Setpoints, prediction: Prediction
) -> Iterable[Violation]:
    if prediction.stopped is not None:
        yield Violation(Constraint.STOPPED, f"the job would stop: {prediction.stopped}")
    else:
        # Their age is as uncertain as the rate (Little's law).
        in_flight = prediction.in_flight or settings.max_in_flight or 0.0
        told = Told(in_flight, prediction.standard_error_frac or 0.0)
        yield from stale(objective, bounds, settings, prediction.staleness, told)
    least = bounds.kept_over_attempted_min
    for constraint, what, ratio, error in (
        (Constraint.LENGTH_BIAS, "mean length", prediction.kept_length_ratio, prediction.kept_length_error or 0.0),
        (Constraint.SOLVE_BIAS, "solve rate", prediction.kept_solve_ratio, prediction.kept_solve_error or 0.0),
    ):
        # What a short simulation tells is off by chance: two settings alike may lie on either side of a bound.
        if ratio is not None and ratio + CHANCE * error < least:
            why = f"kept rollouts have {ratio:.0%} of the attempted {what}, under {least:.0%}"
            yield Violation(constraint, why, least - ratio, error)
    if prediction.kept_length_ratio is None:
        yield from untold_bias(bounds, settings)


def stale(
    objective: Objective, bounds: Bounds, settings: Setpoints, staleness: Staleness | None, told: Told
) -> Iterable[Violation]:
    """An age beyond its bound. One that nobody can tell may be, the more so the more is in flight, where the framework
    does not keep the bound itself."""
    limit, kept, age = bounds.staleness_max, settings.staleness_bound, _bounded(objective, staleness)
    if limit is None:
        return
    if age is None and staleness is not None and staleness.mean > limit:
        age = staleness.mean  # the worst is no better
    if age is not None and age > limit:
        why = f"{objective.staleness} staleness {age:.2f} exceeds {limit:g} versions"
        yield Violation(Constraint.STALENESS, why, age - limit, age * told.error_frac)
    elif age is None and (kept is None or kept > limit):
        why = f"staleness may be at most {limit:g} versions, and nobody can tell what it is"
        yield Violation(Constraint.STALENESS, why, told.in_flight, told=False)


def untold_bias(bounds: Bounds, settings: Setpoints) -> Iterable[Violation]:
    """Who starts more than is kept has to know what is kept, unless any bias will do."""
    surplus = (settings.oversampling_ratio or 1.0) - 1.0
    if surplus > 0.0 and bounds.kept_over_attempted_min > 0.0:
        why = "how much shorter than the attempted rollouts the kept ones are cannot be told"
        yield Violation(Constraint.LENGTH_BIAS, why, surplus, told=False)


def _bounded(objective: Objective, staleness: Staleness | None) -> float | None:
    if staleness is None:
        return None
    return staleness.maximum if objective.staleness is StalenessBound.MAXIMUM else staleness.mean
