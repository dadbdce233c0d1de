"""Rollouts that do not come to their end: drained around, pulled out, paused, given up, lost and started anew."""

from math import inf

from simulators.events.admission import admit_wide
from simulators.events.clocks import advance_wide, stall, touch_wide, uncache
from simulators.events.draws import drawn, tokens_of, uniform
from simulators.events.fleets import release_box, start_verifying
from simulators.events.heaps import mark_of, remove
from simulators.events.layout import (
    ALWAYS_FAILS,
    ATTEMPT_STEP,
    BOX_QUEUE,
    DRAINING,
    EW,
    HELD,
    JUDGE_QUEUE,
    MOST_ATTEMPTS,
    MOST_LOST_RUNNING,
    NONE_FINISHES,
    PAUSED,
    POOLED,
    QUEUED,
    RESIDENT,
    RESPONSE_LAW,
    RESUMED,
    RW,
    STARTING,
    TRANSFER,
    VERIFYING,
    WAITING,
    C,
    E,
    F,
    G,
    H,
    N,
    P,
    R,
    T,
    X,
)
from simulators.events.lists import append, strike, strike_queue, unload
from simulators.events.pools import pool_leave, pull_from_pool
from simulators.events.residents import interrupt
from simulators.events.tables import called
from simulators.streams import RESPONSE, REWARD


@called
def pull_out(s, r):
    """Take a rollout in flight out of wherever it is."""
    e, state = s.rollouts[r, R.engine], s.rollouts_wide[r, RW.state]
    now = s.x[X.now]
    advance_wide(s, e, now)
    if state == RESIDENT:
        i = 0
        while s.heap[e, 2 * i + 1] != r:
            i += 1
        mark = mark_of(s.heap[e, 2 * i])
        remove(s.heap, e, s.engines[e, E.residents], r)
        interrupt(s, e, r, mark)
        if s.engines_wide[e, EW.draining]:
            drained(s, e)
    elif state == QUEUED or state == HELD:
        strike_queue(s, e, r)
        if state == HELD:
            pool_leave(s, s.rollouts_wide[r, RW.link], r)
    elif state == BOX_QUEUE:
        strike(s, N.box_head, r)
    elif state == JUDGE_QUEUE:
        strike(s, N.judge_head, r)
    elif state == POOLED:
        pull_from_pool(s, s.rollouts_wide[r, RW.link], r)
    else:
        pull_from_outside(s, e, r, state)
    if s.rollouts_wide[r, RW.cached] > 0:
        uncache(s, r)
    forget(s, r)
    admit_wide(s, e)
    touch_wide(s, e)


@called
def pull_from_outside(s, e, r, state):
    size = s.engines[e, E.outside]
    remove(s.outs, e, size, r)
    s.engines[e, E.outside] = size - 1
    s.n[N.outside] -= 1
    s.x[X.outside_s] += s.x[X.now] - s.times[r, T.entered]
    s.clocks[e, F.returns] = mark_of(s.outs[e, 0]) if size > 1 else inf
    if state == STARTING:
        s.n[N.boxes_starting] -= 1
    elif state == TRANSFER:
        s.engines_wide[e, EW.reserved] -= 1
    elif state == VERIFYING:
        s.n[N.judging] -= 1
        start_verifying(s)


@called
def forget(s, r):
    """No longer in flight, nor bound to its engine."""
    s.x[X.stint_s] += s.x[X.now] - s.times[r, T.dispatched]
    s.n[N.in_flight] -= 1
    unload(s, s.rollouts[r, R.engine])


@called
def free_rollout(s, r):
    g = s.rollouts[r, R.group]
    s.members[g, s.rollouts[r, R.member]] = -1
    s.free_rollouts[s.n[N.free_rollouts]] = r
    s.n[N.free_rollouts] += 1


@called
def attempt(s, r):
    """The length this rollout would have had, for the bias of what is kept: drawn to its end though nobody saw it."""
    s.n[N.attempted] += 1
    s.n[N.attempted_response] += s.rollouts[r, R.response] + s.rollouts[r, R.tokens]
    group = s.rollouts[r, R.group]
    for turn in range(s.rollouts[r, R.turn] + 1, s.rollouts[r, R.turns]):
        share = uniform(s.n[N.key], RESPONSE, s.groups[group, G.id], s.rollouts[r, R.draw], turn)
        value = drawn(s, RESPONSE_LAW, share, s.traits[group, H.score]) * s.traits[group, H.factor]
        s.n[N.attempted_response] += tokens_of(s, RESPONSE_LAW, value)
    share = uniform(s.n[N.key], REWARD, s.groups[group, G.id], s.rollouts[r, R.draw], 0)
    s.n[N.attempted_solved] += int(share < s.traits[group, H.solve_rate])


@called
def give_up(s, r):
    """An oversampled rollout is not needed any more."""
    if s.rollouts_wide[r, RW.state] == PAUSED:
        strike(s, N.again_head, r)
    else:
        pull_out(s, r)
    if s.rollouts[r, R.turn] >= 0:  # else it was to start anew, and has not
        s.n[N.oversampled] += 1
        attempt(s, r)
    release_box(s, r)
    free_rollout(s, r)


@called
def pause(s, r):
    """Stop a rollout; it is resumed later, first of all, on any engine."""
    pull_out(s, r)
    release_box(s, r)
    s.rollouts_wide[r, RW.state] = PAUSED
    s.rollouts_wide[r, RW.flags] |= RESUMED
    append(s, N.again_head, r)


@called
def anew(s, r):
    """Another attempt of the same prompt, with numbers of its own. The rollout has left its engine."""
    release_box(s, r)
    s.rollouts[r, R.draw] += ATTEMPT_STEP
    if s.rollouts[r, R.draw] // ATTEMPT_STEP > MOST_ATTEMPTS:
        s.n[N.stopped] = ALWAYS_FAILS
    s.n[N.lost_running] += 1
    if s.n[N.lost_running] > MOST_LOST_RUNNING:
        s.n[N.stopped] = NONE_FINISHES
    s.rollouts[r, R.turn] = -1
    s.rollouts_wide[r, RW.cached] = 0
    s.rollouts_wide[r, RW.state] = PAUSED
    append(s, N.again_head, r)


@called
def fail(s, r):
    """Lost to infrastructure, at its own event."""
    s.n[N.failed] += 1
    forget(s, r)
    anew(s, r)


@called
def drained(s, e):
    """An engine that drains may be empty now: alone (rolling) or with all others it takes the weights."""
    if s.engines[e, E.residents] > 0:
        return
    if s.counts[C.rolling]:
        s.engines_wide[e, EW.draining] = 0
        stall(s, e, s.rates[P.sync_s])
        return
    if s.n[N.resident] > 0 or not s.n[N.draining]:
        return
    s.n[N.draining] = 0
    s.n[N.version] += 1
    for other in range(s.engines.shape[0]):
        s.engines_wide[other, EW.draining] = 0
        advance_wide(s, other, s.x[X.now])
        s.clocks[other, F.resume] = max(s.clocks[other, F.resume], s.x[X.now]) + s.rates[P.sync_s]
    for other in range(s.engines.shape[0]):
        admit_wide(s, other)
        touch_wide(s, other)
    if s.n[N.phase] == DRAINING:
        s.n[N.phase] = WAITING
        s.x[X.sync_s] += s.rates[P.sync_s]
        s.x[X.trainer_at] = s.x[X.now] + s.rates[P.sync_s]
