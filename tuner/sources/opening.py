"""Paths -> opened streams: files, folders in sorted order, standard input, compressed or not."""

import bz2
import gzip
import io
import lzma
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISBLK, S_ISCHR
from typing import BinaryIO, Protocol

from tuner.errors import SourceError
from tuner.records import Remark
from tuner.sources.base import Opened

HEAD_BYTES = 1 << 16
"""Bytes that a kind of source may look at."""

FILES_MAX = 10_000
"""Files looked at in one folder."""

_CHECKPOINT_ENDINGS = frozenset(
    (
        ".safetensors",
        ".pt",
        ".pth",
        ".bin",
        ".ckpt",
        ".distcp",
        ".gguf",
        ".npy",
        ".npz",
        ".pkl",
        ".h5",
        ".onnx",
        ".model",
    )
)
_OTHER_ENDINGS = frozenset(
    (
        ".py",
        ".pyc",
        ".ipynb",
        ".sh",
        ".md",
        ".html",
        ".pdf",
        ".png",
        ".jpg",
        ".mp4",
        ".parquet",
        ".arrow",
        ".db",
        ".lock",
    )
)
_SKIPPED_NAMES = frozenset(("tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt", "requirements.txt"))
_SKIPPED_FOLDERS = frozenset(("__pycache__", "node_modules", "site-packages", "wandb-artifacts", "artifacts"))


class _Readable(Protocol):
    def read1(self, size: int, /) -> bytes: ...


_PACKED: tuple[tuple[bytes, str, str], ...] = (
    (b"PK\x03\x04", "a zip archive", "unzip it"),
    (
        b"\x28\xb5\x2f\xfd",
        "zstd-compressed",
        "unpack it with `unzstd`, or pipe it: `zstdcat FILE | equipoise advise -`",
    ),
)
_UNPACK: tuple[tuple[bytes, Callable[[BinaryIO], _Readable]], ...] = (
    (b"\x1f\x8b", lambda stream: gzip.GzipFile(fileobj=stream)),
    (b"BZh", bz2.BZ2File),
    (b"\xfd7zXZ\x00", lzma.LZMAFile),
)
PACKED_ENDINGS = (".gz", ".bz2", ".xz")
_CHECKPOINT = re.compile(r"(?:checkpoint|global_step)[-_](\d{1,12})")
_STATE = "trainer_state.json"


class _Raw(io.RawIOBase):
    """A raw stream that ends where its file cannot be read further, and remembers why."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        super().__init__()
        self._read = read
        self.trouble = ""
        self.got = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fills the buffer whole unless the file ends, so that a peek sees as much of a pipe as of a file."""
        filled = 0
        while filled < len(buffer) and not self.trouble:
            try:
                piece = self._read(len(buffer) - filled)
            except (OSError, EOFError, zlib.error, lzma.LZMAError, ValueError) as fault:
                self.trouble = str(fault) or type(fault).__name__
                break
            if not piece:
                break
            buffer[filled : filled + len(piece)] = piece
            filled += len(piece)
        self.got += filled
        return filled


@dataclass(slots=True)
class _Walk:
    """What was met on the way, for the message when nothing is left."""

    opened: int = 0
    remarks: list[Remark] = field(default_factory=list)


Accept = Callable[[str, bytes], bool]
"""(file name, first bytes) -> is it something that is read? Asked for files found in folders only."""


def open_sources(paths: Iterable[str], stdin: BinaryIO, accept: Accept) -> Iterator[Opened | Remark]:
    """Each readable file once, in order; what is skipped as a Remark. A stream is closed when the next is asked for.

    Raises SourceError for a path that does not exist, and when nothing at all could be opened.
    """
    walk = _Walk()
    for path in paths:
        for item in _open_path(path, stdin, accept):
            walk.opened += isinstance(item, Opened)
            if isinstance(item, Remark):
                walk.remarks.append(item)
            yield item
    if not walk.opened:
        met = "; ".join(f"{r.origin}: {r.detail}" for r in walk.remarks[:5]) or "no path given"
        raise SourceError(f"nothing to read: {met}")


def head_of(opened: Opened) -> bytes:
    """The first bytes without consuming them."""
    stream = opened.stream
    return stream.peek(HEAD_BYTES)[:HEAD_BYTES] if isinstance(stream, io.BufferedReader) else b""


def name_of(opened: Opened) -> str:
    """The file's own name, as kinds of sources know it."""
    name = Path(opened.origin).name
    return next((name.removesuffix(end) for end in PACKED_ENDINGS if name.endswith(end)), name)


def _open_path(path: str, stdin: BinaryIO, accept: Accept) -> Iterator[Opened | Remark]:
    place = Path(path)
    if path == "-":
        yield from _given(Opened(stdin, "-"), None)
    elif not os.path.lexists(path):
        raise SourceError(f"{path}: no such file or folder")
    elif place.is_dir():
        yield from _folder(path, accept)
    else:
        yield from _file(path, None)


