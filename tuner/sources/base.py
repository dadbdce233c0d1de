"""What a source is: a readable thing that yields raw items in its own order, in bounded memory."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from tuner.records import Item, LineParser


@dataclass(frozen=True, slots=True)
class Format:
    """A framework's line format as a source sees it (the same fields as frameworks.base.LineFormat plus the owner)."""

    framework: str
    name: str
    markers: tuple[str, ...]
    parser: Callable[[], LineParser]
    block: bool = False
    faint: tuple[str, ...] = ()
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Opened:
    """A file (or standard input) ready to be read once, front to back."""

    stream: BinaryIO
    """Buffered; `peek` was used for detection, nothing is consumed."""
    origin: str
    """Path as the user wrote it, or `-`."""
    path: Path | None = None
    size_bytes: int | None = None


class Following(Protocol):
    """Reads a file while it grows; keeps what it must remember between lines. What it cannot read it passes over."""

    def feed(self, data: bytes, number: int) -> Iterator[Item]:
        """The items of whole lines (UTF-8, parted by newlines, the last one left off), the first of which is `number`.

        The first call begins at the file's first line, or somewhere inside a log.
        """
        ...


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of source: how to know it from its first bytes and name, and how to read it."""

    name: str
    """As `source[].kind` in the answer: console, jsonl, csv, tensorboard, wandb-run, trainer-state, prometheus, ..."""
    claims: Callable[[str, bytes], float]
    """(file name, first 64 KiB) -> 0..1: how sure it is that this is its kind."""
    read: Callable[[Opened, Iterable[Format]], Iterator[Item]]
    follow: Callable[[str, Iterable[Format]], Following] | None = None
    """(origin, formats) -> a reader of the file as it grows; None: a kind that is not written line by line."""
