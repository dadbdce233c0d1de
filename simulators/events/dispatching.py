"""Groups that open, rollouts that start: admission plugs, lengths and turns, routes."""

from math import exp, sqrt

from simulators.distributions import CELLS, FIXED
from simulators.event_state import BUFFER_CAP, PER_SYNC, WIP_CAP
from simulators.events.admission import arrive
from simulators.events.clocks import advance, touch
from simulators.events.draws import drawn, exact_quantile, normal_quantile, normal_share, quantile, tokens_of, uniform
from simulators.events.fleets import want_box
from simulators.events.heaps import replay
from simulators.events.layout import (
    DISPATCHED,
    DYING,
    GW,
    OPEN,
    PROMPT_LAW,
    PRUNED,
    RESPONSE_LAW,
    RW,
    SOLVE_LAW,
    TURN_LAW,
    TW,
    C,
    E,
    G,
    H,
    K,
    L,
    M,
    N,
    P,
    R,
    T,
    X,
)
from simulators.events.lists import note, take
from simulators.events.tables import called, inlined, prefetch
from simulators.streams import FAILURE, FAILURE_POINT, PROMPT, PRUNING, RESPONSE, SHARED_LENGTH, SOLVE_RATE, TURNS


@called
def may_open(s, wide):
    """Whether the plug lets another group start."""
    plug = s.counts[C.plug]
    if plug == BUFFER_CAP:
        return s.n[N.ring_count] < s.counts[C.plug_limit]
    if plug == WIP_CAP:
        return s.n[N.wip] < s.counts[C.plug_limit]
    if wide is not None:
        if plug == PER_SYNC:
            return s.n[N.opened_since_sync] < s.counts[C.plug_limit]
    return True


@inlined
def open_group(s, wide):
    s.n[N.free_groups] -= 1
    g = s.free_groups[s.n[N.free_groups]]
    following = s.free_groups[max(0, s.n[N.free_groups] - 1)]
    prefetch(s.groups, following, 0)
    prefetch(s.versions, following, 0)
    gid = s.n[N.next_group]
    s.n[N.next_group] = gid + 1
    s.n[N.open_group] = g
    s.n[N.wip] += 1
    s.n[N.peak_wip] = max(s.n[N.peak_wip], s.n[N.wip])
    s.n[N.peak_ring_at_open] = max(s.n[N.peak_ring_at_open], s.n[N.ring_count])
    key = s.n[N.key]
    row = s.groups[g]
    row[G.id], row[G.size], row[G.started], row[G.done] = gid, s.counts[C.group_size], 0, 0
    row[G.solved], row[G.tokens], row[G.response], row[G.kept] = 0, 0, 0, 0
    row[G.target] = row[G.size]
    score, factor = 0.0, 1.0
    if s.laws[RESPONSE_LAW, L.root_shared] > 0.0:
        score = normal_quantile(uniform(key, SHARED_LENGTH, gid, 0, 0))
        factor = exp(s.laws[RESPONSE_LAW, L.shared_sigma] * score)
    s.traits[g, H.score], s.traits[g, H.factor] = score, factor
    s.marks[g, M.opened], s.marks[g, M.longest] = s.x[X.now], 0.0
    share = uniform(key, SOLVE_RATE, gid, 0, 0)
    if wide is not None:
        share = open_wide(s, g, score, share)
    place = share * CELLS
    cell = int(place)
    low = s.tables[SOLVE_LAW, cell]
    s.traits[g, H.solve_rate] = low + (place - cell) * (s.tables[SOLVE_LAW, cell + 1] - low)
    value = s.laws[PROMPT_LAW, L.mean]
    if s.kinds[PROMPT_LAW, K.kind] != FIXED:
        value = quantile(s, PROMPT_LAW, uniform(key, PROMPT, gid, 0, 0))
    row[G.prompt_tokens] = min(s.kinds[PROMPT_LAW, K.limit], int(value + 0.5))


