"""A job that is read while it runs: takes what its feeds bring, and says at any moment what is known."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from simulators.snapshot import Row, Signal, Snapshot
from tuner.errors import SourceError
from tuner.frameworks.base import Framework
from tuner.ingest.collecting import Collector, Span
from tuner.ingest.joining import Joiner, Reading, SourceRead, Stating
from tuner.ingest.matching import NEUTRAL, Detector, Matcher
from tuner.ingest.reading import frameworks_named
from tuner.ingest.sandbox_counts import leak
from tuner.ingest.translating import Provenance
from tuner.records import Item

WINDOW_ROWS = 64
"""Trainer steps, and rounds of the engines, in a picture of the job; what came before, a controller has seen."""


def spoken(framework: str) -> tuple[Framework, ...]:
    """What a live job may speak: the framework that is named (`auto`: any), all engines, and always our own names."""
    named = frameworks_named(framework)
    return named if NEUTRAL in named else (*named, NEUTRAL)


@dataclass(frozen=True, slots=True)
class Stream:
    """Where items come from, and of what nature they are."""

    name: str
    kind: str
    """As `source[].kind` in the answer."""
    sampled: bool = False
    """True for scrapes: see Collector."""


class Follower:
    """One collector a stream; matchers and what they learn are shared."""

    def __init__(self, stated: Stating | None = None, framework: str = "auto", window_rows: int = WINDOW_ROWS) -> None:
        self._matchers = {f.name: Matcher(f) for f in spoken(framework)}
        self._detector = Detector(list(self._matchers.values()))
        self._stated = stated
        self._span = Span(last=window_rows)
        self._provenance = Provenance()
        self._collectors: dict[Stream, Collector] = {}

    def take(self, stream: Stream, items: Iterable[Item]) -> None:
        """What a stream brought, in the order of its time."""
        if stream not in self._collectors:
            parts = (self._matchers, self._detector, self._span, self._provenance)
            self._collectors[stream] = Collector(*parts, sampled=stream.sampled)
        self._collectors[stream].add(items)

    @property
    def syncing(self) -> bool:
        """True while an engine says that it takes new weights."""
        return any(engine.syncing for collector in self._collectors.values() for engine in collector.engines.values())

    def reading(self, now_s: float) -> Reading | None:
        """All that is known; None while no stream has brought a record that means anything.

        What was odd in the items (remarks, impossible values) is told once, by the reading after they came.
        """
        done = [SourceRead(s.kind, s.name, c.collected()) for s, c in self._collectors.items()]
        try:
            reading = Joiner(self._matchers, self._provenance, self._stated, (), "").reading(done)
        except SourceError:
            return None
        for collector in self._collectors.values():
            collector.remarks.clear()
        self._provenance.impossible.clear()
        snapshot = aged(reading.snapshot, now_s)
        leaking = leak(snapshot)
        notes = snapshot.notes if leaking is None else (*snapshot.notes, leaking)
        return replace(reading, snapshot=replace(snapshot, notes=notes))


def aged(snapshot: Snapshot, now_s: float) -> Snapshot:
    """Each signal with the age of the newest row that carries it; None where no row has a time."""
    newest = _newest(snapshot.engine_rows) | _newest(snapshot.rows)
    signals = {name: _aged(signal, newest.get(name), now_s) for name, signal in snapshot.signals.items()}
    return replace(snapshot, signals=signals)


def _newest(rows: Sequence[Row]) -> dict[str, float]:
    return {name: row.time_s for row in rows if row.time_s is not None for name in row.values}


def _aged(signal: Signal, seen_s: float | None, now_s: float) -> Signal:
    return replace(signal, age_s=None if seen_s is None else max(0.0, now_s - seen_s))
