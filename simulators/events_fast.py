"""The discrete-event engine, compiled: processor sharing in virtual time, one heap operation per arrival or departure.

Every engine carries a clock V that counts the tokens each of its residents has received. A rollout of L tokens that
joins at V leaves when the clock shows V + L, whatever the others do, so residents sit in a heap of such marks. Between
two events b residents with S context tokens in total advance by d tokens in

    dt = A d + m b d^2 / 2,   A = f(b) + m S,      d = 2 dt / (A + sqrt(A^2 + 2 m b dt))

exactly. A clock that stands still (weight sync, stalling prefill) is one whose `resume` lies in the future. A
tournament tree over engines gives the next event, a second one the engine with the fewest rollouts.

The readable twin of the core is tests/oracles/events_reference.py: same seed, same trace, bit for bit. Hence only
`math` functions, no fastmath, whole token counts, and ties by (time, engine before trainer, lower id).
"""

from collections import namedtuple
from collections.abc import Callable
from dataclasses import astuple, fields
from math import exp, inf, log, sqrt
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numba import njit, typeof

from simulators import streams
from simulators.event_state import (
    BUFFER_CAP,
    CELLS,
    DROP_OLDEST,
    EDGE,
    EMPIRICAL_SHARED,
    EXPONENTIAL,
    FIXED,
    GEOMETRIC,
    LOGNORMAL,
    NEVER,
    WIP_CAP,
    Counts,
    Job,
    Parameters,
    Rates,
    parameters,
)
from simulators.plant import Setpoints, Topology
from simulators.stations import Engine, Stations, Trainer, affine
from simulators.streams import (
    PROMPT,
    RESPONSE,
    REWARD,
    SHARED_LENGTH,
    SOLVE_RATE,
    TOOL_TIME,
    TOOL_TOKENS,
    TURNS,
)
from simulators.workload import Lengths, Workload

Compiled = Callable[..., Any]


def _names(title: str, names: str) -> Any:
    """A tuple of column numbers by name: compile-time constants in the engine."""
    listed = names.split()
    return namedtuple(title, listed)(*range(len(listed)))


# ---- layout ----

LINE, TWO_LINES = 8, 16
"""Columns of a record: it begins with a cache line and shares none."""
STALENESS_BINS = 1024
TIME_BINS = 512
"""Eight to an octave, from 2^-16 s on."""

C = _names("C", " ".join(f.name for f in fields(Counts)))
P = _names("P", " ".join(f.name for f in fields(Rates)))
N = _names(
    "N",
    # where the job stands
    "key stamp version step in_flight resident outside queued open_group next_group wip ring_head ring_count"
    " free_rollouts free_groups phase training_groups loose hole need_room stopped traced handled"
    # cumulative counts
    " dispatched finished finished_groups trained trained_groups useful trained_tokens trained_response trained_solved"
    " attempted attempted_response attempted_solved truncated filtered dropped stale oversampled pruned aborted failed"
    " waiting since_training turns events spanned"
    # what the plugs promise
    " peak_wip peak_ring peak_ring_at_open",
)
X = _names(
    "X",
    "now trainer_at training_tokens"
    # cumulative seconds and areas under counts
    " area_in_flight area_resident area_outside area_queued area_ring training_s sync_s decoded_tokens context_area"
    " engine_busy_s rollout_s group_s queue_age_s ring_s resident_s outside_s queued_s",
)
"""Of an engine: its clock (tokens), when it runs on, context of its residents, next departure, next return."""
F = _names("F", "clock resume context departs returns")
E = _names("E", "residents in_flight queue_head queue_tail queued outside active")
R = _names(
    "R",
    "group member engine tokens context turn turns next response version state link",
)
T = _names("T", "dispatched entered")
G = _names(
    "G",
    "id size started done solved tokens response kept prompt_tokens round",
)
H = _names("H", "opened ready factor solve_rate score")
L = _names("L", "kind mean location own_sigma shared_sigma root_shared root_own limit pairs")
PROMPT_LAW, RESPONSE_LAW, TURN_LAW, TOOL_TOKEN_LAW, TOOL_TIME_LAW, SOLVE_LAW = range(6)
IDLE, TRAINING, WAITING = range(3)
DISPATCHED, TURN_END, RETURNED, GROUP_READY, TRAIN_START, TRAIN_END = range(6)
"""Kinds of a trace row: (time, kind, group, member or count, engine)."""
DONE, GROW = range(2)
"""Why the compiled engine came back."""
RUNNING, NO_EVENT, STARVED, NO_ROOM = range(4)
"""Why a job stopped."""
STARVED_BATCHES = 10_000
"""Finished groups since the last training, in batches, at which a job counts as starved."""


class State(NamedTuple):
    """All arrays of one simulated job: sized by what is in flight and in the buffer, never by what was simulated."""

    n: Any
    x: Any
    counts: Any
    rates: Any
    laws: Any
    tables: Any
    pairs: Any
    step_s: Any
    slowness: Any
    clocks: Any
    engines: Any
    heap: Any
    """(mark, rollout) side by side, a binary heap of each engine."""
    outs: Any
    """(return time, rollout) side by side, a binary heap of each engine."""
    tree: Any
    """(next event, engine) side by side: winners of a tournament; node 1 is the root."""
    loads: Any
    """(rollouts in flight, engine): the same over loads."""
    rollouts: Any
    times: Any
    groups: Any
    marks: Any
    versions: Any
    free_rollouts: Any
    free_groups: Any
    ring: Any
    """Finished groups in the order of completion."""
    staleness: Any
    latency: Any
    trace: Any


