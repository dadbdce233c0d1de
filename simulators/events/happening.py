"""What an event does: a departure, a return, something on the agenda."""

from math import exp, inf

from simulators.distributions import FIXED
from simulators.events.admission import admit, arrive, arrive_wide, overflow, prefilled
from simulators.events.clocks import account, advance
from simulators.events.dispatching import draw_turn, draw_turn_wide
from simulators.events.draws import drawn, quantile, tokens_of, uniform
from simulators.events.finishing import finish_rollout, finish_wide
from simulators.events.fleets import start_boxes, start_verifying, want_verifier
from simulators.events.heaps import mark_of, sift
from simulators.events.layout import (
    AGENDA_STEP,
    BOX_FAILS,
    BOX_GONE,
    DYING,
    EW,
    FW,
    POOL_FREE,
    PREFILLED,
    PRUNED,
    RETURNED,
    RW,
    STARTING,
    TOOL,
    TOOL_TIME_LAW,
    TOOL_TOKEN_LAW,
    TURN_END,
    TW,
    VERIFYING,
    C,
    E,
    F,
    G,
    H,
    K,
    L,
    N,
    R,
    T,
    X,
)
from simulators.events.lists import leave_engine_for, note
from simulators.events.pools import decode_prefilled, pool_start
from simulators.events.publishing import roll
from simulators.events.residents import cache, close_hole
from simulators.events.stopping import drained, fail
from simulators.events.tables import called, inlined
from simulators.streams import TOOL_TIME, TOOL_TOKENS


@inlined
def engine_event(s, e, many_turns, wide):
    """The engine's next departure, or the next return to it."""
    now = s.x[X.now]
    s.n[N.handled] = e
    if s.clocks[e, F.departs] <= s.clocks[e, F.returns]:
        if wide is not None:
            if s.engines_wide[e, EW.overflowing]:
                overflow(s, e)
                return
        departure(s, e, many_turns, wide)
        admit(s, e, wide)
        return
    r = s.outs[e, 1]
    size = s.engines[e, E.outside] - 1
    s.engines[e, E.outside] = size
    s.n[N.outside] -= 1
    s.x[X.outside_s] += now - s.times[r, T.entered]
    if size > 0:
        sift(s.outs, e, size, s.outs[e, 2 * size], s.outs[e, 2 * size + 1])
    s.clocks[e, F.returns] = mark_of(s.outs[e, 0]) if size > 0 else inf
    advance(s, e, now, wide)
    if wide is not None:
        if s.rollouts_wide[r, RW.state] != TOOL:
            come_back(s, e, r)
            return
    note(s, RETURNED, s.groups[s.rollouts[r, R.group], G.id], s.rollouts[r, R.member], e)
    arrive(s, e, r, wide)


@called
def come_back(s, e, r):
    """From a sandbox's start, the verifier, or over the link of a prefill pool."""
    state = s.rollouts_wide[r, RW.state]
    if state == STARTING:
        s.n[N.boxes_starting] -= 1
        s.x[X.box_wait_s] += s.x[X.now] - s.times_wide[r, TW.box]
        if s.rollouts_wide[r, RW.flags] & BOX_FAILS:
            s.n[N.boxes_failed] += 1
            fail(s, r)
        else:
            arrive_wide(s, e, r)
    elif state == VERIFYING:
        s.n[N.judging] -= 1
        s.x[X.judge_s] += s.x[X.now] - s.times_wide[r, TW.judge]
        s.x[X.verifying_s] += s.x[X.now] - s.times[r, T.entered]
        start_verifying(s)
        finish_wide(s, e, r)
    else:
        s.engines_wide[e, EW.reserved] -= 1
        decode_prefilled(s, e, r)


@inlined
def departure(s, e, many_turns, wide):
    now = s.x[X.now]
    r, mark = s.heap[e, 1], mark_of(s.heap[e, 0])
    b = s.engines[e, E.residents]
    if wide is not None:
        if s.counts[C.lockstep] > 1 or s.counts[C.tenant]:
            advance(s, e, now, wide)
    d = mark - s.clocks[e, F.clock]
    account(s, e, b, d, now - s.clocks[e, F.resume])
    s.clocks[e, F.clock] = mark
    s.clocks[e, F.resume] = now
    tokens = s.rollouts[r, R.tokens]
    context = s.rollouts[r, R.context] + tokens
    s.clocks[e, F.context] -= context
    s.rollouts[r, R.context] = context
    s.rollouts[r, R.response] += tokens
    s.engines[e, E.residents] = b - 1
    s.n[N.resident] -= 1
    s.n[N.turns] += 1
    s.x[X.resident_s] += now - s.times[r, T.entered]
    s.n[N.hole] = e
    turn = s.rollouts[r, R.turn] + 1
    g = s.rollouts[r, R.group]
    note(s, TURN_END, s.groups[g, G.id], s.rollouts[r, R.member], e)
    if wide is not None:
        close_hole(s, e)
        s.clocks_wide[e, FW.tax] = max(0.0, s.clocks_wide[e, FW.tax] - s.times_wide[r, TW.tax]) if b > 1 else 0.0
        if s.engines_wide[e, EW.draining]:
            drained(s, e)
        if s.rollouts_wide[r, RW.flags] & DYING:
            fail(s, r)
            return
    if not many_turns or turn >= s.rollouts[r, R.turns]:
        if wide is not None:
            if s.counts[C.verified] and not s.rollouts_wide[r, RW.flags] & PRUNED:
                want_verifier(s, r)
                return
            finish_wide(s, e, r)
            return
        finish_rollout(s, e, r, wide)
        return
    gid, draw = s.groups[g, G.id], s.rollouts[r, R.draw]
    if wide is not None:
        s.rollouts_wide[r, RW.state] = TOOL
        cache(s, e, r)
    if s.laws[TOOL_TOKEN_LAW, L.mean] > 0.0 or s.kinds[TOOL_TOKEN_LAW, K.kind] != FIXED:
        value = drawn(s, TOOL_TOKEN_LAW, uniform(s.n[N.key], TOOL_TOKENS, gid, draw, turn), s.traits[g, H.score])
        if s.laws[TOOL_TOKEN_LAW, L.shared_sigma] > 0.0:
            value *= exp(s.laws[TOOL_TOKEN_LAW, L.shared_sigma] * s.traits[g, H.score])
        s.rollouts[r, R.context] = context + tokens_of(s, TOOL_TOKEN_LAW, value)
    if wide is not None:
        draw_turn_wide(s, r, g, turn)
    else:
        draw_turn(s, r, g, turn, wide)
    seconds = quantile(s, TOOL_TIME_LAW, uniform(s.n[N.key], TOOL_TIME, gid, draw, turn))
    leave_engine_for(s, e, r, seconds)


@called
def agenda_event(s):
    """An event of no engine."""
    what = s.agenda[0, 1]
    size = s.n[N.planned] - 1
    s.n[N.planned] = size
    if size > 0:
        sift(s.agenda, 0, size, s.agenda[0, 2 * size], s.agenda[0, 2 * size + 1])
    kind, number = what // AGENDA_STEP, what % AGENDA_STEP
    if kind == PREFILLED:
        prefilled(s, number)
    elif kind == POOL_FREE:
        pool_start(s, number)
    elif kind == BOX_GONE:
        s.n[N.boxes_live] -= 1
        start_boxes(s)
    else:
        roll(s)
