"""A JSON-like object -> flat numbers and its step, time and labels, as any writer may name them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import inf, isfinite

STEP_KEYS = ("step", "global_step", "_step", "training/global_step")
TIME_KEYS = ("timestamp", "_timestamp", "time", "ts", "@timestamp", "created_at")
LABEL_KEYS = ("run", "run_id", "run_name", "experiment", "writer")
"""Text under these keys tells writers apart; other text is no measurement and is skipped."""

KEYS_MAX = 5_000
"""Numbers taken from one row; more is a tensor that somebody logged."""

DEPTH_MAX = 12

NUMBER = re.compile(r"\s*[-+]?(?:\d{1,400}(?:\.\d{0,400})?|\.\d{1,400})(?:[eE][-+]?\d{1,4})?\s*")
_WORDS = {"nan": float("nan"), "inf": inf, "infinity": inf, "-inf": -inf, "-infinity": -inf}
_WRAPPED = ("data", "metrics")
"""Some loggers wrap the row: `{"step": 3, "data": {...}}`."""

EARLIEST_S = 1e8
"""A smaller `time` is a duration or a counter, not unix seconds (this is 1973)."""


@dataclass(slots=True)
class Flat:
    """One row taken apart."""

    values: dict[str, float] = field(default_factory=dict)
    step: int | None = None
    time_s: float | None = None
    labels: dict[str, str] = field(default_factory=dict)


def flatten(row: Mapping[str, object]) -> Flat:
    """Nested objects joined with `/`; bool as 0 or 1; numeric text as its number; lists and other text skipped."""
    flat = Flat()
    _walk(_unwrapped(row), "", flat, 0)
    flat.step = step_of(row, flat.values)
    flat.time_s = next((time_s for key in TIME_KEYS if key in row and (time_s := time_of(row[key])) is not None), None)
    for key in LABEL_KEYS:
        value = row.get(key)
        if isinstance(value, str) and value:
            flat.labels[key] = printable(value[:200])
    return flat


def step_of(row: Mapping[str, object], values: Mapping[str, float]) -> int | None:
    """The step number under one of its usual names; None when absent or no whole number."""
    for key in STEP_KEYS:
        value = values.get(key, row.get(key))
        if isinstance(value, (int, float)) and abs(value) < 2**53 and value == int(value):
            return int(value)
    return None


def time_of(value: object) -> float | None:
    """Unix seconds from seconds, milli-, micro- or nanoseconds, or an ISO text; None for anything else."""
    if isinstance(value, str):
        return _iso_s(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    number = number_of(value)
    if number is None or not isfinite(number) or number < EARLIEST_S:
        return None
    for unit in (1.0, 1e3, 1e6, 1e9):
        if number / unit < 1e11:
            return number / unit
    return None


def number_of(value: object) -> float | None:
    """A float from a number, a bool or numeric text; None otherwise. NaN and infinities pass."""
    if isinstance(value, str):
        if NUMBER.fullmatch(value):
            return float(value)
        return _WORDS.get(value.strip().lower()) if len(value) < 12 else None
    if isinstance(value, (bool, int, float)):
        try:
            return float(value)
        except OverflowError:
            return inf if value > 0 else -inf
    return None


def printable(text: str) -> str:
    """Without the half characters that JSON's escapes can make and no output can carry."""
    return text if text.isascii() else text.encode("utf-8", errors="replace").decode("utf-8")


def _unwrapped(row: Mapping[str, object]) -> Mapping[str, object]:
    for name in _WRAPPED:
        inner = row.get(name)
        if isinstance(inner, Mapping) and not any(isinstance(v, (Mapping, list)) for k, v in row.items() if k != name):
            return {**{k: v for k, v in row.items() if k != name}, **inner}
    return row


def _walk(row: Mapping[str, object], front: str, flat: Flat, depth: int) -> None:
    for key, value in row.items():
        if len(flat.values) >= KEYS_MAX:
            return
        name = front + printable(str(key)[:300])
        number = value if type(value) is float else number_of(value)
        if number is not None:
            flat.values[name] = number
        elif isinstance(value, Mapping) and depth < DEPTH_MAX:
            _walk(value, f"{name}/", flat, depth + 1)


def _iso_s(text: str) -> float | None:
    if not 10 <= len(text) <= 40 or not text[:4].isdigit():
        return None
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        return moment.timestamp()
    except (OverflowError, OSError, ValueError):
        return None