_OPTIONS: dict[str, Any] = {"_nrt": False, "error_model": "numpy"}
"""No reference counts (the engine allocates nothing) and no checks of divisors (parameters are checked before)."""


def _inlined(function: Compiled) -> Compiled:
    """Compiled into its callers."""
    return njit(forceinline=True, **_OPTIONS)(function)


def _called(function: Compiled) -> Compiled:
    return njit(**_OPTIONS)(function)


# ---- random numbers (streams.py, in 64-bit words) ----

_U12, _U27, _U30, _U31 = np.uint64(12), np.uint64(27), np.uint64(30), np.uint64(31)
_MIX_A, _MIX_B = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_STREAM, _GROUP = np.uint64(streams.STREAM_STEP), np.uint64(streams.GROUP_STEP)
_MEMBER, _TURN = np.uint64(streams.MEMBER_STEP), np.uint64(streams.TURN_STEP)

normal_quantile = _called(streams.normal_quantile)
normal_share = _called(streams.normal_share)


@_inlined
def uniform(key, stream, group, member, turn):
    word = np.uint64(key) + np.uint64(stream) * _STREAM + np.uint64(group) * _GROUP
    word += np.uint64(member) * _MEMBER + np.uint64(turn) * _TURN
    word = (word ^ (word >> _U30)) * _MIX_A
    word = (word ^ (word >> _U27)) * _MIX_B
    word = word ^ (word >> _U31)
    return (float(np.int64(word >> _U12)) + 0.5) * 2.220446049250313e-16


@_called
def exact_quantile(s, law, share):
    """event_state.exact_quantile on arrays."""
    kind = int(s.laws[law, L.kind])
    if kind == LOGNORMAL:
        return exp(s.laws[law, L.location] + s.laws[law, L.own_sigma] * normal_quantile(share))
    if kind == EXPONENTIAL:
        return -s.laws[law, L.mean] * log(1.0 - share)
    if kind == GEOMETRIC:
        return 1.0 + float(int(log(1.0 - share) / log(1.0 - 1.0 / s.laws[law, L.mean])))
    if kind == FIXED:
        return s.laws[law, L.mean]
    last = int(s.laws[law, L.pairs]) - 1
    for i in range(last):
        left, low, right, high = s.pairs[law, i, 0], s.pairs[law, i, 1], s.pairs[law, i + 1, 0], s.pairs[law, i + 1, 1]
        if share <= right:
            return low + (high - low) * (share - left) / (right - left)
    return s.pairs[law, last, 1]


@_inlined
def quantile(s, law, share):
    if EDGE < share < 1.0 - EDGE:
        place = share * CELLS
        cell = int(place)
        low = s.tables[law, cell]
        return low + (place - cell) * (s.tables[law, cell + 1] - low)
    return exact_quantile(s, law, share)


@_inlined
def drawn(s, law, share, score):
    """A quantile, moved by the prompt's score where an empirical law shares part of its variance."""
    if int(s.laws[law, L.kind]) == EMPIRICAL_SHARED:
        own = s.laws[law, L.root_own] * normal_quantile(share)
        share = normal_share(s.laws[law, L.root_shared] * score + own)
    return quantile(s, law, share)


@_inlined
def tokens_of(s, law, value):
    return max(1, min(int(s.laws[law, L.limit]), int(value + 0.5)))


# ---- heaps and trees ----


@_inlined
def sift(rows, e, size, mark, who):
    """Put (mark, who) into the hole at the root of a heap of `size`: the hole sinks to a leaf, the new one rises."""
    i = 0
    child = 1
    while child < size:
        if child + 1 < size:
            a, b = rows[e, 2 * child], rows[e, 2 * child + 2]
            child += int(b < a or (b == a and rows[e, 2 * child + 3] < rows[e, 2 * child + 1]))
        rows[e, 2 * i] = rows[e, 2 * child]
        rows[e, 2 * i + 1] = rows[e, 2 * child + 1]
        i = child
        child = 2 * i + 1
    rise(rows, e, i, mark, who)


@_inlined
def rise(rows, e, i, mark, who):
    while i > 0:
        parent = (i - 1) >> 1
        above = rows[e, 2 * parent]
        if above < mark or (above == mark and rows[e, 2 * parent + 1] < who):
            break
        rows[e, 2 * i] = above
        rows[e, 2 * i + 1] = rows[e, 2 * parent + 1]
        i = parent
    rows[e, 2 * i] = mark
    rows[e, 2 * i + 1] = who


@_inlined
def replay(tree, leaf, value):
    """One leaf's value changed: play its matches again. The left (lower id) wins a tie."""
    node = (tree.shape[0] >> 2) + leaf
    who = float(leaf)
    tree[2 * node] = value
    while node > 1:
        other = node ^ 1
        rival = tree[2 * other]
        if rival < value or (rival == value and other < node):
            value = rival
            who = tree[2 * other + 1]
        node >>= 1
        tree[2 * node] = value
        tree[2 * node + 1] = who


# ---- engines ----


