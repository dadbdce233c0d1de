"""What is where in a job at one moment."""

from typing import Any

import numpy as np

from simulators.events.layout import GW, READY, C, E, G, M, N, R, State, T, X


def _members_of(heaps: Any, sizes: Any) -> Any:
    inside = np.arange(heaps.shape[1] // 2)[None, :] < sizes[:, None]
    return heaps[:, 1 : 2 * inside.shape[1] : 2][inside]


def places_of(s: State) -> tuple[Any, Any, Any, Any]:
    """Rollouts in flight; resident; outside; in an engine's queue."""
    resident = _members_of(s.heap, s.engines[:, E.residents])
    outside = _members_of(s.outs, s.engines[:, E.outside])
    queued = []
    for e in np.flatnonzero(s.engines[:, E.queued]):
        r = int(s.engines[e, E.queue_head])
        for _ in range(s.engines[e, E.queued]):
            queued.append(r)
            r = int(s.rollouts[r, R.next])
    free = np.zeros(len(s.rollouts), bool)
    free[s.free_rollouts[: s.n[N.free_rollouts]]] = True
    free[_paused(s)] = True
    return np.flatnonzero(~free), resident, outside, np.array(queued, np.int64)


def _paused(s: State) -> Any:
    listed, r = [], int(s.n[N.again_head])
    for _ in range(s.n[N.agains]):
        listed.append(r)
        r = int(s.rollouts[r, R.next])
    return np.array(listed, np.int64)


def buffered_of(s: State) -> Any:
    """Slots of finished groups that wait for the trainer."""
    if s.counts[C.in_order]:
        return np.flatnonzero(s.groups_wide[:, GW.state] == READY)
    return s.ring[(s.n[N.ring_head] + np.arange(s.n[N.ring_count])) % len(s.ring)]


def gauges(s: State) -> dict[str, Any]:
    """What is where, and since when (for Little's law as an identity of the path)."""
    now = float(s.x[X.now])
    live, resident, outside, queued = places_of(s)
    ring, paused = buffered_of(s), _paused(s)
    stations = {"resident": resident, "outside": outside, "queued": queued}
    ages = {name: float((now - s.times[who, T.entered]).sum()) for name, who in stations.items()}
    ages["in_flight"] = float((now - s.times[live, T.dispatched]).sum())
    ages["ring"] = float((now - s.marks[ring, M.ready]).sum())
    return {
        "in_flight": int(s.n[N.in_flight]),
        "resident": len(resident),
        "outside": len(outside),
        "queued": len(queued),
        "paused": int((s.rollouts[paused, R.turn] >= 0).sum()),
        "waiting": int(s.n[N.waiting]),
        "buffered": int(s.groups[ring, G.kept].sum()),
        "buffered_groups": len(ring),
        "ages_s": ages,
    }
