"""A job that goes on in larger arrays, or under other parameters."""

from math import inf
from typing import Any, NamedTuple

import numpy as np

from simulators.distributions import NEVER
from simulators.event_state import Counts, Parameters
from simulators.events.arrays import (
    agenda_words,
    aligned,
    idle_engines,
    idle_pool,
    new_heaps,
    new_tree,
    parameter_arrays,
    replaced,
    two_views,
    wide_arrays,
)
from simulators.events.heaps import INF_BITS
from simulators.events.layout import (
    GROW,
    GW,
    LINE,
    NO_GROUP,
    NO_ROOM,
    OPEN,
    QUEUED,
    READY,
    REMOVED,
    RESIDENT,
    RW,
    TOOL,
    TW,
    E,
    F,
    M,
    N,
    R,
    State,
    T,
    X,
)
from simulators.events.looking import buffered_of, places_of
from simulators.events.loop import ADVANCE_ALL, MANY_TURNS, ONE_TURN, TOUCH_ALL, WIDE
from simulators.events.tables import handed


def _copied(new: Any, old: Any) -> Any:
    """Into a larger array, as much as fits."""
    kept = tuple(slice(0, min(a, b)) for a, b in zip(old.shape, new.shape, strict=True))
    new[kept] = old[kept]
    return new


def _wider(old: Any, shape: tuple[int, ...], fill: float = 0) -> Any:
    """A copy inside a larger array (or the part that fits)."""
    return _copied(np.full(shape, fill, old.dtype), old)


def _longer(lines: Any, rows: int) -> Any:
    """The same for records of a cache line each."""
    return _copied(aligned(rows, LINE), lines.view(np.int64))


def _more_free(stack: Any, free: int, old: int, new: int) -> tuple[Any, int]:
    """The new slots lie under the old free ones, so that the same slot comes next whatever the room."""
    grown = np.zeros(new, np.int64)
    grown[: new - old] = np.arange(new - 1, old - 1, -1)
    grown[new - old : new - old + free] = stack[:free]
    return grown, free + new - old


class Room(NamedTuple):
    """Sizes of the arrays that may have to grow."""

    groups: int
    rollouts: int
    members: int
    outs: int
    order: int


