"""How often a job that stands still was looked at: in ten looks at nothing but noise, one looks like a sure gain.

Looks share their steps: all within the steps that a fit sees (policies/fitted.py) are one. The largest of n independent
normal readings lies about sqrt(2 ln n) deviations out, so an interval that is to hold over all of them is wider by

    sqrt(1 + ln n),   n = steps that the ratio of both rates has stood still / steps of one fit, at least 1

A jump and a new setting begin a new count; a drift or a swing stops it, and begins a new one where it lasts: now and
then a look takes noise for one. So what is true is found as soon as without it.
# 64 steps: 1 | 128: 1.30 | a day of 1,000 steps: 1.94
"""

from math import log, sqrt

from policies.control import Memory, View
from policies.fitted import ROWS
from policies.outlook import Outlook
from simulators.signals import TINY

STILL_S, MOVING_S = "still_since_s", "moving_since_s"
"""The memory of a law: since when the ratio has stood still, and since when it does not."""


def looked(view: View, seen: Outlook) -> Memory:
    """What is to be remembered after this look."""
    step_s, still = view.snapshot.get("step_s") or 0.0, view.memory.get(STILL_S)
    if seen.still_steps > 0:
        here_s = view.now_s - seen.still_steps * step_s
        # A stretch that fills the view and has no jump in it may have begun before it.
        longer = seen.fills_view and seen.still_steps >= ROWS and isinstance(still, float)
        return {STILL_S: min(float(still or 0.0), here_s) if longer else here_s}
    moving = view.memory.get(MOVING_S)
    since_s = moving if isinstance(moving, float) else view.now_s
    if isinstance(still, float) and view.now_s - since_s < ROWS * step_s:
        return {STILL_S: still, MOVING_S: since_s}
    return {STILL_S: view.now_s, MOVING_S: since_s}


def widened(view: View, memory: Memory) -> float:
    """How much wider an interval is for all those looks; not at all while the ratio moves."""
    step_s, still = view.snapshot.get("step_s") or 0.0, memory.get(STILL_S)
    if MOVING_S in memory or not isinstance(still, float) or step_s <= TINY:
        return 1.0
    return sqrt(1.0 + log(max(1.0, (view.now_s - still) / step_s / ROWS)))


def stood_s(now_s: float, memory: Memory) -> float:
    """For how long the ratio has stood still; 0 while it moves, and where that is not remembered."""
    still = memory.get(STILL_S)
    return 0.0 if MOVING_S in memory or not isinstance(still, float) else max(0.0, now_s - still)