@called
def open_wide(s, g, score, share):
    """Rounds, order, per-publication count; returns the share that the solve rate is drawn with."""
    row = s.groups[g]
    row[G.target] = max(row[G.size], s.counts[C.members_started])
    s.groups_wide[g, GW.state] = OPEN
    s.groups_wide[g, GW.resumed] = s.groups_wide[g, GW.spent] = 0
    for member in range(row[G.target]):
        s.members[g, member] = -1
    s.n[N.opened_since_sync] += 1
    if s.counts[C.round_groups] > 0:
        if s.n[N.round_opened] >= s.counts[C.round_groups]:
            next_round(s)
        s.n[N.round_opened] += 1
        s.groups_wide[g, GW.round] = s.n[N.round]
    if s.counts[C.in_order]:
        s.order[s.n[N.order_tail] % s.order.shape[0]] = g
        s.groups_wide[g, GW.place] = s.n[N.order_tail]
        s.n[N.order_tail] += 1
    rho = s.rates[P.length_correlation]
    if rho == 0.0:
        return share
    return normal_share(rho * score + sqrt(1.0 - rho * rho) * normal_quantile(share))


@called
def next_round(s):
    s.n[N.round] += 1
    s.n[N.round_opened] = 0
    s.rounds[s.n[N.round] % s.rounds.shape[0]] = 0


@inlined
def draw_turn(s, r, g, turn, wide):
    """Tokens of the next turn; a context that would grow too long is cut there and ends the rollout."""
    value = s.laws[RESPONSE_LAW, L.mean]
    if s.kinds[RESPONSE_LAW, K.kind] != FIXED:
        share = uniform(s.n[N.key], RESPONSE, s.groups[g, G.id], s.rollouts[r, R.draw], turn)
        value = drawn(s, RESPONSE_LAW, share, s.traits[g, H.score]) * s.traits[g, H.factor]
    tokens = tokens_of(s, RESPONSE_LAW, value)
    if int(value + 0.5) > tokens:
        s.n[N.truncated] += 1
    room = s.counts[C.max_context] - s.rollouts[r, R.context]
    if tokens >= room:
        tokens = max(1, room)
        s.rollouts[r, R.turns] = turn + 1
    s.rollouts[r, R.turn] = turn
    if wide is not None:
        tokens = cut_short(s, r, g, turn, tokens)
    s.rollouts[r, R.tokens] = tokens


@called
def draw_turn_wide(s, r, g, turn):
    draw_turn(s, r, g, turn, 1)


@called
def cut_short(s, r, g, turn, tokens):
    """Pruning of a long response; the point where a rollout that is lost to infrastructure breaks off."""
    gid, draw = s.groups[g, G.id], s.rollouts[r, R.draw]
    spent = s.rollouts[r, R.response]
    if spent + tokens > s.counts[C.prune_tokens]:
        if uniform(s.n[N.key], PRUNING, gid, draw, 0) < s.rates[P.prune_frac]:
            tokens = max(1, s.counts[C.prune_tokens] - spent)
            s.rollouts[r, R.turns] = turn + 1
            s.rollouts_wide[r, RW.flags] |= PRUNED
    if s.rates[P.failure_frac] > 0.0 and uniform(s.n[N.key], FAILURE, gid, draw, 0) < s.rates[P.failure_frac]:
        point = uniform(s.n[N.key], FAILURE_POINT, gid, draw, 0) * s.rollouts[r, R.turns]
        if turn >= int(point) or turn + 1 >= s.rollouts[r, R.turns]:
            tokens = max(1, int(tokens * (point - int(point))))
            s.rollouts_wide[r, RW.flags] |= DYING
    return tokens


