"""Clocks of writers: what their stamps are off by, from when they were written."""

HOUR_S, QUARTER_S = 3600.0, 900.0
"""Clocks of other zones differ by whole hours, or by whole quarters of one."""
PROMPT_S = 600.0
"""A record is written this soon after the time it bears, once we look at every tick."""


def zone_s(stamp_s: float, written_s: float, known_s: float, fresh: bool) -> float:
    """Seconds to add to a writer's stamps, from one that was written at `written_s` or a little before.

    Of a file just found, the last record may be long before the last line: then only whole hours are believed.
    # stamped 09:00:10, written 11:00:12 -> 2 h | stamped 13:30:10 of no date, written on day 20000 -> that day
    """
    if abs(stamp_s + known_s - written_s) < PROMPT_S:
        return known_s
    lag_s = written_s - stamp_s
    if 0.0 <= lag_s < HOUR_S / 2:
        return 0.0
    grain_s = HOUR_S if fresh else QUARTER_S
    return round(lag_s / grain_s) * grain_s
