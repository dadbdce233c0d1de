"""Rollouts that wait for something: lists, an engine's queue, the heap of those outside, the agenda of other events."""

from simulators.events.heaps import bits_of, mark_of, replay, rise
from simulators.events.layout import E, F, N, R, T, X
from simulators.events.tables import called, inlined


@called
def queue_up(s, e, r):
    s.times[r, T.entered] = s.x[X.now]
    s.rollouts[r, R.next] = -1
    if s.engines[e, E.queued] == 0:
        s.engines[e, E.queue_head] = r
    else:
        s.rollouts[s.engines[e, E.queue_tail], R.next] = r
    s.engines[e, E.queue_tail] = r
    s.engines[e, E.queued] += 1
    s.n[N.queued] += 1


@called
def next_in_line(s, e):
    r = s.engines[e, E.queue_head]
    s.engines[e, E.queue_head] = s.rollouts[r, R.next]
    s.engines[e, E.queued] -= 1
    s.n[N.queued] -= 1
    s.x[X.queued_s] += s.x[X.now] - s.times[r, T.entered]
    return r


@called
def leave_engine_for(s, e, r, seconds):
    """The rollout is outside its engine (a tool call, say) for so long."""
    size = s.engines[e, E.outside]
    s.engines[e, E.outside] = size + 1
    s.n[N.outside] += 1
    s.times[r, T.entered] = s.x[X.now]
    rise(s.outs, e, size, bits_of(s.x[X.now] + seconds), r)
    s.clocks[e, F.returns] = mark_of(s.outs[e, 0])


@called
def append(s, base, r):
    """To the end of a list of rollouts whose head, tail and length are n[base], n[base + 1], n[base + 2]."""
    s.rollouts[r, R.next] = -1
    if s.n[base + 2] == 0:
        s.n[base] = r
    else:
        s.rollouts[s.n[base + 1], R.next] = r
    s.n[base + 1] = r
    s.n[base + 2] += 1


@called
def take(s, base):
    r = s.n[base]
    s.n[base] = s.rollouts[r, R.next]
    s.n[base + 2] -= 1
    return r


@called
def strike(s, base, r):
    """Out of the middle of such a list."""
    before, here = -1, s.n[base]
    while here != r:
        before, here = here, s.rollouts[here, R.next]
    after = s.rollouts[r, R.next]
    if before < 0:
        s.n[base] = after
    else:
        s.rollouts[before, R.next] = after
    if after < 0:
        s.n[base + 1] = before
    s.n[base + 2] -= 1


@called
def strike_queue(s, e, r):
    """Out of the middle of an engine's queue."""
    before, here = -1, s.engines[e, E.queue_head]
    while here != r:
        before, here = here, s.rollouts[here, R.next]
    after = s.rollouts[r, R.next]
    if before < 0:
        s.engines[e, E.queue_head] = after
    else:
        s.rollouts[before, R.next] = after
    if after < 0:
        s.engines[e, E.queue_tail] = before
    s.engines[e, E.queued] -= 1
    s.n[N.queued] -= 1
    s.x[X.queued_s] += s.x[X.now] - s.times[r, T.entered]


@called
def plan(s, at, what):
    """An event of no engine: `what` is a kind times AGENDA_STEP, plus a number."""
    rise(s.agenda, 0, s.n[N.planned], bits_of(at), what)
    s.n[N.planned] += 1


@called
def note(s, kind, a, b, c):
    row = s.n[N.traced]
    if row < s.trace.shape[0]:
        s.trace[row, 0] = s.x[X.now]
        s.trace[row, 1] = kind
        s.trace[row, 2] = a
        s.trace[row, 3] = b
        s.trace[row, 4] = c
        s.n[N.traced] = row + 1


@inlined
def unload(s, e):
    """One rollout fewer is bound to the engine."""
    s.engines[e, E.in_flight] -= 1
    replay(s.loads, e, s.engines[e, E.in_flight])