@_inlined
def advance(s, e, now):
    """Let the engine's clock run up to `now`."""
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


@_inlined
def account(s, e, b, d, dt):
    s.x[X.context_area] += (s.clocks[e, F.context] + 0.5 * b * d) * dt
    s.clocks[e, F.context] += b * d
    s.x[X.decoded_tokens] += b * d
    s.x[X.engine_busy_s] += dt


@_inlined
def touch(s, e):
    """Work out the engine's next event. Its clock is up to date."""
    b = s.engines[e, E.residents]
    departs = inf
    if b > 0:
        d = s.heap[e, 0] - s.clocks[e, F.clock]
        m = s.rates[P.per_context_token_s]
        each = s.step_s[b]
        if m > 0.0:
            each += m * s.clocks[e, F.context] + 0.5 * m * b * d
        departs = s.clocks[e, F.resume] + each * d
    s.clocks[e, F.departs] = departs
    replay(s.tree, e, min(departs, s.clocks[e, F.returns]))


@_inlined
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
        sift(s.heap, e, size + 1, mark, float(r))
    else:
        rise(s.heap, e, size, mark, float(r))


@_inlined
def close_hole(s, e):
    """Nobody took the departed one's place."""
    s.n[N.hole] = -1
    size = s.engines[e, E.residents]
    if size == 0:
        s.clocks[e, F.context] = 0.0
        s.clocks[e, F.clock] = 0.0
        return
    sift(s.heap, e, size, s.heap[e, 2 * size], s.heap[e, 2 * size + 1])
    if s.clocks[e, F.clock] > 1e9:
        rebase(s, e)


@_called
def rebase(s, e):
    """Set the clock back to 0, so that its last bits stay below a millionth of a token."""
    base = s.clocks[e, F.clock]
    for i in range(s.engines[e, E.residents]):
        s.heap[e, 2 * i] -= base
    s.clocks[e, F.clock] = 0.0


@_inlined
def arrive(s, e, r):
    """A rollout wants the engine: into a free slot, else to the end of the queue."""
    if s.engines[e, E.residents] < s.counts[C.slots]:
        join(s, e, r)
        return
    s.times[r, T.entered] = s.x[X.now]
    s.rollouts[r, R.next] = -1
    if s.engines[e, E.queued] == 0:
        s.engines[e, E.queue_head] = r
    else:
        s.rollouts[s.engines[e, E.queue_tail], R.next] = r
    s.engines[e, E.queue_tail] = r
    s.engines[e, E.queued] += 1
    s.n[N.queued] += 1


@_inlined
def admit(s, e):
    """From the head of the engine's queue into its free slots."""
    while s.engines[e, E.queued] > 0 and s.engines[e, E.residents] < s.counts[C.slots]:
        r = s.engines[e, E.queue_head]
        s.engines[e, E.queue_head] = s.rollouts[r, R.next]
        s.engines[e, E.queued] -= 1
        s.n[N.queued] -= 1
        s.x[X.queued_s] += s.x[X.now] - s.times[r, T.entered]
        join(s, e, r)


@_inlined
def leave_engine_for(s, e, r, seconds):
    """The rollout is outside its engine (a tool call) for so long."""
    size = s.engines[e, E.outside]
    s.engines[e, E.outside] = size + 1
    s.n[N.outside] += 1
    s.times[r, T.entered] = s.x[X.now]
    rise(s.outs, e, size, s.x[X.now] + seconds, float(r))
    s.clocks[e, F.returns] = s.outs[e, 0]


# ---- groups and rollouts ----


@_inlined
def note(s, kind, a, b, c):
    row = s.n[N.traced]
    if row < s.trace.shape[0]:
        s.trace[row, 0] = s.x[X.now]
        s.trace[row, 1] = kind
        s.trace[row, 2] = a
        s.trace[row, 3] = b
        s.trace[row, 4] = c
        s.n[N.traced] = row + 1


@_inlined
def may_open(s):
    """Whether the plug lets another group start."""
    plug = s.counts[C.plug]
    if plug == BUFFER_CAP:
        return s.n[N.ring_count] < s.counts[C.plug_limit]
    if plug == WIP_CAP:
        return s.n[N.wip] < s.counts[C.plug_limit]
    return True


@_inlined
def open_group(s):
    s.n[N.free_groups] -= 1
    g = s.free_groups[s.n[N.free_groups]]
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
    score, factor = 0.0, 1.0
    if s.laws[RESPONSE_LAW, L.root_shared] > 0.0:
        score = normal_quantile(uniform(key, SHARED_LENGTH, gid, 0, 0))
        factor = exp(s.laws[RESPONSE_LAW, L.shared_sigma] * score)
    s.marks[g, H.score], s.marks[g, H.factor], s.marks[g, H.opened] = score, factor, s.x[X.now]
    s.marks[g, H.solve_rate] = s.laws[SOLVE_LAW, L.mean]
    if s.laws[SOLVE_LAW, L.kind] != FIXED:
        place = uniform(key, SOLVE_RATE, gid, 0, 0) * CELLS
        cell = int(place)
        low = s.tables[SOLVE_LAW, cell]
        s.marks[g, H.solve_rate] = low + (place - cell) * (s.tables[SOLVE_LAW, cell + 1] - low)
    value = s.laws[PROMPT_LAW, L.mean]
    if s.laws[PROMPT_LAW, L.kind] != FIXED:
        value = quantile(s, PROMPT_LAW, uniform(key, PROMPT, gid, 0, 0))
    row[G.prompt_tokens] = min(int(s.laws[PROMPT_LAW, L.limit]), int(value + 0.5))


