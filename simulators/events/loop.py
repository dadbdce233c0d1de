"""The loop over events, in three variants: one turn, many turns, everything.

What happens next is the soonest of the engines' events, the trainer's, and the agenda's; then whatever follows at once.
"""

from math import inf
from typing import Any
from zlib import crc32

from numba import njit

from simulators import distributions, event_state, streams
from simulators.events import (
    admission,
    buffer,
    clocks,
    dispatching,
    draws,
    finishing,
    fleets,
    happening,
    heaps,
    layout,
    lists,
    pools,
    publishing,
    residents,
    stopping,
    tables,
    training,
)
from simulators.events.admission import admit_wide
from simulators.events.clocks import advance_wide, stand_still, touch, touch_wide
from simulators.events.dispatching import fill
from simulators.events.happening import agenda_event, engine_event
from simulators.events.heaps import mark_of, replay
from simulators.events.layout import (
    DONE,
    GROW,
    IDLE,
    LAST_CURABLE,
    NO_EVENT,
    RUNNING,
    STARVED,
    STARVED_BATCHES,
    C,
    Compiled,
    E,
    N,
    X,
)
from simulators.events.lists import unload
from simulators.events.residents import close_hole
from simulators.events.tables import OPTIONS, inlined, state_at
from simulators.events.training import batch_ready, start_training, trainer_event


@inlined
def settle(s, many_turns, wide):
    """What follows at once from an event: training starts, rollouts are dispatched, the engine is worked out anew."""
    if s.n[N.phase] == IDLE and batch_ready(s, wide):
        start_training(s, wide)
    fill(s, many_turns, wide)
    e = s.n[N.loose]
    if e >= 0:
        s.n[N.loose] = -1
        unload(s, e)
    e = s.n[N.handled]
    if e >= 0:
        s.n[N.handled] = -1
        if s.n[N.hole] == e:
            close_hole(s, e)
        if s.engines[e, E.residents] == 0:
            stand_still(s, e, wide)
        touch(s, e, wide)


@inlined
def pass_time(s, until):
    dt = until - s.x[X.now]
    s.x[X.now] = until
    s.x[X.area_in_flight] += dt * s.n[N.in_flight]
    s.x[X.area_resident] += dt * s.n[N.resident]
    s.x[X.area_outside] += dt * s.n[N.outside]
    s.x[X.area_queued] += dt * s.n[N.queued]
    s.x[X.area_ring] += dt * s.n[N.ring_count]


def _build(many_turns: bool, wide: int | None, stamp: int) -> Compiled:
    def run(addresses, until_s, until_step):
        s = state_at(addresses)
        s.n[N.stamp] = stamp
        if s.n[N.stopped] > LAST_CURABLE:
            return DONE
        s.n[N.stopped] = RUNNING
        s.n[N.need_room] = 0
        settle(s, many_turns, wide)
        while s.n[N.need_room] == 0:
            if s.n[N.step] >= until_step or s.n[N.stopped]:
                return DONE
            at, trainer_at = mark_of(s.tree[2]), s.x[X.trainer_at]
            soonest = min(at, trainer_at)
            planned = inf
            if wide is not None:
                if s.n[N.planned] > 0:
                    planned = mark_of(s.agenda[0, 0])
                    soonest = min(soonest, planned)
            if soonest > until_s or soonest == inf:
                if soonest == inf:
                    s.n[N.stopped] = NO_EVENT
                if until_s < inf:
                    pass_time(s, until_s)
                return DONE
            if s.n[N.phase] == IDLE and s.n[N.since_training] > STARVED_BATCHES * s.counts[C.batch_groups]:
                s.n[N.stopped] = STARVED
                return DONE
            s.n[N.events] += 1
            pass_time(s, soonest)
            if planned <= soonest:
                agenda_event(s)
            elif at <= trainer_at:
                engine_event(s, s.tree[3], many_turns, wide)
            else:
                trainer_event(s, wide)
                if s.n[N.step] >= until_step:
                    return DONE  # a batch that is begun now is the next step's: who counts steps finds one in each
            settle(s, many_turns, wide)
        return GROW

    return run


def cached(function: Compiled) -> Compiled:
    """Compiled, and kept on disk where there is a place for it; a read-only tree without HOME compiles every time."""
    try:
        return njit(cache=True, **OPTIONS)(function)
    except RuntimeError:
        return njit(**OPTIONS)(function)


def _build_advance_all(stamp: int) -> Compiled:
    def run(addresses):
        s = state_at(addresses)
        s.n[N.stamp] = stamp
        for e in range(s.engines.shape[0]):
            advance_wide(s, e, s.x[X.now])

    return run


def _build_touch_all(stamp: int) -> Compiled:
    def run(addresses):
        s = state_at(addresses)
        s.n[N.stamp] = stamp
        for e in range(s.engines.shape[0]):
            admit_wide(s, e)
            touch_wide(s, e)
            replay(s.loads, e, s.engines[e, E.in_flight])

    return run


COMPILED_IN = (
    *(distributions, event_state, streams, layout, tables, draws, heaps, clocks, lists, residents, pools, admission),
    *(fleets, stopping, dispatching, buffer, finishing, publishing, training, happening),
)
"""Every module whose functions or numbers end up in a compiled entry."""


def _source(module: Any) -> str:
    """Empty where a distribution comes without sources, which then do not change either."""
    spec = module.__spec__
    return spec.loader.get_source(spec.name) or ""


STAMP = crc32("".join(map(_source, COMPILED_IN)).encode())
"""Changes with any source that is compiled in. Numba's own cache check sees the file of an entry alone, and the values
that the entry's function is closed over: so every entry is closed over this."""

ONE_TURN = cached(_build(False, None, STAMP))
MANY_TURNS = cached(_build(True, None, STAMP))
WIDE = cached(_build(True, 1, STAMP))
ADVANCE_ALL = cached(_build_advance_all(STAMP))
TOUCH_ALL = cached(_build_touch_all(STAMP))
