"""Small parsers: what they read, and that no text makes them fail."""

from math import inf, isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.parsing import lines

ANY_TEXT = st.one_of(st.text(max_size=200), st.text("'{}[]():,.0123456789eEnaif-+% smhdnpt\n", max_size=200))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5m 12s", 312.0), ("1h 02m", 3720.0), ("72.00s", 72.0), ("350ms", 0.35), ("01:08", 68.0), ("1:02:03", 3723.0)],
)
def test_durations_become_seconds(text: str, seconds: float):
    assert lines.seconds_in(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "12", "abc", "5 apples", "m", "5m later"])
def test_what_is_no_duration_is_none(text: str):
    assert lines.seconds_in(text) is None


def test_percent_becomes_a_fraction_and_a_plain_number_does_not():
    assert lines.fraction_in("Trainable 118/256 (46.1%)") == pytest.approx(0.461)
    assert lines.fraction_in("46.1") is None


def test_numbers_keep_their_sign_and_lose_their_units():
    assert lines.numbers_in("v1 loss -2 at 7.44it/s, qwen3_4b, 41% 1e-06") == [-2.0, 7.44, 41.0, 1e-06]


def test_numpy_and_torch_wrappers_are_taken_off():
    text = "perf 1: {'a': np.float64(0.3), 'b': tensor(0.5, device='cuda:0'), 'c': nan, 'd': -inf, 'e': {'f': 3}}"
    pairs = lines.dict_numbers(text)
    assert not pairs.cut
    assert isnan(pairs.values["c"])
    assert {k: v for k, v in pairs.values.items() if k != "c"} == {"a": 0.3, "b": 0.5, "d": -inf, "e/f": 3.0}


def test_the_last_number_of_a_broken_dict_is_not_trusted():
    pairs = lines.dict_numbers("x {'a': 1.5, 'b': np.float64(2.5), 'c': 12")
    assert pairs.cut
    assert pairs.values == {"a": 1.5, "b": 2.5}


def test_nothing_is_evaluated():
    assert lines.literal_in("__import__('os').getcwd()") is None
    assert lines.literal_in("{'a': open('x')}") is None
    assert lines.literal_in("[1, 2.5, None, 'x', {'y': True}]") == [1, 2.5, None, "x", {"y": True}]


@given(ANY_TEXT)
def test_no_text_makes_a_parser_fail(text: str):
    lines.number_in(text)
    lines.numbers_in(text)
    lines.fraction_in(text)
    lines.seconds_in(text)
    lines.literal_in(text)
    lines.dict_numbers(text)


def test_deep_nesting_and_long_text_are_survived():
    assert lines.literal_in("[" * 5_000) is None
    assert lines.dict_numbers("{'a': " * 5_000).values == {}
    assert lines.dict_numbers("{" + "'a': 1, " * 50_000 + "}").values == {"a": 1.0}
