"""Laws of the first look at a log: what it passes over holds no metrics, whatever surrounds them."""

import io

from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.records import Line, Record
from tuner.sources import console
from tuner.sources.base import Format, Opened
from tuner.sources.console import generic
from tuner.sources.console.prefixes import Cleaner
from tuner.sources.console.reading import SAME_DIGIT

# fmt: off
BEFORE = ("", "(W pid=7) ", "\x1b[36m(W pid=7)\x1b[0m ", "[rank0]:", "[1,0]<stdout>:", "node-1: ", "worker-1 | ", "é ",
          "2026-01-02 03:04:05,123 INFO [a.py:12] ", "100%|###| 3/4 [00:01<00:02, 1.0s/it]", "\r", "[32m", "a.b", "@")
KEYS = ("loss", "step", "train/loss", "kl_mean", "größe", "maß_x", "p99", "acc@1", "x.y-z", "(GB)", "7b")
VALUES = ("1", "-0.5", ".5", "1e-06", "nan", "NaN", "inf", "-inf", "-Infinity", "3s", "None", "٣")
# fmt: on
COLOURS = (("", ""), ("\x1b[32m", ""), ("[32m", "[0m"), ("\a", ""))
PAIR = st.tuples(st.sampled_from(KEYS), st.sampled_from((":", "=", ": ", " = ", " :")), st.sampled_from(VALUES))


@st.composite
def lines(draw: st.DrawFn) -> bytes:
    """A few pairs, perhaps coloured, behind what jobs put before them."""
    on, off = draw(st.sampled_from(COLOURS))
    between = draw(st.sampled_from((" ", ", ", " | ", "; ", "\t", "\r", "] ")))
    pairs = (f"{key}{mark}{on}{value}{off}" for key, mark, value in draw(st.lists(PAIR, min_size=3, max_size=12)))
    return (draw(st.sampled_from(BEFORE)) + between.join(pairs)).encode()


class _Lines:
    """A format that tells every line it is given."""

    def feed(self, line: Line) -> tuple[Record]:
        return (Record({}, labels={"text": line.text}),)

    def flush(self) -> tuple[()]:
        return ()


@settings(max_examples=500)
@given(lines())
def test_a_line_with_a_list_of_pairs_is_never_passed_over(raw: bytes) -> None:
    cleaned = Cleaner().lines(raw.decode(), 1)
    holds_metrics = any(generic.numbers_in_list(line.text) is not None for line in cleaned)
    assert generic.likely(raw) or not holds_metrics


@settings(max_examples=500)
@given(lines())
def test_one_look_serves_all_lines_that_differ_in_their_digits_only(raw: bytes) -> None:
    assert generic.likely(raw.translate(SAME_DIGIT)) or not generic.likely(raw)


@given(st.text("ab-09.", min_size=1, max_size=6), st.lists(st.text("ab-09.", max_size=12), max_size=30))
def test_a_format_is_given_every_line_with_its_marker_and_no_other(marker: str, texts: list[str]) -> None:
    form = Format("own", "lines", (marker,), _Lines)
    items = console.read(Opened(io.BytesIO("\n".join(texts).encode()), "job.log"), [form])
    assert [item.labels["text"] for item in items if isinstance(item, Record)] == [
        text for text in texts if marker in text
    ]
