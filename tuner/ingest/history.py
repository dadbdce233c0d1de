"""A run's rows in bounded memory: whole for short runs, neighbours merged for long ones, exact at the end if asked."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from simulators.signals import Fold

ROWS_MAX = 2048
"""Rows kept before neighbours are merged: a picture's width, and a few megabytes."""


@dataclass(frozen=True, slots=True)
class RawRow:
    """The values of one step (or of `weight` neighbouring ones) under the writer's own keys."""

    values: dict[str, float]
    step: int | None
    time_s: float | None
    last_step: int | None
    weight: int = 1
    origin: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


class History:
    """Appends rows; when full, merges neighbouring pairs, so that any run fits and its shape stays."""

    def __init__(self, fold_of: Callable[[str], Fold], last: int | None = None, rows_max: int = ROWS_MAX) -> None:
        self._fold_of = fold_of
        self._rows_max = rows_max
        self._merged = 1
        self._rows: deque[RawRow] = deque(maxlen=last)

    def append(self, row: RawRow) -> None:
        rows = self._rows
        if rows and rows[-1].weight < self._merged:
            rows[-1] = merge(rows[-1], row, self._fold_of)
            return
        rows.append(row)
        if len(rows) > self._rows_max and rows.maxlen is None:
            self._halve()

    def _halve(self) -> None:
        old = list(self._rows)
        pairs = zip(old[::2], old[1::2], strict=False)
        halved = [merge(a, b, self._fold_of) for a, b in pairs]
        self._rows = deque(halved if len(old) % 2 == 0 else [*halved, old[-1]])
        self._merged *= 2

    @property
    def rows(self) -> list[RawRow]:
        return list(self._rows)


def merge(a: RawRow, b: RawRow, fold_of: Callable[[str], Fold]) -> RawRow:
    """Two neighbours as one row. A key that only one of them has keeps its value; SUM marks rare events, which
    count as 0 where they are absent, so that a merged row holds their seconds per step."""
    values: dict[str, float] = {}
    for key in a.values.keys() | b.values.keys():
        how = fold_of(key)
        absent = 0.0 if how is Fold.SUM else None
        left, right = a.values.get(key, absent), b.values.get(key, absent)
        if left is None or right is None:
            values[key] = a.values[key] if right is None else b.values[key]
        else:
            values[key] = _fold(how, left, right, a.weight, b.weight)
    return replace(
        a,
        values=values,
        time_s=b.time_s if b.time_s is not None else a.time_s,
        last_step=b.last_step if b.last_step is not None else a.last_step,
        weight=a.weight + b.weight,
    )


def _fold(how: Fold, a: float, b: float, weight_a: int, weight_b: int) -> float:
    match how:
        case Fold.MAX:
            return max(a, b)
        case Fold.MIN:
            return min(a, b)
        case Fold.LAST:
            return b
        case _:
            return (a * weight_a + b * weight_b) / (weight_a + weight_b)


def is_same(a: Mapping[str, float], b: Mapping[str, float], tolerance: float = 0.01) -> bool:
    """True when all keys that two records share agree: one log line in two files, rounded differently."""
    return all(_close(a[key], b[key], tolerance) for key in a.keys() & b.keys())


def _close(a: float, b: float, tolerance: float) -> bool:
    return a == b or a != a or b != b or abs(a - b) <= tolerance * max(abs(a), abs(b)) + 1e-3