def _file(path: str, accept: Accept | None) -> Iterator[Opened | Remark]:
    try:
        if accept is not None and not os.path.isfile(path):
            yield Remark("skipped-file", "no regular file", path)
            return
        stream = open(path, "rb")  # noqa: SIM115 (closed below, after its reader is done)
        size = os.fstat(stream.fileno()).st_size if os.path.isfile(path) else None
    except (OSError, ValueError) as fault:
        remedy = "; check its permissions" if isinstance(fault, PermissionError) else ""
        yield Remark("unreadable", f"cannot be opened: {_why(fault)}{remedy}", path)
        return
    with stream:
        if _is_endless(stream):
            yield Remark("unreadable", "is a device; give the job's log or metrics file, or - for a pipe", path)
            return
        yield from _given(Opened(stream, path, Path(path), size), accept)


def _is_endless(stream: BinaryIO) -> bool:
    """True of a device such as /dev/zero; a terminal ends with its user."""
    kind = os.fstat(stream.fileno()).st_mode
    return S_ISBLK(kind) or (S_ISCHR(kind) and not stream.isatty())


def _given(found: Opened, accept: Accept | None) -> Iterator[Opened | Remark]:
    """The stream buffered and unpacked; a remark instead when it is empty, oddly packed or not wanted."""
    raws = [_Raw(found.stream.read)]
    stream = io.BufferedReader(raws[0], HEAD_BYTES)
    for magic, unpack in _UNPACK:
        if stream.peek(len(magic)).startswith(magic):
            raws.append(_Raw(unpack(stream).read1))
            stream = io.BufferedReader(raws[1], HEAD_BYTES)
            break
    opened = Opened(stream, found.origin, found.path, found.size_bytes)
    head = head_of(opened)
    refusal = _refusal(head)
    if not head:
        trouble = _trouble(raws)
        yield Remark("unreadable", trouble, found.origin) if trouble else Remark("empty-file", "is empty", found.origin)
    elif refusal:
        yield Remark("unreadable", refusal, found.origin)
    elif accept is not None and not accept(name_of(opened), head):
        yield Remark("skipped-file", "no source of metrics that is known", found.origin)
    else:
        yield opened
        if _trouble(raws):
            yield Remark("unreadable", _trouble(raws), found.origin)


def _trouble(raws: list[_Raw]) -> str:
    return next((f"reading stopped after {raw.got} bytes: {raw.trouble}" for raw in raws[::-1] if raw.trouble), "")


def _refusal(head: bytes) -> str:
    for magic, what, remedy in _PACKED:
        if head.startswith(magic):
            return f"is {what}: {remedy}"
    return "is a tar archive: unpack it and give the folder" if head[257:262] == b"ustar" else ""


def _why(fault: Exception) -> str:
    return (fault.strerror if isinstance(fault, OSError) else None) or str(fault)


def _folder(path: str, accept: Accept) -> Iterator[Opened | Remark]:
    """Every file below in sorted order that may hold metrics; of a trainer's saved states only the latest."""
    skipped: list[str] = []
    troubles: list[Remark] = []
    wanted, states = _listing(path, skipped, troubles)
    superseded = len(states) - len(latest := _latest_states(states))
    yield from troubles
    for file in sorted(wanted + latest)[:FILES_MAX]:
        for item in _file(file, accept):
            if isinstance(item, Remark) and item.code == "skipped-file":
                skipped.append(file)
            else:
                yield item
    if len(wanted) + len(latest) > FILES_MAX:
        yield Remark("too-many-files", f"only the first {FILES_MAX} files are read; name the files that matter", path)
    if superseded:
        yield Remark("skipped-files", f"{superseded} older trainer_state.json: a later one holds their rows", path)
    if not wanted and not latest:
        yield Remark("empty-folder", f"holds no file that may hold metrics ({len(skipped)} files skipped)", path)
    if skipped:
        names = ", ".join(sorted(os.path.relpath(name, path) for name in skipped)[:5])
        more = f" and {len(skipped) - 5} more" if len(skipped) > 5 else ""
        yield Remark("skipped-files", f"hold no metrics that are read: {names}{more}", path)


def _listing(path: str, skipped: list[str], troubles: list[Remark]) -> tuple[list[str], list[str]]:
    """(files that may hold metrics, saved trainer states) below a folder."""

    def refused(fault: OSError) -> None:
        troubles.append(Remark("unreadable", f"cannot be listed: {_why(fault)}", str(fault.filename)))

    wanted: list[str] = []
    states: list[str] = []
    for folder, folders, files in os.walk(path, onerror=refused):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in _SKIPPED_FOLDERS)
        in_checkpoint = any(_CHECKPOINT.fullmatch(part) for part in Path(os.path.relpath(folder, path)).parts)
        for name in files:
            file = os.path.join(folder, name)
            if name == _STATE:
                states.append(file)
            elif in_checkpoint or name.startswith(".") or _is_no_log(name):
                skipped.append(file)
            else:
                wanted.append(file)
    return wanted, states


def _is_no_log(name: str) -> bool:
    ending = Path(name).suffix.lower()
    return ending in _CHECKPOINT_ENDINGS or ending in _OTHER_ENDINGS or name in _SKIPPED_NAMES


def _latest_states(states: list[str]) -> list[str]:
    """One state a run folder: its own, else that of the highest checkpoint; each repeats the rows of those before."""
    best: dict[Path, tuple[float, str]] = {}
    for file in states:
        folder = Path(file).parent
        number = _CHECKPOINT.fullmatch(folder.name)
        run, rank = (folder.parent, float(number[1])) if number else (folder, float("inf"))
        best[run] = max(best.get(run, (-1.0, "")), (rank, file))
    return [file for _, file in best.values()]
