"""From the scrapes and log lines of many engines to rows of the whole pool."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from simulators.plant import Mode
from simulators.signals import SIGNALS
from simulators.snapshot import Row, fold_values
from tuner.ingest.history import History, RawRow
from tuner.ingest.matching import Matcher
from tuner.ingest.translating import Provenance, translate
from tuner.records import Record

SILENT_ROUNDS = 6
"""A replica that missed this many rounds is gone: its last gauges no longer count."""
SILENT_PERIODS = 2.5
"""A replica that is scraped regularly and missed two times is gone."""
REPLICAS_MAX = 4096
"""More label sets than this in one source are noise, not engines."""
NOT_A_REPLICA = frozenset({"writer", "le", "quantile"})
"""Labels that do not tell engines apart."""

Replica = tuple[tuple[str, str], ...]
"""Labels and their values, sorted."""


class EngineRows:
    """Folds replicas as they report: a round ends when a replica speaks again, and becomes one row of the pool."""

    def __init__(self, matcher: Matcher, provenance: Provenance, last: int | None, sampled: bool = False) -> None:
        self._matcher = matcher
        self._provenance = provenance
        self._sampled = sampled
        """Every replica is asked at its own regular times, and says all it knows."""
        self._history = History(lambda name: SIGNALS[name].over, last)
        self._states: dict[Replica, _State] = {}
        self._before: dict[Replica, RawRow] = {}
        self._spoken: dict[Replica, set[str]] = {}
        self._copies: dict[Replica, Replica] = {}
        self._named: dict[Replica, Replica | None] = {}
        self._syncing: set[Replica] = set()
        self._round = 0
        self._time_s: float | None = None
        self.rows_seen = 0

    def add(self, record: Record) -> None:
        replica = self._replica(record.labels)
        if replica is None:
            return
        self._note_sync(replica, record.values)
        raw = RawRow(dict(record.values), record.step, record.time_s, None, 1, record.origin, record.labels)
        values = translate(self._matcher, raw, self._before.get(replica), Mode.ENGINE, self._provenance)
        self._remember(replica, raw)
        if not values:
            return
        if not values.keys().isdisjoint(self._spoken.get(replica, ())):
            self.close_round()
        self._spoken.setdefault(replica, set()).update(values)
        self._states.setdefault(replica, _State()).note(values, self._round, record.time_s)
        self._time_s = record.time_s if record.time_s is not None else self._time_s

    @property
    def syncing(self) -> bool:
        """True while a living replica says that it takes new weights."""
        return not self._syncing.isdisjoint(self._states)

    def _note_sync(self, replica: Replica, values: Mapping[str, float]) -> None:
        keys = self._matcher.framework.sync_keys
        if any(values.get(key, 0.0) > 0.0 for key in keys):
            self._syncing.add(replica)
        elif any(key in values for key in keys):
            self._syncing.discard(replica)

    def _remember(self, replica: Replica, raw: RawRow) -> None:
        """The last raw values of a replica, for its totals: kept per key, since lines differ in what they say."""
        before = self._before.setdefault(replica, raw)
        if before is not raw and raw.time_s is not None:
            before.values.update(raw.values)
            before.time_s = raw.time_s

    def _replica(self, labels: Mapping[str, str]) -> Replica | None:
        """The engine behind a label set; None for a copy of an engine that another rank already speaks for."""
        given = tuple(labels.items())
        if given not in self._named:
            found = self._found(labels)
            if len(self._named) >= REPLICAS_MAX:
                return found
            self._named[given] = found
        return self._named[given]

    def _found(self, labels: Mapping[str, str]) -> Replica | None:
        copies = self._matcher.framework.copy_labels
        engine = tuple(sorted((k, v) for k, v in labels.items() if k not in copies and k not in NOT_A_REPLICA))
        rank = tuple(sorted((k, v) for k, v in labels.items() if k in copies))
        if len(self._copies) >= REPLICAS_MAX and engine not in self._copies:
            return None
        return engine if self._copies.setdefault(engine, rank) == rank else None

    def close_round(self) -> None:
        """One row of the pool from the latest state of every living replica."""
        if not self._spoken:
            return
        self._bury([who for who, state in self._states.items() if not self._is_alive(state)])
        alive = [state.values for state in self._states.values()]
        names = sorted(set().union(*alive))
        columns = {name: [values[name] for values in alive if name in values] for name in names}
        pool = {name: fold_values(SIGNALS[name].across, column) for name, column in columns.items()}
        pool.setdefault("engines", float(sum("running" in values for values in alive)))
        if pool["engines"] == 0.0:
            del pool["engines"]
        self._history.append(RawRow(pool, None, self._time_s, None))
        self.rows_seen += 1
        self._round += 1
        self._spoken = {}

    def _bury(self, dead: Sequence[Replica]) -> None:
        """Forgets replicas that are gone. Those that are scraped come back under other names, week after week."""
        for replica in dead:
            del self._states[replica]
            if self._sampled:
                self._before.pop(replica, None)
                self._copies.pop(replica, None)
        if dead and self._sampled:
            self._named.clear()
            self._syncing &= self._states.keys()

    def _is_alive(self, state: "_State") -> bool:
        if not self._sampled or state.time_s is None or self._time_s is None or state.period_s is None:
            return self._round - state.round < SILENT_ROUNDS
        return self._time_s - state.time_s <= SILENT_PERIODS * state.period_s

    def finish(self) -> list[Row]:
        self.close_round()
        return [Row(row.values, None, row.time_s, row.weight) for row in self._history.rows]


@dataclass(slots=True)
class _State:
    """What a replica said last, and when."""

    values: dict[str, float] = field(default_factory=dict)
    round: int = 0
    time_s: float | None = None
    period_s: float | None = None
    """Between its last two words."""

    def note(self, values: Mapping[str, float], number: int, time_s: float | None) -> None:
        passed_s = None if time_s is None or self.time_s is None else time_s - self.time_s
        if passed_s is not None and passed_s > 0.0:
            self.period_s = passed_s
        self.values.update(values)
        self.round, self.time_s = number, time_s
