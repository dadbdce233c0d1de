"""A file that grows: where we stand in it, and whole lines from there on."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import monotonic
from typing import BinaryIO
from zlib import crc32

from tuner.feeds.base import Cursor
from tuner.sources.base import Following
from tuner.sources.lines import CHUNK_BYTES, LINE_CAP_BYTES

BACKLOG_BYTES = 8 << 20
"""Read of a file that was there before us, or that grew by more than this between two polls: many times the steps that
a picture shows, and as records still far from the memory that a daemon may take."""
BEGINNING_BYTES = 2 << 20
"""Of that, from the file's start: there a job prints its settings."""
MARK_BYTES = 64
"""Before the place where we stand: they tell a file that was truncated and has grown beyond that place again."""


@dataclass(frozen=True, slots=True)
class Place:
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
class Held:
    """A file that is being read, and how far. It stays open: it may outlive its path."""

    file: BinaryIO
    place: Place
    reading: Following | None = None

    def mark_at(self, offset: int) -> int:
        start = max(0, offset - MARK_BYTES)
        self.file.seek(start)
        return crc32(self.file.read(offset - start))

    def is_at(self, place: Place) -> bool:
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


def placed(cursor: Cursor) -> Place | None:
    try:
        return Place(*(int(cursor[name]) for name in ("device", "inode", "offset", "line", "mark")))
    except (KeyError, ValueError):
        return None
