"""Takes the items of one source in order and sorts them: records of trainers and engines, configurations, remarks."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from simulators.snapshot import Note, Row
from tuner.frameworks.base import Framework
from tuner.ingest.engine_rows import EngineRows
from tuner.ingest.gauge_rows import GaugeRows
from tuner.ingest.history import RawRow
from tuner.ingest.matching import Detector, Matcher
from tuner.ingest.translating import Provenance
from tuner.ingest.writers import Writers
from tuner.records import Configuration, Item, Record, Remark

KEYS_MAX = 20_000
"""Raw keys remembered of one source; a file with more invents a key per row."""
CONFIGURATIONS_MAX = 64
"""Different configurations kept of a live source, the newest; a scrape repeats its settings every time."""


@dataclass(frozen=True, slots=True)
class Collected:
    """What one source held, by framework."""

    rows: Mapping[str, list[RawRow]]
    engine_rows: Mapping[str, list[Row]]
    records: Mapping[str, int]
    keys: Mapping[str, frozenset[str]]
    latest: Mapping[str, Mapping[str, float]]
    configurations: tuple[Configuration, ...]
    notes: tuple[Note, ...]
    unmatched: int


@dataclass(frozen=True, slots=True)
class Span:
    """First and last place of a source's records, in steps or seconds."""

    since_step: int | None = None
    since_s: float | None = None
    last: int | None = None

    @property
    def since(self) -> str | None:
        """What a record must tell to be left out."""
        if self.since_step is not None:
            return "step"
        return "time" if self.since_s is not None else None

    def placed(self, record: Record) -> bool:
        """Whether the record says where it lies against `since`; one that does not is kept."""
        return (record.step if self.since_step is not None else record.time_s) is not None

    def holds(self, record: Record) -> bool:
        if self.since_step is not None and record.step is not None:
            return record.step >= self.since_step
        return self.since_s is None or record.time_s is None or record.time_s >= self.since_s


@dataclass(slots=True)
class Collector:
    """The state while one source is read."""

    matchers: Mapping[str, Matcher]
    detector: Detector
    span: Span
    provenance: Provenance
    trainers: dict[str, Writers | GaugeRows] = field(default_factory=dict)
    engines: dict[str, EngineRows] = field(default_factory=dict)
    records: dict[str, int] = field(default_factory=dict)
    latest: dict[str, dict[str, float]] = field(default_factory=dict)
    configurations: list[Configuration] = field(default_factory=list)
    remarks: dict[str, tuple[Remark, int]] = field(default_factory=dict)
    """First remark of each code, and how many there were."""
    unmatched: int = 0
    sampled: bool = False
    """True where records are scrapes: all that lives is in each, and gauges of a step are seen many times."""

    def take(self, items: Iterable[Item]) -> Collected:
        """All of a source at once."""
        self.add(items)
        return self.collected()

    def add(self, items: Iterable[Item]) -> None:
        for item in items:
            match item:
                case Record():
                    self._record(item)
                case Configuration():
                    self._configuration(item)
                case Remark():
                    self._remark(item)

    def _configuration(self, item: Configuration) -> None:
        """Of a source that never ends each configuration is kept once, where it came last."""
        if self.span.last is not None:
            told = [c for c in self.configurations if (c.values, c.framework) != (item.values, item.framework)]
            self.configurations = told[1 - CONFIGURATIONS_MAX :]
        self.configurations.append(item)

    def _record(self, record: Record) -> None:
        name = record.framework or self.detector.framework_of(frozenset(record.values))
        if name is None or name not in self.matchers:
            self.unmatched += 1
            return
        framework = self.matchers[name].framework
        record = _dated(record, framework)
        if not self.span.holds(record):
            return
        if self.span.since is not None and not self.span.placed(record):
            self._remark(Remark("unplaced-records", f"It tells no {self.span.since}: --since keeps it.", record.origin))
        self.records[name] = self.records.get(name, 0) + 1
        latest = self.latest.setdefault(name, {})
        if len(latest) < KEYS_MAX:
            latest.update(record.values)
        if record.cut:
            self._remark(Remark("truncated-record", "Its line starts or ends in the middle.", record.origin))
        if framework.engine:
            self._engine(name).add(record)
        else:
            self._trainer(name).add(record)

    def _remark(self, remark: Remark) -> None:
        first, count = self.remarks.get(remark.code, (remark, 0))
        self.remarks[remark.code] = (first, count + 1)

    def _engine(self, name: str) -> EngineRows:
        if name not in self.engines:
            self.engines[name] = EngineRows(self.matchers[name], self.provenance, self.span.last, self.sampled)
        return self.engines[name]

    def _trainer(self, name: str) -> Writers | GaugeRows:
        if name not in self.trainers:
            fold_of = self.matchers[name].fold_of
            self.trainers[name] = GaugeRows(self.span.last) if self.sampled else Writers(fold_of, self.span.last)
        return self.trainers[name]

    def collected(self) -> Collected:
        """What is known by now; more may be added afterwards."""
        notes = [_summed(first, count) for first, count in self.remarks.values()]
        rows: dict[str, list[RawRow]] = {}
        for name, writers in self.trainers.items():
            rows[name], noticed = writers.finish()
            notes += noticed
        return Collected(
            rows=rows,
            engine_rows={name: engine.finish() for name, engine in self.engines.items()},
            records=self.records,
            keys={name: frozenset(latest) for name, latest in self.latest.items()},
            latest=self.latest,
            configurations=tuple(self.configurations),
            notes=tuple(notes),
            unmatched=self.unmatched,
        )


def _dated(record: Record, framework: Framework) -> Record:
    """The record with the step and the time that its own keys hold."""
    step = record.step if record.step is not None else _whole(record.values, framework.step_keys)
    time_s = record.time_s if record.time_s is not None else _first(record.values, framework.time_keys)
    if step == record.step and time_s == record.time_s:
        return record
    return Record(record.values, step, time_s, record.labels, record.framework, record.origin, record.cut)


def _first(values: Mapping[str, float], names: Sequence[str]) -> float | None:
    for name in names:
        if name in values and abs(values[name]) < 1e12:
            return values[name]
    return None


def _whole(values: Mapping[str, float], names: Sequence[str]) -> int | None:
    value = _first(values, names)
    return int(value) if value is not None and value == value and value == int(value) else None


def _summed(first: Remark, count: int) -> Note:
    """One note from all remarks of one code: the first in full, the rest counted."""
    where = f" ({first.origin})" if first.origin else ""
    more = f" {count - 1} more like it." if count > 1 else ""
    return Note(first.code, f"{first.detail}{where}{more}", {"count": float(count)})
