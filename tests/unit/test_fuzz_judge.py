"""The fuzzer's judge: only strict, finite JSON that keeps the shipped schema passes."""

import json

import pytest

from tests.fuzz.runner import DirtyAnswerError, check_answer


@pytest.mark.parametrize("text", ["", "{", "[1, 2", '{"verdict": NaN}', '{"verdict": -Infinity}', '{"verdict": 1e999}'])
def test_what_is_not_strict_finite_json_is_refused(text: str) -> None:
    with pytest.raises(DirtyAnswerError, match="not strict JSON"):
        check_answer(text)


def test_what_does_not_keep_the_schema_is_refused() -> None:
    with pytest.raises(DirtyAnswerError, match="schema"):
        check_answer(json.dumps({"verdict": "balanced"}))
