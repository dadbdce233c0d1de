"""Times of day and dates as engines write them inside a console line, read without knowing the year or the zone."""

import re
from collections.abc import Sequence
from datetime import date

DAY_S = 86_400.0
"""Seconds of a day."""
LEAP_YEAR = 1972
"""A year that has every day of the calendar: a date without a year is counted in it."""

EPOCH_DAY = date(1970, 1, 1).toordinal()
"""Day 0 of Unix time."""

LEAP_START_S = (date(LEAP_YEAR, 1, 1).toordinal() - EPOCH_DAY) * DAY_S

_FULL = re.compile(r"(\d{4})[-/](\d{2})[-/](\d{2})[T ,]+(\d{2}):(\d{2}):(\d{2})(?:[.,](\d{1,6}))?")
_DAY = re.compile(r"(?<![\d/-])(\d{2})[-/](\d{2}) (\d{2}):(\d{2}):(\d{2})(?:[.,](\d{1,6}))?")
_CLOCK = re.compile(r"(?<![\d:])(\d{2}):(\d{2}):(\d{2})(?:[.,](\d{1,6}))?(?![\d:])")


def seconds_of_stamp(text: str) -> float | None:
    """Seconds of the first time in `text`, or None: Unix seconds with a year (read as UTC), else days passed and clock.

    Two stamps of one kind can be subtracted; over midnight a bare clock falls back, which the caller must expect.
    """
    if (found := _FULL.search(text)) is not None:
        year, month, day, *clock = found.groups()
        return _seconds(int(year), int(month), int(day), clock)
    if (found := _DAY.search(text)) is not None:
        month, day, *clock = found.groups()
        seconds = _seconds(LEAP_YEAR, int(month), int(day), clock)
        return None if seconds is None else seconds - LEAP_START_S
    if (found := _CLOCK.search(text)) is not None:
        return _clock_s(found.groups())
    return None


def _seconds(year: int, month: int, day: int, clock: Sequence[str | None]) -> float | None:
    try:
        days = date(year, month, day).toordinal() - EPOCH_DAY
    except ValueError:
        return None
    seconds = _clock_s(clock)
    return None if seconds is None else days * DAY_S + seconds


def _clock_s(clock: Sequence[str | None]) -> float | None:
    hours, minutes, seconds = (int(part or 0) for part in clock[:3])
    if hours > 23 or minutes > 59 or seconds > 60:
        return None
    return hours * 3600.0 + minutes * 60.0 + seconds + float(f"0.{clock[3] or 0}")
