"""RecordedPlant: a past run as a Plant. What it is told is noted, not obeyed: the past does not change."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from simulators.plant import Observation, Order, Outcome, Receipt, Setpoints, Status
from simulators.snapshot import Row, Snapshot
from simulators.window import Sources, assemble

NOTED = "noted: a recording cannot change"


@dataclass(frozen=True, slots=True)
class Noted:
    """An order that the recording was given."""

    now_s: float
    order: Order


class RecordedPlant:
    """Shows at each time the last observation made by then; before the first, nothing is known.

    With the receipts of the run's journal, an order that was given then is answered as it was then.
    """

    def __init__(self, observations: Iterable[Observation], receipts: Mapping[str, Receipt] | None = None) -> None:
        self._seen = sorted(observations, key=lambda seen: seen.time_s)
        self._times = [seen.time_s for seen in self._seen]
        self._receipts = dict(receipts or {})
        self.notes: list[Noted] = []

    def observe(self, now_s: float) -> Observation:
        count = bisect_right(self._times, now_s)
        return self._seen[count - 1] if count else Observation(now_s, Snapshot({}), Setpoints())

    def apply(self, order: Order, now_s: float) -> Receipt:
        note = Noted(now_s, order)
        if note not in self.notes:
            self.notes.append(note)
        told = self._receipts.get(order.decision_id)
        asked = [knob for knob, value in asdict(order.setpoints).items() if value is not None]
        return told or Receipt(order.decision_id, dict.fromkeys(asked, Outcome(Status.REFUSED, NOTED)))


@dataclass(frozen=True, slots=True)
class Past:
    """What a reading of a finished run's files gives."""

    rows: Sequence[Row]
    in_force: Setpoints
    sources: Sources | None = None
    engine_rows: Sequence[Row] = ()


def step_by_step(past: Past, window_rows: int) -> list[Observation]:
    """What a controller would have seen after each trainer step, with at most `window_rows` steps in view.

    Steps without a time of their own are set one after another by their seconds; without those, one second apart.
    """
    times = _times(past.rows)
    seen = []
    for count, now_s in enumerate(times, start=1):
        since = max(0, count - window_rows)
        start_s = times[since - 1] if since else float("-inf")
        engines = [r for r in past.engine_rows if r.time_s is not None and start_s < r.time_s <= now_s]
        snapshot = assemble(past.rows[since:count], engines, (), past.sources)
        seen.append(Observation(now_s, snapshot, past.in_force))
    return seen


def _times(rows: Sequence[Row]) -> list[float]:
    times: list[float] = []
    for row in rows:
        after = (times[-1] if times else 0.0) + row.values.get("step_s", 1.0) * row.weight
        times.append(after if row.time_s is None else max(row.time_s, times[-1] if times else row.time_s))
    return times