@inlined
def prepare(s, r, g, member, many_turns, wide):
    """A new attempt of a prompt: its turns and the tokens of the first. R.draw tells attempts apart."""
    s.n[N.dispatched] += 1
    row, version = s.rollouts[r], s.n[N.version]
    row[R.version] = s.versions[g, member] = version
    row[R.context], row[R.response] = s.groups[g, G.prompt_tokens], 0
    row[R.turns] = 1
    if wide is not None:
        s.times_wide[r, TW.began] = s.x[X.now]
        s.rollouts_wide[r, RW.flags], s.rollouts_wide[r, RW.cached] = 0, 0
    if many_turns:
        value = s.laws[TURN_LAW, L.mean]
        if s.kinds[TURN_LAW, K.kind] != FIXED:
            value = exact_quantile(s, TURN_LAW, uniform(s.n[N.key], TURNS, s.groups[g, G.id], row[R.draw], 0))
        row[R.turns] = tokens_of(s, TURN_LAW, value)
    if wide is not None:
        draw_turn_wide(s, r, g, 0)
    else:
        draw_turn(s, r, g, 0, wide)


@inlined
def route(s, r, wide):
    """To the engine with the fewest in flight."""
    now = s.x[X.now]
    s.n[N.in_flight] += 1
    s.times[r, T.dispatched] = now
    e = s.n[N.loose]
    if e >= 0:
        s.n[N.loose] = -1
    else:
        e = s.loads[3]
        s.engines[e, E.in_flight] += 1
        replay(s.loads, e, s.engines[e, E.in_flight])
    s.rollouts[r, R.engine] = e
    note(s, DISPATCHED, s.groups[s.rollouts[r, R.group], G.id], s.rollouts[r, R.member], e)
    if wide is not None:
        if s.counts[C.sandboxed]:
            want_box(s, r)
            return
    advance(s, e, now, wide)
    arrive(s, e, r, wide)
    if e != s.n[N.handled]:
        touch(s, e, wide)


@inlined
def dispatch(s, many_turns, wide):
    """The open group's next member starts."""
    g = s.n[N.open_group]
    member = s.groups[g, G.started]
    s.groups[g, G.started] = member + 1
    if member + 1 == s.groups[g, G.target]:
        s.n[N.open_group] = -1
    s.n[N.free_rollouts] -= 1
    r = s.free_rollouts[s.n[N.free_rollouts]]
    row = s.rollouts[r]
    row[R.group], row[R.member], row[R.draw] = g, member, member
    if wide is not None:
        s.members[g, member] = r
        prepare_wide(s, r, g, member)
        route_wide(s, r)
    else:
        prepare(s, r, g, member, many_turns, wide)
        route(s, r, wide)


@called
def prepare_wide(s, r, g, member):
    prepare(s, r, g, member, True, 1)


@called
def route_wide(s, r):
    route(s, r, 1)


@called
def dispatch_again(s):
    """A rollout that was stopped goes on, or one that was lost starts anew."""
    r = take(s, N.again_head)
    if s.rollouts[r, R.turn] < 0:
        prepare_wide(s, r, s.rollouts[r, R.group], s.rollouts[r, R.member])
    route_wide(s, r)


@inlined
def fill(s, many_turns, wide):
    """Dispatch while the in-flight limit and the plug allow it."""
    while s.n[N.in_flight] < s.counts[C.in_flight_limit]:
        if s.n[N.loose] < 0 and s.loads[2] >= s.outs.shape[1] // 2:
            s.n[N.need_room] = 1
            return
        if wide is not None:
            if s.n[N.draining] or s.n[N.stopped]:
                return
            if s.n[N.agains] > 0 and not s.n[N.hold_again]:
                dispatch_again(s)
                continue
            if s.n[N.free_rollouts] == 0 or s.n[N.order_tail] - s.n[N.order_head] >= s.order.shape[0]:
                s.n[N.need_room] = 1
                return
        if s.n[N.open_group] < 0:
            if not may_open(s, wide):
                return
            if s.n[N.free_groups] == 0:
                s.n[N.need_room] = 1
                return
            open_group(s, wide)
        dispatch(s, many_turns, wide)
