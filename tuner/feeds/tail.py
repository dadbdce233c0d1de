"""A file that grows: a log, JSONL or CSV read further at each poll, through rotation, truncation and restarts."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from stat import S_ISREG
from time import monotonic
from typing import BinaryIO
from zlib import crc32

from tuner.errors import SourceError
from tuner.feeds.base import Cursor, Poll
from tuner.records import Configuration, Item, Record, Remark
from tuner.sources.base import Following, Format
from tuner.sources.lines import CHUNK_BYTES, CONTROLS, LINE_CAP_BYTES
from tuner.sources.opening import HEAD_BYTES
from tuner.sources.registry import KINDS, detect

BACKLOG_BYTES = 8 << 20
"""Read of a file that was there before us, or that grew by more than this between two polls: many times the steps that
a picture shows, and as records still far from the memory that a daemon may take."""
BEGINNING_BYTES = 2 << 20
"""Of that, from the file's start: there a job prints its settings."""
MARK_BYTES = 64
"""Before the place where we stand: they tell a file that was truncated and has grown beyond that place again."""
AGAIN_BYTES = 256 << 10
"""Before the place where a restarted daemon goes on: read again and not told again, so that a table, a block or a
scrape that was half written there is known from its first line."""
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


@dataclass(slots=True)
class _Open:
    """A file that is being read, and how far. It stays open: it may outlive its path."""

    file: BinaryIO
    place: _Place
    reading: Following | None = None

    def mark_at(self, offset: int) -> int:
        start = max(0, offset - MARK_BYTES)
        self.file.seek(start)
        return crc32(self.file.read(offset - start))

    def is_at(self, place: _Place) -> bool:
        """True when the bytes before that place are those that were there."""
        size = os.fstat(self.file.fileno()).st_size
        return place.offset <= size and self.mark_at(place.offset) == place.mark

    def move(self, count: int, lines: int) -> None:
        offset = self.place.offset + count
        self.place = replace(self.place, offset=offset, line=self.place.line + lines, mark=self.mark_at(offset))

    def skip(self, offset: int) -> None:
        """To the first line that begins after `offset`."""
        self.file.seek(offset)
        self.move(offset + self.file.read(LINE_CAP_BYTES).find(b"\n") + 1 - self.place.offset, 0)

    def pieces(self, size: int, until: float) -> Iterator[bytes]:
        """Whole lines from our place on, the last newline left off; the place moves behind each as it is taken."""
        while True:
            if size - self.place.offset > BACKLOG_BYTES and self.place.offset >= BEGINNING_BYTES:
                self.skip(size - BACKLOG_BYTES)
            data = self._whole()
            if data is None:
                return
            yield data
            self.move(len(data) + 1, data.count(b"\n") + 1)
            if monotonic() > until:
                return

    def _whole(self) -> bytes | None:
        """The next whole lines; of a line without end what a reader takes at most."""
        self.file.seek(self.place.offset)
        data = self.file.read(CHUNK_BYTES)
        while (end := data.rfind(b"\n")) < 0 and len(data) < LINE_CAP_BYTES:
            more = self.file.read(CHUNK_BYTES)
            if not more:
                return None
            data += more
        return data[:end] if end >= 0 else data[: max(data.rfind(b"\r"), 0) or LINE_CAP_BYTES]

    def rest(self) -> bytes:
        """What stands behind the last whole line: of a file that nobody writes to any more, its last line."""
        self.file.seek(self.place.offset)
        return self.file.read(LINE_CAP_BYTES)