@_inlined
def draw_turn(s, r, g, turn):
    """Tokens of the next turn; a context that would grow too long is cut there and ends the rollout."""
    member = s.rollouts[r, R.member]
    value = s.laws[RESPONSE_LAW, L.mean]
    if s.laws[RESPONSE_LAW, L.kind] != FIXED:
        share = uniform(s.n[N.key], RESPONSE, s.groups[g, G.id], member, turn)
        value = drawn(s, RESPONSE_LAW, share, s.marks[g, H.score]) * s.marks[g, H.factor]
    tokens = tokens_of(s, RESPONSE_LAW, value)
    if int(value + 0.5) > tokens:
        s.n[N.truncated] += 1
    room = s.counts[C.max_context] - s.rollouts[r, R.context]
    if tokens >= room:
        tokens = max(1, room)
        s.rollouts[r, R.turns] = turn + 1
    s.rollouts[r, R.turn] = turn
    s.rollouts[r, R.tokens] = tokens


@_inlined
def dispatch(s, many_turns):
    """The open group's next member starts at the engine with the fewest in flight."""
    g = s.n[N.open_group]
    member = s.groups[g, G.started]
    s.groups[g, G.started] = member + 1
    if member + 1 == s.groups[g, G.size]:
        s.n[N.open_group] = -1
    s.n[N.free_rollouts] -= 1
    r = s.free_rollouts[s.n[N.free_rollouts]]
    now = s.x[X.now]
    s.n[N.dispatched] += 1
    s.n[N.in_flight] += 1
    s.versions[g, member] = s.n[N.version]
    row = s.rollouts[r]
    row[R.group], row[R.member], row[R.context], row[R.response] = g, member, s.groups[g, G.prompt_tokens], 0
    row[R.turns] = 1
    s.times[r, T.dispatched] = now
    if many_turns:
        value = s.laws[TURN_LAW, L.mean]
        if s.laws[TURN_LAW, L.kind] != FIXED:
            value = exact_quantile(s, TURN_LAW, uniform(s.n[N.key], TURNS, s.groups[g, G.id], member, 0))
        row[R.turns] = tokens_of(s, TURN_LAW, value)
    draw_turn(s, r, g, 0)
    e = s.n[N.loose]
    if e >= 0:
        s.n[N.loose] = -1
    else:
        e = int(s.loads[3])
        s.engines[e, E.in_flight] += 1
        replay(s.loads, e, float(s.engines[e, E.in_flight]))
    row[R.engine] = e
    note(s, DISPATCHED, s.groups[g, G.id], member, e)
    advance(s, e, now)
    arrive(s, e, r)
    if e != s.n[N.handled]:
        touch(s, e)


@_inlined
def fill(s, many_turns):
    """Dispatch while the in-flight limit and the plug allow it."""
    while s.n[N.in_flight] < s.counts[C.in_flight_limit]:
        if s.n[N.open_group] < 0:
            if not may_open(s):
                return
            if s.n[N.free_groups] == 0:
                s.n[N.need_room] = 1
                return
            open_group(s)
        if s.n[N.loose] < 0 and s.loads[2] >= s.outs.shape[1] // 2:
            s.n[N.need_room] = 1
            return
        dispatch(s, many_turns)


@_inlined
def unload(s, e):
    """One rollout fewer is bound to the engine; one that is being removed is never chosen."""
    s.engines[e, E.in_flight] -= 1
    if s.engines[e, E.active]:
        replay(s.loads, e, float(s.engines[e, E.in_flight]))


@_inlined
def free_group(s, g):
    s.free_groups[s.n[N.free_groups]] = g
    s.n[N.free_groups] += 1


@_inlined
def time_bin(seconds):
    bits = np.float64(seconds).view(np.int64)
    return max(0, min(TIME_BINS - 1, (bits >> 49) - ((1023 - 16) << 3)))


@_inlined
def finish_rollout(s, e, r):
    """Reward and bookkeeping of a rollout that came to its end; its group may be complete with it."""
    g = s.rollouts[r, R.group]
    now = s.x[X.now]
    seconds = now - s.times[r, T.dispatched]
    s.x[X.rollout_s] += seconds
    s.latency[time_bin(seconds)] += 1
    share = uniform(s.n[N.key], REWARD, s.groups[g, G.id], s.rollouts[r, R.member], 0)
    solved = int(share < s.marks[g, H.solve_rate])
    response = s.rollouts[r, R.response]
    row = s.groups[g]
    row[G.solved] += solved
    row[G.response] += response
    row[G.tokens] += s.rollouts[r, R.context]
    row[G.kept] += 1
    row[G.done] += 1
    s.n[N.finished] += 1
    s.n[N.attempted] += 1
    s.n[N.attempted_response] += response
    s.n[N.attempted_solved] += solved
    s.n[N.spanned] += s.n[N.version] - s.versions[g, s.rollouts[r, R.member]]
    s.n[N.in_flight] -= 1
    s.n[N.waiting] += 1
    s.free_rollouts[s.n[N.free_rollouts]] = r
    s.n[N.free_rollouts] += 1
    if float(s.engines[e, E.in_flight]) == s.loads[2] and s.engines[e, E.active]:
        s.n[N.loose] = e  # now alone with the fewest: the next dispatch comes back here
    else:
        unload(s, e)
    if row[G.done] == row[G.size]:
        finish_group(s, g)


