"""A run's rows in bounded memory: whole for short runs, neighbours merged for long ones, exact at the end if asked."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from simulators.signals import Fold
from simulators.snapshot import fold_values

EXTREMES = frozenset({Fold.MAX, Fold.MIN, Fold.LAST})
"""Folds that pick one of the values; all others average."""
ROWS_MAX = 2048
"""Rows kept before neighbours are merged: a picture's width, and a few megabytes."""


@dataclass(slots=True)
class RawRow:
    """The values of one step (or of `weight` neighbouring ones) under the writer's keys. Not frozen, as a Record."""

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

    def with_more(self, rows: Iterable[RawRow]) -> list[RawRow]:
        """The rows as they were if these were appended; nothing changes."""
        beyond = History(self._fold_of, self._rows.maxlen, self._rows_max)
        beyond._rows, beyond._merged = self._rows.copy(), self._merged
        for row in rows:
            beyond.append(row)
        return beyond.rows


def merge(a: RawRow, b: RawRow, fold_of: Callable[[str], Fold]) -> RawRow:
    """Two neighbours as one row. A key that only one of them has keeps its value; SUM marks rare events, which
    count as 0 where they are absent, so that a merged row holds their seconds per step."""
    total = a.weight + b.weight
    left, right = a.weight / total, b.weight / total
    others = b.values
    values: dict[str, float] = {}
    for key, x in a.values.items():
        how = fold_of(key)
        if key not in others:
            values[key] = x * left if how is Fold.SUM else x
        elif how in EXTREMES:
            values[key] = fold_values(how, (x, others[key]))
        else:
            values[key] = x * left + others[key] * right
    for key in others.keys() - a.values.keys():
        values[key] = others[key] * right if fold_of(key) is Fold.SUM else others[key]
    return RawRow(
        values,
        a.step,
        b.time_s if b.time_s is not None else a.time_s,
        b.last_step if b.last_step is not None else a.last_step,
        total,
        a.origin,
        a.labels,
    )


def is_same(a: Mapping[str, float], b: Mapping[str, float], tolerance: float = 0.01) -> bool:
    """True when all keys that two records share agree: one log line in two files, rounded differently."""
    return all(_close(a[key], b[key], tolerance) for key in a.keys() & b.keys())


def _close(a: float, b: float, tolerance: float) -> bool:
    return a == b or a != a or b != b or abs(a - b) <= tolerance * max(abs(a), abs(b)) + 1e-3