class Tail:
    """Follows a path, not a file: when another file takes the path, the old one is read to its end first."""

    def __init__(self, path: str, formats: Iterable[Format], kind: str | None = None) -> None:
        self._path = path
        self._formats = tuple(formats)
        self._forced = kind
        self._held: _Open | None = None
        self._begun = False
        """True once this process has read on from anywhere."""
        self._zone_s = 0.0
        self._written_s = 0.0

    @property
    def name(self) -> str:
        return self._path

    def poll(self, cursor: Cursor, now_s: float, deadline_s: float) -> Poll:
        items: list[Item] = []
        failure = self._go_on(cursor, monotonic() + deadline_s, items)
        self._begun = True
        place = self._held.place.cursor() if self._held is not None else cursor
        if self._held is not None and self._held.reading is None:
            self.close()
        timed = tuple(self._timed(items, min(self._written_s, now_s), fresh=not cursor))
        return Poll(timed, place, 1, int(failure is None), failure)

    def _go_on(self, cursor: Cursor, until: float, items: list[Item]) -> str | None:
        """Reads on into `items`; why not, where it cannot."""
        try:
            if self._held is None or dict(self._held.place.cursor()) != dict(cursor):
                self._held = self._opened(cursor, items)
            self._read_on(self._held, until, items)
            if monotonic() < until and self._rotated(self._held):
                items += self._feed(self._held, self._held.rest())
                self._held = self._opened({}, items)
                self._read_on(self._held, until, items)
        except FileNotFoundError:
            return f"{self._path}: not there (yet); it is read as soon as it is"
        except OSError as fault:
            return f"{self._path}: cannot be read: {fault.strerror or fault}"
        except SourceError as fault:
            return str(fault)
        return None

    def close(self) -> None:
        if self._held is not None:
            self._held.file.close()
        self._held = None

    def _opened(self, cursor: Cursor, items: list[Item]) -> _Open:
        """At the cursor where its file is still there and unchanged up to it, else at the beginning."""
        self.close()
        known = _placed(cursor)
        path = self._path if known is None else self._path_of(known)
        if not S_ISREG(os.stat(path).st_mode):
            raise SourceError(f"{path}: no regular file; a live source is a file that a job appends to")
        file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0)
        status = os.fstat(file.fileno())
        held = _Open(file, _Place(status.st_dev, status.st_ino))
        if known is None or (known.device, known.inode) != (status.st_dev, status.st_ino):
            return held
        if held.is_at(known):
            items += self._settings(held, known)
            held.place = known
            self._read_again(held)
        else:
            items.append(self._restarted())
        return held

    def _path_of(self, known: _Place) -> str:
        """Where the file is now that we stood in: a rotation while nobody read gave it another name beside this one."""
        if not self._is(self._path, known):
            folder, name = os.path.split(self._path)
            with suppress(OSError):
                beside = (entry.path for entry in os.scandir(folder or ".") if entry.name.startswith(name))
                return next((path for path in beside if self._is(path, known)), self._path)
        return self._path

    @staticmethod
    def _is(path: str, known: _Place) -> bool:
        try:
            status = os.stat(path)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == (known.device, known.inode)

    def _restarted(self) -> Remark:
        detail = "the file was truncated and is read anew, as a restarted job writes it"
        return Remark("log-truncated", detail, self._path)

    def _rotated(self, held: _Open) -> bool:
        """True when another file has the path now."""
        os.stat(self._path)
        return not self._is(self._path, held.place)

    def _settings(self, held: _Open, known: _Place) -> list[Item]:
        """What the job said of its settings at the file's start: steps were read before, and are not read again."""
        if self._begun:
            return []
        self._begun, until = True, min(known.offset, BEGINNING_BYTES)
        held.file.seek(0)
        data = held.file.read(until).rpartition(b"\n")[0]
        said = self._reader(held).feed(data.translate(None, CONTROLS), 1)
        return [item for item in said if isinstance(item, Configuration)]

    def _read_again(self, held: _Open) -> None:
        """Brings the reader to where it stood: what it finds was told before."""
        start = max(0, held.place.offset - AGAIN_BYTES)
        held.file.seek(start)
        data = held.file.read(held.place.offset - start)
        if start:
            data = data.partition(b"\n")[2]
        data = data.removesuffix(b"\n")
        if data:
            held.reading = self._reader(held)
            first = max(1, held.place.line - data.count(b"\n") - 1)
            for _ in held.reading.feed(data.translate(None, CONTROLS), first):
                pass

    def _read_on(self, held: _Open, until: float, items: list[Item]) -> None:
        """Takes what is new, up to the last whole line."""
        status = os.fstat(held.file.fileno())
        self._written_s = status.st_mtime
        if not held.is_at(held.place):
            items.append(self._restarted())
            held.place, held.reading = _Place(held.place.device, held.place.inode), None
        for data in held.pieces(status.st_size, until):
            items += self._feed(held, data)

    def _feed(self, held: _Open, data: bytes) -> Iterable[Item]:
        if not data:
            return ()
        if held.reading is None:
            held.reading = self._reader(held)
        return held.reading.feed(data.translate(None, CONTROLS), held.place.line)

    def _reader(self, held: _Open) -> Following:
        """The reader of this file; one that goes on in the middle of a table has to see its head first."""
        held.file.seek(0)
        head = held.file.read(HEAD_BYTES)
        kind = next((k for k in KINDS if k.name == self._forced), None) or detect(Path(self._path).name, head)
        if kind is None or kind.follow is None:
            what = f"a file of kind {kind.name}" if kind is not None else "no text"
            can = ", ".join(k.name for k in KINDS if k.follow is not None)
            raise SourceError(f"{self._path}: {what} cannot be followed while it grows; {can} can")
        reading = kind.follow(self._path, self._formats)
        if held.place.offset and kind.name == "csv":
            list(reading.feed(head.split(b"\n")[0], 1))
        return reading

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