@_inlined
def finish_group(s, g):
    row = s.groups[g]
    s.n[N.finished_groups] += 1
    s.n[N.since_training] += 1
    s.n[N.waiting] -= row[G.done]
    now = s.x[X.now]
    s.x[X.group_s] += now - s.marks[g, H.opened]
    s.marks[g, H.ready] = now
    usable = 0 < row[G.solved] < row[G.kept]
    note(s, GROUP_READY, row[G.id], row[G.solved], row[G.tokens])
    if s.counts[C.filtering] and not usable:
        s.n[N.filtered] += row[G.kept]
        s.n[N.wip] -= 1
        free_group(s, g)
        return
    if s.counts[C.plug] == DROP_OLDEST and s.n[N.ring_count] >= s.counts[C.plug_limit]:
        old = pop_ring(s)
        s.n[N.dropped] += s.groups[old, G.kept]
        s.n[N.wip] -= 1
        free_group(s, old)
    place = s.n[N.ring_head] + s.n[N.ring_count]
    if place >= s.ring.shape[0]:
        place -= s.ring.shape[0]
    s.ring[place] = g
    s.n[N.ring_count] += 1
    s.n[N.peak_ring] = max(s.n[N.peak_ring], s.n[N.ring_count])


@_inlined
def pop_ring(s):
    head = s.n[N.ring_head]
    g = s.ring[head]
    s.n[N.ring_head] = head + 1 if head + 1 < s.ring.shape[0] else 0
    s.n[N.ring_count] -= 1
    s.x[X.ring_s] += s.x[X.now] - s.marks[g, H.ready]
    return g


# ---- trainer ----


@_inlined
def start_training(s):
    """Take a batch from the head of the buffer."""
    tokens = 0
    now, version, batch = s.x[X.now], s.n[N.version], s.counts[C.batch_groups]
    for _ in range(batch):
        g = pop_ring(s)
        row = s.groups[g]
        tokens += row[G.tokens]
        s.x[X.queue_age_s] += now - s.marks[g, H.ready]
        for member in range(row[G.size]):
            age = version - s.versions[g, member]
            s.staleness[min(age, STALENESS_BINS - 1)] += 1
        s.n[N.trained] += row[G.kept]
        s.n[N.trained_groups] += 1
        s.n[N.trained_response] += row[G.response]
        s.n[N.trained_solved] += row[G.solved]
        if 0 < row[G.solved] < row[G.kept]:
            s.n[N.useful] += row[G.kept]
        free_group(s, g)
    s.n[N.trained_tokens] += tokens
    s.n[N.since_training] = 0
    s.n[N.training_groups] = batch
    if s.counts[C.freed_at_start]:
        s.n[N.wip] -= batch
    s.n[N.phase] = TRAINING
    seconds = s.rates[P.trainer_base_s] + tokens * s.rates[P.trainer_s_per_token]
    s.x[X.training_s] += seconds
    s.x[X.trainer_at] = now + seconds
    note(s, TRAIN_START, version, batch, tokens)


@_inlined
def trainer_event(s):
    """A step ends (and its weights may be published), or the trainer has waited long enough."""
    s.x[X.trainer_at] = inf
    if s.n[N.phase] == WAITING:
        s.n[N.phase] = IDLE
        return
    s.n[N.step] += 1
    step = s.n[N.step]
    note(s, TRAIN_END, step, s.n[N.training_groups], 0)
    if not s.counts[C.freed_at_start]:
        s.n[N.wip] -= s.n[N.training_groups]
    s.n[N.training_groups] = 0
    s.n[N.phase] = IDLE
    wait = 0.0
    if step % s.counts[C.validation_interval] == 0:
        wait += s.rates[P.validation_s]
    if step % s.counts[C.checkpoint_interval] == 0:
        wait += s.rates[P.checkpoint_s]
    if step % s.counts[C.sync_interval] == 0:
        s.n[N.version] += 1
        publish(s)
        if s.counts[C.trainer_waits]:
            wait += s.rates[P.sync_s]
    if wait > 0.0:
        s.n[N.phase] = WAITING
        s.x[X.sync_s] += wait
        s.x[X.trainer_at] = s.x[X.now] + wait


@_inlined
def publish(s):
    """New weights in flight: every engine stands still while it takes them."""
    pause = s.rates[P.sync_s]
    if pause <= 0.0:
        return
    for e in range(s.engines.shape[0]):
        advance(s, e, s.x[X.now])
        s.clocks[e, F.resume] += pause
        touch(s, e)


# ---- events ----


@_inlined
def engine_event(s, e, many_turns):
    """The engine's next departure, or the next return to it."""
    now = s.x[X.now]
    s.n[N.handled] = e
    if s.clocks[e, F.departs] <= s.clocks[e, F.returns]:
        departure(s, e, many_turns)
        admit(s, e)
        return
    r = int(s.outs[e, 1])
    size = s.engines[e, E.outside] - 1
    s.engines[e, E.outside] = size
    s.n[N.outside] -= 1
    s.x[X.outside_s] += now - s.times[r, T.entered]
    if size > 0:
        sift(s.outs, e, size, s.outs[e, 2 * size], s.outs[e, 2 * size + 1])
    s.clocks[e, F.returns] = s.outs[e, 0] if size > 0 else inf
    advance(s, e, now)
    note(s, RETURNED, s.groups[s.rollouts[r, R.group], G.id], s.rollouts[r, R.member], e)
    arrive(s, e, r)


