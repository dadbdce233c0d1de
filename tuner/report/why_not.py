"""Why an alternative of a decision was not taken, in one sentence.

The first of these that holds: it gains nothing; it costs more than it wins over the horizon; it gains less than what is
wanted; it goes further the same way, which is gone step by step; something holds; the law saw it, and trusted another
one more.
"""

from math import isfinite

from policies.alternatives import Alternative
from policies.control import Decision, HoldCode, View
from policies.guardrails.case import cost_s
from policies.settings import merged
from policies.stages import nearer


def why_not(view: View, one: Alternative, wanted: Alternative | None, decision: Decision) -> str:
    """Of an alternative that could be, beside the one that is wanted, if any is."""
    if one.why_not:
        return one.why_not
    gain, best = one.gain_frac or 0.0, None if wanted is None else wanted.gain_frac
    if gain <= 0.0:
        return "no gain"
    cost, horizon_s = cost_s(view, one.changes), view.horizon_s
    if isfinite(horizon_s) and gain * horizon_s <= cost:
        return f"wins {gain * horizon_s:.0f} s of work over {horizon_s:.0f} s and costs {cost:.0f} s"
    if best is not None and gain < best:
        return "gains less"
    if wanted is not None and nearer(view.in_force, wanted.changes, merged(view.in_force, one.changes)):
        return "further the same way: one step is taken, judged, and then the next"
    if decision.code is HoldCode.POLICY:
        return "not wanted: see the law's word"
    if decision.code is not None:
        return f"held: {decision.reason}"
    return "less sure, or not by as much as it costs, than what is wanted"
