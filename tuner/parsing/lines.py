"""Small total parsers for what frameworks print: numbers, durations, `key:value` lists, Python dicts with numpy calls.

None of them raises on any text: what is not there is `None` or an empty dict. NaN and infinities pass through as
written (the caller decides), percent signs become fractions, durations become seconds.
"""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass

NUMBER = r"[-+]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|(?:nan|NaN|[Ii]nf(?:inity)?)(?![A-Za-z]))"
"""One number as Python, numpy, C++ or a rich table prints it; to be used inside larger patterns."""

MAX_LITERAL_CHARS = 200_000
"""A printed dict longer than this is scanned for its pairs instead of parsed: no metrics line is that long."""

DURATION_CHARS_MAX = 200
"""No duration is written longer; a search through megabytes of digits for one would take for ever."""

_NUMBER = re.compile(NUMBER)
_FREE_NUMBER = re.compile(rf"(?<![\w.]){NUMBER}")
_CLOCK = re.compile(r"(?:(\d+):)?(\d{1,2}):(\d{2}(?:\.\d+)?)")
_UNITS = "ms|us|µs|ns|d|h|m|s|days?|hours?|hrs?|min(?:ute)?s?|sec(?:ond)?s?"
_DURATION_PART = re.compile(rf"(?<![\d.])({NUMBER})\s*({_UNITS})\b")
_PERCENT = re.compile(rf"(?<![\d.])({NUMBER})\s*%")
_UNIT_S = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_NUMPY_CALL = re.compile(rf"(?:[A-Za-z_][\w.]*)\(\s*({NUMBER})\s*(?:,[^()]*)?\)")
_DICT_PAIR = re.compile(
    rf"(['\"])(?P<key>[^'\"\n]+)\1\s*:\s*(?:[A-Za-z_][\w.]*\(\s*)?(?P<number>{NUMBER})(?P<end>\s*(?:,[^(){{}}'\"]*\))?[),}}\]]?)"
)
_WRAPPERS = frozenset(
    {"float16", "float32", "float64", "bfloat16", "float", "float_", "bool_", "tensor", "array", "Decimal"}
    | {"int8", "int16", "int32", "int64", "uint8", "longlong", "int"}
)
"""Calls that only wrap the number (or list) they are given."""

_CONSTANTS = {"nan": float("nan"), "NaN": float("nan"), "inf": float("inf"), "Infinity": float("inf"), "null": None}


@dataclass(frozen=True, slots=True)
class Pairs:
    """The numbers of one printed record, and whether its text stopped in the middle."""

    values: Mapping[str, float]
    cut: bool = False


def number_in(text: str) -> float | None:
    """The number that the whole text is (`np.float64(0.3)`, `-1`, `nan`, `1e-06`), else None."""
    try:
        if "_" not in text:
            return float(text)
    except ValueError:
        pass
    text = text.strip()
    if (call := _NUMPY_CALL.fullmatch(text)) is not None:
        text = call.group(1)
    return float(text) if _NUMBER.fullmatch(text) else None


def numbers_in(text: str) -> list[float]:
    """Every number in the text, in order, units cut off (`7.44it/s`); digits inside words (`v1`) are not numbers."""
    return [float(number) for number in _FREE_NUMBER.findall(text)]


def fraction_in(text: str) -> float | None:
    """`41.2%` is 0.412. Without the percent sign the text is no share: None."""
    match = _PERCENT.search(text)
    return float(match.group(1)) / 100.0 if match else None


def seconds_in(text: str) -> float | None:
    """Seconds of a duration that the whole text is: `5m 12s`, `1h 02m`, `72.00s`, `350ms`, `01:08`, `1:02:03`."""
    text = text.strip()
    if len(text) > DURATION_CHARS_MAX:
        return None
    if (clock := _CLOCK.fullmatch(text)) is not None:
        hours, minutes, seconds = clock.groups()
        return int(hours or 0) * 3_600.0 + int(minutes) * 60.0 + float(seconds)
    if not text or _DURATION_PART.sub("", text).strip(" ,:and"):
        return None
    return sum(float(amount) * _unit_s(unit) for amount, unit in _DURATION_PART.findall(text))


def _unit_s(word: str) -> float:
    return _UNIT_S.get(word) or _UNIT_S[word[0]]


def literal_in(text: str) -> object | None:
    """The Python value that the text writes, numpy and torch calls unwrapped, nan and inf known. None: no such value.

    Nothing is evaluated: only literals, containers, signs and a fixed set of wrapper names are understood.
    """
    if len(text) > MAX_LITERAL_CHARS:
        return None
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError, OverflowError):
        return None


def _value(node: ast.expr) -> object:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_number(_value(operand))
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _number(_value(operand))
        case ast.Dict(keys=keys, values=values):
            return {_hashable(_value(k)): _value(v) for k, v in zip(keys, values, strict=True) if k is not None}
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            return [_value(item) for item in items]
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[first, *_]) if name in _WRAPPERS:
            return _value(first)
    raise ValueError(f"{type(node).__name__} is not a literal")


def _number(value: object) -> float | int:
    if isinstance(value, int | float):
        return value
    raise ValueError(f"a sign before {value!r}")


def _hashable(key: object) -> str | int | float | bool | bytes | None:
    if key is None or isinstance(key, str | int | float | bool | bytes):
        return key
    raise ValueError(f"{type(key).__name__} as a key")


def flat_numbers(value: object, separator: str = "/", prefix: str = "") -> dict[str, float]:
    """The numbers in nested dicts under joined keys; truth values, lists and texts are left out."""
    if not isinstance(value, Mapping):
        return {}
    flat: dict[str, float] = {}
    todo: list[tuple[str, Mapping[object, object]]] = [(prefix, value)]
    while todo:
        start, mapping = todo.pop()
        for key, item in mapping.items():
            name = f"{start}{separator}{key}" if start else str(key)
            if isinstance(item, Mapping):
                todo.append((name, item))
            elif isinstance(item, int | float) and not isinstance(item, bool):
                flat[name] = _as_float(item)
    return flat


def _as_float(value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def dict_numbers(text: str, separator: str = "/") -> Pairs:
    """The numbers of the first `{...}` in the text. A dict that breaks off gives the pairs before the break, `cut` set.

    In a broken dict the last number is trusted only where a comma or bracket follows it: digits may be missing.
    """
    start = text.find("{")
    if start < 0:
        return Pairs({}, cut=False)
    end = text.rfind("}")
    whole = literal_in(text[start : end + 1]) if end > start else None
    if isinstance(whole, dict):
        return Pairs(flat_numbers(whole, separator))
    found = (m for m in _DICT_PAIR.finditer(text, start) if m.group("end").strip())
    return Pairs({m.group("key"): float(m.group("number")) for m in found}, cut=True)