@_inlined
def departure(s, e, many_turns):
    now = s.x[X.now]
    r = int(s.heap[e, 1])
    b = s.engines[e, E.residents]
    d = s.heap[e, 0] - s.clocks[e, F.clock]
    account(s, e, b, d, now - s.clocks[e, F.resume])
    s.clocks[e, F.clock] = s.heap[e, 0]
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
    if not many_turns or turn >= s.rollouts[r, R.turns]:
        finish_rollout(s, e, r)
        return
    gid, member = s.groups[g, G.id], s.rollouts[r, R.member]
    if s.laws[TOOL_TOKEN_LAW, L.mean] > 0.0 or s.laws[TOOL_TOKEN_LAW, L.kind] != FIXED:
        value = drawn(s, TOOL_TOKEN_LAW, uniform(s.n[N.key], TOOL_TOKENS, gid, member, turn), s.marks[g, H.score])
        if s.laws[TOOL_TOKEN_LAW, L.shared_sigma] > 0.0:
            value *= exp(s.laws[TOOL_TOKEN_LAW, L.shared_sigma] * s.marks[g, H.score])
        s.rollouts[r, R.context] = context + tokens_of(s, TOOL_TOKEN_LAW, value)
    draw_turn(s, r, g, turn)
    seconds = quantile(s, TOOL_TIME_LAW, uniform(s.n[N.key], TOOL_TIME, gid, member, turn))
    leave_engine_for(s, e, r, seconds)


@_inlined
def settle(s, many_turns):
    """What follows at once from an event: training starts, rollouts are dispatched, the engine is worked out anew."""
    if s.n[N.phase] == IDLE and s.n[N.ring_count] >= s.counts[C.batch_groups]:
        start_training(s)
    fill(s, many_turns)
    e = s.n[N.loose]
    if e >= 0:
        s.n[N.loose] = -1
        unload(s, e)
    e = s.n[N.handled]
    if e >= 0:
        s.n[N.handled] = -1
        if s.n[N.hole] == e:
            close_hole(s, e)
        touch(s, e)


@_inlined
def pass_time(s, until):
    dt = until - s.x[X.now]
    s.x[X.now] = until
    s.x[X.area_in_flight] += dt * s.n[N.in_flight]
    s.x[X.area_resident] += dt * s.n[N.resident]
    s.x[X.area_outside] += dt * s.n[N.outside]
    s.x[X.area_queued] += dt * s.n[N.queued]
    s.x[X.area_ring] += dt * s.n[N.ring_count]


@_called
def stop(s, reason):
    s.n[N.stopped] = reason
    return DONE


def _build(many_turns: bool, stamp: int) -> Compiled:
    def run(s, until_s, until_step):
        s.n[N.stamp] = stamp
        s.n[N.stopped] = RUNNING
        s.n[N.need_room] = 0
        settle(s, many_turns)
        while s.n[N.need_room] == 0:
            if s.n[N.step] >= until_step:
                return DONE
            at, trainer_at = s.tree[2], s.x[X.trainer_at]
            soonest = min(at, trainer_at)
            if soonest > until_s:
                pass_time(s, until_s)
                return DONE
            if soonest == inf:
                return stop(s, NO_EVENT)
            if s.n[N.phase] == IDLE and s.n[N.since_training] > STARVED_BATCHES * s.counts[C.batch_groups]:
                return stop(s, STARVED)
            s.n[N.events] += 1
            pass_time(s, soonest)
            if at <= trainer_at:
                engine_event(s, int(s.tree[3]), many_turns)
            else:
                trainer_event(s)
            settle(s, many_turns)
        return GROW

    return run


def _cached(function: Compiled) -> Compiled:
    """Compiled, and kept on disk where there is a place for it; a read-only tree without HOME compiles every time."""
    try:
        return njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:
        return njit(**_OPTIONS)(function)


def _advance_all(s):
    for e in range(s.engines.shape[0]):
        advance(s, e, s.x[X.now])


def _touch_all(s):
    for e in range(s.engines.shape[0]):
        admit(s, e)
        touch(s, e)
        replay(s.loads, e, float(s.engines[e, E.in_flight]) if s.engines[e, E.active] else inf)


def _stamp() -> int:
    """Changes with the code that is compiled in from other files, which numba's own cache check does not see."""
    kept = (streams.normal_quantile.__code__, streams.normal_share.__code__)
    return crc32(repr([(code.co_code, code.co_consts) for code in kept]).encode())


ONE_TURN = _cached(_build(False, _stamp()))
MANY_TURNS = _cached(_build(True, _stamp()))
ADVANCE_ALL = _cached(_advance_all)
TOUCH_ALL = _cached(_touch_all)


# ---- arrays ----


def _tree(leaves: int) -> Any:
    width = 1
    while width < max(2, leaves):
        width *= 2
    tree = np.full(4 * width, inf)
    tree[2 * width + 1 :: 2] = np.arange(width)
    return tree


