"""The clock of an engine: how far it runs by a given time, and when its next resident leaves.

`wide` is None in the variants for plain jobs: numba then leaves out what follows `if wide is not None`.
"""

from math import inf, sqrt

from simulators.events.heaps import bits_of, mark_of, schedule
from simulators.events.layout import EW, FW, RW, C, E, F, P, R, X
from simulators.events.tables import called, inlined


@inlined
def decoding(s, e):
    """Seconds of one step of this engine now, with the slots that a second job fills."""
    b, context = s.engines[e, E.residents], s.clocks[e, F.context]
    if s.counts[C.tenant]:
        slots = s.counts[C.slots]
        context += max(0, slots - b) * s.rates[P.tenant_tokens]
        b = max(b, slots)
    return (s.step_s[b] + s.rates[P.per_context_token_s] * context) * s.slowness[e] + s.clocks_wide[e, FW.tax]


@called
def pace(s, e):
    """Of the engine's clock: seconds of a step now, and how it grows by the tokens that follow (m b)."""
    m = s.rates[P.per_context_token_s]
    each, growth = decoding(s, e), m * s.engines[e, E.residents] * s.slowness[e]
    if s.counts[C.lockstep] == 1:
        return each, growth
    each = 0.0
    first = e - e % s.counts[C.lockstep]
    for other in range(first, min(first + s.counts[C.lockstep], s.engines.shape[0])):
        if s.engines[other, E.residents] > 0 or s.counts[C.tenant]:
            slower = decoding(s, other)
            if slower > each:
                each, growth = slower, m * s.engines[other, E.residents] * s.slowness[other]
    return each, growth


@inlined
def account(s, e, b, d, dt):
    s.x[X.context_area] += (s.clocks[e, F.context] + 0.5 * b * d) * dt
    s.clocks[e, F.context] += b * d
    s.x[X.decoded_tokens] += b * d
    s.x[X.engine_busy_s] += dt


@inlined
def advance(s, e, now, wide):
    """Let the engine's clock run up to `now`."""
    if wide is not None:
        advance_wide(s, e, now)
        return
    dt = now - s.clocks[e, F.resume]
    if dt <= 0.0:
        return
    s.clocks[e, F.resume] = now
    b = s.engines[e, E.residents]
    if b == 0:
        return
    m = s.rates[P.per_context_token_s]
    each = s.step_s[b]
    if m > 0.0:
        each += m * s.clocks[e, F.context]
        d = 2.0 * dt / (each + sqrt(each * each + 2.0 * m * b * dt))
    else:
        d = dt / each
    s.clocks[e, F.clock] += d
    account(s, e, b, d, dt)


@called
def advance_wide(s, e, now):
    """Engines in lockstep stand at the same time, and their clocks run alike: the slowest step is everyone's."""
    dt = now - s.clocks[e, F.resume]
    if dt <= 0.0:
        return
    each, growth = pace(s, e)
    d = 0.0
    if each > 0.0:
        d = 2.0 * dt / (each + sqrt(each * each + 2.0 * growth * dt)) if growth > 0.0 else dt / each
    first = e - e % s.counts[C.lockstep]
    for one in range(first, min(first + s.counts[C.lockstep], s.engines.shape[0])):
        s.clocks[one, F.resume] = now
        b = s.engines[one, E.residents]
        if s.counts[C.tenant]:
            s.x[X.tenant_tokens] += max(0, s.counts[C.slots] - b) * d
        if b > 0:
            s.clocks[one, F.clock] += d
            account(s, one, b, d, dt)
            make_room(s, one)


@called
def make_room(s, e):
    """Residents push out paused contexts, the longest paused first."""
    room = s.rates[P.kv_tokens]
    while s.clocks_wide[e, FW.cached] > 0.0 and s.clocks[e, F.context] + s.clocks_wide[e, FW.cached] > room:
        uncache(s, s.engines_wide[e, EW.cached_head])


@called
def expect(s, e):
    """Work out the engine's next event from its own clock and the pace that holds for it."""
    b = s.engines[e, E.residents]
    departs = inf
    if b > 0:
        d = mark_of(s.heap[e, 0]) - s.clocks[e, F.clock]
        each, growth = pace(s, e)
        s.engines_wide[e, EW.overflowing] = 0
        room = s.rates[P.kv_tokens] - s.clocks[e, F.context]
        if room < b * d:
            s.engines_wide[e, EW.overflowing] = 1
            d = max(0.0, room / b)
        if growth > 0.0:
            each += 0.5 * growth * d
        departs = s.clocks[e, F.resume] + each * max(0.0, d)
    s.clocks[e, F.departs] = departs
    schedule(s, e, min(departs, s.clocks[e, F.returns]))


@inlined
def touch(s, e, wide):
    """The engine changed; its clock is up to date. Work out its next event."""
    if wide is not None:
        touch_wide(s, e)
        return
    b = s.engines[e, E.residents]
    departs = inf
    if b > 0:
        d = mark_of(s.heap[e, 0]) - s.clocks[e, F.clock]
        m = s.rates[P.per_context_token_s]
        each = s.step_s[b]
        if m > 0.0:
            each += m * s.clocks[e, F.context]
            each += 0.5 * m * b * d
        departs = s.clocks[e, F.resume] + each * d
    s.clocks[e, F.departs] = departs
    schedule(s, e, min(departs, s.clocks[e, F.returns]))


@called
def touch_wide(s, e):
    """Those in lockstep feel it."""
    first = e - e % s.counts[C.lockstep]
    for one in range(first, min(first + s.counts[C.lockstep], s.engines.shape[0])):
        expect(s, one)


@called
def stall(s, e, seconds):
    """The clock stands still for so long, and with it those in lockstep."""
    if s.counts[C.lockstep] == 1:
        s.clocks[e, F.resume] += seconds
        return
    first = e - e % s.counts[C.lockstep]
    for one in range(first, min(first + s.counts[C.lockstep], s.engines.shape[0])):
        s.clocks[one, F.resume] += seconds


@inlined
def stand_still(s, e, wide):
    """An empty engine's clock goes back to 0."""
    s.clocks[e, F.context] = 0.0
    s.clocks[e, F.clock] = 0.0
    if wide is not None:
        s.clocks_wide[e, FW.tax] = 0.0


@called
def rebase(s, e):
    """Set the clock back to 0, so that its last bits stay below a millionth of a token."""
    base = s.clocks[e, F.clock]
    for i in range(s.engines[e, E.residents]):
        s.heap[e, 2 * i] = bits_of(mark_of(s.heap[e, 2 * i]) - base)
    s.clocks[e, F.clock] = 0.0


@called
def uncache(s, r):
    """The paused context is no longer kept (or no longer paused)."""
    e, before, after = s.rollouts[r, R.engine], s.rollouts_wide[r, RW.before], s.rollouts_wide[r, RW.link]
    if before < 0:
        s.engines_wide[e, EW.cached_head] = after
    else:
        s.rollouts_wide[before, RW.link] = after
    if after < 0:
        s.engines_wide[e, EW.cached_tail] = before
    else:
        s.rollouts_wide[after, RW.before] = before
    s.clocks_wide[e, FW.cached] -= s.rollouts_wide[r, RW.cached]
    s.rollouts_wide[r, RW.cached] = 0


@called
def touch_outside(s, e):
    """Only the engine's next return changed."""
    schedule(s, e, min(s.clocks[e, F.departs], s.clocks[e, F.returns]))
