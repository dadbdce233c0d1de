"""Look-ups in a configuration: the right type or nothing."""

from math import inf, nan

from tuner import lookup


def test_only_whole_numbers_are_whole():
    config = {"a": 8, "b": 8.0, "c": 8.5, "d": "8", "e": True, "f": nan, "g": inf, "h": None, "i": 10**400}
    assert [lookup.whole(config, key) for key in "abcdefghi"] == [8, 8, *[None] * 7]


def test_minus_one_and_zero_mean_no_limit():
    assert lookup.positive({"save_freq": -1}, "save_freq") is None
    assert lookup.positive({"save_freq": 0}, "save_freq") is None
    assert lookup.positive({"new": 5}, "old", "new") == 5


def test_the_first_usable_key_wins():
    assert lookup.real({"a": "x", "b": 0.5, "c": 1}, "a", "b", "c") == 0.5
    assert lookup.truth({"a": 1, "b": False}, "a", "b") is False


def test_an_unknown_factor_makes_the_product_unknown():
    assert lookup.times(2, 8) == 16
    assert lookup.times(2, None) is None