def _law_rows(made: Parameters) -> tuple[Any, Any, Any]:
    listed = [getattr(made.laws, f.name) for f in fields(made.laws)]
    most = max(1, *(len(law.pairs) for law in listed))
    rows, pairs = np.zeros((len(listed), len(L))), np.zeros((len(listed), most, 2))
    for i, law in enumerate(listed):
        roots = (sqrt(law.shared_frac), sqrt(1.0 - law.shared_frac))
        rows[i] = (
            law.kind,
            law.mean,
            law.location,
            law.own_sigma,
            law.shared_sigma,
            *roots,
            float(law.limit),
            len(law.pairs),
        )
        for j, pair in enumerate(law.pairs):
            pairs[i, j] = pair
    return rows, np.array([law.table for law in listed]), pairs


def _parameter_arrays(made: Parameters) -> dict[str, Any]:
    rows, tables, pairs = _law_rows(made)
    return {
        "counts": np.array(astuple(made.counts), np.int64),
        "rates": np.array(astuple(made.rates)),
        "laws": rows,
        "tables": tables,
        "pairs": pairs,
        "step_s": np.array(made.step_s),
        "slowness": np.array(made.slowness),
    }


def fresh(made: Parameters, seed: int, trace_rows: int = 0) -> State:
    """A job at time 0: nothing dispatched, version 0."""
    state = _blank(made, seed, trace_rows)
    state.engines[:, E.active] = 1
    TOUCH_ALL(state)
    return state


