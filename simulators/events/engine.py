"""The discrete-event engine, compiled: processor sharing in virtual time, one heap operation per arrival or departure.

Every engine carries a clock V that counts the tokens each of its residents has received. A rollout of L tokens that
joins at V leaves when the clock shows V + L, whatever the others do, so residents sit in a heap of such marks. Between
two events b residents with S context tokens in total advance by d tokens in

    dt = A d + m b d^2 / 2,   A = f(b) + m S,      d = 2 dt / (A + sqrt(A^2 + 2 m b dt))

exactly. A clock that stands still (weight sync, stalling prefill) is one whose `resume` lies in the future. A
tournament tree over engines gives the next event, a second one the engine with the fewest rollouts.

The readable twin of the core is tests/oracles/events_reference.py: same seed, same trace, bit for bit. Hence only
`math` functions, no fastmath, whole token counts, and ties by (time, engine before trainer, lower id).

This module is the engine's face: what the rest of the product uses of it.
"""

from math import inf
from typing import Any

from numba import typeof

from simulators.event_parameters import parameters
from simulators.event_state import Job
from simulators.events.arrays import blank, fresh
from simulators.events.growing import advanced, changed, up_to_now
from simulators.events.layout import (
    ALWAYS_FAILS,
    CONTEXT_TOO_LONG,
    MOST_ATTEMPTS,
    MOST_LOST_RUNNING,
    NO_ROOM,
    NONE_FINISHES,
    STARVED,
    STARVED_BATCHES,
    THRASH,
    THRASHING,
    N,
    State,
    X,
)
from simulators.events.looking import gauges
from simulators.events.loop import ADVANCE_ALL, MANY_TURNS, ONE_TURN, TOUCH_ALL, WIDE
from simulators.events.queue import multi_server
from simulators.events.tables import handed
from simulators.plant import Setpoints, Topology
from simulators.stations import Engine, Stations, Trainer, affine
from simulators.workload import Lengths, Workload

__all__ = [
    "ALWAYS_FAILS",
    "CONTEXT_TOO_LONG",
    "MOST_ATTEMPTS",
    "MOST_LOST_RUNNING",
    "NONE_FINISHES",
    "NO_ROOM",
    "STARVED",
    "STARVED_BATCHES",
    "THRASH",
    "THRASHING",
    "N",
    "State",
    "X",
    "advanced",
    "changed",
    "fresh",
    "gauges",
    "is_warm",
    "multi_server",
    "up_to_now",
    "warm_up",
]


def _smallest() -> State:
    """The state of a job that does next to nothing."""
    workload = Workload(Lengths(1.0), Lengths(1.0))
    stations = Stations(Engine(affine(1.0, 0.0), 1), Trainer(1.0, 0.0))
    knobs = Setpoints(gpus_trainer=1, engines=1, batch_rollouts=1)
    return blank(parameters(Job(Topology(), stations, workload, knobs)), 0, 0, True)


def _entries(state: State) -> dict[Any, tuple[Any, ...]]:
    """The compiled functions with arguments for them; they are only good as long as the state lives."""
    entry = handed(state)
    job = (entry, inf, 0)
    return {ADVANCE_ALL: (entry,), TOUCH_ALL: (entry,), ONE_TURN: job, MANY_TURNS: job, WIDE: job}


def is_warm() -> bool:
    """Whether every variant is compiled, in this process or on disk (then it is loaded)."""
    return all(_is_ready(function, arguments) for function, arguments in _entries(_smallest()).items())


def _is_ready(function: Any, arguments: tuple[Any, ...]) -> bool:
    signature = tuple(typeof(argument) for argument in arguments)
    if signature in function.overloads:
        return True
    return function._cache.load_overload(signature, function.targetctx) is not None


def warm_up() -> None:
    """Compile, or load, every variant."""
    state = _smallest()
    for function, arguments in _entries(state).items():
        function(*arguments)
