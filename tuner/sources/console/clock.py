"""Times at the start of a log line, as seconds on one growing axis."""

import re
from datetime import date
from functools import lru_cache

DAY_S = 86_400.0

YEAR_UNKNOWN = 2000
"""Stands in where a log prints month and day only: a leap year, so that February 29 exists. Only differences count."""

TIME = re.compile(
    r"""[\s\[(]{0,12}
    (?:[A-Z]{4,8}[:\s]\s{0,12}|[IWEF](?=\d{4}\s))?            # a level word, or klog's letter
    [\[(]?
    (?:(?P<y>\d{4})[-/](?P<mo>\d\d)[-/](?P<d>\d\d)[T\s]\s?
      |(?P<umo>\d\d)/(?P<ud>\d\d)/(?P<uy>\d{4}|\d\d)\s
      |(?P<bmo>\d\d)-(?P<bd>\d\d)\s
      |(?P<kmo>\d\d)(?P<kd>\d\d)\s
      |(?P<month>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\s{1,2}(?P<md>\d{1,2})\s
    )?
    (?P<h>[01]\d|2[0-3]):(?P<m>[0-5]\d):(?P<s>[0-5]\d|60)(?:[.,](?P<frac>\d{1,9}))?
    (?P<zone>Z|[+-]\d\d:?\d\d)?(?![\d:])""",
    re.X,
)

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class Clock:
    """Reads the time that a line starts with; remembers the day for lines that print the time of day only."""

    def __init__(self) -> None:
        self._day_s = 0.0
        self._year = YEAR_UNKNOWN
        self._last_s: float | None = None

    def read(self, text: str) -> float | None:
        """Unix seconds (as UTC) of a leading time; days that pass unprinted are added when the hand goes back."""
        match = TIME.match(text)
        if match is None:
            return None
        of_day_s = _time_of_day_s(match)
        day_s = self._date_s(match)
        if day_s is None:
            if self._last_s is not None and self._day_s + of_day_s < self._last_s - DAY_S / 2:
                self._day_s += DAY_S
        else:
            self._day_s = day_s
        self._last_s = self._day_s + of_day_s
        return self._last_s - _zone_s(match["zone"])

    def _date_s(self, match: re.Match[str]) -> float | None:
        if match["y"]:
            self._year = int(match["y"])
            return _day_s(self._year, int(match["mo"]), int(match["d"]))
        if match["uy"]:
            year = int(match["uy"])
            self._year = year if year >= 100 else 2000 + year
            return _day_s(self._year, int(match["umo"]), int(match["ud"]))
        if match["month"]:
            return self._yearless(_MONTHS.index(match["month"]) + 1, int(match["md"]))
        month = match["bmo"] or match["kmo"]
        return self._yearless(int(month), int(match["bd"] or match["kd"])) if month else None

    def _yearless(self, month: int, day: int) -> float | None:
        found = _day_s(self._year, month, day)
        if found is not None and self._last_s is not None and found < self._last_s - 180 * DAY_S:
            self._year += 1
            found = _day_s(self._year, month, day)
        return found


def _time_of_day_s(match: re.Match[str]) -> float:
    whole = int(match["h"]) * 3600 + int(match["m"]) * 60 + int(match["s"])
    return whole + (float(f"0.{match['frac']}") if match["frac"] else 0.0)


def _zone_s(zone: str | None) -> float:
    if not zone or zone == "Z":
        return 0.0
    seconds = int(zone[1:3]) * 3600 + int(zone[-2:]) * 60
    return float(-seconds if zone[0] == "-" else seconds)


@lru_cache(maxsize=64)
def _day_s(year: int, month: int, day: int) -> float | None:
    try:
        return (date(year, month, day) - date(1970, 1, 1)).days * DAY_S
    except ValueError:
        return None
