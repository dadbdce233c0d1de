"""How often a job that stands still was looked at: in ten looks at nothing but noise, one looks like a sure gain.

Looks share their steps: all within the steps that a fit sees (policies/fitted.py) are one. The largest of n independent
normal readings lies about sqrt(2 ln n) deviations out, so an interval that is to hold over all of them is wider by

    sqrt(1 + ln n),   n = steps that the ratio of both rates has stood still / steps of one fit, at least 1

A jump, a drift, a swing and a new setting begin a new count: what is true is found as soon as without it.
# 64 steps: 1 | 128: 1.30 | a day of 1,000 steps: 1.94
"""

from math import log, sqrt

from policies.control import View
from policies.fitted import ROWS
from policies.outlook import Outlook
from simulators.signals import TINY

STILL_S = "still_since_s"
"""The memory of a law: since when the ratio has stood still."""


def still_since_s(view: View, seen: Outlook) -> float:
    """A stretch that fills the view and has no jump in it may have begun before it: then memory tells."""
    step_s = view.snapshot.get("step_s") or 0.0
    here_s, before = view.now_s - seen.still_steps * step_s, view.memory.get(STILL_S)
    if seen.fills_view and seen.still_steps >= ROWS and isinstance(before, float):
        return min(before, here_s)
    return here_s


def widened(view: View, since_s: float) -> float:
    """How much wider an interval is for all the looks since then."""
    step_s = view.snapshot.get("step_s") or 0.0
    looks = (view.now_s - since_s) / step_s / ROWS if step_s > TINY else 1.0
    return sqrt(1.0 + log(max(1.0, looks)))
