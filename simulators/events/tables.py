"""The state inside compiled code: tables that are pointers, and how functions are compiled that take them."""

import operator
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba import config, njit, types
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

from simulators.distributions import CELLS
from simulators.events.layout import EW, FW, GW, LINE, RW, SHORT_LINE, TW, Compiled, K, L, M, State

OPTIONS: dict[str, Any] = {"_nrt": False, "error_model": "numpy"}
"""No reference counts (the engine allocates nothing) and no checks of divisors (parameters are checked before)."""
_INNER: dict[str, Any] = {**OPTIONS, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Nobody calls these functions from Python: without the wrappers they compile much faster."""


def inlined(function: Compiled) -> Compiled:
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
def state_at(typing: Any, addresses: Any) -> Any:
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


def called(function: Compiled) -> Compiled:
    """Compiled once, and called where LLVM does not think it better to copy it. (Were the option left out, numba would
    take it from the function that it compiles just then, and make one of 400 kB of the whole widest variant.)"""
    return njit(forceinline=False, **_INNER)(function)


def handed(state: Any) -> Any:
    """What a compiled entry is called with (uncompiled, with NUMBA_DISABLE_JIT, the state itself)."""
    return state if config.DISABLE_JIT else state.addresses


if config.DISABLE_JIT:

    def state_at(state: Any) -> Any:
        return state

    def sooner(bits: int, who: int, other_bits: int, other: int) -> bool:
        return (bits, who) < (other_bits, other)

    def prefetch(table: Any, row: int, column: int) -> None:
        return None
