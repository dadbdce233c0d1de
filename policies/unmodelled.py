"""What becomes of the bounds where no model speaks: by what is measured, and what nobody can tell is told as such.

A rollout is trained after as many steps as there are batches begun before it (Little's law: in flight over batch),
whatever the rates are. So the staleness that is measured goes at most with what a change lets in flight,

    staleness(then) <= measured x growth,    growth = the largest ratio, then over now, of what sets how much that is

Of what is neither modelled nor measured, growth itself is the measure: more may break the bound, less may not.

# 3.0 versions measured, at most 4: 1,536 -> 1,920 in flight makes at most 3.75 and may be, -> 2,304 makes 4.5
# not measured, and the framework does not keep the bound itself: 1,536 -> 1,600 may not be, -> 1,400 may
"""

from dataclasses import replace
from math import inf

from policies.objective import Objective, Told, Violation, stale, untold_bias, violations
from policies.settings import difference, values
from simulators.model import Staleness
from simulators.plant import Bounds, Setpoints
from simulators.snapshot import Snapshot

SETS_IN_FLIGHT = ("max_in_flight", "max_in_flight_per_engine", "gpus_generator", "oversampling_ratio")
"""Of these goes how many rollouts are in flight."""


def growth(now: Setpoints, then: Setpoints) -> float:
    """How many times as much a change lets in flight, at most; of what was not known before: anything."""
    before, after = {"oversampling_ratio": 1.0, **values(now)}, values(difference(now, then))
    pairs = [(before.get(name), after[name]) for name in SETS_IN_FLIGHT if name in after]
    return max((value / old if old else inf for old, value in pairs), default=1.0)


def measured(snapshot: Snapshot, in_force: Setpoints, times: float = 1.0) -> Staleness | None:
    """What is seen of it, with so many times as much in flight; no older than what the framework keeps to by itself, as
    far as it was seen to. None where nothing is seen."""
    mean, worst = snapshot.get("staleness_mean"), snapshot.get("staleness_max")
    known = worst if mean is None else mean
    if known is None:
        return None
    kept = inf if in_force.staleness_bound is None else in_force.staleness_bound

    def then(age: float) -> float:
        return age * times if times <= 1.0 or age > kept else min(age * times, kept)

    return Staleness(then(known), maximum=None if worst is None else then(worst))


def with_quota(settings: Setpoints, snapshot: Snapshot) -> Setpoints:
    """The setting with the quota of sandboxes that was measured last, where the job states none."""
    if settings.sandbox_quota is not None:
        return settings
    told = (row.values["sandbox_quota"] for row in reversed(snapshot.rows) if "sandbox_quota" in row.values)
    quota = next(told, snapshot.get("sandbox_quota"))
    return replace(settings, sandbox_quota=int(quota)) if quota else settings


def unmodelled(
    objective: Objective, bounds: Bounds, settings: Setpoints, staleness: Staleness | None, times: float = 1.0
) -> tuple[Violation, ...]:
    """The bounds that a setting breaks, or may break for all that anybody can tell."""
    found = stale(objective, bounds, settings, staleness, Told(times))
    return (*violations(objective, bounds, settings), *untold_bias(bounds, settings), *found)
