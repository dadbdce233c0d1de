"""The readers of configuration text take any text: they never raise, and what they return is plain and finite."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.parsing.configuration import (
    flatten,
    parse_block,
    parse_call_repr,
    parse_dotted_lines,
    parse_overrides,
    parse_python_repr,
    parse_tokens,
    parse_yaml,
)
from tuner.sources.configuration.launch import launches, looks_like_launch

WORDS = r"""{ } [ ] ( ) ' " , : = < > \ a Name( 1 - .5 e9 nan None --flag a.b= $ ${ $(( ` # &x *x !!t | % ~ é ... A=( if
    <<EOF ${A[@]} += \'\'\' [a] key"""
PIECES = st.sampled_from(
    [*WORDS.split(), "\n", " ", "\0", "- ", "fi\n", "EOF\n", "python train.py", "9" * 30, "\ud800", "\x85"]
)
STARTS = st.sampled_from(["", "{", "[", "(", "Name(", "{'a': ", "A=(", "python train.py "])
TEXTS = st.one_of(
    st.text(max_size=200), st.builds(lambda start, rest: start + "".join(rest), STARTS, st.lists(PIECES, max_size=60))
)
SCALARS = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False)
PLAIN = st.recursive(
    SCALARS | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


def plain_and_finite(value: object) -> bool:
    if isinstance(value, list):
        return all(plain_and_finite(item) for item in value)
    if isinstance(value, dict):
        return all(isinstance(key, str) and plain_and_finite(item) for key, item in value.items())
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, bool | int | str)


@given(TEXTS)
@settings(max_examples=300, deadline=None)
def test_any_text_is_taken_by_every_reader(text):
    parse_python_repr(text)
    parse_yaml(text)
    looks_like_launch(text)
    looks_like_launch(text, alone=True)
    for flat in (
        parse_block(text),
        parse_call_repr(text),
        parse_dotted_lines(text.splitlines()),
        parse_overrides(text),
        parse_tokens(text.split()),
    ):
        assert all(isinstance(key, str) for key in flat)
        assert all(plain_and_finite(value) for value in flat.values())


@given(TEXTS)
@settings(max_examples=200, deadline=None)
def test_any_text_is_taken_as_a_launch_script(text):
    assert list(launches(text, "run.sh"))


@given(st.dictionaries(st.text(max_size=8), PLAIN, max_size=6))
@settings(max_examples=200, deadline=None)
def test_what_python_prints_is_read_back(value):
    assert parse_python_repr(repr(value)) == value


@given(st.text(min_size=1, max_size=40))
@settings(max_examples=200, deadline=None)
def test_a_printed_string_survives_its_escapes(text):
    assert parse_python_repr(repr([text])) == [text]


def test_a_mapping_that_holds_itself_or_is_endless_is_cut():
    looped: dict[str, object] = {"n": 1}
    looped["self"] = looped
    wide: object = 1
    for _ in range(40):
        wide = [wide, wide]
    assert flatten(looped)["n"] == 1
    assert len(str(flatten({"wide": wide}))) < 10_000_000
