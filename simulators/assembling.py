"""Frozen dataclasses from nested tables, field by field: what a case file states becomes a Topology, a Workload...

Unknown keys and values of the wrong kind are refused by their dotted path; ranges are the models' own business.
"""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from difflib import get_close_matches
from enum import StrEnum
from types import NoneType, UnionType
from typing import TypeVar, Union, cast, get_args, get_origin, get_type_hints

Value = bool | int | float | str | Sequence["Value"] | Mapping[str, "Value"]
"""What TOML can hold, dates left out."""

Tables = Mapping[str, Value]

T = TypeVar("T")


def assemble(made: type[T], tables: Tables, path: str) -> T:
    """The dataclass `made` from the tables found at `path`; ValueError names the path of what does not fit."""
    known = {f.name: f for f in fields(made)}  # type: ignore[arg-type]
    for key in tables:
        if key not in known:
            raise ValueError(f"{path}.{key}: unknown key; {meant(key, known)}")
    hints = get_type_hints(made)
    for name, field in known.items():
        if name not in tables and field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"{path}.{name}: is missing; it has no default")
    return made(**{key: _converted(hints[key], value, f"{path}.{key}") for key, value in tables.items()})


def merged(base: Tables, over: Tables) -> Tables:
    """`base` with the entries of `over` in their places; tables are merged, anything else is replaced.

    >>> merged({"a": {"x": 1, "y": 2}}, {"a": {"y": 3}})
    {'a': {'x': 1, 'y': 3}}
    """
    result: dict[str, Value] = dict(base)
    for key, value in over.items():
        below = result.get(key)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        result[key] = merged(cast(Tables, below), cast(Tables, value)) if both else value
    return result


def at(tables: Tables, path: str) -> Value | None:
    """The value at a dotted path, or None.

    >>> at({"setpoints": {"gpus_trainer": 64}}, "setpoints.gpus_trainer")
    64
    """
    here: Value | None = tables
    for part in path.split("."):
        here = here.get(part) if isinstance(here, Mapping) else None
    return here


def meant(word: str, known: Mapping[str, object] | Sequence[str]) -> str:
    """`did you mean ...?`, or all there are."""
    names = sorted(known)
    near = get_close_matches(word, names, n=1, cutoff=0.6)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"


def _converted(hint: object, value: Value, path: str) -> object:
    """`value` as the annotated type; whole floats become integers where a count is wanted."""
    if get_origin(hint) in (Union, UnionType):
        (inner,) = (part for part in get_args(hint) if part is not NoneType)
        return _converted(inner, value, path)
    if get_origin(hint) is tuple:
        return _items(get_args(hint), value, path)
    if not isinstance(hint, type):
        raise ValueError(f"{path}: cannot be stated in a case file")
    if is_dataclass(hint):
        if not isinstance(value, Mapping):
            raise ValueError(f"{path}={value!r} must be a table of {', '.join(f.name for f in fields(hint))}")
        return assemble(hint, value, path)
    return _scalar(hint, value, path)


def _items(hints: tuple[object, ...], value: Value, path: str) -> tuple[object, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ValueError(f"{path}={value!r} must be a list")
    each = [hints[0]] * len(value) if len(hints) == 2 and hints[1] is Ellipsis else list(hints)
    if len(each) != len(value):
        raise ValueError(f"{path}={value!r} must hold {len(each)} values")
    return tuple(_converted(hint, item, f"{path}.{i}") for i, (hint, item) in enumerate(zip(each, value, strict=True)))


def _scalar(hint: type, value: Value, path: str) -> object:
    if issubclass(hint, StrEnum):
        names = [str(member) for member in hint]
        if value not in names:
            raise ValueError(f"{path}={value!r} must be one of {', '.join(names)}")
        return hint(value)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if hint is float and number:
        return float(cast(float, value))
    if hint is int and number and value == int(cast(float, value)):
        return int(cast(float, value))
    if hint in (bool, str) and isinstance(value, hint):
        return value
    wanted = {float: "a number", int: "a whole number", bool: "true or false", str: "a text in quotes"}
    raise ValueError(f"{path}={value!r} must be {wanted.get(hint, hint.__name__)}")
