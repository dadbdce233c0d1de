"""Whatever a server answers in place of series, it becomes records or one kind of error."""

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from tuner.feeds.http import UnansweredError
from tuner.feeds.prometheus_server import series_in
from tuner.feeds.scraped import Scrapes
from tuner.records import Record

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
WORDS = st.sampled_from(["__name__", "job", "instance", "engine", "le", "vllm:num_requests_running", "up", "0", "NaN"])
LABELS = st.dictionaries(WORDS | st.text(max_size=6), WORDS | st.text(max_size=6) | ANYTHING, max_size=5)
SAMPLES = st.lists(st.tuples(st.floats() | ANYTHING, st.text(max_size=6) | ANYTHING).map(list) | ANYTHING, max_size=4)
SERIES = st.fixed_dictionaries({"metric": LABELS | ANYTHING, "values": SAMPLES | ANYTHING}) | ANYTHING


@given(st.lists(SERIES, max_size=4), st.lists(SERIES, max_size=2))
def test_any_answer_is_records_or_refused(answer: list[object], up: list[object]) -> None:
    scrapes = Scrapes()
    with suppress(UnansweredError):
        scrapes.targets([series_in(item) for item in up])
    asked, answered = scrapes.coverage()
    assert answered <= asked
    with suppress(UnansweredError):
        for item in scrapes.items("vllm", [series_in(item) for item in answer], 0.0, "server"):
            if isinstance(item, Record):
                assert all(isinstance(value, float) for value in item.values.values())
