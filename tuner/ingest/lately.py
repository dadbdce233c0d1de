"""The end of a window by duration: `--last 2h`."""

import re
from collections.abc import Sequence

from simulators.snapshot import Row

UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*([smhd])")


def duration_s(text: str) -> float | None:
    """Seconds of `90s`, `10m`, `2h` or `1.5d`; None for anything else, and for nothing at all (`0h`).

    >>> duration_s("2h"), duration_s("1.5d"), duration_s("50")
    (7200.0, 129600.0, None)
    """
    found = _DURATION.fullmatch(text.strip().lower())
    return float(found.group(1)) * UNITS_S[found.group(2)] or None if found else None


def lately(rows: Sequence[Row], last_s: float | None) -> list[Row]:
    """The rows of the last seconds: by their times, else by the steps' own lengths counted from the end."""
    if last_s is None or not rows:
        return list(rows)
    times = [row.time_s for row in rows if row.time_s is not None]
    if len(times) == len(rows):
        return [row for row in rows if row.time_s is not None and row.time_s > max(times) - last_s]
    kept: list[Row] = []
    passed_s = 0.0
    for row in reversed(rows):
        if passed_s >= last_s:
            break
        kept.append(row)
        passed_s += row.values.get("step_s", 0.0) * row.weight
    return kept[::-1]
