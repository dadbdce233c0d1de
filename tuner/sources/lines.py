"""Bytes -> physical lines: any encoding, lines of any length, in bounded memory."""

import codecs
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from tuner.records import Remark
from tuner.sources.base import Opened

CHUNK_BYTES = 1 << 18
"""Bytes per read: large enough that a search over it costs more than the call, small enough to stay in cache."""

LINE_CAP_BYTES = 4 << 20
"""A longer line is cut here; no logger writes one on purpose (a tensor printed by mistake does)."""

DOCUMENT_CAP_BYTES = 256 << 20
"""Most bytes of a file that must be read whole (a JSON document)."""

CONTROLS = bytes(set(range(32)) - {7, 9, 10, 13, 27} | {127})
"""Deleted everywhere: NUL holes that log rotation leaves, backspaces. BEL ends an escape sequence and stays."""

_BOMS = ((codecs.BOM_UTF8, None), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


@dataclass(frozen=True, slots=True)
class Block:
    """Whole physical lines in one piece, parted by newlines, the last newline left off."""

    data: bytes
    number: int
    """1-based line number of the first line."""
    cut: bool = False
    """True when the last line has no newline: the file ends inside it, or it was too long."""


@dataclass(frozen=True, slots=True)
class RawLine:
    """One physical line without its newline, decoded."""

    text: str
    number: int
    cut: bool = False


def blocks(opened: Opened) -> Iterator[Block | Remark]:
    """The whole stream as blocks; an over-long line is cut, a progress bar without newline is not."""
    carry, number, lost = b"", 1, 0
    for chunk in _text_chunks(opened.stream):
        data = carry + chunk
        if lost:
            end = data.find(b"\n")
            lost += len(data) if end < 0 else end
            carry = b""
            if end < 0:
                continue
            yield _cut_remark(opened, number, lost)
            data, number, lost = data[end + 1 :], number + 1, 0
        end = data.rfind(b"\n")
        if end >= 0:
            yield Block(data[:end], number)
            number += data.count(b"\n", 0, end) + 1
            data = data[end + 1 :]
        if len(data) > LINE_CAP_BYTES:
            rewrite = data.rfind(b"\r")
            keep = rewrite if rewrite > 0 else LINE_CAP_BYTES
            yield Block(data[:keep], number, cut=rewrite <= 0)
            lost = 0 if rewrite > 0 else len(data) - keep
            data = data[keep + 1 :] if rewrite > 0 else b""
        carry = data
    if lost:
        yield _cut_remark(opened, number, lost)
    if carry:
        yield Block(carry, number, cut=True)


def raw_lines(opened: Opened) -> Iterator[RawLine | Remark]:
    """The lines of `blocks` one by one, for readers that need every one."""
    for block in blocks(opened):
        if isinstance(block, Remark):
            yield block
            continue
        yield from lines_of(block)


def lines_of(block: Block) -> Iterator[RawLine]:
    """The lines of one block."""
    pieces = block.data.split(b"\n")
    last = len(pieces) - 1
    for i, piece in enumerate(pieces):
        yield RawLine(text_of(piece.rstrip(b"\r")), block.number + i, block.cut and i == last)


def whole_text(opened: Opened) -> str | None:
    """All text of a document; None when it is longer than DOCUMENT_CAP_BYTES."""
    pieces: list[bytes] = []
    size = 0
    for chunk in _text_chunks(opened.stream):
        size += len(chunk)
        if size > DOCUMENT_CAP_BYTES:
            return None
        pieces.append(chunk)
    return text_of(b"".join(pieces))


def text_of(data: bytes) -> str:
    """UTF-8 with what is none of it replaced: a stray Latin-1 letter must not cost the line."""
    return data.decode("utf-8", errors="replace")


def head_text(head: bytes) -> str:
    """The first bytes of a file as clean text, for detection; a byte order mark decides the encoding."""
    return text_of(b"".join(_text_chunks(io.BytesIO(head))))


def looks_binary(head: bytes) -> bool:
    """True when the first bytes are not text in any encoding that we read. An empty head is not binary."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or _bare_utf16(head):
        return False
    head = head.lstrip(b"\0")  # a log that was truncated under its writer starts with a hole
    sample = head.replace(b"\0", b"")
    if not sample:
        return False
    odd = len(sample) - len(sample.translate(None, CONTROLS))
    wrong = text_of(sample).count("\ufffd")
    return odd > 0.02 * len(sample) or wrong > 0.1 * len(sample) or len(sample) < 0.3 * len(head)


def _cut_remark(opened: Opened, number: int, lost: int) -> Remark:
    detail = f"the line is over {LINE_CAP_BYTES >> 20} MiB long; its last {lost} bytes are skipped"
    return Remark("line-cut", detail, f"{opened.origin}:{number}")


def _text_chunks(stream: BinaryIO) -> Iterator[bytes]:
    """The stream as UTF-8 chunks without byte order mark and control characters."""
    first = stream.read(CHUNK_BYTES)
    encoding: str | None = "utf-16-le" if _bare_utf16(first) else None
    for bom, name in _BOMS:
        if first.startswith(bom):
            first, encoding = first[len(bom) :], name
            break
    decode = codecs.getincrementaldecoder(encoding)(errors="replace").decode if encoding else None
    chunk = first
    while chunk:
        plain = decode(chunk).encode("utf-8", errors="replace") if decode else chunk
        yield plain.translate(None, CONTROLS)
        chunk = stream.read(CHUNK_BYTES)


def _bare_utf16(head: bytes) -> bool:
    """Little-endian UTF-16 that lost its mark: every second byte of plain English is NUL."""
    sample = head[:512]
    return len(sample) >= 16 and sample[1::2].count(0) > 0.7 * len(sample) / 2 and sample[::2].count(0) == 0
