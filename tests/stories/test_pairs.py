"""Stories: a change that was made and measured, against what was advised before it."""

from functools import cache

import pytest

from tests.stories.pairs import LEADS, WIDTH_MAX, Outcome, outcome_of, pairs

INSIDE_SHARE_MIN = 0.7
PAIRS = {pair.id: pair for pair in pairs()}
COUNTED = [name for name, pair in PAIRS.items() if not pair.held_out]
every_counted = pytest.mark.parametrize("name", COUNTED)


@cache
def outcome(name: str) -> Outcome:
    """Asked when a test needs it: collecting tests costs nothing."""
    return outcome_of(PAIRS[name])


def test_a_measured_gain_lies_inside_the_interval_in_most_pairs() -> None:
    missed = [o.pair.id for o in map(outcome, COUNTED) if not o.inside]
    assert len(COUNTED) - len(missed) >= INSIDE_SHARE_MIN * len(COUNTED), missed


@every_counted
def test_the_change_that_was_made_is_first_or_second(name: str) -> None:
    told = outcome(name)
    assert told.leads is (not told.pair.not_leading), f"rank {told.rank}, wanted 1 to {LEADS}"


@pytest.mark.parametrize("name", PAIRS)
def test_what_lies_outside_is_known_with_its_reason(name: str) -> None:
    told = outcome(name)
    assert told.inside is (not told.pair.outside), f"{told.gain}, measured {told.pair.gain_frac:+.3f}"


@every_counted
def test_no_interval_is_much_wider_than_the_gain(name: str) -> None:
    told = outcome(name)
    assert told.narrow is (not told.pair.too_wide), f"{told.gain}, wanted {WIDTH_MAX} gains"


def test_every_pair_is_answered_with_an_interval() -> None:
    assert [o.pair.id for o in map(outcome, PAIRS) if o.gain is None] == []
