"""Settings and printed dicts as adapters read them."""

from math import isnan

import pytest

from tuner.adapting import (
    count_setting,
    flag_setting,
    number_setting,
    plain_value,
    printed_numbers,
    quotient,
    setting,
    spelled,
)


def test_a_setting_is_found_whole_or_at_the_end_of_a_dotted_key():
    assert setting({"group_size": 8, "dataset.group_size": 16}, "group_size") == 8
    assert setting({"dataset.group_size": 16}, "group_size") == 16
    assert setting({"dataset.my_group_size": 16}, "group_size") is None


def test_counts_are_whole_and_above_zero_whatever_their_type():
    config = {"a": "64", "b": 0, "c": -1, "d": 2.5, "e": True, "f": None, "g": 8.0}
    assert [count_setting(config, name) for name in "abcdefg"] == [64, None, None, None, None, None, 8]


def test_flags_may_be_texts():
    assert [flag_setting({"x": value}, "x") for value in (True, "false", "True", "maybe", 1)] == [
        True,
        False,
        True,
        None,
        None,
    ]


def test_dashes_and_underscores_are_one():
    assert spelled({"--max-num-seqs": 1}) == {"max_num_seqs": 1}


def test_a_printed_setting_is_a_truth_value_a_number_or_a_text():
    assert [plain_value(text) for text in ("True", "64", "0.85", "auto")] == [True, 64, 0.85, "auto"]


def test_a_mean_of_nothing_is_unknown():
    assert quotient({"sum": 4.0, "count": 0.0}, "sum", "count") is None
    assert quotient({"sum": 4.0}, "sum", "count") is None
    assert quotient({"sum": 4.0, "count": 8.0}, "sum", "count") == 0.5


def test_printed_dicts_are_read_quoted_nested_and_with_odd_numbers():
    assert printed_numbers("x {'a': 1, 'b': '2.5', 'c': 'text', 'd': True} y").values == {"a": 1.0, "b": 2.5}
    assert printed_numbers("{'a': {'b': np.float64(0.5)}}").values == {"a/b": 0.5}
    assert isnan(printed_numbers("{'a': nan, 'it': \"it's\"}").values["a"])
    assert printed_numbers("no dict").values == {}


def test_a_dict_that_breaks_off_is_said_to_and_its_last_number_left_out():
    cut = printed_numbers("{'a': '1.5', 'b': 2, 'c': 3")
    assert cut.cut
    assert cut.values == {"a": 1.5, "b": 2.0}


@pytest.mark.parametrize("value", [10**400, -(10**400), "9" * 400, 1e300, float("inf"), float("nan"), "nan", True])
def test_a_setting_beyond_any_count_is_no_setting(value):
    assert number_setting({"max_num_seqs": value}, "max_num_seqs") is None
    assert count_setting({"max_num_seqs": value}, "max_num_seqs") is None
