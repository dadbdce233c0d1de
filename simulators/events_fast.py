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

import operator
from collections import namedtuple
from collections.abc import Callable
from dataclasses import astuple, dataclass, fields
from math import exp, inf, log, sqrt
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from llvmlite import ir
from numba import config, njit, typeof, types
from numba.core import cgutils
from numba.core.typing import signature
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_global
from numba.extending import (
    infer_getattr,
    intrinsic,
    lower_builtin,
    lower_getattr,
    lower_getattr_generic,
    models,
    register_model,
)
from numba.np import arrayobj

from simulators import streams
from simulators.distributions import CELLS, EDGE, EMPIRICAL_SHARED, EXPONENTIAL, FIXED, GEOMETRIC, LOGNORMAL, NEVER
from simulators.event_parameters import parameters
from simulators.event_state import (
    ABORT,
    BUFFER_CAP,
    DISCARD_STALE,
    DRAIN,
    DROP_OLDEST,
    IN_FLIGHT,
    PER_SYNC,
    WIP_CAP,
    Counts,
    Job,
    Parameters,
    Rates,
)
from simulators.plant import Setpoints, Topology
from simulators.stations import Engine, Stations, Trainer, affine
from simulators.streams import (
    ARRIVAL,
    FAILURE,
    FAILURE_POINT,
    LEAK,
    PROMPT,
    PRUNING,
    RESPONSE,
    REWARD,
    SANDBOX,
    SERVICE,
    SHARED_LENGTH,
    SOLVE_RATE,
    TOOL_TIME,
    TOOL_TOKENS,
    TURNS,
)
from simulators.workload import Lengths, Workload

Compiled = Callable[..., Any]


def _names(title: str, names: str, first: int = 0) -> Any:
    """A tuple of column numbers by name: compile-time constants in the engine."""
    listed = names.split()
    return namedtuple(title, listed)(*range(first, first + len(listed)))


# ---- layout ----

LINE, SHORT_LINE = 8, 16
"""8-byte and 4-byte numbers of a cache line."""
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
    " peak_wip peak_ring peak_ring_at_open"
    # beyond the core: lists (head, tail, length), then counts
    " box_head box_tail boxes_waiting judge_head judge_tail judges_waiting again_head again_tail agains"
    " wide owed hold_again draining rolling_at roll_again planned opened_since_sync round round_opened judging"
    " boxes_live boxes_starting boxes_started boxes_failed boxes_leaked preempted prefilled_tokens prefix_tokens"
    " trained_resumed order_head order_seen order_tail in_line lost_running",
)
X = _names(
    "X",
    "now trainer_at next_start"
    # cumulative seconds and areas under counts
    " area_in_flight area_resident area_outside area_queued area_ring training_s sync_s decoded_tokens context_area"
    " engine_busy_s rollout_s trained_rollout_s stint_s group_s queue_age_s ring_s resident_s outside_s queued_s"
    " box_wait_s tenant_tokens",
)
# An engine, a rollout and a group are a cache line each: what most events touch, in 8-byte and in 4-byte columns of the
# same 64 bytes. What else there is (the widest variant's, mostly) has tables of its own.
F = _names("F", "clock resume context departs returns")
"""Of an engine: its clock in tokens, when it runs on, context of its residents, next departure, next return."""
E = _names("E", "residents in_flight outside queued queue_head queue_tail", 10)
FW = _names("FW", "tax cached")
EW = _names("EW", "draining reserved overflowing cached_head cached_tail")
R = _names("R", "group member draw version tokens context turn turns response engine next")
T = _names("T", "dispatched entered", 6)
RW = _names("RW", "state flags cached before link")
TW = _names("TW", "began tax box")
G = _names("G", "id size started done solved tokens response kept prompt_tokens target")
H = _names("H", "solve_rate factor score", 5)
M = _names("M", "opened ready")
GW = _names("GW", "round state resumed place spent")
Q = _names("Q", "head tail queued busy rollouts")
L = _names("L", "mean location own_sigma shared_sigma root_shared root_own")
K = _names("K", "kind limit pairs")
"""Of a law: its numbers, and its whole numbers."""
PROMPT_LAW, RESPONSE_LAW, TURN_LAW, TOOL_TOKEN_LAW, TOOL_TIME_LAW, SOLVE_LAW = range(6)
IDLE, TRAINING, WAITING, DRAINING = range(4)
"""Phases of the trainer."""
RESIDENT, QUEUED, TOOL, STARTING, VERIFYING, TRANSFER, BOX_QUEUE, JUDGE_QUEUE, POOLED, HELD, PAUSED = range(11)
"""Where a rollout is."""
PRUNED, DYING, RESUMED, HOLDS_BOX, BOX_FAILS = 1, 2, 4, 8, 16
"""Flags of a rollout."""
NO_GROUP, OPEN, READY = range(3)
"""States of a group's slot."""
NOT_KEPT = 1 << 30
"""In place of the version of a member that is not trained."""
PREFILLED, POOL_FREE, BOX_GONE, ROLL = range(4)
AGENDA_STEP = 1 << 32
"""An event of no engine is its kind times this, plus a number."""
SPENT_PER_S = 16.0
"""What the members of a group have spent in flight is kept in sixteenths of a second."""
REMOVED = 1 << 30
"""Added to the rollouts in flight of an engine that is being removed: it is never the one with the fewest."""
ATTEMPT_STEP = 1 << 20
"""Added to a member's number for the draws of each further attempt."""
MOST_ATTEMPTS = 1000
MOST_LOST_RUNNING = 4_000_000
"""Attempts lost with no rollout finished in between (seconds of computing, hours of any job): none ever will."""
THRASH = 1000
"""Preemptions per finished turn at which a job counts as thrashing."""
ROUNDS = 4096
"""Oversampling rounds that may be open at once."""
DISPATCHED, TURN_END, RETURNED, GROUP_READY, TRAIN_START, TRAIN_END = range(6)
"""Kinds of a trace row: (time, kind, group, member or count, engine)."""
DONE, GROW = range(2)
"""Why the compiled engine came back."""
RUNNING, NO_EVENT, STARVED, NO_ROOM, CONTEXT_TOO_LONG, THRASHING, ALWAYS_FAILS, NONE_FINISHES = range(8)
"""Why a job stopped."""
LAST_CURABLE = NO_ROOM
"""Up to here other knobs may bring a job on again."""
STARVED_BATCHES = 10_000
"""Finished groups since the last training, in batches, at which a job counts as starved."""


class State(NamedTuple):
    """All arrays of one simulated job: sized by what is in flight and in the buffer, never by what was simulated."""

    addresses: Any
    """(address, rows, columns) of every array in the order of these fields, this one first."""
    n: Any
    x: Any
    counts: Any
    rates: Any
    laws: Any
    kinds: Any
    tables: Any
    pairs: Any
    step_s: Any
    slowness: Any
    clocks: Any
    engines: Any
    """The same lines."""
    heap: Any
    """(bits of the mark, rollout) side by side, a binary heap of each engine."""
    outs: Any
    """(bits of the return time, rollout): the same."""
    tree: Any
    """(bits of the next event, engine) side by side: winners of a tournament; node 1 is the root."""
    loads: Any
    """(rollouts in flight, engine): the same over loads."""
    rollouts: Any
    times: Any
    """The same lines."""
    groups: Any
    traits: Any
    """The same lines."""
    marks: Any
    versions: Any
    free_rollouts: Any
    free_groups: Any
    ring: Any
    """Finished groups in the order of completion."""
    staleness: Any
    latency: Any
    trace: Any
    # beyond the core
    clocks_wide: Any
    engines_wide: Any
    rollouts_wide: Any
    times_wide: Any
    groups_wide: Any
    members: Any
    """The rollout of each member in flight, else -1."""
    order: Any
    """Groups in the order of dispatch, -1 where one was thrown away."""
    rounds: Any
    """Finished groups of each oversampling round."""
    pool: Any
    pool_kv: Any
    """(KV tokens held, end of the prefill in service) of each prefill engine."""
    agenda: Any
    """(time, event): a heap of one row, for events of no engine."""


_OPTIONS: dict[str, Any] = {"_nrt": False, "error_model": "numpy"}
"""No reference counts (the engine allocates nothing) and no checks of divisors (parameters are checked before)."""


