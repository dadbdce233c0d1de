"""From the scrapes of a trainer's gauges to one row a step: the last scrape of a step speaks for it."""

from collections import deque
from collections.abc import Mapping

from simulators.snapshot import Note
from tuner.ingest.history import ROWS_MAX, RawRow
from tuner.records import Record

SPEAKERS_MAX = 1024
"""Processes of one job whose step counters are told apart."""

Speaker = tuple[tuple[str, str], ...]


class GaugeRows:
    """A step's gauges are set once and seen by many scrapes; some may be set a moment after the step counter."""

    def __init__(self, last: int | None) -> None:
        self._rows: deque[RawRow] = deque(maxlen=last or ROWS_MAX)
        self._steps: dict[Speaker, int] = {}
        self._restarts = 0

    def add(self, record: Record) -> None:
        """A scrape without a step counter belongs to the newest step; without any step each is a row of its own."""
        newest = self._rows[-1] if self._rows else None
        step = record.step
        if step is None:
            row = newest if newest is not None and newest.step is not None else None
        else:
            self._note_restart(record.labels, step)
            row = next((row for row in reversed(self._rows) if row.step == step), None)
        if row is not None:
            row.values.update(record.values)
        elif newest is None or newest.step is None or step is None or step > newest.step:
            self._append(record, newest)

    def _append(self, record: Record, newest: RawRow | None) -> None:
        """A row stands for all steps since the last one that a scrape saw."""
        seen = newest.step if newest is not None else None
        weight = 1 if seen is None or record.step is None else record.step - seen
        row = RawRow(dict(record.values), record.step, record.time_s, None, weight, record.origin, record.labels)
        self._rows.append(row)

    def _note_restart(self, labels: Mapping[str, str], step: int) -> None:
        """A counter that went back: what is redone replaces what was lost."""
        speaker = tuple(sorted(labels.items()))
        before = self._steps.get(speaker)
        if before is None and len(self._steps) >= SPEAKERS_MAX:
            return
        self._steps[speaker] = step
        if before is None or step >= before:
            return
        self._restarts += 1
        while self._rows and (self._rows[-1].step or 0) >= step:
            self._rows.pop()

    def finish(self) -> tuple[list[RawRow], list[Note]]:
        """The rows so far. It may be asked at any time, and be given more afterwards."""
        if not self._restarts:
            return list(self._rows), []
        detail = f"The step counter went back {self._restarts} time(s): the run restarted."
        return list(self._rows), [Note("step-restart", detail, {"restarts": float(self._restarts)})]
