"""What reaches the trainer: finished groups after oversampling and filter, and what became of the others."""

import math
from dataclasses import dataclass, replace

from simulators.analytic.case import Case
from simulators.analytic.generation import Generation
from simulators.analytic.oversampling import (
    ALL_FINISH,
    Endings,
    Kept,
    Opening,
    Round,
    first_members,
    in_flight_endings,
    kept_in_rounds,
)
from simulators.queueing.order_statistics import Curve, Mixture
from simulators.stations import Plug

ALL_INSIDE = 0.999
"""Of what is in flight: nobody waits in front."""


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
    """Groups are oversampled, and what is late is given up."""
    return case.layout.round_groups > case.layout.batch_groups and not case.partial


def open_alone(case: Case) -> bool:
    """No round begins before the one before it is trained."""
    layout = case.layout
    return layout.plug is Plug.WIP_CAP and (layout.limit_groups or 0) <= layout.round_groups


def open_groups(case: Case) -> float:
    """Of a round that is open alone: all of it, or what the cap lets start."""
    return float(min(case.layout.round_groups, case.layout.limit_groups or case.layout.round_groups))


def opening_of(case: Case, rollout: Curve, groups: float) -> Opening:
    """Of so many groups of a round that is open alone: who finds no room starts as others end."""
    room = min(float(case.layout.in_flight), case.active_limit, room_of(case))
    rollouts = groups * case.layout.group_size * case.attempts
    if rollouts <= room:
        return Opening()
    return Opening((rollouts / room - 1.0) * rollout.mean, 1.0 - room / rollouts)


def room_of(case: Case) -> float:
    """Rollouts that never leave their engine gain nothing by waiting in front of it: the slots are all that counts."""
    return math.inf if case.rollout.tool.mean > 0.0 else float(case.layout.engines * case.layout.slots)


def endings_of(case: Case, made: Generation, times: Mixture, span_s: float | None) -> Endings:
    """Of rounds dispatched over so many seconds; None: over as many as what is in flight allows."""
    layout = case.layout
    if not in_rounds(case):
        return ALL_FINISH
    if open_alone(case):
        asked = Round(layout.batch_groups, open_groups(case), case.yield_frac)
        return asked.alone(times.curve(layout.group_size), opening_of(case, times.curve(), asked.dispatched_alone))
    asked = Round(layout.batch_groups, layout.round_groups, case.yield_frac)
    if span_s is None:
        return in_flight_endings(times, layout.group_size, asked, made.in_flight)
    return asked.endings(times.curve(layout.group_size), span_s)


def supply_of(case: Case, made: Generation, span_s: float | None = None) -> Supply:
    """Little's law over all rollouts in flight gives the rate of starts; the shares kept do the rest.

    `span_s`: seconds over which a round is dispatched, where something else than what is in flight decides.
    """
    times, layout = made.times(case), case.layout
    inside = made.in_flight if layout.serial or not in_rounds(case) else _inside(case, made)
    if layout.members > layout.group_size:
        kept = first_members(times, layout.members, layout.group_size)
    elif inside < ALL_INSIDE * made.in_flight:
        kept = _behind_queue(case, made, inside, span_s)
    else:
        kept = kept_in_rounds(times, layout.members, endings_of(case, made, times, span_s))
    finished = made.rollouts_per_s
    if kept.given_up_frac > 0.0:
        finished *= times.curve().mean / max(kept.stay_s, 1e-12)
    groups = finished / layout.members * kept.groups_frac * case.yield_frac
    return Supply(groups, finished * case.attempts, made, times, kept)


def _behind_queue(case: Case, made: Generation, inside: float, span_s: float | None) -> Kept:
    """Who waits in front delays all alike: who is given up is settled among those `inside`."""
    inside_s = made.rollout_s * inside / made.in_flight
    turn_s = made.turn_s - max(0.0, made.rollout_s - made.wait_s - inside_s) / case.rollout.turns_mean
    there = made._replace(in_flight=inside, rollout_s=inside_s, wait_s=0.0, turn_s=max(0.0, turn_s))
    times = there.times(case)
    kept = kept_in_rounds(times, case.layout.members, endings_of(case, there, times, span_s))
    queued_s = kept.stay_s * (made.in_flight / inside - 1.0)
    return replace(
        kept,
        rollout=kept.rollout.later(queued_s),
        group=kept.group.later(queued_s),
        stay_s=kept.stay_s + queued_s,
    )


def _inside(case: Case, made: Generation) -> float:
    """Rollouts that do not wait for their start: for a sandbox, or for a slot that they then keep to their end."""
    started = made.in_flight * (1.0 - made.wait_s / made.rollout_s)
    return started if case.rollout.tool.mean > 0.0 else min(started, made.residents + made.paused)
