"""Into an engine and out of it: slots, KV room, prefill, the cache of paused contexts."""

from simulators.events.clocks import make_room, rebase, stall, stand_still, uncache
from simulators.events.heaps import bits_of, rise, sift
from simulators.events.layout import CONTEXT_TOO_LONG, EW, FW, RESIDENT, RW, TW, C, E, F, N, P, R, T, X
from simulators.events.tables import called, inlined


@inlined
def join(s, e, r):
    """A rollout becomes resident; the engine's clock is up to date."""
    size = s.engines[e, E.residents]
    s.engines[e, E.residents] = size + 1
    s.n[N.resident] += 1
    mark = s.clocks[e, F.clock] + s.rollouts[r, R.tokens]
    s.clocks[e, F.context] += s.rollouts[r, R.context]
    s.times[r, T.entered] = s.x[X.now]
    if s.n[N.hole] == e:
        s.n[N.hole] = -1
        sift(s.heap, e, size + 1, bits_of(mark), r)
    else:
        rise(s.heap, e, size, bits_of(mark), r)


@called
def join_wide(s, e, r):
    prefill(s, e, r)
    s.rollouts_wide[r, RW.state] = RESIDENT
    join(s, e, r)
    make_room(s, e)


@called
def prefill(s, e, r):
    """What of the context is not in the cache is computed: the engine stops for it, or (chunked) every token of this
    turn carries its share of it, so that nobody stops and the work is the same."""
    cached = s.rollouts_wide[r, RW.cached]
    uncached = s.rollouts[r, R.context] - cached
    if cached > 0:
        uncache(s, r)
    s.n[N.prefilled_tokens] += uncached
    s.n[N.prefix_tokens] += cached
    s.times_wide[r, TW.tax] = 0.0
    seconds = uncached * s.rates[P.prefill_s_per_token] * s.slowness[e]
    if seconds <= 0.0:
        return
    if s.counts[C.chunked]:
        s.times_wide[r, TW.tax] = seconds / s.rollouts[r, R.tokens]
        s.clocks_wide[e, FW.tax] += s.times_wide[r, TW.tax]
    else:
        stall(s, e, seconds)


@called
def close_hole(s, e):
    """Nobody took the departed one's place."""
    s.n[N.hole] = -1
    size = s.engines[e, E.residents]
    if size == 0:
        return
    sift(s.heap, e, size, s.heap[e, 2 * size], s.heap[e, 2 * size + 1])
    if s.clocks[e, F.clock] > 1e9:
        rebase(s, e)


@called
def has_room(s, e, r):
    """Whether the engine can admit this rollout now."""
    taken = s.engines[e, E.residents] + s.engines_wide[e, EW.reserved]
    if s.engines_wide[e, EW.draining] or taken >= s.counts[C.slots]:
        return False
    needed = s.clocks[e, F.context] + s.rollouts[r, R.context]
    if taken > 0:
        return needed <= s.rates[P.kv_admission_tokens]
    if needed >= s.rates[P.kv_tokens]:
        s.n[N.stopped] = CONTEXT_TOO_LONG
    return True


@called
def cache(s, e, r):
    """A paused rollout's context stays in the free part of the KV pool, as the last to be thrown out."""
    if not s.counts[C.prefix_cache]:
        s.rollouts_wide[r, RW.cached] = 0
        return
    context = s.rollouts[r, R.context]
    s.rollouts_wide[r, RW.cached] = context
    tail = s.engines_wide[e, EW.cached_tail] if s.clocks_wide[e, FW.cached] > 0.0 else -1
    s.rollouts_wide[r, RW.before] = tail
    s.rollouts_wide[r, RW.link] = -1
    if tail < 0:
        s.engines_wide[e, EW.cached_head] = r
    else:
        s.rollouts_wide[tail, RW.link] = r
    s.engines_wide[e, EW.cached_tail] = r
    s.clocks_wide[e, FW.cached] += context
    make_room(s, e)


@called
def interrupt(s, e, r, mark):
    """A resident stops before its turn's end. What it has generated becomes context, to be prefilled again."""
    received = s.clocks[e, F.clock] - (mark - s.rollouts[r, R.tokens])
    s.clocks[e, F.context] -= s.rollouts[r, R.context] + received
    s.clocks_wide[e, FW.tax] -= s.times_wide[r, TW.tax]
    s.times_wide[r, TW.tax] = 0.0
    done = max(0, min(s.rollouts[r, R.tokens] - 1, int(received)))
    s.rollouts[r, R.context] += done
    s.rollouts[r, R.response] += done
    s.rollouts[r, R.tokens] -= done
    s.engines[e, E.residents] -= 1
    s.n[N.resident] -= 1
    s.x[X.resident_s] += s.x[X.now] - s.times[r, T.entered]
    if s.engines[e, E.residents] == 0:
        stand_still(s, e, 1)
