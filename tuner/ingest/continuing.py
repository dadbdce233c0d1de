"""A picture that goes on from one that was written down: a restarted daemon knows the steps before its end."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from simulators.snapshot import Row, Snapshot
from simulators.window import Sources, assemble
from tuner.ingest.following import WINDOW_ROWS, aged


def continued(before: Snapshot, after: Snapshot, now_s: float) -> Snapshot:
    """What was known then and what was read since, as one window.

    # steps 3..7 written down, 7 (its rest), 8, 9 read since -> 3..9 | the job went back to step 5 -> 3, 4, 5
    """
    if len(after.rows) >= WINDOW_ROWS or not (before.rows or before.engine_rows):
        return after
    rows = [*_merged(before.rows, after.rows)][-WINDOW_ROWS:]
    engines = [*_earlier(before.engine_rows, after.engine_rows), *after.engine_rows][-WINDOW_ROWS:]
    told = {**before.signals, **after.signals}
    sources = Sources({n: s.trust for n, s in told.items()}, {n: s.derived_from for n, s in told.items()})
    return aged(assemble(rows, engines, after.notes, sources), now_s)


def _merged(before: Sequence[Row], after: Sequence[Row]) -> list[Row]:
    """A step of both is one row: what a half-told step said first, and its rest."""
    steps: Mapping[int | None, Row] = {row.step: row for row in before if row.step is not None}
    joined = [_with(steps[row.step], row) if row.step in steps else row for row in after]
    first = min((row.step for row in after if row.step is not None), default=None)
    if first is None:
        return [*before, *after]
    return [*(row for row in before if row.step is None or row.step < first), *joined]


def _with(first: Row, rest: Row) -> Row:
    return replace(rest, values={**first.values, **rest.values})


def _earlier(before: Sequence[Row], after: Sequence[Row]) -> list[Row]:
    since_s = min((row.time_s for row in after if row.time_s is not None), default=None)
    return [row for row in before if since_s is None or row.time_s is None or row.time_s < since_s]
