"""Laws of the text sources: whatever the bytes, only our own errors, plain numbers and printable text come out."""

import io
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuner.errors import TunerError
from tuner.frameworks.registry import FRAMEWORKS
from tuner.records import Configuration, Item, Record, Remark
from tuner.sources import console, jsonl, prometheus_text, table, trainer_state
from tuner.sources.base import Format, Kind, Opened
from tuner.sources.opening import open_sources

CASES = Path(__file__).parents[1] / "data" / "cases"
READERS = (console.KIND, jsonl.KIND, table.KIND, prometheus_text.KIND, trainer_state.KIND)
FORMATS = tuple(Format(f.name, x.name, x.markers, x.parser, x.block, x.faint) for f in FRAMEWORKS for x in f.formats)
SAMPLES = tuple(path.read_bytes()[:6_000] for path in sorted(CASES.iterdir()) if path.suffix != ".md")
STATE = b'{"max_steps": 5, "log_history": [{"step": 1, "loss": 0.5}, {"step": 2, "loss": NaN}]}'

# fmt: off
TOKENS = (b"\n", b"\r", b"\0", b'"', b"'", b"{", b"}", b"[", b"]", b":", b",", b"=", b"\\", b"#", b"\xff", b"\xe2\x96",
          b"nan", b"inf", b"1e999", b"-", b"\x1b[", b"\x1b]", b"(a pid=1) ", b"step:", b"wandb: ", b"# HELP m x\n",
          b"NaN", b"99999999999999999999", b"\xef\xbb\xbf", b"\xff\xfe", b"100%|", b"\t", b"00:00:01 ", b"log_history")
# fmt: on


@st.composite
def spoiled(draw: st.DrawFn) -> bytes:
    """A real file with pieces cut out, doubled, swapped and replaced."""
    data = draw(st.sampled_from((*SAMPLES, STATE)))
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 400)))
        piece = draw(st.sampled_from((b"", data[start:end] * 2, data[start:end][::-1], *TOKENS)))
        data = data[:start] + piece + data[end:]
    return data[draw(st.integers(0, 200)) :] if draw(st.booleans()) else data


BYTES = st.one_of(
    spoiled(),
    st.binary(max_size=400),
    st.lists(st.sampled_from(TOKENS), max_size=60).map(b"".join),
    st.text(max_size=200).map(lambda text: text.encode("utf-8", errors="replace")),
)


def items_of(kind: Kind, data: bytes) -> list[Item]:
    """What was read before the end or before our own error."""
    items: list[Item] = []
    try:
        for item in kind.read(Opened(io.BytesIO(data), "job.log"), FORMATS):
            items.append(item)
    except TunerError as error:
        assert "job.log" in str(error)  # noqa: PT017
    return items


def assert_sound(item: Item) -> None:
    assert item.origin.startswith("job.log")
    match item:
        case Record():
            assert all(type(value) is float for value in item.values.values())
            assert item.step is None or type(item.step) is int
            assert item.time_s is None or abs(item.time_s) < 1e12
            texts = [*item.values, *item.labels, *item.labels.values()]
        case Configuration():
            texts = [*item.values]
        case Remark():
            texts = [item.code, item.detail]
    assert "".join(texts).encode("utf-8") is not None


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(BYTES)
def test_no_reader_fails_on_any_bytes(data: bytes) -> None:
    for kind in READERS:
        assert 0.0 <= kind.claims("job.log", data) <= 1.0
        for item in items_of(kind, data):
            assert_sound(item)


@settings(max_examples=100, deadline=None)
@given(BYTES, st.sampled_from((b"", b"\x1f\x8b", b"BZh9", b"\xfd7zXZ\x00", b"PK\x03\x04")))
def test_opening_any_bytes_opens_or_says_why(data: bytes, magic: bytes) -> None:
    try:
        for item in open_sources(["-"], io.BytesIO(magic + data), lambda _name, _head: True):
            if isinstance(item, Opened):
                item.stream.read()
            else:
                assert item.detail
    except TunerError as error:
        assert str(error)  # noqa: PT017


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(SAMPLES), st.sampled_from(READERS))
def test_line_ends_and_a_byte_order_mark_change_no_figure(data: bytes, kind: Kind) -> None:
    plain = [dict(item.values) for item in items_of(kind, data) if isinstance(item, Record)]
    dos = b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n")
    assert repr([dict(item.values) for item in items_of(kind, dos) if isinstance(item, Record)]) == repr(plain)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(SAMPLES), st.data())
def test_a_file_cut_at_a_line_end_gives_the_first_rows_of_the_whole(data: bytes, draw: st.DataObject) -> None:
    """For rows (JSONL) nothing that comes later may change what was read before."""
    lines = data.split(b"\n")
    keep = draw.draw(st.integers(0, len(lines)))
    whole = [item for item in items_of(jsonl.KIND, data) if isinstance(item, Record)]
    part = [item for item in items_of(jsonl.KIND, b"\n".join(lines[:keep]) + b"\n") if isinstance(item, Record)]
    assert repr(part) == repr(whole[: len(part)])
