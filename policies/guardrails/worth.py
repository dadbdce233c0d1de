"""Guardrails that ask whether the move is worth it, now."""

from itertools import pairwise

from policies.base import Direction
from policies.control import HoldCode
from policies.guardrails.case import OK, Case, Ruling, cost_s
from policies.settings import SPLIT, direction


def worthwhile(case: Case) -> Ruling:
    """The gain leaves the dead band, which is as wide as our doubt: its 80 % interval must lie above zero."""
    gain = case.gain_frac
    if gain is None:
        return OK
    if not gain.mean >= case.limits.deadband_frac or not gain.low > 0.0:
        words = f"gain {gain.mean:+.1%} ({gain.low:+.1%}..{gain.high:+.1%})"
        return Ruling(
            f"{words} is inside the dead band of {case.limits.deadband_frac:.0%} and its doubt", HoldCode.DEADBAND
        )
    return OK


def confirmed(case: Case) -> Ruling:
    """Several ticks in a row want the same: few to relieve a starving trainer, many for all else.

    One before the job's first step has ended: each tick sees the same job again, and has more in flight to lose.
    """
    relieves = SPLIT in case.knobs and direction(case.view.in_force, case.changes, SPLIT) is Direction.DOWN
    needed = case.limits.confirm_starved if relieves else case.limits.confirm_shrink
    if case.view.begins:
        needed = case.limits.confirm_first
    if case.agreed >= needed:
        return OK
    if case.agreed < 1:
        return Ruling(f"the models refused it; asked again in {needed - case.agreed} ticks", HoldCode.UNCONFIRMED)
    return Ruling(f"wanted at {case.agreed} of the {needed} ticks in a row that it takes", HoldCode.UNCONFIRMED)


def cooled(case: Case) -> Ruling:
    """One settling time since the setting in force came into force."""
    if case.in_force_s is None or case.view.now_s - case.in_force_s >= case.settle_s:
        return OK
    ago = case.view.now_s - case.in_force_s
    return Ruling(f"the last change was {ago:.0f} s ago, settling takes {case.settle_s:.0f} s", HoldCode.SETTLING)


def pays_back(case: Case) -> Ruling:
    """Gain over the horizon at least twice the cost, or surely the cost: the doubt is in the interval, and need not be
    paid for twice. A costly move without a predicted gain has nothing to pay with.

    Throughput is concave in the split, so the first of k steps gains at least a k-th of the whole.
    """
    cost = cost_s(case.view, case.changes)
    if cost <= 0.0:
        return OK
    if case.gain_frac is None:
        return Ruling(f"costs {cost:.0f} s of work and predicts no gain", HoldCode.PAYBACK)
    share_s = case.step_frac * case.view.horizon_s
    won = case.gain_frac.mean * share_s
    if won >= case.limits.payback_ratio * cost or case.gain_frac.low * share_s >= cost:
        return OK
    return Ruling(
        f"wins {won:.0f} s of work over {case.view.horizon_s:.0f} s and costs {cost:.0f} s: under "
        f"{case.limits.payback_ratio:g} times, and it is not sure to pay",
        HoldCode.PAYBACK,
    )


def steady(case: Case) -> Ruling:
    """No limit cycle: no knob turns back while it settles, and one that was turned back and forth rests."""
    since = case.view.now_s - case.limits.memory_settles * case.settle_s
    for knob in case.knobs:
        way, past = direction(case.view.in_force, case.changes, knob), [m for m in case.recent if m.knob == knob]
        if past and past[-1].direction is not way:
            rest_s = case.limits.reversal_settles * max(past[-1].settle_s, case.settle_s)
            if case.view.now_s - past[-1].at_s < rest_s:
                ago = case.view.now_s - past[-1].at_s
                return Ruling(f"{knob} was turned {past[-1].direction} {ago:.0f} s ago", HoldCode.OSCILLATION)
        turns = [*(m.direction for m in past if m.at_s >= since), way]
        reversals = sum(a is not b for a, b in pairwise(turns))
        if reversals > case.limits.reversals_max:
            return Ruling(f"{knob} would change direction {reversals} times: an oscillation", HoldCode.OSCILLATION)
    return OK
