"""Several logs that each count sandboxes of their own (ranks, workers), as the count of the whole job."""

from collections.abc import Sequence
from dataclasses import replace

from tuner.ingest.history import RawRow
from tuner.ingest.sandbox_counts import ENDED, FAILED, STARTED

SUMMED = (STARTED, FAILED, "sandbox_pending")


def summed(sources: Sequence[Sequence[RawRow]]) -> list[list[RawRow]]:
    """Source by source its rows; of those that count sandboxes the first has the counts of all: the sum of their last.

    It begins when all have counted: who is not heard yet may have begun long before the rows that are kept. Ends add
    up only where each source tells of them: of a client that logs none nobody knows how many live.
    Rows of steps are the job's own count, of all.
    # worker 1: 5 started at 9:00, 8 at 9:02 | worker 2: 3 started at 9:01  ->  8 at 9:01, 11 at 9:02
    """
    counts = [[row for row in rows if STARTED in row.values] for rows in sources]
    counting = [place for place, rows in enumerate(counts) if rows]
    if len(counting) < 2 or any(row.step is not None for rows in counts for row in rows):
        return [list(rows) for rows in sources]
    found = [[row for row in rows if STARTED not in row.values] for rows in sources]
    found[counting[0]] += _together([counts[place] for place in counting])
    return found


def _together(counts: Sequence[Sequence[RawRow]]) -> list[RawRow]:
    """In the order of time; where a row has none, only what all of them come to in the end."""
    placed = [(row.time_s, place, row) for place, rows in enumerate(counts) for row in rows]
    if any(time_s is None for time_s, _, _ in placed):
        last = [rows[-1] for rows in counts]
        return [replace(_sum(last, last[-1]), time_s=None)]
    newest: dict[int, RawRow] = {}
    found = []
    for _, place, row in sorted(placed, key=lambda one: (one[0] or 0.0, one[1])):
        newest[place] = row
        if len(newest) == len(counts):
            found.append(_sum(list(newest.values()), row))
    return found


def _sum(rows: Sequence[RawRow], now: RawRow) -> RawRow:
    values = {name: value for name, value in now.values.items() if name not in (*SUMMED, ENDED)}
    values |= {n: sum(told) for n in SUMMED if (told := [row.values[n] for row in rows if n in row.values])}
    ended = [row.values[ENDED] for row in rows if ENDED in row.values]
    if len(ended) == len(rows):
        values[ENDED] = sum(ended)
    return replace(now, values=values)
