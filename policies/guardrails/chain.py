"""The guardrails in order: each a pure function that lets a proposal pass, narrows it, or holds it with a reason.

The order has reasons: first whether we see anything (fresh, clear, settled, healthy, free), then whether the setting
after the move is allowed (legal, one step, bounded, donor), then whether it is worth it (worthwhile, confirmed, cooled,
paying back, steady), last the floors and the budget, which every path passes. The chain stops at the first that holds.
"""

from collections.abc import Mapping
from dataclasses import replace

from policies.control import GuardStep
from policies.guardrails.allowed import bounded, donor, legal, one_step, within_budget
from policies.guardrails.case import OK, Case, Guard, Ruling
from policies.guardrails.seeing import clear, free, fresh, healthy, settled
from policies.guardrails.worth import confirmed, cooled, pays_back, steady, worthwhile

CHAIN: Mapping[str, Guard] = {
    "fresh": fresh,
    "clear": clear,
    "settled": settled,
    "healthy": healthy,
    "free": free,
    "legal": legal,
    "one-step": one_step,
    "bounded": bounded,
    "donor": donor,
    "worthwhile": worthwhile,
    "confirmed": confirmed,
    "cooled": cooled,
    "pays-back": pays_back,
    "steady": steady,
    "within-budget": within_budget,
}


def guarded(case: Case) -> tuple[Case, Ruling, tuple[GuardStep, ...]]:
    """(the proposal as narrowed, the last word, the trail). The last word holds when it has a code."""
    trail: list[GuardStep] = []
    for name, guard in CHAIN.items():
        ruling = guard(case)
        trail.append(GuardStep(name, ruling.code is None, ruling.reason))
        if ruling.code is not None:
            return case, ruling, tuple(trail)
        if ruling.changes is not None:
            case = replace(case, changes=ruling.changes, step_frac=ruling.step_frac)
    return case, OK, tuple(trail)
