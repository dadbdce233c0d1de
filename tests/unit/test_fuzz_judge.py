"""The fuzzer's judge: only strict, finite JSON that keeps the shipped schema passes, and in time."""

import json
import time
from itertools import count

import pytest

from tests.fuzz.runner import DirtyAnswerError, HangError, check_answer, time_limit


@pytest.mark.parametrize("text", ["", "{", "[1, 2", '{"verdict": NaN}', '{"verdict": -Infinity}', '{"verdict": 1e999}'])
def test_what_is_not_strict_finite_json_is_refused(text: str) -> None:
    with pytest.raises(DirtyAnswerError, match="not strict JSON"):
        check_answer(text)


def test_what_does_not_keep_the_schema_is_refused() -> None:
    with pytest.raises(DirtyAnswerError, match="schema"):
        check_answer(json.dumps({"verdict": "balanced"}))


def test_a_case_that_computes_for_ever_is_a_hang() -> None:
    with pytest.raises(HangError, match="of computing"), time_limit(hang_s=0.05):
        any(number < 0 for number in count())


def test_a_case_that_waits_for_ever_is_a_hang_too() -> None:
    with pytest.raises(HangError, match="of waiting"), time_limit(stuck_s=0.05):
        time.sleep(60.0)


def test_a_busy_machine_makes_no_hang() -> None:
    """Time goes by in which the case does not compute: that is not its fault."""
    with time_limit(hang_s=0.2):
        time.sleep(0.5)
