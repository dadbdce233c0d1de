"""The arrays of a fresh job."""

from dataclasses import astuple, fields
from math import inf, sqrt
from typing import Any

import numpy as np

from simulators import streams
from simulators.distributions import NEVER
from simulators.event_state import Counts, Parameters
from simulators.events.heaps import INF_BITS
from simulators.events.layout import (
    EW,
    FW,
    GW,
    LINE,
    ROUNDS,
    RW,
    STALENESS_BINS,
    TIME_BINS,
    TW,
    F,
    K,
    L,
    M,
    N,
    Q,
    State,
    X,
)
from simulators.events.loop import TOUCH_ALL
from simulators.events.tables import handed


def new_tree(leaves: int, unused: int) -> Any:
    width = 1
    while width < max(2, leaves):
        width *= 2
    tree = np.full(4 * width, unused)
    tree[2 * width + 1 :: 2] = np.arange(width)
    return tree


def _law_rows(made: Parameters) -> dict[str, Any]:
    listed = [getattr(made.laws, f.name) for f in fields(made.laws)]
    most = max(1, *(len(law.pairs) for law in listed))
    rows, kinds = np.zeros((len(listed), len(L))), np.zeros((len(listed), len(K)), np.int64)
    pairs = np.zeros((len(listed), 2 * most))
    for i, law in enumerate(listed):
        roots = (sqrt(law.shared_frac), sqrt(1.0 - law.shared_frac))
        rows[i] = (law.mean, law.location, law.own_sigma, law.shared_sigma, *roots)
        kinds[i] = (law.kind, law.limit, len(law.pairs))
        for j, pair in enumerate(law.pairs):
            pairs[i, 2 * j : 2 * j + 2] = pair
    return {"laws": rows, "kinds": kinds, "tables": np.array([law.table for law in listed]), "pairs": pairs}


def parameter_arrays(made: Parameters) -> dict[str, Any]:
    return {
        "counts": np.array(astuple(made.counts), np.int64),
        "rates": np.array(astuple(made.rates)),
        **_law_rows(made),
        "step_s": np.array(made.step_s),
        "slowness": np.array(made.slowness),
    }


def fresh(made: Parameters, seed: int, trace_rows: int = 0, wide: bool = False) -> State:
    """A job at time 0: nothing dispatched, version 0. `wide` takes the widest variant where another would do."""
    wide = wide or not made.plain
    state = blank(made, seed, trace_rows, wide)
    state.n[N.wide] = int(wide)
    TOUCH_ALL(handed(state))
    return state


def blank(made: Parameters, seed: int, trace_rows: int = 0, wide: bool = False) -> State:
    counts = made.counts
    engines, slots = counts.engines, counts.slots
    rollouts = counts.in_flight_limit
    groups = 2 * (rollouts // counts.group_size + 2 * counts.batch_groups) + 16
    outs = rollouts // engines + 2
    n, x = np.zeros(len(N), np.int64), np.zeros(len(X))
    n[N.key] = np.uint64(streams.seed_key(seed)).astype(np.int64)
    n[N.open_group] = n[N.loose] = n[N.hole] = n[N.handled] = n[N.rolling_at] = -1
    n[N.free_rollouts], n[N.free_groups] = rollouts, groups
    x[X.trainer_at] = inf
    return _addressed(
        addresses=np.zeros(3 * len(State._fields), np.int64),
        **parameter_arrays(made),
        n=n,
        x=x,
        **idle_engines(engines),
        heap=new_heaps(engines, slots + 1),
        outs=new_heaps(engines, outs),
        tree=new_tree(engines, INF_BITS),
        loads=new_tree(engines, NEVER),
        **two_views("rollouts", "times", aligned(rollouts, LINE)),
        rollouts_wide=np.zeros((rollouts, len(RW)), np.int32),
        times_wide=np.zeros((rollouts, len(TW))),
        **two_views("groups", "traits", aligned(groups, LINE)),
        groups_wide=np.zeros((groups, len(GW)), np.int32),
        marks=np.zeros((groups, len(M))),
        versions=np.zeros((groups, counts.members_started), np.int32),
        free_rollouts=np.arange(rollouts - 1, -1, -1),
        free_groups=np.arange(groups - 1, -1, -1),
        ring=np.zeros(groups, np.int64),
        staleness=np.zeros(STALENESS_BINS, np.int64),
        latency=np.zeros(TIME_BINS, np.int64),
        trace=np.zeros((trace_rows, 5)),
        **wide_arrays(made, groups if wide else 0),
    )


def wide_arrays(made: Parameters, groups: int) -> dict[str, Any]:
    """What only the widest variant uses; of the least size for no groups."""
    counts = made.counts
    pool = idle_pool(max(1, counts.prefill_engines))
    return {
        "members": np.full((max(1, groups), counts.members_started), -1, np.int32),
        "order": np.zeros(max(1, 2 * groups), np.int64),
        "rounds": np.zeros(ROUNDS if groups else 1, np.int64),
        "pool": pool,
        "pool_kv": np.zeros((len(pool), 2)),
        "agenda": np.zeros((1, agenda_words(len(pool), counts.in_flight_limit, counts)), np.int64),
    }


def idle_pool(engines: int) -> Any:
    pool = np.zeros((engines, LINE), np.int64)
    pool[:, Q.busy] = -1
    return pool


def agenda_words(prefill_engines: int, rollouts: int, counts: Counts) -> int:
    """Room for what may be planned at once: a rollout's next event, an engine's, the end of a leaked sandbox."""
    leaks = counts.sandbox_limit if counts.sandbox_limit < NEVER else 0
    return 2 * (4 * prefill_engines + rollouts + leaks + 16)


def _addressed(**arrays: Any) -> State:
    state = State(**arrays)
    for i, array in enumerate(state):
        state.addresses[3 * i : 3 * i + 1 + array.ndim] = (array.ctypes.data, *array.shape)
    return state


def replaced(state: State, **arrays: Any) -> State:
    """With other arrays in the place of some. Its table of addresses is its own."""
    return _addressed(**{**state._asdict(), **arrays, "addresses": np.zeros_like(state.addresses)})


def aligned(rows: int, columns: int, before: int = 0) -> Any:
    """Rows of 8-byte words, so many words behind the start of a cache line; only its lines are shared, if any."""
    words = np.zeros(rows * columns + 2 * LINE, np.int64)
    first = -(words.ctypes.data // 8) % LINE + before
    return words[first : first + rows * columns].reshape(rows, columns)


def new_heaps(rows: int, entries: int) -> Any:
    """Room for so many (mark, who) a row. The root lies alone in the second quarter of a cache line, so that the two
    children of every node are in one line."""
    return aligned(rows, LINE * -(-entries // 4), before=2)


def two_views(shorts: str, reals: str, lines: Any) -> dict[str, Any]:
    return {shorts: lines.view(np.int32), reals: lines.view(np.float64)}


def idle_engines(engines: int) -> dict[str, Any]:
    made = two_views("engines", "clocks", aligned(engines, LINE))
    made["clocks"][:, F.departs] = made["clocks"][:, F.returns] = inf
    rest = {"engines_wide": np.zeros((engines, len(EW)), np.int32), "clocks_wide": np.zeros((engines, len(FW)))}
    return made | rest
