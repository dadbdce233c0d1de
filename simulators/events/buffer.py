"""Finished groups: the ring and the order of dispatch, rounds, and what is thrown away."""

from simulators.event_state import WIP_CAP
from simulators.events.dispatching import next_round
from simulators.events.layout import (
    GW,
    JUDGE_QUEUE,
    NO_GROUP,
    NOT_KEPT,
    OPEN,
    PAUSED,
    READY,
    RW,
    VERIFYING,
    C,
    G,
    M,
    N,
    X,
)
from simulators.events.stopping import give_up, pause
from simulators.events.tables import called


@called
def free_group(s, g):
    s.free_groups[s.n[N.free_groups]] = g
    s.n[N.free_groups] += 1


@called
def drop(s, g, wide):
    """A full buffer loses its oldest group."""
    s.n[N.dropped] += s.groups[g, G.kept]
    s.n[N.wip] -= 1
    if wide is not None:
        s.groups_wide[g, GW.state] = NO_GROUP
    free_group(s, g)


@called
def keep_first(s, g):
    """Members beyond the first ones finished are given up."""
    row = s.groups[g]
    if row[G.target] == row[G.size]:
        return
    if s.n[N.open_group] == g:
        s.n[N.open_group] = -1
    for member in range(row[G.started]):
        if s.members[g, member] >= 0:
            s.versions[g, member] = NOT_KEPT
            give_up(s, s.members[g, member])


@called
def remove_group(s, g):
    """It will not be trained: its place in the order is void, and its round wants another one."""
    s.groups_wide[g, GW.state] = NO_GROUP
    if s.counts[C.in_order]:
        s.order[s.groups_wide[g, GW.place] % s.order.shape[0]] = -1
        see_order(s)
    if s.counts[C.round_groups] > 0 and s.groups_wide[g, GW.round] == s.n[N.round]:
        s.n[N.round_opened] -= 1


@called
def see_order(s):
    """How many finished groups stand at the head of the order of dispatch, without a gap."""
    while s.n[N.order_seen] < s.n[N.order_tail]:
        g = s.order[s.n[N.order_seen] % s.order.shape[0]]
        if g >= 0:
            if s.groups_wide[g, GW.state] != READY:
                return
            s.n[N.in_line] += 1
        s.n[N.order_seen] += 1


@called
def count_round(s, g):
    """Once a round has its batch, its other groups are given up, or carried into the next round."""
    if s.counts[C.round_groups] == 0:
        return
    number = s.groups_wide[g, GW.round]
    place = number % s.rounds.shape[0]
    s.rounds[place] += 1
    if s.rounds[place] != s.counts[C.batch_groups]:
        return
    if number == s.n[N.round]:
        next_round(s)
    if s.counts[C.plug] == WIP_CAP:
        s.n[N.hold_again] = 1
    for other in range(s.groups.shape[0]):
        if s.groups_wide[other, GW.state] == OPEN and s.groups_wide[other, GW.round] == number:
            if s.counts[C.partial]:
                carry(s, other)
            else:
                drop_open(s, other)


@called
def carry(s, g):
    s.groups_wide[g, GW.round] = s.n[N.round]
    s.n[N.round_opened] += 1
    for member in range(s.groups[g, G.started]):
        r = s.members[g, member]
        if r >= 0:
            state = s.rollouts_wide[r, RW.state]
            if state != PAUSED and state != VERIFYING and state != JUDGE_QUEUE:
                pause(s, r)


@called
def drop_open(s, g):
    row = s.groups[g]
    if s.n[N.open_group] == g:
        s.n[N.open_group] = -1
    for member in range(row[G.started]):
        if s.members[g, member] >= 0:
            give_up(s, s.members[g, member])
    s.n[N.oversampled] += row[G.kept]
    s.n[N.waiting] -= row[G.kept]
    if s.counts[C.plug] == WIP_CAP:
        s.n[N.owed] += 1  # its slot is freed with its batch
    else:
        s.n[N.wip] -= 1
    remove_group(s, g)
    free_group(s, g)


@called
def pop_ring(s):
    head = s.n[N.ring_head]
    g = s.ring[head]
    s.n[N.ring_head] = head + 1 if head + 1 < s.ring.shape[0] else 0
    s.n[N.ring_count] -= 1
    s.x[X.ring_s] += s.x[X.now] - s.marks[g, M.ready]
    return g


@called
def pop_order(s):
    while True:
        g = s.order[s.n[N.order_head] % s.order.shape[0]]
        s.n[N.order_head] += 1
        if g >= 0:
            break
    s.n[N.in_line] -= 1
    s.n[N.ring_count] -= 1
    s.x[X.ring_s] += s.x[X.now] - s.marks[g, M.ready]
    return g


@called
def leave_order(s, g, place):
    """A group whose turn has come leaves the buffer from the middle of the order."""
    s.order[place % s.order.shape[0]] = -1
    s.n[N.in_line] -= 1
    s.n[N.ring_count] -= 1
    s.x[X.ring_s] += s.x[X.now] - s.marks[g, M.ready]


@called
def too_old(s, g):
    """True when its oldest member is older than the bound."""
    oldest = s.n[N.version]
    for member in range(s.groups[g, G.started]):
        if s.versions[g, member] != NOT_KEPT:
            oldest = min(oldest, s.versions[g, member])
    return s.n[N.version] - oldest > s.counts[C.staleness_bound]


@called
def throw_away_stale(s, g):
    s.n[N.stale] += s.groups[g, G.kept]
    s.n[N.wip] -= 1
    remove_group(s, g)
    free_group(s, g)


@called
def discard_stale_in_order(s):
    """The same of the groups whose turn to be trained has come."""
    for place in range(s.n[N.order_head], s.n[N.order_seen]):
        g = s.order[place % s.order.shape[0]]
        if g >= 0 and too_old(s, g):
            leave_order(s, g, place)
            throw_away_stale(s, g)


@called
def discard_stale(s):
    """Groups whose oldest member is older than the bound are thrown away; the others keep their order."""
    for _ in range(s.n[N.ring_count]):
        g = pop_ring(s)
        if too_old(s, g):
            throw_away_stale(s, g)
            continue
        s.x[X.ring_s] -= s.x[X.now] - s.marks[g, M.ready]
        place = s.n[N.ring_head] + s.n[N.ring_count]
        s.ring[place - s.ring.shape[0] if place >= s.ring.shape[0] else place] = g
        s.n[N.ring_count] += 1
