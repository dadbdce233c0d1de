"""What reaches the trainer: finished groups after oversampling and filter, and what became of the others."""

from dataclasses import dataclass

from simulators.analytic.case import Case
from simulators.analytic.generation import Generation
from simulators.analytic.oversampling import Kept, all_kept, first_members, rounds
from simulators.queueing.order_statistics import Mixture


@dataclass(frozen=True, slots=True)
class Supply:
    groups_per_s: float
    """Usable (or unfiltered) and kept."""
    started_per_s: float
    """Rollouts, failed attempts among them."""
    made: Generation
    times: Mixture
    kept: Kept


def in_rounds(case: Case) -> bool:
    """Groups are oversampled, and what is late is given up. A round that loses a group to the filter opens another."""
    return case.layout.round_groups > case.layout.batch_groups and not case.partial


def _kept(case: Case, times: Mixture, in_flight: float) -> Kept:
    layout = case.layout
    if layout.members > layout.group_size:
        return first_members(times, layout.members, layout.group_size)
    if in_rounds(case):
        needed = layout.batch_groups / case.yield_frac
        dispatched = needed + layout.round_groups - layout.batch_groups
        return rounds(times, layout.group_size, needed, dispatched, in_flight)
    return all_kept(times, layout.group_size)


def supply_of(case: Case, made: Generation, in_flight: float | None = None) -> Supply:
    """Little's law over all rollouts in flight gives the rate of starts; the shares kept do the rest.

    `in_flight` infinite: rounds are dispatched at once.
    """
    times = made.times(case)
    kept = _kept(case, times, made.in_flight if in_flight is None else in_flight)
    finished = made.rollouts_per_s
    if kept.given_up_frac > 0.0:
        finished *= kept.rollout.mean / max(kept.stay_s, 1e-12)
    groups = finished / case.layout.members * kept.groups_frac * case.yield_frac
    return Supply(groups, finished * case.attempts, made, times, kept)
