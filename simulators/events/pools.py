"""The prefill pool in front of the decoders: its queues, the KV it holds, the link."""

from simulators.distributions import NEVER
from simulators.events.clocks import uncache
from simulators.events.heaps import bits_of, rise
from simulators.events.layout import (
    AGENDA_STEP,
    CONTEXT_TOO_LONG,
    EW,
    POOL_FREE,
    POOLED,
    PREFILLED,
    RESIDENT,
    RW,
    TRANSFER,
    TW,
    C,
    E,
    F,
    N,
    P,
    Q,
    R,
    T,
    X,
)
from simulators.events.lists import leave_engine_for, plan
from simulators.events.tables import called


@called
def pool_arrive(s, r):
    """To the prefill engine with the fewest rollouts."""
    best, fewest = 0, NEVER
    for p in range(s.counts[C.prefill_engines]):
        if s.pool[p, Q.rollouts] < fewest:
            best, fewest = p, s.pool[p, Q.rollouts]
    cached = s.rollouts_wide[r, RW.cached]
    s.n[N.prefix_tokens] += cached
    s.n[N.prefilled_tokens] += s.rollouts[r, R.context] - cached
    s.times_wide[r, TW.tax] = (s.rollouts[r, R.context] - cached) * s.rates[P.pool_s_per_token]
    if cached > 0:
        uncache(s, r)
    s.rollouts_wide[r, RW.cached] = 0
    s.rollouts_wide[r, RW.state] = POOLED
    s.rollouts_wide[r, RW.link] = best
    s.rollouts[r, R.next] = -1
    if s.pool[best, Q.queued] == 0:
        s.pool[best, Q.head] = r
    else:
        s.rollouts[s.pool[best, Q.tail], R.next] = r
    s.pool[best, Q.tail] = r
    s.pool[best, Q.queued] += 1
    s.pool[best, Q.rollouts] += 1
    pool_start(s, best)


@called
def pool_start(s, p):
    """The prefill engine's next, unless the KV of finished ones is in the way (blocking after service)."""
    if s.pool[p, Q.busy] >= 0 or s.pool[p, Q.queued] == 0:
        return
    r = s.pool[p, Q.head]
    context = s.rollouts[r, R.context]
    if s.pool_kv[p, 0] + context > s.rates[P.pool_kv_tokens]:
        if s.pool_kv[p, 0] == 0.0:
            s.n[N.stopped] = CONTEXT_TOO_LONG
        return
    s.pool[p, Q.head] = s.rollouts[r, R.next]
    s.pool[p, Q.queued] -= 1
    s.pool[p, Q.busy] = r
    s.pool_kv[p, 0] += context
    s.pool_kv[p, 1] = s.x[X.now] + s.times_wide[r, TW.tax]
    plan(s, s.pool_kv[p, 1], PREFILLED * AGENDA_STEP + p)


@called
def pool_leave(s, p, r):
    """The pool holds this rollout's KV no longer."""
    s.pool[p, Q.rollouts] -= 1
    s.pool_kv[p, 0] -= s.rollouts[r, R.context]
    pool_start(s, p)


@called
def from_pool(s, e, r):
    """A decoder takes a prefilled rollout: over the link into a slot that is its own from now on."""
    p = int(s.rollouts_wide[r, RW.link])
    context = s.rollouts[r, R.context]
    seconds = s.rates[P.transfer_base_s] + context * s.rates[P.transfer_s_per_token]
    s.pool[p, Q.rollouts] -= 1
    s.pool_kv[p, 0] -= context
    plan(s, s.x[X.now], POOL_FREE * AGENDA_STEP + p)
    if seconds > 0.0:
        s.engines_wide[e, EW.reserved] += 1
        s.rollouts_wide[r, RW.state] = TRANSFER
        leave_engine_for(s, e, r, seconds)
        return
    decode_prefilled(s, e, r)


@called
def decode_prefilled(s, e, r):
    s.engines[e, E.residents] += 1
    s.n[N.resident] += 1
    s.clocks[e, F.context] += s.rollouts[r, R.context]
    s.times[r, T.entered] = s.x[X.now]
    s.rollouts_wide[r, RW.state] = RESIDENT
    mark = s.clocks[e, F.clock] + s.rollouts[r, R.tokens]
    rise(s.heap, e, s.engines[e, E.residents] - 1, bits_of(mark), r)


@called
def pull_from_pool(s, p, r):
    s.pool[p, Q.rollouts] -= 1
    if s.pool[p, Q.busy] == r:
        s.pool[p, Q.busy] = -1
        s.pool_kv[p, 0] -= s.rollouts[r, R.context]
        pool_start(s, p)
        return
    before, here = -1, s.pool[p, Q.head]
    while here != r:
        before, here = here, s.rollouts[here, R.next]
    after = s.rollouts[r, R.next]
    if before < 0:
        s.pool[p, Q.head] = after
    else:
        s.rollouts[before, R.next] = after
    if after < 0:
        s.pool[p, Q.tail] = before
    s.pool[p, Q.queued] -= 1
