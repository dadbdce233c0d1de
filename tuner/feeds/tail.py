"""A log, JSONL or CSV that a job appends to, read further at each poll, through rotation, truncation and restarts."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG
from time import monotonic

from tuner.errors import SourceError
from tuner.feeds.base import Cursor, Poll
from tuner.feeds.growing import BEGINNING_BYTES, Held, Place, placed
from tuner.feeds.zones import zone_s
from tuner.records import Configuration, Item, Record, Remark
from tuner.sources.base import Following, Format
from tuner.sources.lines import CONTROLS
from tuner.sources.opening import HEAD_BYTES
from tuner.sources.registry import KINDS, detect

AGAIN_BYTES = 256 << 10
"""Before the place where a restarted daemon goes on: read again and not told again, so that a table, a block or a
scrape that was half written there is known from its first line."""


class Tail:
    """Follows a path, not a file: when another file takes the path, the old one is read to its end first."""

    def __init__(self, path: str, formats: Iterable[Format], kind: str | None = None) -> None:
        self._path = path
        self._formats = tuple(formats)
        self._forced = kind
        self._held: Held | None = None
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

    def _opened(self, cursor: Cursor, items: list[Item]) -> Held:
        """At the cursor where its file is still there and unchanged up to it, else at the beginning."""
        self.close()
        known = placed(cursor)
        path = self._path if known is None else self._path_of(known)
        if not S_ISREG(os.stat(path).st_mode):
            raise SourceError(f"{path}: no regular file; a live source is a file that a job appends to")
        file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0)
        status = os.fstat(file.fileno())
        held = Held(file, Place(status.st_dev, status.st_ino))
        if known is None or (known.device, known.inode) != (status.st_dev, status.st_ino):
            return held
        if held.is_at(known):
            items += self._settings(held, known)
            held.place = known
            self._read_again(held)
        else:
            items.append(self._restarted())
        return held

    def _path_of(self, known: Place) -> str:
        """Where the file is now that we stood in: a rotation while nobody read gave it another name beside this one."""
        if not self._is(self._path, known):
            folder, name = os.path.split(self._path)
            with suppress(OSError):
                beside = (entry.path for entry in os.scandir(folder or ".") if entry.name.startswith(name))
                return next((path for path in beside if self._is(path, known)), self._path)
        return self._path

    @staticmethod
    def _is(path: str, known: Place) -> bool:
        try:
            status = os.stat(path)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == (known.device, known.inode)

    def _restarted(self) -> Remark:
        detail = "the file was truncated and is read anew, as a restarted job writes it"
        return Remark("log-truncated", detail, self._path)

    def _rotated(self, held: Held) -> bool:
        """True when another file has the path now."""
        os.stat(self._path)
        return not self._is(self._path, held.place)

    def _settings(self, held: Held, known: Place) -> list[Item]:
        """What the job said of its settings at the file's start: steps were read before, and are not read again."""
        if self._begun:
            return []
        self._begun, until = True, min(known.offset, BEGINNING_BYTES)
        held.file.seek(0)
        data = held.file.read(until).rpartition(b"\n")[0]
        said = self._reader(held).feed(data.translate(None, CONTROLS), 1)
        return [item for item in said if isinstance(item, Configuration)]

    def _read_again(self, held: Held) -> None:
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

    def _read_on(self, held: Held, until: float, items: list[Item]) -> None:
        """Takes what is new, up to the last whole line."""
        status = os.fstat(held.file.fileno())
        self._written_s = status.st_mtime
        if not held.is_at(held.place):
            items.append(self._restarted())
            held.place, held.reading = Place(held.place.device, held.place.inode), None
        for data in held.pieces(status.st_size, until):
            items += self._feed(held, data)

    def _feed(self, held: Held, data: bytes) -> Iterable[Item]:
        if not data:
            return ()
        if held.reading is None:
            held.reading = self._reader(held)
        return held.reading.feed(data.translate(None, CONTROLS), held.place.line)

    def _reader(self, held: Held) -> Following:
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