def _blank(made: Parameters, seed: int, trace_rows: int = 0) -> State:
    counts = made.counts
    engines, slots = counts.engines, counts.slots
    rollouts = counts.in_flight_limit
    groups = 2 * (rollouts // counts.group_size + 2 * counts.batch_groups) + 16
    outs = rollouts // engines + 2
    n, x = np.zeros(len(N), np.int64), np.zeros(len(X))
    n[N.key] = np.uint64(streams.seed_key(seed)).astype(np.int64)
    n[N.open_group] = n[N.loose] = n[N.hole] = n[N.handled] = -1
    n[N.free_rollouts], n[N.free_groups] = rollouts, groups
    x[X.trainer_at] = inf
    return State(
        **_parameter_arrays(made),
        n=n,
        x=x,
        clocks=_idle_clocks(engines),
        engines=np.zeros((engines, LINE), np.int64),
        heap=np.zeros((engines, 2 * slots + 2)),
        outs=np.zeros((engines, 2 * outs)),
        tree=_tree(engines),
        loads=_tree(engines),
        rollouts=np.zeros((rollouts, TWO_LINES), np.int64),
        times=np.zeros((rollouts, len(T))),
        groups=np.zeros((groups, TWO_LINES), np.int64),
        marks=np.zeros((groups, LINE)),
        versions=np.zeros((groups, counts.members_started), np.int64),
        free_rollouts=np.arange(rollouts - 1, -1, -1),
        free_groups=np.arange(groups - 1, -1, -1),
        ring=np.zeros(groups, np.int64),
        staleness=np.zeros(STALENESS_BINS, np.int64),
        latency=np.zeros(TIME_BINS, np.int64),
        trace=np.zeros((trace_rows, 5)),
    )


def _idle_clocks(engines: int) -> Any:
    clocks = np.zeros((engines, LINE))
    clocks[:, F.departs] = clocks[:, F.returns] = inf
    return clocks


def _wider(old: Any, shape: tuple[int, ...], fill: float = 0) -> Any:
    """A copy inside a larger array."""
    new = np.full(shape, fill, old.dtype)
    new[tuple(slice(0, min(a, b)) for a, b in zip(old.shape, shape, strict=True))] = old[
        tuple(slice(0, b) for b in shape)
    ]
    return new


def _more_free(stack: Any, free: int, old: int, new: int) -> tuple[Any, int]:
    """The new slots lie under the old free ones, so that the same slot comes next whatever the room."""
    grown = np.zeros(new, np.int64)
    grown[: new - old] = np.arange(new - 1, old - 1, -1)
    grown[new - old : new - old + free] = stack[:free]
    return grown, free + new - old


def with_room(s: State, groups: int, rollouts: int, members: int, outs: int) -> State:
    """The same job in arrays of at least these sizes."""
    old_groups, old_rollouts = len(s.groups), len(s.rollouts)
    groups, rollouts = max(groups, old_groups), max(rollouts, old_rollouts)
    members, outs = max(members, s.versions.shape[1]), max(outs, s.outs.shape[1] // 2)
    free_groups, s.n[N.free_groups] = _more_free(s.free_groups, s.n[N.free_groups], old_groups, groups)
    free_rollouts, s.n[N.free_rollouts] = _more_free(s.free_rollouts, s.n[N.free_rollouts], old_rollouts, rollouts)
    ring = np.zeros(groups, np.int64)
    ring[:old_groups] = np.roll(s.ring, -s.n[N.ring_head])
    s.n[N.ring_head] = 0
    return s._replace(
        groups=_wider(s.groups, (groups, TWO_LINES)),
        marks=_wider(s.marks, (groups, LINE)),
        versions=_wider(s.versions, (groups, members)),
        rollouts=_wider(s.rollouts, (rollouts, TWO_LINES)),
        times=_wider(s.times, (rollouts, len(T))),
        outs=_wider(s.outs, (len(s.outs), 2 * outs)),
        free_groups=free_groups,
        free_rollouts=free_rollouts,
        ring=ring,
    )


MOST_GROUPS = 1 << 18
"""Groups started and untrained (and 16 times what is in flight and in a batch) beyond which a job is stopped: its
buffer grows without bound."""


def _most_groups(counts: Counts) -> int:
    return max(MOST_GROUPS, 16 * (counts.in_flight_limit // counts.group_size + counts.batch_groups))


def advanced(s: State, made: Parameters, until_s: float = inf, until_step: int = NEVER) -> State:
    """Run up to a time or a step. Comes back with larger arrays where the job needed more room."""
    run = ONE_TURN if made.one_turn else MANY_TURNS
    while run(s, until_s, until_step) == GROW:
        if len(s.groups) > _most_groups(made.counts):
            s.n[N.stopped] = NO_ROOM
            return s
        outs = s.outs.shape[1] // 2
        groups = len(s.groups) * (2 if s.n[N.free_groups] == 0 else 1)
        s = with_room(s, groups, len(s.rollouts), s.versions.shape[1], outs + (outs >> 1) + 1)
    return s


def changed(s: State, made: Parameters) -> State:
    """The same job under other parameters from now on: engines come at once, or are drained and left alone."""
    ADVANCE_ALL(s)
    counts = made.counts
    rollouts = max(counts.in_flight_limit, len(s.rollouts))
    s = with_room(s, len(s.groups), rollouts, counts.members_started, rollouts // counts.engines + 2)
    s = _with_engines(s, max(counts.engines, len(s.engines)), max(2 * counts.slots + 2, s.heap.shape[1]))
    s = s._replace(**_parameter_arrays(made))
    s.engines[:, E.active] = np.arange(len(s.engines)) < counts.engines
    TOUCH_ALL(s)
    return s


def _with_engines(s: State, engines: int, heap_width: int) -> State:
    clocks = _idle_clocks(engines)
    clocks[: len(s.clocks)] = s.clocks
    return s._replace(
        clocks=clocks,
        engines=_wider(s.engines, (engines, LINE)),
        heap=_wider(s.heap, (engines, heap_width)),
        outs=_wider(s.outs, (engines, s.outs.shape[1])),
        tree=_tree(engines),
        loads=_tree(engines),
    )


def gauges(s: State) -> dict[str, Any]:
    """What is where, and since when (for Little's law as an identity of the path)."""
    now = float(s.x[X.now])
    live = np.ones(len(s.rollouts), bool)
    live[s.free_rollouts[: s.n[N.free_rollouts]]] = False
    resident = _members(s.heap, s.engines[:, E.residents])
    outside = _members(s.outs, s.engines[:, E.outside])
    queued = np.setdiff1d(np.flatnonzero(live), np.concatenate([resident, outside]))
    places = (s.n[N.ring_head] + np.arange(s.n[N.ring_count])) % len(s.ring)
    ring = s.ring[places]
    ages = {
        name: float((now - s.times[who, T.entered]).sum())
        for name, who in (("resident", resident), ("outside", outside), ("queued", queued))
    }
    ages["in_flight"] = float((now - s.times[live, T.dispatched]).sum())
    ages["ring"] = float((now - s.marks[ring, H.ready]).sum())
    return {
        "in_flight": int(s.n[N.in_flight]),
        "resident": len(resident),
        "outside": len(outside),
        "queued": len(queued),
        "waiting": int(s.n[N.waiting]),
        "buffered": int(s.groups[ring, G.kept].sum()),
        "buffered_groups": len(ring),
        "ages_s": ages,
    }


def _members(heaps: Any, sizes: Any) -> Any:
    inside = np.arange(heaps.shape[1] // 2)[None, :] < sizes[:, None]
    return heaps[:, 1 : 2 * inside.shape[1] : 2][inside].astype(np.int64)


def _arguments() -> tuple[Any, ...]:
    """What the engine is called with, for the smallest job."""
    workload = Workload(Lengths(1.0), Lengths(1.0))
    stations = Stations(Engine(affine(1.0, 0.0), 1), Trainer(1.0, 0.0))
    knobs = Setpoints(gpus_trainer=1, engines=1, batch_rollouts=1)
    return _blank(parameters(Job(Topology(), stations, workload, knobs)), 0), inf, 0


def _entries() -> dict[Any, tuple[Any, ...]]:
    """The compiled functions with arguments that do next to nothing."""
    state, until_s, until_step = _arguments()
    job = (state, until_s, until_step)
    return {ADVANCE_ALL: (state,), TOUCH_ALL: (state,), ONE_TURN: job, MANY_TURNS: job}


def is_warm() -> bool:
    """Whether every variant is compiled, in this process or on disk (then it is loaded)."""
    return all(_is_ready(function, arguments) for function, arguments in _entries().items())


def _is_ready(function: Any, arguments: tuple[Any, ...]) -> bool:
    signature = tuple(typeof(argument) for argument in arguments)
    if signature in function.overloads:
        return True
    return function._cache.load_overload(signature, function.targetctx) is not None


def warm_up() -> None:
    """Compile, or load, every variant."""
    for function, arguments in _entries().items():
        function(*arguments)
