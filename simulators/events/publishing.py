"""New weights: in flight, by abort, by drain, at once or rolling."""

from simulators.event_state import ABORT, DRAIN, IN_FLIGHT
from simulators.events.admission import admit_wide
from simulators.events.clocks import advance, advance_wide, touch, touch_wide, uncache
from simulators.events.fleets import release_box
from simulators.events.heaps import mark_of
from simulators.events.layout import AGENDA_STEP, DRAINING, EW, FW, PAUSED, RESUMED, ROLL, RW, C, E, F, N, P, X
from simulators.events.lists import append, plan
from simulators.events.residents import interrupt
from simulators.events.stopping import anew, drained, forget
from simulators.events.tables import called


@called
def publish(s):
    """New weights in flight: every engine stands still while it takes them."""
    pause = s.rates[P.sync_s]
    if pause <= 0.0:
        return
    for e in range(s.engines.shape[0]):
        advance(s, e, s.x[X.now], None)
        s.clocks[e, F.resume] += pause
        touch(s, e, None)


@called
def publish_wide(s):
    """New weights in each of the ways of stations.WeightSync. True where the trainer waits for a drain."""
    s.n[N.opened_since_sync] = s.n[N.wip]
    mode = s.counts[C.sync_mode]
    if mode == DRAIN:
        return start_drain(s)
    s.n[N.version] += 1
    if mode == IN_FLIGHT and s.rates[P.sync_s] <= 0.0 and s.counts[C.keeps_kv]:
        return False
    now = s.x[X.now]
    for e in range(s.engines.shape[0]):
        advance_wide(s, e, now)
        if mode == ABORT:
            abort_residents(s, e)
    if s.counts[C.rolling] and mode == IN_FLIGHT:
        if s.n[N.rolling_at] < 0:
            s.n[N.rolling_at] = 0
            plan(s, now, ROLL * AGENDA_STEP)
        else:
            s.n[N.roll_again] = 1
        return False
    for e in range(s.engines.shape[0]):
        take_weights(s, e)
    for e in range(s.engines.shape[0]):
        admit_wide(s, e)
        touch_wide(s, e)
    return False


@called
def take_weights(s, e):
    """One engine stands still; without its KV every resident is prefilled again."""
    seconds = s.rates[P.sync_s]
    if not s.counts[C.keeps_kv]:
        seconds += s.clocks[e, F.context] * s.rates[P.prefill_s_per_token] * s.slowness[e]
        while s.clocks_wide[e, FW.cached] > 0.0:
            uncache(s, s.engines_wide[e, EW.cached_head])
    s.clocks[e, F.resume] += seconds


@called
def roll(s):
    """The next engine of a rolling publication."""
    e = s.n[N.rolling_at]
    advance_wide(s, e, s.x[X.now])
    take_weights(s, e)
    touch_wide(s, e)
    s.n[N.rolling_at] = e + 1
    if e + 1 >= s.counts[C.engines]:
        s.n[N.rolling_at] = 0 if s.n[N.roll_again] else -1
        if not s.n[N.roll_again]:
            return
        s.n[N.roll_again] = 0
    plan(s, s.x[X.now] + s.rates[P.sync_s], ROLL * AGENDA_STEP)


@called
def start_drain(s):
    """Nothing is admitted until the residents are done."""
    now = s.x[X.now]
    if s.counts[C.rolling]:
        s.n[N.version] += 1
    else:
        s.n[N.draining] = 1
    for e in range(s.engines.shape[0]):
        s.engines_wide[e, EW.draining] = 1
    waits = s.counts[C.trainer_waits] and not s.counts[C.rolling]
    if waits:
        s.n[N.phase] = DRAINING
    for e in range(s.engines.shape[0]):
        advance_wide(s, e, now)
        drained(s, e)
        admit_wide(s, e)
        touch_wide(s, e)
    return waits


@called
def abort_residents(s, e):
    """Every resident stops: with partial rollout it goes on afterwards, else it starts anew under the new weights."""
    while s.engines[e, E.residents] > 0:
        last = s.engines[e, E.residents] - 1
        r = s.heap[e, 2 * last + 1]
        interrupt(s, e, r, mark_of(s.heap[e, 2 * last]))
        forget(s, r)
        if s.counts[C.partial]:
            release_box(s, r)
            s.rollouts_wide[r, RW.state] = PAUSED
            s.rollouts_wide[r, RW.flags] |= RESUMED
            append(s, N.again_head, r)
        else:
            s.n[N.aborted] += 1
            anew(s, r)
