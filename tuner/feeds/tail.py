"""A file that grows: a log, JSONL or CSV read further at each poll, through rotation, truncation and restarts."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from stat import S_ISREG
from time import monotonic
from typing import BinaryIO
from zlib import crc32

from tuner.errors import SourceError
from tuner.feeds.base import Cursor, Poll
from tuner.records import Item, Record, Remark
from tuner.sources.base import Following, Format, Kind
from tuner.sources.lines import CHUNK_BYTES, CONTROLS, LINE_CAP_BYTES
from tuner.sources.opening import HEAD_BYTES
from tuner.sources.registry import KINDS, detect

BACKLOG_BYTES = 32 << 20
"""Read of a file that was there before us, or that grew by more than this between two polls."""
BEGINNING_BYTES = 2 << 20
"""Of that, from the file's start: there a job prints its settings."""
MARK_BYTES = 64
"""Before the place where we stand: they tell a file that was truncated and has grown beyond that place again."""
HOUR_S, QUARTER_S = 3600.0, 900.0
"""Clocks of other zones differ by whole hours, or by whole quarters of one."""
PROMPT_S = 600.0
"""A record is written this soon after the time it bears, once we look at every tick."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where we stand in which file."""

    device: int
    inode: int
    offset: int = 0
    """Of the first byte that is no whole line yet."""
    line: int = 1
    mark: int = 0
    """Check sum of the bytes before."""

    def cursor(self) -> Cursor:
        return {
            "device": self.device,
            "inode": self.inode,
            "offset": self.offset,
            "line": self.line,
            "mark": self.mark,
        }


