"""Sandboxes under a quota, with their cliff, and the verifier."""

from simulators.distributions import NEVER
from simulators.events.clocks import touch_outside
from simulators.events.draws import uniform
from simulators.events.layout import (
    AGENDA_STEP,
    BOX_FAILS,
    BOX_GONE,
    BOX_QUEUE,
    HOLDS_BOX,
    JUDGE_QUEUE,
    RW,
    STARTING,
    TW,
    VERIFYING,
    C,
    G,
    N,
    P,
    R,
    X,
)
from simulators.events.lists import append, leave_engine_for, plan, take
from simulators.events.tables import called
from simulators.streams import LEAK, SANDBOX


@called
def want_box(s, r):
    """A sandbox first, from before the first turn to the end."""
    s.times_wide[r, TW.box] = s.x[X.now]
    s.rollouts_wide[r, RW.state] = BOX_QUEUE
    append(s, N.box_head, r)
    start_boxes(s)


@called
def start_boxes(s):
    """Start what the quota allows. What waits presses on the provider as well (stations.Sandboxes: the cliff)."""
    quota = s.counts[C.sandbox_limit]
    while s.n[N.boxes_waiting] > 0 and s.n[N.boxes_live] < quota:
        pressing = s.n[N.boxes_waiting] + s.n[N.boxes_starting]
        r = take(s, N.box_head)
        s.n[N.boxes_live] += 1
        s.n[N.boxes_starting] += 1
        s.n[N.boxes_started] += 1
        s.rollouts_wide[r, RW.flags] |= HOLDS_BOX
        over = max(0.0, pressing / quota - 1.0)
        seconds = s.rates[P.sandbox_start_s] * (1.0 + s.rates[P.sandbox_overload_factor] * over)
        chance = s.rates[P.sandbox_failure_frac]
        if over > 0.0:
            chance += s.rates[P.sandbox_overload_failure_frac] * (1.0 - quota / pressing)
        if seconds > s.rates[P.sandbox_timeout_s]:
            seconds, chance = s.rates[P.sandbox_timeout_s], 1.0
        group = s.groups[s.rollouts[r, R.group], G.id]
        if uniform(s.n[N.key], SANDBOX, group, s.rollouts[r, R.draw], 0) < chance:
            s.rollouts_wide[r, RW.flags] |= BOX_FAILS
        begin = max(s.x[X.now], s.x[X.next_start])
        s.x[X.next_start] = begin + s.rates[P.sandbox_start_gap_s]
        s.rollouts_wide[r, RW.state] = STARTING
        e = s.rollouts[r, R.engine]
        leave_engine_for(s, e, r, begin - s.x[X.now] + seconds)
        touch_outside(s, e)


@called
def release_box(s, r):
    """The rollout is over. A leaked sandbox goes on counting against the quota until its lifetime is over."""
    flags = s.rollouts_wide[r, RW.flags]
    if not flags & HOLDS_BOX:
        return
    s.rollouts_wide[r, RW.flags] = flags & ~(HOLDS_BOX | BOX_FAILS)
    group = s.groups[s.rollouts[r, R.group], G.id]
    leak = s.rates[P.sandbox_leak_frac]
    if leak > 0.0 and uniform(s.n[N.key], LEAK, group, s.rollouts[r, R.draw], 0) < leak:
        s.n[N.boxes_leaked] += 1
        over_at = s.times_wide[r, TW.box] + s.rates[P.sandbox_lifetime_s]
        if s.counts[C.sandbox_limit] < NEVER and s.rates[P.sandbox_lifetime_s] < NEVER:
            plan(s, max(s.x[X.now], over_at), BOX_GONE * AGENDA_STEP)
        return
    s.n[N.boxes_live] -= 1
    start_boxes(s)


@called
def want_verifier(s, r):
    s.times_wide[r, TW.judge] = s.x[X.now]
    s.rollouts_wide[r, RW.state] = JUDGE_QUEUE
    append(s, N.judge_head, r)
    start_verifying(s)


@called
def start_verifying(s):
    while s.n[N.judges_waiting] > 0 and s.n[N.judging] < s.counts[C.verifier_limit]:
        r = take(s, N.judge_head)
        s.n[N.judging] += 1
        s.rollouts_wide[r, RW.state] = VERIFYING
        e = s.rollouts[r, R.engine]
        leave_engine_for(s, e, r, s.rates[P.verifier_s])
        touch_outside(s, e)
