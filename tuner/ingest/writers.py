"""Sorts the records of one source into runs: steps joined, restarts continued, interleaved writers told apart."""

from collections.abc import Callable
from dataclasses import replace

from simulators.signals import Fold
from simulators.snapshot import Note
from tuner.ingest.history import ROWS_MAX, History, RawRow, is_same
from tuner.records import Record

WRITERS_MAX = 64
"""More than this many step counters in one file is no run any more."""
OPEN_STEPS = 8
"""Steps that may still be added to: two processes report one step at different times (generator ahead of trainer)."""
BUFFERED_STEPS = 32
"""Steps that one of two writers may hold back before its buffer is written; longer silence is an end."""
SMALL_ROWS = 256
"""Rows kept of the fifth writer and later ones, so that many writers do not cost many memories."""


class Writer:
    """One counter that goes up: its closed rows, and the last few steps, which may still be added to."""

    def __init__(self, history: History, index: int) -> None:
        self._history = history
        self._open: dict[int | None, RawRow] = {}
        self._coming: dict[str, float] = {}
        """What a record without a step said that the newest step contradicts: it announced the next one."""
        self.newest: int | None = None
        self.first_index = self.last_index = index
        self.first_step: int | None = None
        self.rows_seen = 0

    def takes(self, record: Record, step: int) -> bool:
        """True when the record is another part of a step that is still open."""
        row = self._open.get(step)
        return row is not None and is_same(row.values, record.values)

    def add(self, record: Record, step: int | None, index: int) -> None:
        self.last_index = index
        row = self._open.get(step) or self._announced(record, step)
        if row is not None and (step is not None or not (row.values.keys() & record.values.keys())):
            row.values.update(record.values)
            stamp = record.time_s if record.time_s is not None else row.time_s
            self._open[step] = replace(row, time_s=stamp, labels={**row.labels, **record.labels})
            return
        if row is not None or len(self._open) >= OPEN_STEPS:
            self._close_oldest()
        self.rows_seen += 1
        if self.first_step is None:
            self.first_step = step
        self.newest = step if step is not None else self.newest
        values = {**self._coming, **record.values}
        self._coming = {}
        self._open[step] = RawRow(values, step, record.time_s, step, 1, record.origin, dict(record.labels))

    def _announced(self, record: Record, step: int | None) -> RawRow | None:
        """The row of what was said before the first step, where the first step says the same again."""
        row = self._open.get(None) if step is not None and self.newest is None else None
        if row is None or not row.values.keys() & record.values.keys() or not is_same(row.values, record.values):
            return None
        self.newest = self.first_step = step
        return replace(self._open.pop(None), step=step, last_step=step)

    def add_to_newest(self, record: Record, index: int) -> None:
        """A record without a step belongs to what is being written now, or if of no known format, to what comes."""
        newest = self._open.get(self.newest)
        if self.newest is None or newest is None:
            self.add(record, None, index)
        elif record.framework is None and not is_same(newest.values, record.values):
            self.last_index = index
            self._coming |= record.values
        else:
            self.add(record, self.newest, index)

    def _close_oldest(self) -> None:
        self._history.append(self._open.pop(next(iter(self._open))))

    @property
    def rows(self) -> list[RawRow]:
        """Closed rows and open ones; what is open stays so."""
        return self._history.with_more(self._open.values())


