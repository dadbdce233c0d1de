"""Rollouts and groups that are complete."""

import numpy as np

from simulators.event_state import DROP_OLDEST
from simulators.events.buffer import (
    count_round,
    drop,
    free_group,
    keep_first,
    pop_order,
    pop_ring,
    remove_group,
    see_order,
)
from simulators.events.draws import uniform
from simulators.events.fleets import release_box
from simulators.events.layout import (
    GROUP_READY,
    GW,
    NOT_KEPT,
    PRUNED,
    READY,
    RESUMED,
    RW,
    SPENT_PER_S,
    TIME_BINS,
    TW,
    C,
    E,
    G,
    H,
    M,
    N,
    R,
    T,
    X,
)
from simulators.events.lists import note, unload
from simulators.events.tables import called, inlined
from simulators.streams import REWARD


@inlined
def time_bin(seconds):
    bits = np.float64(seconds).view(np.int64)
    return max(0, min(TIME_BINS - 1, (bits >> 49) - ((1023 - 16) << 3)))


@inlined
def finish_rollout(s, e, r, wide):
    """Reward and bookkeeping of a rollout that came to its end; its group may be complete with it."""
    g = s.rollouts[r, R.group]
    now, began = s.x[X.now], s.times[r, T.dispatched]
    if wide is not None:
        began = s.times_wide[r, TW.began]  # earlier, where it was stopped and resumed
    seconds = now - began
    s.x[X.rollout_s] += seconds
    s.latency[time_bin(seconds)] += 1
    share = uniform(s.n[N.key], REWARD, s.groups[g, G.id], s.rollouts[r, R.draw], 0)
    solved = int(share < s.traits[g, H.solve_rate])
    response = s.rollouts[r, R.response]
    row = s.groups[g]
    row[G.done] += 1
    s.n[N.finished] += 1
    s.n[N.attempted] += 1
    s.n[N.attempted_response] += response
    s.n[N.attempted_solved] += solved
    s.n[N.spanned] += s.n[N.version] - s.rollouts[r, R.version]
    if wide is not None:
        release_box(s, r)
        s.n[N.lost_running] = 0
        s.members[g, s.rollouts[r, R.member]] = -1
        s.groups_wide[g, GW.resumed] += int(s.rollouts_wide[r, RW.flags] & RESUMED != 0)
    if wide is not None and s.rollouts_wide[r, RW.flags] & PRUNED:
        s.n[N.pruned] += 1
        s.versions[g, s.rollouts[r, R.member]] = NOT_KEPT
    else:
        row[G.solved] += solved
        row[G.response] += response
        s.marks[g, M.longest] = max(s.marks[g, M.longest], response)
        row[G.tokens] += s.rollouts[r, R.context]
        row[G.kept] += 1
        if wide is not None:
            s.groups_wide[g, GW.spent] += int(seconds * SPENT_PER_S + 0.5)
        s.n[N.waiting] += 1
    s.n[N.in_flight] -= 1
    s.x[X.stint_s] += now - s.times[r, T.dispatched]
    s.free_rollouts[s.n[N.free_rollouts]] = r
    s.n[N.free_rollouts] += 1
    if wide is None and s.engines[e, E.in_flight] == s.loads[2]:
        s.n[N.loose] = e  # now alone with the fewest: the next dispatch comes back here
    else:
        unload(s, e)
    if row[G.done] == row[G.size]:
        finish_group(s, g, wide)


@called
def finish_wide(s, e, r):
    finish_rollout(s, e, r, 1)


@called
def finish_group(s, g, wide):
    row = s.groups[g]
    s.n[N.finished_groups] += 1
    s.n[N.since_training] += 1
    now = s.x[X.now]
    s.x[X.group_s] += now - s.marks[g, M.opened]
    s.marks[g, M.ready] = now
    usable = 0 < row[G.solved] < row[G.kept]
    note(s, GROUP_READY, row[G.id], row[G.solved], row[G.tokens])
    s.n[N.waiting] -= row[G.kept]
    if wide is not None:
        keep_first(s, g)
    if (s.counts[C.filtering] and not usable) or row[G.kept] == 0:
        s.n[N.filtered] += row[G.kept]
        s.n[N.wip] -= 1
        if wide is not None:
            remove_group(s, g)
        free_group(s, g)
        return
    in_order = wide is not None and s.counts[C.in_order]
    if s.counts[C.plug] == DROP_OLDEST and not in_order and s.n[N.ring_count] >= s.counts[C.plug_limit]:
        drop(s, pop_ring(s), wide)
    s.n[N.ring_count] += 1
    if wide is not None:
        s.groups_wide[g, GW.state] = READY
        if s.counts[C.in_order]:
            see_order(s)
            while s.counts[C.plug] == DROP_OLDEST and s.n[N.in_line] > s.counts[C.plug_limit]:
                drop(s, pop_order(s), wide)
            s.n[N.peak_ring] = max(s.n[N.peak_ring], s.n[N.in_line])
            count_round(s, g)
            return
    s.n[N.peak_ring] = max(s.n[N.peak_ring], s.n[N.ring_count])
    place = s.n[N.ring_head] + s.n[N.ring_count] - 1
    if place >= s.ring.shape[0]:
        place -= s.ring.shape[0]
    s.ring[place] = g
    if wide is not None:
        count_round(s, g)
