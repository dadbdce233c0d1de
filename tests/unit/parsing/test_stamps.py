"""Times in console lines: with a year, with a day, with a clock only, and things that only look like one."""

import pytest

from tuner.parsing.stamps import DAY_S, seconds_of_stamp


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("[1970-01-02 00:00:01 TP0] Decode batch", DAY_S + 1.0),
        ("2026-03-22T13:53:37.250Z INFO", 1774187617.25),
        ("[2026-03-22 13:53:37,500][INFO] - x", 1774187617.5),
        ("INFO 01-02 00:00:10 [loggers.py:259] Engine", DAY_S + 10.0),
        ("[16:43:29 TP0] Prefill batch.", 16 * 3600 + 43 * 60 + 29.0),
        ("no time here", None),
        ("[99:43:29 TP0]", None),
        ("2026-13-41 10:00:00", None),
        ("0:1:2 and 123:45:67:89", None),
    ],
)
def test_a_stamp_is_read_as_seconds(text, seconds):
    assert seconds_of_stamp(text) == seconds


def test_stamps_without_a_year_can_be_subtracted_over_the_end_of_a_month():
    before, after = (seconds_of_stamp(f"INFO {day} 00:00:00") for day in ("03-31", "04-01"))
    assert after - before == DAY_S
