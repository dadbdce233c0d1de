"""A run's rows inside one JSON answer, as trackers' APIs pack them: lists, JSON in JSON, key and value, columns."""

import json
from collections.abc import Iterator, Mapping

from tuner.sources.flatten import DEPTH_MAX, STEP_KEYS, number_of

COLUMNS_MIN = 2
ROWS_MAX = 1_000_000

Row = Mapping[str, object]


def rows_in(answer: Row) -> Iterator[Row]:
    """Every element of a list that states a step, and what is told as measurements or columns, as rows by step.

    Nothing for an object that states its step itself: it is a row, and lists in it are samples or histograms.
    """
    if not _is_row(answer):
        yield from _below(answer, 0)


def _below(value: object, depth: int) -> Iterator[Row]:
    if depth > DEPTH_MAX:
        return
    if isinstance(value, str):
        value = _decoded(value)
    if isinstance(value, Mapping):
        yield from _columns(value)
        for inner in value.values():
            yield from _below(inner, depth + 1)
    elif isinstance(value, list):
        yield from _measurements(value)
        for element in value:
            row = _decoded(element) if isinstance(element, str) else element
            if isinstance(row, Mapping) and _is_row(row):
                yield row
            else:
                yield from _below(row, depth + 1)


def _decoded(text: str) -> object:
    """JSON that was put into a text; None for other text."""
    if not text.startswith(("{", "[{")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _is_row(value: Row) -> bool:
    return any(isinstance(value.get(key), (int, float)) for key in STEP_KEYS) and "value" not in value


def _measurements(values: list[object]) -> list[Row]:
    """`[{"key": "loss", "value": 0.5, "step": 3}, ...]` as one row a step."""
    rows: dict[int, dict[str, object]] = {}
    for item in values:
        if not isinstance(item, Mapping):
            return []
        key, value, step = item.get("key", item.get("name")), item.get("value"), item.get("step")
        if not isinstance(key, str) or number_of(value) is None or not isinstance(step, int):
            return []
        row = rows.setdefault(step, {"step": step})
        row[key] = value
        if "timestamp" in item:
            row.setdefault("timestamp", item["timestamp"])
    return [rows[step] for step in sorted(rows)]


def _columns(value: Row) -> list[Row]:
    """`{"step": [1, 2], "loss": [0.5, 0.4], ...}` as rows; empty unless a step column and others are as long."""
    step = next((key for key in STEP_KEYS if isinstance(value.get(key), list)), None)
    if step is None:
        return []
    steps = value[step]
    length = len(steps) if isinstance(steps, list) else 0
    columns = {key: c for key, c in value.items() if isinstance(c, list) and len(c) == length}
    if len(columns) < COLUMNS_MIN or not 0 < length <= ROWS_MAX:
        return []
    return [{key: column[i] for key, column in columns.items()} for i in range(length)]
