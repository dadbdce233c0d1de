"""Who may enter an engine: its queue, its room, and the victim of a KV pool that is full."""

from math import inf

from simulators.events.clocks import advance_wide, touch_wide
from simulators.events.heaps import mark_of, remove
from simulators.events.layout import CONTEXT_TOO_LONG, HELD, QUEUED, RW, THRASH, THRASHING, TW, C, E, F, N, Q, R, T, X
from simulators.events.lists import next_in_line, queue_up
from simulators.events.pools import from_pool, pool_arrive, pool_start
from simulators.events.residents import has_room, interrupt, join, join_wide
from simulators.events.tables import called, inlined


@inlined
def arrive(s, e, r, wide):
    """A rollout wants the engine: into a free slot, else to the end of the queue."""
    if wide is not None:
        arrive_wide(s, e, r)
    elif s.engines[e, E.residents] < s.counts[C.slots]:
        join(s, e, r)
    else:
        queue_up(s, e, r)


@called
def arrive_wide(s, e, r):
    if s.counts[C.prefill_engines] > 0:
        pool_arrive(s, r)
        return
    if s.engines[e, E.queued] == 0 and has_room(s, e, r):
        join_wide(s, e, r)
        return
    s.rollouts_wide[r, RW.state] = QUEUED
    queue_up(s, e, r)


@inlined
def admit(s, e, wide):
    """From the head of the engine's queue, while there is room."""
    if wide is not None:
        admit_wide(s, e)
        return
    while s.engines[e, E.queued] > 0 and s.engines[e, E.residents] < s.counts[C.slots]:
        join(s, e, next_in_line(s, e))


@called
def admit_wide(s, e):
    while s.engines[e, E.queued] > 0 and has_room(s, e, s.engines[e, E.queue_head]):
        r = next_in_line(s, e)
        if s.rollouts_wide[r, RW.state] == HELD:
            from_pool(s, e, r)
        else:
            join_wide(s, e, r)


@called
def overflow(s, e):
    """The KV pool is full: a victim goes to the head of the queue. Nobody is admitted until somebody leaves."""
    advance_wide(s, e, s.x[X.now])
    b = s.engines[e, E.residents]
    if b == 1:
        s.n[N.stopped] = CONTEXT_TOO_LONG
        return
    chosen, worst = 0, inf
    for i in range(b):
        r = s.heap[e, 2 * i + 1]
        key = -s.times[r, T.entered]
        if s.counts[C.shortest_victim]:
            left = mark_of(s.heap[e, 2 * i]) - s.clocks[e, F.clock]
            key = s.rollouts[r, R.response] + s.rollouts[r, R.tokens] - left
        if key < worst or (key == worst and s.heap[e, 2 * i + 1] > s.heap[e, 2 * chosen + 1]):
            chosen, worst = i, key
    r, mark = s.heap[e, 2 * chosen + 1], mark_of(s.heap[e, 2 * chosen])
    remove(s.heap, e, b, r)
    interrupt(s, e, r, mark)
    s.n[N.preempted] += 1
    if s.n[N.preempted] > THRASH * (s.n[N.turns] + s.n[N.in_flight]):
        s.n[N.stopped] = THRASHING
    s.rollouts_wide[r, RW.state] = QUEUED
    s.times[r, T.entered] = s.x[X.now]
    s.rollouts[r, R.next] = s.engines[e, E.queue_head]
    if s.engines[e, E.queued] == 0:
        s.engines[e, E.queue_tail] = r
        s.rollouts[r, R.next] = -1
    s.engines[e, E.queue_head] = r
    s.engines[e, E.queued] += 1
    s.n[N.queued] += 1


@called
def prefilled(s, p):
    if s.pool[p, Q.busy] < 0 or s.pool_kv[p, 1] != s.x[X.now]:
        return  # it was given up meanwhile
    r = s.pool[p, Q.busy]
    s.pool[p, Q.busy] = -1
    e = s.rollouts[r, R.engine]
    s.times_wide[r, TW.tax] = 0.0
    s.rollouts_wide[r, RW.state] = HELD
    advance_wide(s, e, s.x[X.now])
    queue_up(s, e, r)
    admit_wide(s, e)
    touch_wide(s, e)
    pool_start(s, p)