def room_of(s: State) -> Room:
    return Room(len(s.groups), len(s.rollouts), s.versions.shape[1], s.outs.shape[1] // 2, len(s.order))


def with_room(s: State, wanted: Room) -> State:
    """The same job in arrays of at least these sizes."""
    old = room_of(s)
    new = Room(*(max(a, b) for a, b in zip(old, wanted, strict=True)))
    free_groups, s.n[N.free_groups] = _more_free(s.free_groups, s.n[N.free_groups], old.groups, new.groups)
    free_rollouts, s.n[N.free_rollouts] = _more_free(s.free_rollouts, s.n[N.free_rollouts], old.rollouts, new.rollouts)
    ring = np.zeros(new.groups, np.int64)
    ring[: old.groups] = np.roll(s.ring, -s.n[N.ring_head])
    s.n[N.ring_head] = 0
    return replaced(
        s,
        **two_views("groups", "traits", _longer(s.groups, new.groups)),
        groups_wide=_wider(s.groups_wide, (new.groups, len(GW))),
        marks=_wider(s.marks, (new.groups, len(M))),
        versions=_wider(s.versions, (new.groups, new.members)),
        members=_wider(s.members, (new.groups if s.n[N.wide] else 1, new.members), -1),
        order=_unrolled(s, new.order),
        **two_views("rollouts", "times", _longer(s.rollouts, new.rollouts)),
        rollouts_wide=_wider(s.rollouts_wide, (new.rollouts, len(RW))),
        times_wide=_wider(s.times_wide, (new.rollouts, len(TW))),
        outs=_copied(new_heaps(len(s.outs), new.outs), s.outs),
        agenda=_wider(s.agenda, (1, max(s.agenda.shape[1], 4 * new.rollouts))),
        free_groups=free_groups,
        free_rollouts=free_rollouts,
        ring=ring,
    )


def _unrolled(s: State, size: int) -> Any:
    """The order of dispatch in a ring of this size; places keep their numbers."""
    if size == len(s.order):
        return s.order
    grown = np.zeros(size, np.int64)
    for place in range(s.n[N.order_head], s.n[N.order_tail]):
        grown[place % size] = s.order[place % len(s.order)]
    return grown


MOST_GROUPS = 1 << 18
"""Groups started and untrained (and 16 times what is in flight and in a batch) beyond which a job is stopped: its
buffer grows without bound."""


def _most_groups(counts: Counts) -> int:
    return max(MOST_GROUPS, 16 * (counts.in_flight_limit // counts.group_size + counts.batch_groups))


def advanced(s: State, made: Parameters, until_s: float = inf, until_step: int = NEVER) -> State:
    """Run up to a time or a step. Comes back with larger arrays where the job needed more room."""
    narrow = ONE_TURN if made.one_turn else MANY_TURNS
    run = WIDE if s.n[N.wide] else narrow
    while run(handed(s), until_s, until_step) == GROW:
        if len(s.groups) > _most_groups(made.counts):
            s.n[N.stopped] = NO_ROOM
            return s
        room = room_of(s)
        s = with_room(
            s,
            Room(
                groups=room.groups * (2 if s.n[N.free_groups] == 0 else 1),
                rollouts=room.rollouts * (2 if s.n[N.free_rollouts] == 0 else 1),
                members=room.members,
                outs=room.outs + (room.outs >> 1) + 1,
                order=room.order * (2 if s.n[N.order_tail] - s.n[N.order_head] >= room.order else 1),
            ),
        )
    return s


def changed(s: State, made: Parameters) -> State:
    """The same job under other parameters from now on: engines come at once, or are drained and left alone."""
    ADVANCE_ALL(handed(s))
    if not made.plain and not s.n[N.wide]:
        s = _widened(s, made)
    counts, room = made.counts, room_of(s)
    rollouts = max(counts.in_flight_limit, room.rollouts)
    outs = rollouts // counts.engines + 2
    s = with_room(s, room._replace(rollouts=rollouts, members=counts.members_started, outs=outs))
    s = _with_engines(s, max(counts.engines, len(s.engines)), counts.slots + 1)
    s = _with_pool(s, counts)
    s = replaced(s, **parameter_arrays(made))
    most = max(counts.slots, int(s.engines[:, E.residents].max()))
    slope = s.step_s[-1] - s.step_s[-2]
    extra = s.step_s[-1] + max(0.0, slope) * np.arange(1, most + 1 - counts.slots)
    slowness = np.resize(s.slowness, len(s.engines))
    s = replaced(s, step_s=np.concatenate([s.step_s, extra]), slowness=slowness)
    s.engines[:, E.in_flight] %= REMOVED
    s.engines[counts.engines :, E.in_flight] += REMOVED
    TOUCH_ALL(handed(s))
    return s


def up_to_now(s: State) -> State:
    """A copy in which what the engines did since their last event is counted. The job itself goes on as if nobody had
    looked: a clock read half way would end elsewhere by its last bit, and residents push paused contexts out."""
    copies = {name: getattr(s, name).copy() for name in ("n", "x", "engines_wide", "clocks_wide", "rollouts_wide")}
    s = replaced(s, **copies, **two_views("engines", "clocks", _longer(s.clocks, len(s.clocks))))
    ADVANCE_ALL(handed(s))
    return s


def _with_engines(s: State, engines: int, slots: int) -> State:
    new = idle_engines(engines)
    for name, array in new.items():
        _copied(array, getattr(s, name))
    new["clocks"][len(s.clocks) :, F.resume] = s.x[X.now]
    return replaced(
        s,
        **new,
        heap=_copied(new_heaps(engines, max(slots, s.heap.shape[1] // 2)), s.heap),
        outs=_copied(new_heaps(engines, s.outs.shape[1] // 2), s.outs),
        tree=new_tree(engines, INF_BITS),
        loads=new_tree(engines, NEVER),
    )


def _with_pool(s: State, counts: Counts) -> State:
    """More prefill engines come at once; of fewer, the last ones finish what they have. And room on the agenda for
    every sandbox that may leak under a larger quota."""
    if not s.n[N.wide]:
        return s
    engines = max(counts.prefill_engines, len(s.pool))
    pool = idle_pool(engines)
    return replaced(
        s,
        pool=_copied(pool, s.pool),
        pool_kv=_wider(s.pool_kv, (engines, 2)),
        agenda=_wider(s.agenda, (1, max(s.agenda.shape[1], agenda_words(engines, len(s.rollouts), counts)))),
    )


def _widened(s: State, made: Parameters) -> State:
    """A plain job's state as the widest variant keeps it."""
    s.n[N.wide] = 1
    s = replaced(s, **wide_arrays(made, len(s.groups)))
    s = replaced(s, members=_wider(s.members, (len(s.groups), max(s.versions.shape[1], s.members.shape[1])), -1))
    live, resident, outside, queued = places_of(s)
    for where, state in ((resident, RESIDENT), (outside, TOOL), (queued, QUEUED)):
        s.rollouts_wide[where, RW.state] = state
    s.rollouts_wide[:, RW.flags] = s.rollouts_wide[:, RW.cached] = 0
    s.times_wide[:, TW.began] = s.times[:, T.dispatched]
    for r in live:
        s.members[s.rollouts[r, R.group], s.rollouts[r, R.member]] = r
    s.groups_wide[:, GW.state] = OPEN
    s.groups_wide[s.free_groups[: s.n[N.free_groups]], GW.state] = NO_GROUP
    s.groups_wide[buffered_of(s), GW.state] = READY
    s.groups_wide[:, GW.resumed] = s.groups_wide[:, GW.round] = s.groups_wide[:, GW.spent] = 0
    s.n[N.opened_since_sync] = s.n[N.wip]
    return s