class Tail:
    """Follows a path, not a file: when another file takes the path, the old one is read to its end first."""

    def __init__(self, path: str, formats: Iterable[Format], kind: str | None = None) -> None:
        self._path = path
        self._formats = tuple(formats)
        self._forced = kind
        self._file: BinaryIO | None = None
        self._place: _Place | None = None
        self._reading: Following | None = None
        self._zone_s = 0.0
        self._written_s = 0.0
        self.kind = kind or "file"
        """As `source[].kind`; found when the file holds its first line."""

    @property
    def name(self) -> str:
        return self._path

    def poll(self, cursor: Cursor, now_s: float, deadline_s: float) -> Poll:
        items: list[Item] = []
        failure = self._go_on(cursor, monotonic() + deadline_s, items)
        place = self._place.cursor() if self._place is not None else cursor
        if failure is not None and self._reading is None:
            self._close()
        timed = tuple(self._timed(items, min(self._written_s, now_s), fresh=not cursor))
        return Poll(timed, place, 1, int(failure is None), failure)

    def _go_on(self, cursor: Cursor, until: float, items: list[Item]) -> str | None:
        """Reads on into `items`; why not, where it cannot."""
        try:
            if self._place is None or dict(self._place.cursor()) != dict(cursor):
                self._stand(cursor, items)
            self._read_on(until, items)
            if self._rotated():
                self._stand({}, items)
                self._read_on(until, items)
        except FileNotFoundError:
            return f"{self._path}: not there (yet); it is read as soon as it is"
        except OSError as fault:
            return f"{self._path}: cannot be read: {fault.strerror or fault}"
        except SourceError as fault:
            return str(fault)
        return None

    def close(self) -> None:
        self._close()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = self._place = self._reading = None

    # ---- where to go on ----

    def _stand(self, cursor: Cursor, items: list[Item]) -> None:
        """At the cursor where its file is still there and unchanged up to it, else at the beginning."""
        self._close()
        if not S_ISREG(os.stat(self._path).st_mode):
            raise SourceError(f"{self._path}: no regular file; a live source is a file that a job appends to")
        file = os.fdopen(os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0)
        self._file = file
        status = os.fstat(file.fileno())
        self._place = _Place(status.st_dev, status.st_ino)
        known = _placed(cursor)
        if known is None or (known.device, known.inode) != (status.st_dev, status.st_ino):
            return
        if known.offset <= status.st_size and self._mark_at(known.offset) == known.mark:
            self._place = known
        else:
            items.append(self._restarted())

    def _restarted(self) -> Remark:
        detail = "the file was truncated and is read anew, as a restarted job writes it"
        return Remark("log-truncated", detail, self._path)

    def _rotated(self) -> bool:
        """True when another file has the path now."""
        status = os.stat(self._path)
        place = self._place
        return place is not None and (status.st_dev, status.st_ino) != (place.device, place.inode)

    def _mark_at(self, offset: int) -> int:
        assert self._file is not None
        start = max(0, offset - MARK_BYTES)
        self._file.seek(start)
        return crc32(self._file.read(offset - start))

    # ---- reading on ----

    def _read_on(self, until: float, items: list[Item]) -> None:
        """Takes what is new, up to the last whole line."""
        assert self._file is not None
        assert self._place is not None
        status = os.fstat(self._file.fileno())
        self._written_s = status.st_mtime
        if status.st_size < self._place.offset or self._mark_at(self._place.offset) != self._place.mark:
            items.append(self._restarted())
            self._place, self._reading = _Place(self._place.device, self._place.inode), None
        for data in self._pieces(status.st_size, until):
            items += self._following(data).feed(data.translate(None, CONTROLS), self._place.line)
            self._step(len(data) + 1, data.count(b"\n") + 1)

    def _pieces(self, size: int, until: float) -> Iterator[bytes]:
        """Whole lines from our place on, the last newline left off; the caller moves the place behind each piece."""
        assert self._file is not None
        assert self._place is not None
        first = True
        while first or monotonic() < until:
            first = False
            if size - self._place.offset > BACKLOG_BYTES and self._place.offset >= BEGINNING_BYTES:
                self._skip(size - BACKLOG_BYTES)
            self._file.seek(self._place.offset)
            data = self._file.read(CHUNK_BYTES)
            end = data.rfind(b"\n")
            while end < 0 and len(data) < LINE_CAP_BYTES and (more := self._file.read(CHUNK_BYTES)):
                data += more
                end = data.rfind(b"\n")
            if end < 0 and len(data) < LINE_CAP_BYTES:
                return
            yield data[:end] if end >= 0 else data[: max(data.rfind(b"\r"), 0) or LINE_CAP_BYTES]

    def _skip(self, offset: int) -> None:
        """To the first line that begins after `offset`."""
        assert self._file is not None
        self._file.seek(offset)
        head = self._file.read(LINE_CAP_BYTES)
        self._step(offset + head.find(b"\n") + 1 - (self._place.offset if self._place else 0), 0)

    def _step(self, count: int, lines: int) -> None:
        assert self._place is not None
        offset = self._place.offset + count
        self._place = replace(self._place, offset=offset, line=self._place.line + lines, mark=self._mark_at(offset))

    def _following(self, data: bytes) -> Following:
        """The reader of this file; one that goes on in the middle of a table has to see its head first."""
        if self._reading is not None:
            return self._reading
        assert self._file is not None
        assert self._place is not None
        self._file.seek(0)
        head = self._file.read(HEAD_BYTES)
        kind = self._kind_of(head)
        assert kind.follow is not None
        self.kind = kind.name
        self._reading = kind.follow(self._path, self._formats)
        if self._place.offset and kind.name == "csv":
            list(self._reading.feed(head.split(b"\n")[0], 1))
        return self._reading

    def _kind_of(self, head: bytes) -> Kind:
        kind = next((k for k in KINDS if k.name == self._forced), None) or detect(Path(self._path).name, head)
        if kind is None or kind.follow is None:
            what = f"a file of kind {kind.name}" if kind is not None else "no text"
            can = ", ".join(k.name for k in KINDS if k.follow is not None)
            raise SourceError(f"{self._path}: {what} cannot be followed while it grows; {can} can")
        return kind

    # ---- times ----

    def _timed(self, items: Sequence[Item], written_s: float, fresh: bool) -> Iterator[Item]:
        """Items with times of our own calendar: stamps brought from their zone to ours, and where a line has none,
        that of the last writing. Of a backlog only the last record was written then."""
        records = [item for item in items if isinstance(item, Record)]
        stamps = [record.time_s for record in records if record.time_s is not None]
        if stamps:
            self._zone_s = zone_s(stamps[-1], written_s, self._zone_s, fresh)
        last = records[-1] if records else None
        for item in items:
            if not isinstance(item, Record):
                yield item
                continue
            unstamped = None if fresh and item is not last else written_s
            time_s = unstamped if item.time_s is None else min(item.time_s + self._zone_s, written_s)
            yield Record(item.values, item.step, time_s, item.labels, item.framework, item.origin, item.cut)


def zone_s(stamp_s: float, written_s: float, known_s: float, fresh: bool) -> float:
    """Seconds to add to a writer's stamps, from one that was written at `written_s` or a little before.

    Of a file just found, the last record may be long before the last line: then only whole hours are believed.
    # stamped 09:00:10, written 11:00:12 -> 2 h | stamped 13:30:10 of no date, written on day 20000 -> that day
    """
    if abs(stamp_s + known_s - written_s) < PROMPT_S:
        return known_s
    lag_s = written_s - stamp_s
    if 0.0 <= lag_s < HOUR_S / 2:
        return 0.0
    grain_s = HOUR_S if fresh else QUARTER_S
    return round(lag_s / grain_s) * grain_s


def _placed(cursor: Cursor) -> _Place | None:
    try:
        return _Place(*(int(cursor[name]) for name in ("device", "inode", "offset", "line", "mark")))
    except (KeyError, ValueError):
        return None