class Writers:
    """All writers of one source and framework."""

    def __init__(self, fold_of: Callable[[str], Fold], last: int | None) -> None:
        self._fold_of = fold_of
        self._last = last
        self._writers: list[Writer] = []
        self._index = 0
        self.crowded = 0
        """Records that no writer could take because there are too many."""

    def add(self, record: Record) -> None:
        """Gives the record to the writer whose counter it continues: the same step, else the nearest one below."""
        self._index += 1
        writer = self._writer_of(record) or self._new()
        if writer is None:
            self.crowded += 1
        elif record.step is None and not record.cut:
            writer.add_to_newest(record, self._index)
        else:
            writer.add(record, record.step, self._index)

    def _writer_of(self, record: Record) -> Writer | None:
        step = record.step
        if step is None:
            return max(self._writers, key=lambda w: w.last_index, default=None)
        joining = next((w for w in self._writers if w.takes(record, step)), None)
        if joining is not None:
            return joining
        below = [w for w in self._writers if w.newest is None or w.newest < step]
        if len(below) > 1:
            below = [w for w in below if not self._is_over(w)] or below
        return max(below, key=lambda w: (_newest(w), -w.last_index), default=None)

    def _is_over(self, writer: Writer) -> bool:
        """True when a restarted run took its place: it passes the step where the writer stopped without joining it.

        It must have come near that step: lines of further runs, not told apart yet, are far from it. A second
        live writer starts where the first did, and is silent for no longer than a buffer fills.
        """
        started = writer.first_step if writer.first_step is not None else -1
        since = [w for w in self._writers if w.first_index > writer.last_index and w.rows_seen > 1]
        redone = [w for w in since if (w.first_step or 0) > started and _newest(writer) - _newest(w) <= w.rows_seen]
        return bool(redone) or any(w.rows_seen > BUFFERED_STEPS for w in since)

    def _new(self) -> Writer | None:
        if len(self._writers) >= WRITERS_MAX and self._last is not None:
            self._writers.remove(min(self._writers, key=lambda w: w.last_index))
        if len(self._writers) >= WRITERS_MAX:
            return None
        rows_max = ROWS_MAX if len(self._writers) < 4 else SMALL_ROWS
        self._writers.append(Writer(History(self._fold_of, self._last, rows_max), self._index))
        return self._writers[-1]

    def finish(self) -> tuple[list[RawRow], list[Note]]:
        """The rows of the longest run, restarts continued, and what was noticed about the other writers.

        It may be asked at any time, and be given more afterwards.
        """
        if not self._writers:
            return [], []
        runs = self._runs()
        longest = max(runs, key=lambda run: sum(w.rows_seen for w in run))
        notes = [*_interleaved(runs), *_restarted(longest)]
        if self.crowded:
            detail = f"More than {WRITERS_MAX} step counters in one source; {self.crowded} records were left out."
            notes.append(Note("interleaved-writers", detail, {"left_out": self.crowded}))
        rows = _continued(longest)
        rows = _without_strays(rows, len(runs)) if len(runs) > 1 else rows
        return (rows[-self._last :] if self._last else rows), notes

    def _runs(self) -> list[list[Writer]]:
        """Writers in order, grouped: one that starts after another has ended continues that run after a restart."""
        runs: list[list[Writer]] = []
        for writer in self._writers:
            before = next((run for run in runs if run[-1].last_index < writer.first_index), None)
            if before is None:
                runs.append([writer])
            else:
                before.append(writer)
        return runs


def _newest(writer: Writer) -> int:
    return -1 if writer.newest is None else writer.newest


def _interleaved(runs: list[list[Writer]]) -> list[Note]:
    counts = sorted((sum(w.rows_seen for w in run) for run in runs), reverse=True)
    if len(runs) < 2 or counts[1] < 2:
        return []
    named = {f"rows_writer_{chr(ord('a') + i)}": float(n) for i, n in enumerate(counts[:8])}
    detail = (
        f"{len(runs)} runs write into one file, their lines interleaved ({', '.join(f'{n:.0f}' for n in counts[:8])} "
        "steps). Only the longest is used: averages over all would mix them."
    )
    return [Note("interleaved-writers", detail, {"writers": float(len(runs)), **named})]


def _restarted(run: list[Writer]) -> list[Note]:
    if len(run) < 2:
        return []
    at = [w.first_step for w in run[1:] if w.first_step is not None]
    detail = f"The step counter went back {len(run) - 1} time(s), to {', '.join(map(str, at[:5]))}: the run restarted."
    return [Note("step-restart", detail, {"restarts": float(len(run) - 1)})]


def _without_strays(rows: list[RawRow], runs: int) -> list[RawRow]:
    """The rows after the last jump among the first: until a counter goes back, one writer takes the lines of all."""
    for i in range(min(runs, len(rows) // 2) - 1, 0, -1):
        before, step = rows[i - 1].last_step, rows[i].step
        if before is not None and step is not None and step > before + 1:
            return rows[i:]
    return rows


def _continued(run: list[Writer]) -> list[RawRow]:
    """Rows of a restarted run: what came after the checkpoint replaces what was lost."""
    rows: list[RawRow] = []
    for writer in run:
        start = writer.first_step
        if start is not None:
            rows = [row for row in rows if row.step is None or row.step < start]
        rows += writer.rows
    return rows
