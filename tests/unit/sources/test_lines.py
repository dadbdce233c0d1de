"""Physical lines: every byte is seen once, whatever the encoding and length."""

import io
from collections.abc import Callable
from typing import BinaryIO, cast

import pytest

from tuner.records import Remark
from tuner.sources.base import Opened
from tuner.sources.lines import LINE_CAP_BYTES, RawLine, head_text, looks_binary, raw_lines

Make = Callable[..., Opened]


def texts(opened: Opened) -> list[str]:
    return [item.text for item in raw_lines(opened) if isinstance(item, RawLine)]


def test_lines_keep_their_numbers_across_chunks(opened: Make) -> None:
    lines = [item for item in raw_lines(opened("x" * 50 + "\n" + "line\n" * 200_000 + "last\n")) if item]
    assert isinstance(lines[-1], RawLine)
    assert (lines[-1].text, lines[-1].number, lines[-1].cut) == ("last", 200_002, False)


def test_a_last_line_without_newline_is_cut(opened: Make) -> None:
    lines = list(raw_lines(opened("one\ntwo")))
    assert [(x.text, x.cut) for x in lines if isinstance(x, RawLine)] == [("one", False), ("two", True)]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le"])
def test_other_encodings_read_as_the_same_text(opened: Make, encoding: str) -> None:
    text = "timing_s/gen: 341\r\ntiming_s/step: 541\r\nMünchen 100%|██|\r\n"
    assert texts(opened(text.encode(encoding))) == ["timing_s/gen: 341", "timing_s/step: 541", "München 100%|██|"]


def test_a_latin_1_letter_costs_only_itself(opened: Make) -> None:
    assert texts(opened("Läufer step:1\n".encode("latin-1"))) == ["L\ufffdufer step:1"]


def test_nul_holes_of_log_rotation_vanish(opened: Make) -> None:
    assert texts(opened(b"\0" * 700_000 + b"step:1\nst\0ep:2\n")) == ["step:1", "step:2"]


def test_an_over_long_line_is_cut_and_told_and_the_next_one_read(opened: Make) -> None:
    items = list(raw_lines(opened(b"a\n" + b"x" * (LINE_CAP_BYTES + 900_000) + b"\nb\n")))
    remarks = [item for item in items if isinstance(item, Remark)]
    lines = [item for item in items if isinstance(item, RawLine)]
    assert [(len(x.text), x.number, x.cut) for x in lines] == [(1, 1, False), (LINE_CAP_BYTES, 2, True), (1, 3, False)]
    assert [(r.code, r.origin) for r in remarks] == [("line-cut", "job.log:2")]
    assert "900000 bytes" in remarks[0].detail


def test_an_over_long_last_line_is_told_too(opened: Make) -> None:
    items = list(raw_lines(opened(b"x" * (2 * LINE_CAP_BYTES))))
    assert isinstance(items[-1], Remark)


class Endless(io.RawIOBase):
    """A line of `left` bytes that nobody could hold in memory; counts the largest read."""

    def __init__(self, left: int) -> None:
        self.left, self.largest = left, 0

    def read(self, size: int = -1, /) -> bytes:
        self.largest = max(self.largest, size)
        give = min(size, self.left)
        self.left -= give
        return b"y" * give


@pytest.mark.slow
def test_a_gigabyte_without_newline_is_read_in_small_pieces() -> None:
    stream = Endless(1 << 30)
    items = list(raw_lines(Opened(cast(BinaryIO, stream), "x")))
    assert stream.left == 0
    assert 0 < stream.largest <= 1 << 20
    assert sum(len(item.text) for item in items if isinstance(item, RawLine)) == LINE_CAP_BYTES


def test_text_is_not_taken_for_binary_nor_binary_for_text() -> None:
    assert not looks_binary("Läufer".encode("latin-1") + b" step:1 reward 0.5\n" * 5)
    assert not looks_binary("timing_s/gen".encode("utf-16"))
    assert not looks_binary(b"\x1b[36m(TaskRunner pid=1)\x1b[0m step:1")
    assert not looks_binary(b"")
    assert looks_binary(b"\x7fELF\x02\x01\x01" + bytes(range(256)) * 4)
    assert looks_binary(bytes(range(256)) * 4)


def test_a_head_that_ends_inside_a_letter_is_text() -> None:
    assert head_text("100%|█".encode()[:-1]).startswith("100%|")
