"""The framing of a `.wandb` file: LevelDB's log of 32 KiB blocks, in which a record may run over several blocks.

    file   = header block*        header = ":W&B", u16 0xBEE1, u8 version
    block  = fragment* padding    32,768 bytes, the header counted into the first
    fragment = u32 crc32 of (type, data), u16 length, u8 type, data
    type   = 1 whole record | 2 first | 3 middle | 4 last piece

A fragment is never longer than its block, so no length in the file can make us take more than 32 KiB at once.
"""

import struct
import zlib
from collections.abc import Iterator

from tuner.errors import SourceError
from tuner.records import Remark
from tuner.sources.base import Opened

HEADER = b":W&B" + struct.pack("<H", 0xBEE1)
"""What the file starts with; one byte of version follows."""

VERSION = 0
"""The only version written so far."""

BLOCK_BYTES = 32768
LARGEST_RECORD_BYTES = 16 << 20
"""A larger record is media or a table: it is passed over."""

_FRAGMENT = struct.Struct("<IHB")
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


def payloads(opened: Opened) -> Iterator[bytes | Remark]:
    """The file's records, and a remark for each place where bytes had to be left out. Reads block by block."""
    block = opened.stream.read(BLOCK_BYTES)
    if not block:
        yield Remark("empty-file", "no byte in this .wandb file: its writer wrote nothing yet", opened.origin)
        return
    if not block.startswith(HEADER) or len(block) <= len(HEADER):
        raise SourceError(
            f"{opened.origin}: no W&B run file: it starts with {block[:7]!r}, not with {HEADER!r}. "
            "Give the run-<id>.wandb file of the run's folder."
        )
    if block[len(HEADER)] != VERSION:
        detail = f"file version {block[len(HEADER)]}; only version {VERSION} is known, read as such"
        yield Remark("unknown-version", detail, opened.origin)
    record = _Record(opened.origin)
    number, at = 0, len(HEADER) + 1
    while block:
        place = f"{opened.origin}:block {number}"
        yield from _fragments(record, block, at, place)
        block = opened.stream.read(BLOCK_BYTES)
        number, at = number + 1, 0
    if record.open:
        yield _truncated(opened.origin)


class _Record:
    """The record whose pieces are being gathered."""

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.open = False
        self.bytes = bytearray()
        self.too_large = False

    def add(self, type_: int, data: bytes) -> Iterator[bytes | Remark]:
        if type_ in (_WHOLE, _FIRST):
            if self.open:
                yield Remark("damaged-record", "a record without its end is left out", self.origin)
            self.open, self.bytes, self.too_large = True, bytearray(), False
        elif not self.open:
            return  # The tail of a record whose start was damaged: that was said already.
        self.too_large = self.too_large or len(self.bytes) + len(data) > LARGEST_RECORD_BYTES
        if not self.too_large:
            self.bytes += data
        if type_ not in (_WHOLE, _LAST):
            return
        self.open = False
        if self.too_large:
            yield Remark("large-record", f"a record over {LARGEST_RECORD_BYTES:,} bytes is passed over", self.origin)
        else:
            yield bytes(self.bytes)

    def drop(self) -> None:
        self.open = False


def _fragments(record: _Record, block: bytes, at: int, place: str) -> Iterator[bytes | Remark]:
    """Feeds one block's fragments; a damaged one costs the rest of its block, as in LevelDB."""
    while at + _FRAGMENT.size <= len(block):
        crc, length, type_ = _FRAGMENT.unpack_from(block, at)
        start = at + _FRAGMENT.size
        if crc == length == type_ == 0:
            return  # Padding written ahead.
        data = block[start : start + length]
        if len(data) < length and len(block) < BLOCK_BYTES:
            record.drop()
            yield _truncated(place)
            return
        if not _WHOLE <= type_ <= _LAST or zlib.crc32(data, zlib.crc32(bytes([type_]))) != crc:
            record.drop()
            yield Remark("damaged-record", f"the check at byte {at} fails; the rest of the block is left out", place)
            return
        yield from record.add(type_, data)
        at = start + length
    if len(block) < BLOCK_BYTES and at < len(block):
        record.drop()
        yield _truncated(place)


def _truncated(place: str) -> Remark:
    return Remark("truncated-record", "the file ends inside a record: the run was killed or is still going", place)