_INNER: dict[str, Any] = {**_OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Nobody calls these functions from Python: without the wrappers they compile much faster."""


def _inlined(function: Compiled) -> Compiled:
    """Compiled into its callers."""
    return njit(forceinline=True, **_INNER)(function)


@dataclass(frozen=True)
class _Layout:
    """How compiled code reads an array of State."""

    item: str
    """i: int64, f: float64, r: int32 (in code an int64)."""
    columns: int | None = None
    """0: one-dimensional. None: the table of addresses tells."""
    fixed: bool = False
    """Never written while the engine runs."""


def _layouts() -> dict[str, _Layout]:
    made = dict.fromkeys(State._fields, _Layout("i", 0)) | {"x": _Layout("f", 0)}
    made |= dict.fromkeys(("rates", "step_s", "slowness"), _Layout("f", 0, True))
    made |= {"counts": _Layout("i", 0, True), "kinds": _Layout("i", len(K), True), "laws": _Layout("f", len(L), True)}
    made |= {"tables": _Layout("f", CELLS + 1, True), "pairs": _Layout("f", None, True)}
    made |= dict.fromkeys(("heap", "outs", "agenda"), _Layout("i"))
    made |= dict.fromkeys(("engines", "rollouts", "groups"), _Layout("r", SHORT_LINE))
    made |= dict.fromkeys(("clocks", "times", "traits"), _Layout("f", LINE))
    made |= {"engines_wide": _Layout("r", len(EW)), "clocks_wide": _Layout("f", len(FW)), "marks": _Layout("f", len(M))}
    made |= {"rollouts_wide": _Layout("r", len(RW)), "times_wide": _Layout("f", len(TW))}
    made |= {"groups_wide": _Layout("r", len(GW)), "versions": _Layout("r"), "members": _Layout("r")}
    return made | {"pool": _Layout("i", LINE), "pool_kv": _Layout("f", 2), "trace": _Layout("f", 5)}


class StateType(types.Type):
    """State inside compiled code: one pointer to the table of addresses, instead of some 300 words of array headers
    (which would be copied at every call and take minutes to compile)."""

    def __init__(self) -> None:
        super().__init__(name="equipoise.State")


class Table(types.Type):
    """An array of State, and likewise only the pointer to the table of addresses. Its indices are never negative and
    never beyond the end, its rows of a known width, and it shares no item with another: which numba's own arrays
    could not tell LLVM."""

    def __init__(self, name: str, layout: _Layout) -> None:
        self.field, self.first, self.layout = name, 3 * State._fields.index(name), layout
        self.item = types.float64 if layout.item == "f" else types.int64
        super().__init__(name=f"equipoise.Table({name})")


class Row(types.Type):
    """A row of a table: a pointer to its first item."""

    def __init__(self, table: Table) -> None:
        self.table, self.item = table, table.item
        super().__init__(name=f"equipoise.Row({table.field})")


_TABLES = {name: Table(name, layout) for name, layout in _layouts().items()}
_WORD = ir.IntType(64)
_IN_MEMORY = {"i": _WORD, "f": ir.DoubleType(), "r": ir.IntType(32)}


@register_model(StateType)
@register_model(Table)
@register_model(Row)
class _PointerModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        item = _IN_MEMORY[kind.table.layout.item] if isinstance(kind, Row) else _WORD
        super().__init__(manager, kind, item.as_pointer())


@infer_getattr
class _StateAttributes(AttributeTemplate):
    key = StateType

    def generic_resolve(self, kind: Any, name: str) -> Any:
        return _TABLES[name]


@infer_getattr
class _TableAttributes(AttributeTemplate):
    key = Table

    def resolve_shape(self, table: Any) -> Any:
        return types.UniTuple(types.int64, 1 if table.layout.columns == 0 else 2)


@lower_getattr_generic(StateType)
def _table_of(context: Any, builder: Any, kind: Any, addresses: Any, name: str) -> Any:
    return addresses


@lower_getattr(Table, "shape")
def _shape_of(context: Any, builder: Any, kind: Any, addresses: Any) -> Any:
    words = [_word(builder, addresses, kind.first + 1)]
    if kind.layout.columns != 0:
        words.append(_columns(builder, kind, addresses))
    return context.make_tuple(builder, types.UniTuple(types.int64, len(words)), words)


def _word(builder: Any, addresses: Any, place: int) -> Any:
    """Of the table of addresses. Arrays stay where they are in a run."""
    word = builder.load(builder.gep(addresses, [_WORD(place)]))
    word.set_metadata("invariant.load", builder.module.add_metadata([]))
    return word


def _columns(builder: Any, table: Table, addresses: Any) -> Any:
    known = table.layout.columns
    return _word(builder, addresses, table.first + 2) if known is None else _WORD(known)


def _row_at(builder: Any, table: Table, addresses: Any, row: Any) -> Any:
    """Pointer to the first item of a row (of a one-dimensional table: to the item itself)."""
    start = builder.inttoptr(_word(builder, addresses, table.first), _IN_MEMORY[table.layout.item].as_pointer())
    if table.layout.columns != 0:
        row = builder.mul(row, _columns(builder, table, addresses), flags=("nsw",))
    return builder.gep(start, [row], inbounds=True)


def _place(context: Any, builder: Any, kind: Any, index_type: Any, base: Any, index: Any) -> Any:
    """Pointer to the item that `table[index]`, `table[row, column]` or `row[column]` means."""
    table = kind.table if isinstance(kind, Row) else kind
    if isinstance(index_type, types.BaseTuple):
        parts = zip(cgutils.unpack_tuple(builder, index), index_type.types, strict=True)
        row, column = (context.cast(builder, part, its_type, types.int64) for part, its_type in parts)
        return table, builder.gep(_row_at(builder, table, base, row), [column], inbounds=True)
    index = context.cast(builder, index, index_type, types.int64)
    if isinstance(kind, Row):
        return table, builder.gep(base, [index], inbounds=True)
    return table, _row_at(builder, table, base, index)


def _marked(builder: Any, access: Any, table: Table) -> Any:
    """An access that concerns no other table's items."""
    add = builder.module.add_metadata
    kind = add([table.field, add(["equipoise.State"]), _WORD(0)])
    access.set_metadata("tbaa", add([kind, kind, _WORD(0)]))
    return access


def _chosen(kind: Any, index: Any) -> Any:
    """Type of `kind[index]`; None where that is no table and row, or nothing that a table takes as an index."""
    if not isinstance(kind, (Table, Row)) or not isinstance(index, (types.Integer, types.BaseTuple)):
        return None
    whole_row = isinstance(kind, Table) and kind.layout.columns != 0 and isinstance(index, types.Integer)
    return Row(kind) if whole_row else kind.item


@infer_global(operator.getitem)
class _Get(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        item = _chosen(*args)
        return None if item is None else signature(item, *args)


@infer_global(operator.setitem)
class _Set(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        item = _chosen(*args[:2])
        return None if item is None else signature(types.none, *args[:2], item)


@lower_builtin(operator.getitem, Table, types.Any)
@lower_builtin(operator.getitem, Row, types.Any)
def _get(context: Any, builder: Any, called: Any, arguments: Any) -> Any:
    table, place = _place(context, builder, *called.args, *arguments)
    if isinstance(called.return_type, Row):
        return place
    value = _marked(builder, builder.load(place), table)
    if table.layout.fixed:
        value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return builder.sext(value, _WORD) if table.layout.item == "r" else value


@lower_builtin(operator.setitem, Table, types.Any, types.Any)
@lower_builtin(operator.setitem, Row, types.Any, types.Any)
def _set(context: Any, builder: Any, called: Any, arguments: Any) -> Any:
    *where, value = arguments
    table, place = _place(context, builder, *called.args[:2], *where)
    if table.layout.item == "r":
        value = builder.trunc(value, ir.IntType(32))
    _marked(builder, builder.store(value, place), table)
    return context.get_dummy_value()


@intrinsic
def _state_at(typing: Any, addresses: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return arrayobj.make_array(addresses)(context, builder, arguments[0]).data

    return StateType()(addresses), generate


@intrinsic
def sooner(typing: Any, bits: Any, who: Any, other_bits: Any, other: Any) -> Any:
    """Whether the first mark is smaller, or equal and its owner's number is: one comparison of 128 bits."""

    def generate(context: Any, builder: Any, called: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        bits, who, other_bits, other = (builder.zext(word, wide) for word in arguments)
        first = builder.or_(builder.shl(bits, wide(64)), who)
        second = builder.or_(builder.shl(other_bits, wide(64)), other)
        return builder.icmp_unsigned("<", first, second)

    return types.boolean(*[types.int64] * 4), generate


@intrinsic
def prefetch(typing: Any, table: Any, row: Any, column: Any) -> Any:
    """Ask for the cache line of table[row, column], and do not wait for it."""

    def generate(context: Any, builder: Any, called: Any, arguments: Any) -> Any:
        base, row, column = arguments
        start = _row_at(builder, table, base, context.cast(builder, row, called.args[1], types.int64))
        place = builder.gep(start, [context.cast(builder, column, called.args[2], types.int64)])
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        to_read, nearest, data = number(0), number(3), number(1)
        builder.call(function, [builder.bitcast(place, byte), to_read, nearest, data])
        return context.get_dummy_value()

    return types.none(table, row, column), generate


def _called(function: Compiled) -> Compiled:
    """Compiled once, and called where LLVM does not think it better to copy it. (Were the option left out, numba would
    take it from the function that it compiles just then, and make one of 400 kB of the whole widest variant.)"""
    return njit(forceinline=False, **_INNER)(function)


def _handed(state: Any) -> Any:
    """What a compiled entry is called with (uncompiled, with NUMBA_DISABLE_JIT, the state itself)."""
    return state if config.DISABLE_JIT else state.addresses


if config.DISABLE_JIT:

    def _state_at(state: Any) -> Any:
        return state

    def sooner(bits: int, who: int, other_bits: int, other: int) -> bool:
        return (bits, who) < (other_bits, other)

    def prefetch(table: Any, row: int, column: int) -> None:
        return None


# ---- random numbers (streams.py, in 64-bit words) ----

_U12, _U27, _U30, _U31 = np.uint64(12), np.uint64(27), np.uint64(30), np.uint64(31)
_MIX_A, _MIX_B = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_STREAM, _GROUP = np.uint64(streams.STREAM_STEP), np.uint64(streams.GROUP_STEP)
_MEMBER, _TURN = np.uint64(streams.MEMBER_STEP), np.uint64(streams.TURN_STEP)

normal_quantile = njit(**_OPTIONS)(streams.normal_quantile)
normal_share = njit(**_OPTIONS)(streams.normal_share)


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
    """distributions.exact_quantile on arrays."""
    kind = s.kinds[law, K.kind]
    if kind == LOGNORMAL:
        return exp(s.laws[law, L.location] + s.laws[law, L.own_sigma] * normal_quantile(share))
    if kind == EXPONENTIAL:
        return -s.laws[law, L.mean] * log(1.0 - share)
    if kind == GEOMETRIC:
        return 1.0 + float(int(log(1.0 - share) / log(1.0 - 1.0 / s.laws[law, L.mean])))
    if kind == FIXED:
        return s.laws[law, L.mean]
    last = s.kinds[law, K.pairs] - 1
    for i in range(last):
        left, low = s.pairs[law, 2 * i], s.pairs[law, 2 * i + 1]
        right, high = s.pairs[law, 2 * i + 2], s.pairs[law, 2 * i + 3]
        if share <= right:
            return low + (high - low) * (share - left) / (right - left)
    return s.pairs[law, 2 * last + 1]


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
    if s.kinds[law, K.kind] == EMPIRICAL_SHARED:
        own = s.laws[law, L.root_own] * normal_quantile(share)
        share = normal_share(s.laws[law, L.root_shared] * score + own)
    return quantile(s, law, share)


@_inlined
def tokens_of(s, law, value):
    return max(1, min(s.kinds[law, K.limit], int(value + 0.5)))


# ---- heaps and trees ----
#
# Whoever waits has a mark: a time, a clock's reading or a number of rollouts. None is negative, so the bits of a mark
# rise with it: heaps and trees keep (bits of the mark, who) in two words, which compare as one number of 128 bits (in
# the functions here `mark` is those bits). Which of two is smaller is a coin toss, and of numbers in words LLVM makes
# a conditional move, not a branch.


_ZERO, _ONE, _TWO = np.uint64(0), np.uint64(1), np.uint64(2)
"""Indices without a sign, for numba adds code for negative ones."""
_FAR, _NEAR, _NEXT = np.uint64(511), np.uint64(127), np.uint64(15)
"""Last nodes of the rounds that leave 256, 64 and 8 of a tournament's players."""
_FETCHED = 16 * LINE
"""Words of a heap that are fetched ahead: its six upper levels."""
INF_BITS = int(np.float64(inf).view(np.int64))


@_inlined
def bits_of(mark):
    return np.float64(mark).view(np.int64)


@_inlined
def mark_of(bits):
    return np.int64(bits).view(np.float64)


@_inlined
def sift(rows, e, size, mark, who):
    """Put (mark, who) into the hole at the root of a heap of `size`: the hole sinks to a leaf, the new one rises."""
    e, size = np.uint64(e), np.uint64(size)
    i, child = _ZERO, _ONE
    while child + _ONE < size:
        a, b = _TWO * child, _TWO * child + _TWO
        child += np.uint64(sooner(rows[e, b], rows[e, b + _ONE], rows[e, a], rows[e, a + _ONE]))
        rows[e, _TWO * i] = rows[e, _TWO * child]
        rows[e, _TWO * i + _ONE] = rows[e, _TWO * child + _ONE]
        i = child
        child = _TWO * child + _ONE
    if child < size:
        rows[e, _TWO * i] = rows[e, _TWO * child]
        rows[e, _TWO * i + _ONE] = rows[e, _TWO * child + _ONE]
        i = child
    rise(rows, e, i, mark, who)


@_inlined
def rise(rows, e, i, mark, who):
    e, i = np.uint64(e), np.uint64(i)
    while i > _ZERO:
        parent = (i - _ONE) >> _ONE
        above, owner = rows[e, _TWO * parent], rows[e, _TWO * parent + _ONE]
        if sooner(above, owner, mark, who):
            break
        rows[e, _TWO * i] = above
        rows[e, _TWO * i + _ONE] = owner
        i = parent
    rows[e, _TWO * i] = mark
    rows[e, _TWO * i + _ONE] = who


@_inlined
def climb(tree, node, mark, who, last):
    """Play the matches of a node's winner again, until the round that ends with node `last` (1: to the root). The lower
    number wins a tie. Returns the node reached, and the mark and number of its winner."""
    while node > last:
        other = node ^ _ONE
        rival, stranger = tree[_TWO * other], tree[_TWO * other + _ONE]
        beaten = sooner(rival, stranger, mark, who)
        mark = rival if beaten else mark
        who = stranger if beaten else who
        node >>= _ONE
        tree[_TWO * node] = mark
        tree[_TWO * node + _ONE] = who
    return node, mark, who


@_inlined
def leaf_of(tree, leaf, mark):
    node = np.uint64(tree.shape[0] >> 2) + np.uint64(leaf)
    tree[_TWO * node] = mark
    return node


@_inlined
def replay(tree, leaf, mark):
    """One leaf's mark changed."""
    climb(tree, leaf_of(tree, leaf, mark), mark, np.int64(leaf), _ONE)


@_inlined
def schedule(s, e, at):
    """The engine's next event is at this time: who is the soonest of all now?

    The state of many engines is larger than the caches near the processor, and an event reads its engine, heap,
    rollout and group one after the other. But whoever comes to the fore among 1/256 of the engines will be the next of
    these, as will later, among 1/64 and 1/8 of all. So each of these rounds fetches what the round before has shown
    the way to. (A heap without residents names a rollout of old, which does no harm.)"""
    mark, who = bits_of(at), np.int64(e)
    node = leaf_of(s.tree, e, mark)
    if node > _NEAR:
        node, mark, who = climb(s.tree, node, mark, who, _FAR)
        prefetch(s.clocks, who, 0)
        for column in range(0, min(_FETCHED, s.heap.shape[1]), LINE):
            prefetch(s.heap, who, column)
        node, mark, who = climb(s.tree, node, mark, who, _NEAR)
        prefetch(s.rollouts, s.heap[who, 1], 0)
        node, mark, who = climb(s.tree, node, mark, who, _NEXT)
        g = s.rollouts[s.heap[who, 1], R.group]
        prefetch(s.groups, g, 0)
        prefetch(s.marks, g, 0)
    climb(s.tree, node, mark, who, _ONE)


# ---- engines ----
#
# `wide` is None in the variants for plain jobs: numba then leaves out what follows `if wide is not None`.


@_inlined
def decoding(s, e):
    """Seconds of one step of this engine now, with the slots that a second job fills."""
    b, context = s.engines[e, E.residents], s.clocks[e, F.context]
    if s.counts[C.tenant]:
        slots = s.counts[C.slots]
        context += max(0, slots - b) * s.rates[P.tenant_tokens]
        b = max(b, slots)
    return (s.step_s[b] + s.rates[P.per_context_token_s] * context) * s.slowness[e] + s.clocks_wide[e, FW.tax]


@_called
def pace(s, e):
    """Of the engine's clock: seconds of a step now, and how it grows by the tokens that follow (m b)."""
    m = s.rates[P.per_context_token_s]
    each, growth = decoding(s, e), m * s.engines[e, E.residents] * s.slowness[e]
    if s.counts[C.lockstep] == 1:
        return each, growth
    each = 0.0
    first = e - e % s.counts[C.lockstep]
    for other in range(first, min(first + s.counts[C.lockstep], s.engines.shape[0])):
        if s.engines[other, E.residents] > 0 or s.counts[C.tenant]:
            slower = decoding(s, other)
            if slower > each:
                each, growth = slower, m * s.engines[other, E.residents] * s.slowness[other]
    return each, growth


@_inlined
def account(s, e, b, d, dt):
    s.x[X.context_area] += (s.clocks[e, F.context] + 0.5 * b * d) * dt
    s.clocks[e, F.context] += b * d
    s.x[X.decoded_tokens] += b * d
    s.x[X.engine_busy_s] += dt


@_inlined
def advance(s, e, now, wide):
    """Let the engine's clock run up to `now`."""
    if wide is not None:
        advance_wide(s, e, now)
        return
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


@_called
def advance_wide(s, e, now):
    """Engines in lockstep stand at the same time, and their clocks run alike: the slowest step is everyone's."""
    dt = now - s.clocks[e, F.resume]
    if dt <= 0.0:
        return
    each, growth = pace(s, e)
    d = 0.0
    if each > 0.0:
        d = 2.0 * dt / (each + sqrt(each * each + 2.0 * growth * dt)) if growth > 0.0 else dt / each
    first = e - e % s.counts[C.lockstep]
    for one in range(first, min(first + s.counts[C.lockstep], s.engines.shape[0])):
        s.clocks[one, F.resume] = now
        b = s.engines[one, E.residents]
        if s.counts[C.tenant]:
            s.x[X.tenant_tokens] += max(0, s.counts[C.slots] - b) * d
        if b > 0:
            s.clocks[one, F.clock] += d
            account(s, one, b, d, dt)
            make_room(s, one)


@_called
def make_room(s, e):
    """Residents push out paused contexts, the longest paused first."""
    room = s.rates[P.kv_tokens]
    while s.clocks_wide[e, FW.cached] > 0.0 and s.clocks[e, F.context] + s.clocks_wide[e, FW.cached] > room:
        uncache(s, s.engines_wide[e, EW.cached_head])


@_called
def expect(s, e):
    """Work out the engine's next event from its own clock and the pace that holds for it."""
    b = s.engines[e, E.residents]
    departs = inf
    if b > 0:
        d = mark_of(s.heap[e, 0]) - s.clocks[e, F.clock]
        each, growth = pace(s, e)
        s.engines_wide[e, EW.overflowing] = 0
        room = s.rates[P.kv_tokens] - s.clocks[e, F.context]
        if room < b * d:
            s.engines_wide[e, EW.overflowing] = 1
            d = max(0.0, room / b)
        if growth > 0.0:
            each += 0.5 * growth * d
        departs = s.clocks[e, F.resume] + each * max(0.0, d)
    s.clocks[e, F.departs] = departs
    schedule(s, e, min(departs, s.clocks[e, F.returns]))


@_inlined
def touch(s, e, wide):
    """The engine changed; its clock is up to date. Work out its next event."""
    if wide is not None:
        touch_wide(s, e)
        return
    b = s.engines[e, E.residents]
    departs = inf
    if b > 0:
        d = mark_of(s.heap[e, 0]) - s.clocks[e, F.clock]
        m = s.rates[P.per_context_token_s]
        each = s.step_s[b]
        if m > 0.0:
            each += m * s.clocks[e, F.context]
            each += 0.5 * m * b * d
        departs = s.clocks[e, F.resume] + each * d
    s.clocks[e, F.departs] = departs
    schedule(s, e, min(departs, s.clocks[e, F.returns]))


@_called
def touch_wide(s, e):
    """Those in lockstep feel it."""
    first = e - e % s.counts[C.lockstep]
    for one in range(first, min(first + s.counts[C.lockstep], s.engines.shape[0])):
        expect(s, one)


@_called
def stall(s, e, seconds):
    """The clock stands still for so long, and with it those in lockstep."""
    if s.counts[C.lockstep] == 1:
        s.clocks[e, F.resume] += seconds
        return
    first = e - e % s.counts[C.lockstep]
    for one in range(first, min(first + s.counts[C.lockstep], s.engines.shape[0])):
        s.clocks[one, F.resume] += seconds


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
        sift(s.heap, e, size + 1, bits_of(mark), r)
    else:
        rise(s.heap, e, size, bits_of(mark), r)


@_called
def join_wide(s, e, r):
    prefill(s, e, r)
    s.rollouts_wide[r, RW.state] = RESIDENT
    join(s, e, r)
    make_room(s, e)


@_called
def prefill(s, e, r):
    """What of the context is not in the cache is computed: the engine stops for it, or (chunked) every token of this
    turn carries its share of it, so that nobody stops and the work is the same."""
    cached = s.rollouts_wide[r, RW.cached]
    uncached = s.rollouts[r, R.context] - cached
    if cached > 0:
        uncache(s, r)
    s.n[N.prefilled_tokens] += uncached
    s.n[N.prefix_tokens] += cached
    s.times_wide[r, TW.tax] = 0.0
    seconds = uncached * s.rates[P.prefill_s_per_token] * s.slowness[e]
    if seconds <= 0.0:
        return
    if s.counts[C.chunked]:
        s.times_wide[r, TW.tax] = seconds / s.rollouts[r, R.tokens]
        s.clocks_wide[e, FW.tax] += s.times_wide[r, TW.tax]
    else:
        stall(s, e, seconds)


@_inlined
def stand_still(s, e, wide):
    """An empty engine's clock goes back to 0."""
    s.clocks[e, F.context] = 0.0
    s.clocks[e, F.clock] = 0.0
    if wide is not None:
        s.clocks_wide[e, FW.tax] = 0.0


@_called
def close_hole(s, e):
    """Nobody took the departed one's place."""
    s.n[N.hole] = -1
    size = s.engines[e, E.residents]
    if size == 0:
        return
    sift(s.heap, e, size, s.heap[e, 2 * size], s.heap[e, 2 * size + 1])
    if s.clocks[e, F.clock] > 1e9:
        rebase(s, e)


@_called
def rebase(s, e):
    """Set the clock back to 0, so that its last bits stay below a millionth of a token."""
    base = s.clocks[e, F.clock]
    for i in range(s.engines[e, E.residents]):
        s.heap[e, 2 * i] = bits_of(mark_of(s.heap[e, 2 * i]) - base)
    s.clocks[e, F.clock] = 0.0


@_called
def has_room(s, e, r):
    """Whether the engine can admit this rollout now."""
    taken = s.engines[e, E.residents] + s.engines_wide[e, EW.reserved]
    if s.engines_wide[e, EW.draining] or taken >= s.counts[C.slots]:
        return False
    needed = s.clocks[e, F.context] + s.rollouts[r, R.context]
    if taken > 0:
        return needed <= s.rates[P.kv_admission_tokens]
    if needed >= s.rates[P.kv_tokens]:
        s.n[N.stopped] = CONTEXT_TOO_LONG
    return True


@_called
def queue_up(s, e, r):
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
def arrive(s, e, r, wide):
    """A rollout wants the engine: into a free slot, else to the end of the queue."""
    if wide is not None:
        arrive_wide(s, e, r)
    elif s.engines[e, E.residents] < s.counts[C.slots]:
        join(s, e, r)
    else:
        queue_up(s, e, r)


@_called
def arrive_wide(s, e, r):
    if s.counts[C.prefill_engines] > 0:
        pool_arrive(s, r)
        return
    if s.engines[e, E.queued] == 0 and has_room(s, e, r):
        join_wide(s, e, r)
        return
    s.rollouts_wide[r, RW.state] = QUEUED
    queue_up(s, e, r)


@_called
def next_in_line(s, e):
    r = s.engines[e, E.queue_head]
    s.engines[e, E.queue_head] = s.rollouts[r, R.next]
    s.engines[e, E.queued] -= 1
    s.n[N.queued] -= 1
    s.x[X.queued_s] += s.x[X.now] - s.times[r, T.entered]
    return r


@_inlined
def admit(s, e, wide):
    """From the head of the engine's queue, while there is room."""
    if wide is not None:
        admit_wide(s, e)
        return
    while s.engines[e, E.queued] > 0 and s.engines[e, E.residents] < s.counts[C.slots]:
        join(s, e, next_in_line(s, e))


@_called
def admit_wide(s, e):
    while s.engines[e, E.queued] > 0 and has_room(s, e, s.engines[e, E.queue_head]):
        r = next_in_line(s, e)
        if s.rollouts_wide[r, RW.state] == HELD:
            from_pool(s, e, r)
        else:
            join_wide(s, e, r)


@_called
def leave_engine_for(s, e, r, seconds):
    """The rollout is outside its engine (a tool call, say) for so long."""
    size = s.engines[e, E.outside]
    s.engines[e, E.outside] = size + 1
    s.n[N.outside] += 1
    s.times[r, T.entered] = s.x[X.now]
    rise(s.outs, e, size, bits_of(s.x[X.now] + seconds), r)
    s.clocks[e, F.returns] = mark_of(s.outs[e, 0])


# ---- beyond the core: lists, KV cache, prefill pool, sandboxes, verifier ----


@_called
def append(s, base, r):
    """To the end of a list of rollouts whose head, tail and length are n[base], n[base + 1], n[base + 2]."""
    s.rollouts[r, R.next] = -1
    if s.n[base + 2] == 0:
        s.n[base] = r
    else:
        s.rollouts[s.n[base + 1], R.next] = r
    s.n[base + 1] = r
    s.n[base + 2] += 1


@_called
def take(s, base):
    r = s.n[base]
    s.n[base] = s.rollouts[r, R.next]
    s.n[base + 2] -= 1
    return r


@_called
def strike(s, base, r):
    """Out of the middle of such a list."""
    before, here = -1, s.n[base]
    while here != r:
        before, here = here, s.rollouts[here, R.next]
    after = s.rollouts[r, R.next]
    if before < 0:
        s.n[base] = after
    else:
        s.rollouts[before, R.next] = after
    if after < 0:
        s.n[base + 1] = before
    s.n[base + 2] -= 1


@_called
def strike_queue(s, e, r):
    """Out of the middle of an engine's queue."""
    before, here = -1, s.engines[e, E.queue_head]
    while here != r:
        before, here = here, s.rollouts[here, R.next]
    after = s.rollouts[r, R.next]
    if before < 0:
        s.engines[e, E.queue_head] = after
    else:
        s.rollouts[before, R.next] = after
    if after < 0:
        s.engines[e, E.queue_tail] = before
    s.engines[e, E.queued] -= 1
    s.n[N.queued] -= 1
    s.x[X.queued_s] += s.x[X.now] - s.times[r, T.entered]


@_called
def remove(rows, e, size, who):
    """Out of the middle of a heap."""
    i = 0
    while rows[e, 2 * i + 1] != who:
        i += 1
    last = size - 1
    if i == last:
        return
    mark, moved = rows[e, 2 * last], rows[e, 2 * last + 1]
    child = 2 * i + 1
    while child < last:
        a, b = 2 * child, 2 * child + 2
        if child + 1 < last and sooner(rows[e, b], rows[e, b + 1], rows[e, a], rows[e, a + 1]):
            child += 1
        rows[e, 2 * i] = rows[e, 2 * child]
        rows[e, 2 * i + 1] = rows[e, 2 * child + 1]
        i = child
        child = 2 * i + 1
    rise(rows, e, i, mark, moved)


@_called
def cache(s, e, r):
    """A paused rollout's context stays in the free part of the KV pool, as the last to be thrown out."""
    if not s.counts[C.prefix_cache]:
        s.rollouts_wide[r, RW.cached] = 0
        return
    context = s.rollouts[r, R.context]
    s.rollouts_wide[r, RW.cached] = context
    tail = s.engines_wide[e, EW.cached_tail] if s.clocks_wide[e, FW.cached] > 0.0 else -1
    s.rollouts_wide[r, RW.before] = tail
    s.rollouts_wide[r, RW.link] = -1
    if tail < 0:
        s.engines_wide[e, EW.cached_head] = r
    else:
        s.rollouts_wide[tail, RW.link] = r
    s.engines_wide[e, EW.cached_tail] = r
    s.clocks_wide[e, FW.cached] += context
    make_room(s, e)


@_called
def uncache(s, r):
    """The paused context is no longer kept (or no longer paused)."""
    e, before, after = s.rollouts[r, R.engine], s.rollouts_wide[r, RW.before], s.rollouts_wide[r, RW.link]
    if before < 0:
        s.engines_wide[e, EW.cached_head] = after
    else:
        s.rollouts_wide[before, RW.link] = after
    if after < 0:
        s.engines_wide[e, EW.cached_tail] = before
    else:
        s.rollouts_wide[after, RW.before] = before
    s.clocks_wide[e, FW.cached] -= s.rollouts_wide[r, RW.cached]
    s.rollouts_wide[r, RW.cached] = 0


@_called
def interrupt(s, e, r, mark):
    """A resident stops before its turn's end. What it has generated becomes context, to be prefilled again."""
    received = s.clocks[e, F.clock] - (mark - s.rollouts[r, R.tokens])
    s.clocks[e, F.context] -= s.rollouts[r, R.context] + received
    s.clocks_wide[e, FW.tax] -= s.times_wide[r, TW.tax]
    s.times_wide[r, TW.tax] = 0.0
    done = max(0, min(s.rollouts[r, R.tokens] - 1, int(received)))
    s.rollouts[r, R.context] += done
    s.rollouts[r, R.response] += done
    s.rollouts[r, R.tokens] -= done
    s.engines[e, E.residents] -= 1
    s.n[N.resident] -= 1
    s.x[X.resident_s] += s.x[X.now] - s.times[r, T.entered]
    if s.engines[e, E.residents] == 0:
        stand_still(s, e, 1)


@_called
def overflow(s, e):
    """The KV pool is full: a victim goes to the head of the queue. Nobody is admitted until somebody leaves."""
    advance_wide(s, e, s.x[X.now])
    b = s.engines[e, E.residents]
    if b == 1:
        s.n[N.stopped] = CONTEXT_TOO_LONG
        return
    chosen, worst = 0, inf
    for i in range(b):
        r = s.heap[e, 2 * i + 1]
        key = -s.times[r, T.entered]
        if s.counts[C.shortest_victim]:
            left = mark_of(s.heap[e, 2 * i]) - s.clocks[e, F.clock]
            key = s.rollouts[r, R.response] + s.rollouts[r, R.tokens] - left
        if key < worst or (key == worst and s.heap[e, 2 * i + 1] > s.heap[e, 2 * chosen + 1]):
            chosen, worst = i, key
    r, mark = s.heap[e, 2 * chosen + 1], mark_of(s.heap[e, 2 * chosen])
    remove(s.heap, e, b, r)
    interrupt(s, e, r, mark)
    s.n[N.preempted] += 1
    if s.n[N.preempted] > THRASH * (s.n[N.turns] + s.n[N.in_flight]):
        s.n[N.stopped] = THRASHING
    s.rollouts_wide[r, RW.state] = QUEUED
    s.times[r, T.entered] = s.x[X.now]
    s.rollouts[r, R.next] = s.engines[e, E.queue_head]
    if s.engines[e, E.queued] == 0:
        s.engines[e, E.queue_tail] = r
        s.rollouts[r, R.next] = -1
    s.engines[e, E.queue_head] = r
    s.engines[e, E.queued] += 1
    s.n[N.queued] += 1


@_called
def plan(s, at, what):
    """An event of no engine: `what` is a kind times AGENDA_STEP, plus a number."""
    rise(s.agenda, 0, s.n[N.planned], bits_of(at), what)
    s.n[N.planned] += 1


@_called
def pool_arrive(s, r):
    """To the prefill engine with the fewest rollouts."""
    best, fewest = 0, NEVER
    for p in range(s.counts[C.prefill_engines]):
        if s.pool[p, Q.rollouts] < fewest:
            best, fewest = p, s.pool[p, Q.rollouts]
    cached = s.rollouts_wide[r, RW.cached]
    s.n[N.prefix_tokens] += cached
    s.n[N.prefilled_tokens] += s.rollouts[r, R.context] - cached
    s.times_wide[r, TW.tax] = (s.rollouts[r, R.context] - cached) * s.rates[P.pool_s_per_token]
    if cached > 0:
        uncache(s, r)
    s.rollouts_wide[r, RW.cached] = 0
    s.rollouts_wide[r, RW.state] = POOLED
    s.rollouts_wide[r, RW.link] = best
    s.rollouts[r, R.next] = -1
    if s.pool[best, Q.queued] == 0:
        s.pool[best, Q.head] = r
    else:
        s.rollouts[s.pool[best, Q.tail], R.next] = r
    s.pool[best, Q.tail] = r
    s.pool[best, Q.queued] += 1
    s.pool[best, Q.rollouts] += 1
    pool_start(s, best)


@_called
def pool_start(s, p):
    """The prefill engine's next, unless the KV of finished ones is in the way (blocking after service)."""
    if s.pool[p, Q.busy] >= 0 or s.pool[p, Q.queued] == 0:
        return
    r = s.pool[p, Q.head]
    context = s.rollouts[r, R.context]
    if s.pool_kv[p, 0] + context > s.rates[P.pool_kv_tokens]:
        if s.pool_kv[p, 0] == 0.0:
            s.n[N.stopped] = CONTEXT_TOO_LONG
        return
    s.pool[p, Q.head] = s.rollouts[r, R.next]
    s.pool[p, Q.queued] -= 1
    s.pool[p, Q.busy] = r
    s.pool_kv[p, 0] += context
    s.pool_kv[p, 1] = s.x[X.now] + s.times_wide[r, TW.tax]
    plan(s, s.pool_kv[p, 1], PREFILLED * AGENDA_STEP + p)


@_called
def pool_leave(s, p, r):
    """The pool holds this rollout's KV no longer."""
    s.pool[p, Q.rollouts] -= 1
    s.pool_kv[p, 0] -= s.rollouts[r, R.context]
    pool_start(s, p)


@_called
def prefilled(s, p):
    if s.pool[p, Q.busy] < 0 or s.pool_kv[p, 1] != s.x[X.now]:
        return  # it was given up meanwhile
    r = s.pool[p, Q.busy]
    s.pool[p, Q.busy] = -1
    e = s.rollouts[r, R.engine]
    s.times_wide[r, TW.tax] = 0.0
    s.rollouts_wide[r, RW.state] = HELD
    advance_wide(s, e, s.x[X.now])
    queue_up(s, e, r)
    admit_wide(s, e)
    touch_wide(s, e)
    pool_start(s, p)


@_called
def from_pool(s, e, r):
    """A decoder takes a prefilled rollout: over the link into a slot that is its own from now on."""
    p = int(s.rollouts_wide[r, RW.link])
    context = s.rollouts[r, R.context]
    seconds = s.rates[P.transfer_base_s] + context * s.rates[P.transfer_s_per_token]
    s.pool[p, Q.rollouts] -= 1
    s.pool_kv[p, 0] -= context
    plan(s, s.x[X.now], POOL_FREE * AGENDA_STEP + p)
    if seconds > 0.0:
        s.engines_wide[e, EW.reserved] += 1
        s.rollouts_wide[r, RW.state] = TRANSFER
        leave_engine_for(s, e, r, seconds)
        return
    decode_prefilled(s, e, r)


@_called
def decode_prefilled(s, e, r):
    s.engines[e, E.residents] += 1
    s.n[N.resident] += 1
    s.clocks[e, F.context] += s.rollouts[r, R.context]
    s.times[r, T.entered] = s.x[X.now]
    s.rollouts_wide[r, RW.state] = RESIDENT
    mark = s.clocks[e, F.clock] + s.rollouts[r, R.tokens]
    rise(s.heap, e, s.engines[e, E.residents] - 1, bits_of(mark), r)


@_called
def want_box(s, r):
    """A sandbox first, from before the first turn to the end."""
    s.times_wide[r, TW.box] = s.x[X.now]
    s.rollouts_wide[r, RW.state] = BOX_QUEUE
    append(s, N.box_head, r)
    start_boxes(s)


@_called
def start_boxes(s):
    """Start what the quota allows. What waits presses on the provider as well (stations.Sandboxes: the cliff)."""
    quota = s.counts[C.sandbox_limit]
    while s.n[N.boxes_waiting] > 0 and s.n[N.boxes_live] < quota:
        pressing = s.n[N.boxes_waiting] + s.n[N.boxes_starting]
        r = take(s, N.box_head)
        s.n[N.boxes_live] += 1
        s.n[N.boxes_starting] += 1
        s.n[N.boxes_started] += 1
        s.rollouts_wide[r, RW.flags] |= HOLDS_BOX
        over = max(0.0, pressing / quota - 1.0)
        seconds = s.rates[P.sandbox_start_s] * (1.0 + s.rates[P.sandbox_overload_factor] * over)
        chance = s.rates[P.sandbox_failure_frac]
        if over > 0.0:
            chance += s.rates[P.sandbox_overload_failure_frac] * (1.0 - quota / pressing)
        if seconds > s.rates[P.sandbox_timeout_s]:
            seconds, chance = s.rates[P.sandbox_timeout_s], 1.0
        group = s.groups[s.rollouts[r, R.group], G.id]
        if uniform(s.n[N.key], SANDBOX, group, s.rollouts[r, R.draw], 0) < chance:
            s.rollouts_wide[r, RW.flags] |= BOX_FAILS
        begin = max(s.x[X.now], s.x[X.next_start])
        s.x[X.next_start] = begin + s.rates[P.sandbox_start_gap_s]
        s.rollouts_wide[r, RW.state] = STARTING
        e = s.rollouts[r, R.engine]
        leave_engine_for(s, e, r, begin - s.x[X.now] + seconds)
        touch_outside(s, e)


@_called
def touch_outside(s, e):
    """Only the engine's next return changed."""
    schedule(s, e, min(s.clocks[e, F.departs], s.clocks[e, F.returns]))


@_called
def release_box(s, r):
    """The rollout is over. A leaked sandbox goes on counting against the quota until its lifetime is over."""
    flags = s.rollouts_wide[r, RW.flags]
    if not flags & HOLDS_BOX:
        return
    s.rollouts_wide[r, RW.flags] = flags & ~(HOLDS_BOX | BOX_FAILS)
    group = s.groups[s.rollouts[r, R.group], G.id]
    leak = s.rates[P.sandbox_leak_frac]
    if leak > 0.0 and uniform(s.n[N.key], LEAK, group, s.rollouts[r, R.draw], 0) < leak:
        s.n[N.boxes_leaked] += 1
        over_at = s.times_wide[r, TW.box] + s.rates[P.sandbox_lifetime_s]
        if s.counts[C.sandbox_limit] < NEVER and s.rates[P.sandbox_lifetime_s] < NEVER:
            plan(s, max(s.x[X.now], over_at), BOX_GONE * AGENDA_STEP)
        return
    s.n[N.boxes_live] -= 1
    start_boxes(s)


@_called
def want_verifier(s, r):
    s.rollouts_wide[r, RW.state] = JUDGE_QUEUE
    append(s, N.judge_head, r)
    start_verifying(s)


@_called
def start_verifying(s):
    while s.n[N.judges_waiting] > 0 and s.n[N.judging] < s.counts[C.verifier_limit]:
        r = take(s, N.judge_head)
        s.n[N.judging] += 1
        s.rollouts_wide[r, RW.state] = VERIFYING
        e = s.rollouts[r, R.engine]
        leave_engine_for(s, e, r, s.rates[P.verifier_s])
        touch_outside(s, e)


@_called
def pull_out(s, r):
    """Take a rollout in flight out of wherever it is."""
    e, state = s.rollouts[r, R.engine], s.rollouts_wide[r, RW.state]
    now = s.x[X.now]
    advance_wide(s, e, now)
    if state == RESIDENT:
        i = 0
        while s.heap[e, 2 * i + 1] != r:
            i += 1
        mark = mark_of(s.heap[e, 2 * i])
        remove(s.heap, e, s.engines[e, E.residents], r)
        interrupt(s, e, r, mark)
        if s.engines_wide[e, EW.draining]:
            drained(s, e)
    elif state == QUEUED or state == HELD:
        strike_queue(s, e, r)
        if state == HELD:
            pool_leave(s, s.rollouts_wide[r, RW.link], r)
    elif state == BOX_QUEUE:
        strike(s, N.box_head, r)
    elif state == JUDGE_QUEUE:
        strike(s, N.judge_head, r)
    elif state == POOLED:
        pull_from_pool(s, s.rollouts_wide[r, RW.link], r)
    else:
        pull_from_outside(s, e, r, state)
    if s.rollouts_wide[r, RW.cached] > 0:
        uncache(s, r)
    forget(s, r)
    admit_wide(s, e)
    touch_wide(s, e)


@_called
def pull_from_outside(s, e, r, state):
    size = s.engines[e, E.outside]
    remove(s.outs, e, size, r)
    s.engines[e, E.outside] = size - 1
    s.n[N.outside] -= 1
    s.x[X.outside_s] += s.x[X.now] - s.times[r, T.entered]
    s.clocks[e, F.returns] = mark_of(s.outs[e, 0]) if size > 1 else inf
    if state == STARTING:
        s.n[N.boxes_starting] -= 1
    elif state == TRANSFER:
        s.engines_wide[e, EW.reserved] -= 1
    elif state == VERIFYING:
        s.n[N.judging] -= 1
        start_verifying(s)


@_called
def pull_from_pool(s, p, r):
    s.pool[p, Q.rollouts] -= 1
    if s.pool[p, Q.busy] == r:
        s.pool[p, Q.busy] = -1
        s.pool_kv[p, 0] -= s.rollouts[r, R.context]
        pool_start(s, p)
        return
    before, here = -1, s.pool[p, Q.head]
    while here != r:
        before, here = here, s.rollouts[here, R.next]
    after = s.rollouts[r, R.next]
    if before < 0:
        s.pool[p, Q.head] = after
    else:
        s.rollouts[before, R.next] = after
    if after < 0:
        s.pool[p, Q.tail] = before
    s.pool[p, Q.queued] -= 1


@_called
def forget(s, r):
    """No longer in flight, nor bound to its engine."""
    s.x[X.stint_s] += s.x[X.now] - s.times[r, T.dispatched]
    s.n[N.in_flight] -= 1
    unload(s, s.rollouts[r, R.engine])


@_called
def free_rollout(s, r):
    g = s.rollouts[r, R.group]
    s.members[g, s.rollouts[r, R.member]] = -1
    s.free_rollouts[s.n[N.free_rollouts]] = r
    s.n[N.free_rollouts] += 1


@_called
def attempt(s, r):
    """The length this rollout would have had, for the bias of what is kept: drawn to its end though nobody saw it."""
    s.n[N.attempted] += 1
    s.n[N.attempted_response] += s.rollouts[r, R.response] + s.rollouts[r, R.tokens]
    group = s.rollouts[r, R.group]
    for turn in range(s.rollouts[r, R.turn] + 1, s.rollouts[r, R.turns]):
        share = uniform(s.n[N.key], RESPONSE, s.groups[group, G.id], s.rollouts[r, R.draw], turn)
        value = drawn(s, RESPONSE_LAW, share, s.traits[group, H.score]) * s.traits[group, H.factor]
        s.n[N.attempted_response] += tokens_of(s, RESPONSE_LAW, value)
    share = uniform(s.n[N.key], REWARD, s.groups[group, G.id], s.rollouts[r, R.draw], 0)
    s.n[N.attempted_solved] += int(share < s.traits[group, H.solve_rate])


@_called
def give_up(s, r):
    """An oversampled rollout is not needed any more."""
    if s.rollouts_wide[r, RW.state] == PAUSED:
        strike(s, N.again_head, r)
    else:
        pull_out(s, r)
    if s.rollouts[r, R.turn] >= 0:  # else it was to start anew, and has not
        s.n[N.oversampled] += 1
        attempt(s, r)
    release_box(s, r)
    free_rollout(s, r)


@_called
def pause(s, r):
    """Stop a rollout; it is resumed later, first of all, on any engine."""
    pull_out(s, r)
    release_box(s, r)
    s.rollouts_wide[r, RW.state] = PAUSED
    s.rollouts_wide[r, RW.flags] |= RESUMED
    append(s, N.again_head, r)


@_called
def anew(s, r):
    """Another attempt of the same prompt, with numbers of its own. The rollout has left its engine."""
    release_box(s, r)
    s.rollouts[r, R.draw] += ATTEMPT_STEP
    if s.rollouts[r, R.draw] // ATTEMPT_STEP > MOST_ATTEMPTS:
        s.n[N.stopped] = ALWAYS_FAILS
    s.n[N.lost_running] += 1
    if s.n[N.lost_running] > MOST_LOST_RUNNING:
        s.n[N.stopped] = NONE_FINISHES
    s.rollouts[r, R.turn] = -1
    s.rollouts_wide[r, RW.cached] = 0
    s.rollouts_wide[r, RW.state] = PAUSED
    append(s, N.again_head, r)


@_called
def fail(s, r):
    """Lost to infrastructure, at its own event."""
    s.n[N.failed] += 1
    forget(s, r)
    anew(s, r)


@_called
def drained(s, e):
    """An engine that drains may be empty now: alone (rolling) or with all others it takes the weights."""
    if s.engines[e, E.residents] > 0:
        return
    if s.counts[C.rolling]:
        s.engines_wide[e, EW.draining] = 0
        stall(s, e, s.rates[P.sync_s])
        return
    if s.n[N.resident] > 0 or not s.n[N.draining]:
        return
    s.n[N.draining] = 0
    s.n[N.version] += 1
    for other in range(s.engines.shape[0]):
        s.engines_wide[other, EW.draining] = 0
        advance_wide(s, other, s.x[X.now])
        s.clocks[other, F.resume] = max(s.clocks[other, F.resume], s.x[X.now]) + s.rates[P.sync_s]
    for other in range(s.engines.shape[0]):
        admit_wide(s, other)
        touch_wide(s, other)
    if s.n[N.phase] == DRAINING:
        s.n[N.phase] = WAITING
        s.x[X.sync_s] += s.rates[P.sync_s]
        s.x[X.trainer_at] = s.x[X.now] + s.rates[P.sync_s]


# ---- groups and rollouts ----


@_called
def note(s, kind, a, b, c):
    row = s.n[N.traced]
    if row < s.trace.shape[0]:
        s.trace[row, 0] = s.x[X.now]
        s.trace[row, 1] = kind
        s.trace[row, 2] = a
        s.trace[row, 3] = b
        s.trace[row, 4] = c
        s.n[N.traced] = row + 1


@_called
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


@_inlined
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
    s.marks[g, M.opened] = s.x[X.now]
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


@_called
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


@_called
def next_round(s):
    s.n[N.round] += 1
    s.n[N.round_opened] = 0
    s.rounds[s.n[N.round] % s.rounds.shape[0]] = 0


@_inlined
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


@_called
def draw_turn_wide(s, r, g, turn):
    draw_turn(s, r, g, turn, 1)


@_called
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


@_inlined
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


@_inlined
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


@_inlined
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


@_called
def prepare_wide(s, r, g, member):
    prepare(s, r, g, member, True, 1)


@_called
def route_wide(s, r):
    route(s, r, 1)


@_called
def dispatch_again(s):
    """A rollout that was stopped goes on, or one that was lost starts anew."""
    r = take(s, N.again_head)
    if s.rollouts[r, R.turn] < 0:
        prepare_wide(s, r, s.rollouts[r, R.group], s.rollouts[r, R.member])
    route_wide(s, r)


@_inlined
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


@_inlined
def unload(s, e):
    """One rollout fewer is bound to the engine."""
    s.engines[e, E.in_flight] -= 1
    replay(s.loads, e, s.engines[e, E.in_flight])


@_called
def free_group(s, g):
    s.free_groups[s.n[N.free_groups]] = g
    s.n[N.free_groups] += 1


@_inlined
def time_bin(seconds):
    bits = np.float64(seconds).view(np.int64)
    return max(0, min(TIME_BINS - 1, (bits >> 49) - ((1023 - 16) << 3)))


@_inlined
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


@_called
def finish_wide(s, e, r):
    finish_rollout(s, e, r, 1)


@_called
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


@_called
def drop(s, g, wide):
    """A full buffer loses its oldest group."""
    s.n[N.dropped] += s.groups[g, G.kept]
    s.n[N.wip] -= 1
    if wide is not None:
        s.groups_wide[g, GW.state] = NO_GROUP
    free_group(s, g)


@_called
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


@_called
def remove_group(s, g):
    """It will not be trained: its place in the order is void, and its round wants another one."""
    s.groups_wide[g, GW.state] = NO_GROUP
    if s.counts[C.in_order]:
        s.order[s.groups_wide[g, GW.place] % s.order.shape[0]] = -1
        see_order(s)
    if s.counts[C.round_groups] > 0 and s.groups_wide[g, GW.round] == s.n[N.round]:
        s.n[N.round_opened] -= 1


@_called
def see_order(s):
    """How many finished groups stand at the head of the order of dispatch, without a gap."""
    while s.n[N.order_seen] < s.n[N.order_tail]:
        g = s.order[s.n[N.order_seen] % s.order.shape[0]]
        if g >= 0:
            if s.groups_wide[g, GW.state] != READY:
                return
            s.n[N.in_line] += 1
        s.n[N.order_seen] += 1


@_called
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


@_called
def carry(s, g):
    s.groups_wide[g, GW.round] = s.n[N.round]
    s.n[N.round_opened] += 1
    for member in range(s.groups[g, G.started]):
        r = s.members[g, member]
        if r >= 0:
            state = s.rollouts_wide[r, RW.state]
            if state != PAUSED and state != VERIFYING and state != JUDGE_QUEUE:
                pause(s, r)


@_called
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


@_called
def pop_ring(s):
    head = s.n[N.ring_head]
    g = s.ring[head]
    s.n[N.ring_head] = head + 1 if head + 1 < s.ring.shape[0] else 0
    s.n[N.ring_count] -= 1
    s.x[X.ring_s] += s.x[X.now] - s.marks[g, M.ready]
    return g


@_called
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


@_called
def leave_order(s, g, place):
    """A group whose turn has come leaves the buffer from the middle of the order."""
    s.order[place % s.order.shape[0]] = -1
    s.n[N.in_line] -= 1
    s.n[N.ring_count] -= 1
    s.x[X.ring_s] += s.x[X.now] - s.marks[g, M.ready]


@_called
def too_old(s, g):
    """True when its oldest member is older than the bound."""
    oldest = s.n[N.version]
    for member in range(s.groups[g, G.started]):
        if s.versions[g, member] != NOT_KEPT:
            oldest = min(oldest, s.versions[g, member])
    return s.n[N.version] - oldest > s.counts[C.staleness_bound]


@_called
def throw_away_stale(s, g):
    s.n[N.stale] += s.groups[g, G.kept]
    s.n[N.wip] -= 1
    remove_group(s, g)
    free_group(s, g)


@_called
def discard_stale_in_order(s):
    """The same of the groups whose turn to be trained has come."""
    for place in range(s.n[N.order_head], s.n[N.order_seen]):
        g = s.order[place % s.order.shape[0]]
        if g >= 0 and too_old(s, g):
            leave_order(s, g, place)
            throw_away_stale(s, g)


@_called
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


# ---- trainer ----


@_called
def batch_ready(s, wide):
    if wide is not None:
        if s.counts[C.in_order]:
            if s.counts[C.plug] == DISCARD_STALE and s.n[N.in_line] >= s.counts[C.batch_groups]:
                discard_stale_in_order(s)
            return s.n[N.in_line] >= s.counts[C.batch_groups]
        if s.counts[C.plug] == DISCARD_STALE and s.n[N.ring_count] >= s.counts[C.batch_groups]:
            discard_stale(s)
    return s.n[N.ring_count] >= s.counts[C.batch_groups]


@_called
def start_training(s, wide):
    """Take a batch from the head of the buffer."""
    tokens = 0
    now, version, batch = s.x[X.now], s.n[N.version], s.counts[C.batch_groups]
    for _ in range(batch):
        if wide is not None and s.counts[C.in_order]:
            g = pop_order(s)
        else:
            g = pop_ring(s)
        row = s.groups[g]
        tokens += row[G.tokens]
        s.x[X.queue_age_s] += now - s.marks[g, M.ready]
        for member in range(row[G.started]):
            age = version - s.versions[g, member]
            if wide is None or age >= 0:
                s.staleness[min(age, STALENESS_BINS - 1)] += 1
        s.n[N.trained] += row[G.kept]
        s.n[N.trained_groups] += 1
        s.n[N.trained_response] += row[G.response]
        s.n[N.trained_solved] += row[G.solved]
        if 0 < row[G.solved] < row[G.kept]:
            s.n[N.useful] += row[G.kept]
        if wide is not None:
            s.n[N.trained_resumed] += s.groups_wide[g, GW.resumed]
            s.x[X.trained_rollout_s] += s.groups_wide[g, GW.spent] / SPENT_PER_S
            s.groups_wide[g, GW.state] = NO_GROUP
        free_group(s, g)
    s.n[N.trained_tokens] += tokens
    s.n[N.since_training] = 0
    s.n[N.training_groups] = batch
    if s.counts[C.freed_at_start]:
        release_slots(s, batch)
    s.n[N.phase] = TRAINING
    seconds = s.rates[P.trainer_base_s] + tokens * s.rates[P.trainer_s_per_token]
    s.x[X.training_s] += seconds
    s.x[X.trainer_at] = now + seconds
    note(s, TRAIN_START, version, batch, tokens)


@_called
def release_slots(s, batch):
    """The WIP cap's slots of a batch, with those of its round that were given up."""
    s.n[N.wip] -= batch + s.n[N.owed]
    s.n[N.owed] = 0
    s.n[N.hold_again] = 0


@_called
def trainer_event(s, wide):
    """A step ends (and its weights may be published), or the trainer has waited long enough."""
    s.x[X.trainer_at] = inf
    if s.n[N.phase] == WAITING:
        s.n[N.phase] = IDLE
        return
    s.n[N.step] += 1
    step = s.n[N.step]
    note(s, TRAIN_END, step, s.n[N.training_groups], 0)
    if not s.counts[C.freed_at_start]:
        release_slots(s, s.n[N.training_groups])
    s.n[N.training_groups] = 0
    s.n[N.phase] = IDLE
    wait = 0.0
    if step % s.counts[C.validation_interval] == 0:
        wait += s.rates[P.validation_s]
    if step % s.counts[C.checkpoint_interval] == 0:
        wait += s.rates[P.checkpoint_s]
    if step % s.counts[C.sync_interval] == 0:
        if wide is not None:
            if publish_wide(s):
                return  # it waits for the engines to drain
        else:
            s.n[N.version] += 1
            publish(s)
        if s.counts[C.trainer_waits]:
            wait += s.rates[P.sync_s]
    if wait > 0.0:
        s.n[N.phase] = WAITING
        s.x[X.sync_s] += wait
        s.x[X.trainer_at] = s.x[X.now] + wait


@_called
def publish(s):
    """New weights in flight: every engine stands still while it takes them."""
    pause = s.rates[P.sync_s]
    if pause <= 0.0:
        return
    for e in range(s.engines.shape[0]):
        advance(s, e, s.x[X.now], None)
        s.clocks[e, F.resume] += pause
        touch(s, e, None)


@_called
def publish_wide(s):
    """New weights in each of the ways of stations.WeightSync. True where the trainer waits for a drain."""
    s.n[N.opened_since_sync] = s.n[N.wip]
    mode = s.counts[C.sync_mode]
    if mode == DRAIN:
        return start_drain(s)
    s.n[N.version] += 1
    if mode == IN_FLIGHT and s.rates[P.sync_s] <= 0.0 and s.counts[C.keeps_kv]:
        return False
    now = s.x[X.now]
    for e in range(s.engines.shape[0]):
        advance_wide(s, e, now)
        if mode == ABORT:
            abort_residents(s, e)
    if s.counts[C.rolling] and mode == IN_FLIGHT:
        if s.n[N.rolling_at] < 0:
            s.n[N.rolling_at] = 0
            plan(s, now, ROLL * AGENDA_STEP)
        else:
            s.n[N.roll_again] = 1
        return False
    for e in range(s.engines.shape[0]):
        take_weights(s, e)
    for e in range(s.engines.shape[0]):
        admit_wide(s, e)
        touch_wide(s, e)
    return False


@_called
def take_weights(s, e):
    """One engine stands still; without its KV every resident is prefilled again."""
    seconds = s.rates[P.sync_s]
    if not s.counts[C.keeps_kv]:
        seconds += s.clocks[e, F.context] * s.rates[P.prefill_s_per_token] * s.slowness[e]
        while s.clocks_wide[e, FW.cached] > 0.0:
            uncache(s, s.engines_wide[e, EW.cached_head])
    s.clocks[e, F.resume] += seconds


@_called
def roll(s):
    """The next engine of a rolling publication."""
    e = s.n[N.rolling_at]
    advance_wide(s, e, s.x[X.now])
    take_weights(s, e)
    touch_wide(s, e)
    s.n[N.rolling_at] = e + 1
    if e + 1 >= s.counts[C.engines]:
        s.n[N.rolling_at] = 0 if s.n[N.roll_again] else -1
        if not s.n[N.roll_again]:
            return
        s.n[N.roll_again] = 0
    plan(s, s.x[X.now] + s.rates[P.sync_s], ROLL * AGENDA_STEP)


@_called
def start_drain(s):
    """Nothing is admitted until the residents are done."""
    now = s.x[X.now]
    if s.counts[C.rolling]:
        s.n[N.version] += 1
    else:
        s.n[N.draining] = 1
    for e in range(s.engines.shape[0]):
        s.engines_wide[e, EW.draining] = 1
    waits = s.counts[C.trainer_waits] and not s.counts[C.rolling]
    if waits:
        s.n[N.phase] = DRAINING
    for e in range(s.engines.shape[0]):
        advance_wide(s, e, now)
        drained(s, e)
        admit_wide(s, e)
        touch_wide(s, e)
    return waits


@_called
def abort_residents(s, e):
    """Every resident stops: with partial rollout it goes on afterwards, else it starts anew under the new weights."""
    while s.engines[e, E.residents] > 0:
        last = s.engines[e, E.residents] - 1
        r = s.heap[e, 2 * last + 1]
        interrupt(s, e, r, mark_of(s.heap[e, 2 * last]))
        forget(s, r)
        if s.counts[C.partial]:
            release_box(s, r)
            s.rollouts_wide[r, RW.state] = PAUSED
            s.rollouts_wide[r, RW.flags] |= RESUMED
            append(s, N.again_head, r)
        else:
            s.n[N.aborted] += 1
            anew(s, r)


# ---- events ----


@_inlined
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


@_called
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
        start_verifying(s)
        finish_wide(s, e, r)
    else:
        s.engines_wide[e, EW.reserved] -= 1
        decode_prefilled(s, e, r)


@_inlined
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


@_called
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


@_inlined
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


@_inlined
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
        s = _state_at(addresses)
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
            settle(s, many_turns, wide)
        return GROW

    return run


def _cached(function: Compiled) -> Compiled:
    """Compiled, and kept on disk where there is a place for it; a read-only tree without HOME compiles every time."""
    try:
        return njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:
        return njit(**_OPTIONS)(function)


def _advance_all(addresses):
    s = _state_at(addresses)
    for e in range(s.engines.shape[0]):
        advance_wide(s, e, s.x[X.now])


def _touch_all(addresses):
    s = _state_at(addresses)
    for e in range(s.engines.shape[0]):
        admit_wide(s, e)
        touch_wide(s, e)
        replay(s.loads, e, s.engines[e, E.in_flight])


def _stamp() -> int:
    """Changes with the code that is compiled in from other files, which numba's own cache check does not see."""
    kept = (streams.normal_quantile.__code__, streams.normal_share.__code__)
    return crc32(repr([(code.co_code, code.co_consts) for code in kept]).encode())


def _multi_server(key, arrival_s, service_s, customers, busy, line):
    """An M/M/c queue on the engine's heap and random numbers, event by event: mean wait in line and mean number of
    customers there. `busy` is a heap for c servers, `line` a ring for those who wait."""
    servers = busy.shape[1] // 2 - 1
    now, in_service, head, waiting, waited, area = 0.0, 0, 0, 0, 0.0, 0.0
    arrived, served = 0, 0
    next_arrival = -arrival_s * log(uniform(key, ARRIVAL, 0, 0, 0))
    while served < customers:
        leaves = mark_of(busy[0, 0]) if in_service > 0 else inf
        last, now = now, min(next_arrival, leaves)
        area += waiting * (now - last)
        if next_arrival <= leaves:
            arrived += 1
            next_arrival = now - arrival_s * log(uniform(key, ARRIVAL, arrived, 0, 0))
            if in_service < servers:
                end = now - service_s * log(uniform(key, SERVICE, served, 0, 0))
                rise(busy, 0, in_service, bits_of(end), served)
                in_service += 1
                served += 1
                continue
            if waiting == line.shape[0]:
                return inf, inf
            line[(head + waiting) % line.shape[0]] = now
            waiting += 1
            continue
        if waiting == 0:
            in_service -= 1
            if in_service > 0:
                sift(busy, 0, in_service, busy[0, 2 * in_service], busy[0, 2 * in_service + 1])
            continue
        waited += now - line[head]
        head = (head + 1) % line.shape[0]
        waiting -= 1
        end = now - service_s * log(uniform(key, SERVICE, served, 0, 0))
        sift(busy, 0, in_service, bits_of(end), served)
        served += 1
    return waited / served, area / now


ONE_TURN = _cached(_build(False, None, _stamp()))
MANY_TURNS = _cached(_build(True, None, _stamp()))
WIDE = _cached(_build(True, 1, _stamp()))
ADVANCE_ALL = _cached(_advance_all)
TOUCH_ALL = _cached(_touch_all)
MULTI_SERVER = _cached(_multi_server)


def multi_server(servers: int, arrivals_per_s: float, service_s: float, customers: int, seed: int = 0) -> float:
    """Mean wait of an M/M/c queue in seconds, over so many customers (for checks, and for speed against others)."""
    busy, line = np.zeros((1, 2 * servers + 2), np.int64), np.zeros(1 << 20)
    key = np.uint64(streams.seed_key(seed)).astype(np.int64)
    return float(MULTI_SERVER(key, 1.0 / arrivals_per_s, service_s, customers, busy, line)[0])


# ---- arrays ----


def _tree(leaves: int, unused: int) -> Any:
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


def _parameter_arrays(made: Parameters) -> dict[str, Any]:
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
    state = _blank(made, seed, trace_rows, wide)
    state.n[N.wide] = int(wide)
    TOUCH_ALL(_handed(state))
    return state


def _blank(made: Parameters, seed: int, trace_rows: int = 0, wide: bool = False) -> State:
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
        **_parameter_arrays(made),
        n=n,
        x=x,
        **_idle_engines(engines),
        heap=_heaps(engines, slots + 1),
        outs=_heaps(engines, outs),
        tree=_tree(engines, INF_BITS),
        loads=_tree(engines, NEVER),
        **_two_views("rollouts", "times", _aligned(rollouts, LINE)),
        rollouts_wide=np.zeros((rollouts, len(RW)), np.int32),
        times_wide=np.zeros((rollouts, len(TW))),
        **_two_views("groups", "traits", _aligned(groups, LINE)),
        groups_wide=np.zeros((groups, len(GW)), np.int32),
        marks=np.zeros((groups, len(M))),
        versions=np.zeros((groups, counts.members_started), np.int32),
        free_rollouts=np.arange(rollouts - 1, -1, -1),
        free_groups=np.arange(groups - 1, -1, -1),
        ring=np.zeros(groups, np.int64),
        staleness=np.zeros(STALENESS_BINS, np.int64),
        latency=np.zeros(TIME_BINS, np.int64),
        trace=np.zeros((trace_rows, 5)),
        **_wide_arrays(made, groups if wide else 0),
    )


def _wide_arrays(made: Parameters, groups: int) -> dict[str, Any]:
    """What only the widest variant uses; of the least size for no groups."""
    counts = made.counts
    pool = _idle_pool(max(1, counts.prefill_engines))
    return {
        "members": np.full((max(1, groups), counts.members_started), -1, np.int32),
        "order": np.zeros(max(1, 2 * groups), np.int64),
        "rounds": np.zeros(ROUNDS if groups else 1, np.int64),
        "pool": pool,
        "pool_kv": np.zeros((len(pool), 2)),
        "agenda": np.zeros((1, _agenda_words(len(pool), counts.in_flight_limit, counts)), np.int64),
    }


def _idle_pool(engines: int) -> Any:
    pool = np.zeros((engines, LINE), np.int64)
    pool[:, Q.busy] = -1
    return pool


def _agenda_words(prefill_engines: int, rollouts: int, counts: Counts) -> int:
    """Room for what may be planned at once: a rollout's next event, an engine's, the end of a leaked sandbox."""
    leaks = counts.sandbox_limit if counts.sandbox_limit < NEVER else 0
    return 2 * (4 * prefill_engines + rollouts + leaks + 16)


def _addressed(**arrays: Any) -> State:
    state = State(**arrays)
    for i, array in enumerate(state):
        state.addresses[3 * i : 3 * i + 1 + array.ndim] = (array.ctypes.data, *array.shape)
    return state


def _replaced(state: State, **arrays: Any) -> State:
    """With other arrays in the place of some. Its table of addresses is its own."""
    return _addressed(**{**state._asdict(), **arrays, "addresses": np.zeros_like(state.addresses)})


def _aligned(rows: int, columns: int, before: int = 0) -> Any:
    """Rows of 8-byte words, so many words behind the start of a cache line; only its lines are shared, if any."""
    words = np.zeros(rows * columns + 2 * LINE, np.int64)
    first = -(words.ctypes.data // 8) % LINE + before
    return words[first : first + rows * columns].reshape(rows, columns)


def _heaps(rows: int, entries: int) -> Any:
    """Room for so many (mark, who) a row. The root lies alone in the second quarter of a cache line, so that the two
    children of every node are in one line."""
    return _aligned(rows, LINE * -(-entries // 4), before=2)


def _two_views(shorts: str, reals: str, lines: Any) -> dict[str, Any]:
    return {shorts: lines.view(np.int32), reals: lines.view(np.float64)}


def _idle_engines(engines: int) -> dict[str, Any]:
    made = _two_views("engines", "clocks", _aligned(engines, LINE))
    made["clocks"][:, F.departs] = made["clocks"][:, F.returns] = inf
    rest = {"engines_wide": np.zeros((engines, len(EW)), np.int32), "clocks_wide": np.zeros((engines, len(FW)))}
    return made | rest


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
    return _copied(_aligned(rows, LINE), lines.view(np.int64))


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
    return _replaced(
        s,
        **_two_views("groups", "traits", _longer(s.groups, new.groups)),
        groups_wide=_wider(s.groups_wide, (new.groups, len(GW))),
        marks=_wider(s.marks, (new.groups, len(M))),
        versions=_wider(s.versions, (new.groups, new.members)),
        members=_wider(s.members, (new.groups if s.n[N.wide] else 1, new.members), -1),
        order=_unrolled(s, new.order),
        **_two_views("rollouts", "times", _longer(s.rollouts, new.rollouts)),
        rollouts_wide=_wider(s.rollouts_wide, (new.rollouts, len(RW))),
        times_wide=_wider(s.times_wide, (new.rollouts, len(TW))),
        outs=_copied(_heaps(len(s.outs), new.outs), s.outs),
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
    while run(_handed(s), until_s, until_step) == GROW:
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
    ADVANCE_ALL(_handed(s))
    if not made.plain and not s.n[N.wide]:
        s = _widened(s, made)
    counts, room = made.counts, room_of(s)
    rollouts = max(counts.in_flight_limit, room.rollouts)
    outs = rollouts // counts.engines + 2
    s = with_room(s, room._replace(rollouts=rollouts, members=counts.members_started, outs=outs))
    s = _with_engines(s, max(counts.engines, len(s.engines)), counts.slots + 1)
    s = _with_pool(s, counts)
    s = _replaced(s, **_parameter_arrays(made))
    most = max(counts.slots, int(s.engines[:, E.residents].max()))
    slope = s.step_s[-1] - s.step_s[-2]
    extra = s.step_s[-1] + max(0.0, slope) * np.arange(1, most + 1 - counts.slots)
    slowness = np.resize(s.slowness, len(s.engines))
    s = _replaced(s, step_s=np.concatenate([s.step_s, extra]), slowness=slowness)
    s.engines[:, E.in_flight] %= REMOVED
    s.engines[counts.engines :, E.in_flight] += REMOVED
    TOUCH_ALL(_handed(s))
    return s


def _with_engines(s: State, engines: int, slots: int) -> State:
    new = _idle_engines(engines)
    for name, array in new.items():
        _copied(array, getattr(s, name))
    new["clocks"][len(s.clocks) :, F.resume] = s.x[X.now]
    return _replaced(
        s,
        **new,
        heap=_copied(_heaps(engines, max(slots, s.heap.shape[1] // 2)), s.heap),
        outs=_copied(_heaps(engines, s.outs.shape[1] // 2), s.outs),
        tree=_tree(engines, INF_BITS),
        loads=_tree(engines, NEVER),
    )


def _with_pool(s: State, counts: Counts) -> State:
    """More prefill engines come at once; of fewer, the last ones finish what they have. And room on the agenda for
    every sandbox that may leak under a larger quota."""
    if not s.n[N.wide]:
        return s
    engines = max(counts.prefill_engines, len(s.pool))
    pool = _idle_pool(engines)
    return _replaced(
        s,
        pool=_copied(pool, s.pool),
        pool_kv=_wider(s.pool_kv, (engines, 2)),
        agenda=_wider(s.agenda, (1, max(s.agenda.shape[1], _agenda_words(engines, len(s.rollouts), counts)))),
    )


def _widened(s: State, made: Parameters) -> State:
    """A plain job's state as the widest variant keeps it."""
    s.n[N.wide] = 1
    s = _replaced(s, **_wide_arrays(made, len(s.groups)))
    s = _replaced(s, members=_wider(s.members, (len(s.groups), max(s.versions.shape[1], s.members.shape[1])), -1))
    live, resident, outside, queued = _places(s)
    for where, state in ((resident, RESIDENT), (outside, TOOL), (queued, QUEUED)):
        s.rollouts_wide[where, RW.state] = state
    s.rollouts_wide[:, RW.flags] = s.rollouts_wide[:, RW.cached] = 0
    s.times_wide[:, TW.began] = s.times[:, T.dispatched]
    for r in live:
        s.members[s.rollouts[r, R.group], s.rollouts[r, R.member]] = r
    s.groups_wide[:, GW.state] = OPEN
    s.groups_wide[s.free_groups[: s.n[N.free_groups]], GW.state] = NO_GROUP
    s.groups_wide[_buffered(s), GW.state] = READY
    s.groups_wide[:, GW.resumed] = s.groups_wide[:, GW.round] = s.groups_wide[:, GW.spent] = 0
    s.n[N.opened_since_sync] = s.n[N.wip]
    return s


def _members_of(heaps: Any, sizes: Any) -> Any:
    inside = np.arange(heaps.shape[1] // 2)[None, :] < sizes[:, None]
    return heaps[:, 1 : 2 * inside.shape[1] : 2][inside]


def _places(s: State) -> tuple[Any, Any, Any, Any]:
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


def _buffered(s: State) -> Any:
    """Slots of finished groups that wait for the trainer."""
    if s.counts[C.in_order]:
        return np.flatnonzero(s.groups_wide[:, GW.state] == READY)
    return s.ring[(s.n[N.ring_head] + np.arange(s.n[N.ring_count])) % len(s.ring)]


def gauges(s: State) -> dict[str, Any]:
    """What is where, and since when (for Little's law as an identity of the path)."""
    now = float(s.x[X.now])
    live, resident, outside, queued = _places(s)
    ring, paused = _buffered(s), _paused(s)
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


def _smallest() -> State:
    """The state of a job that does next to nothing."""
    workload = Workload(Lengths(1.0), Lengths(1.0))
    stations = Stations(Engine(affine(1.0, 0.0), 1), Trainer(1.0, 0.0))
    knobs = Setpoints(gpus_trainer=1, engines=1, batch_rollouts=1)
    return _blank(parameters(Job(Topology(), stations, workload, knobs)), 0, 0, True)


def _entries(state: State) -> dict[Any, tuple[Any, ...]]:
    """The compiled functions with arguments for them; they are only good as long as the state lives."""
    handed = _handed(state)
    job = (handed, inf, 0)
    return {ADVANCE_ALL: (handed,), TOUCH_ALL: (handed,), ONE_TURN: job, MANY_TURNS: job, WIDE: job}


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
