"""Joins what the sources of one job held to one reading: rows, facts, knobs, notes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Protocol

from simulators.plant import Mode, Setpoints, Topology
from simulators.snapshot import Note, Row, Snapshot
from simulators.window import Sources, assemble
from tuner.errors import SourceError
from tuner.frameworks.base import KnobKey, Observed
from tuner.ingest.collecting import Collected
from tuner.ingest.history import RawRow
from tuner.ingest.lately import lately
from tuner.ingest.matching import NEUTRAL, Matcher, configured_by
from tuner.ingest.merging import better, merge_engines, merge_sources, stated_facts, without
from tuner.ingest.sandbox_sums import summed
from tuner.ingest.translating import Provenance, translate_rows
from tuner.records import Configuration, Remark

UNIX_TIME_MIN_S = 1e8
"""Smaller times are seconds of a day, not dates."""


class Stating(Protocol):
    """A user who states facts of the job: the job file."""

    def to_topology(self) -> Topology: ...

    def to_setpoints(self) -> Setpoints: ...


@dataclass(frozen=True, slots=True)
class SourceSeen:
    """One source as the answer lists it."""

    kind: str
    path: str
    framework: str | None
    version: str | None
    rows: int
    first: str | None
    last: str | None


@dataclass(frozen=True, slots=True)
class Reading:
    """What is known of a job after all its sources were read."""

    topology: Topology
    setpoints: Setpoints
    snapshot: Snapshot
    framework: str | None
    sources: tuple[SourceSeen, ...]
    knobs: Mapping[str, KnobKey] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceRead:
    """One source, read."""

    kind: str
    origin: str
    collected: Collected


@dataclass(frozen=True, slots=True)
class Joiner:
    """All that was learnt while reading, ready to be put together."""

    matchers: Mapping[str, Matcher]
    provenance: Provenance
    config: Stating | None
    remarks: tuple[Remark, ...]
    asked: str
    """The options that narrow what is read, as typed; empty where there are none."""
    last_s: float | None = None
    """Only the rows of the last seconds count."""

    def reading(self, done: Sequence[SourceRead]) -> Reading:
        """The whole reading; raises SourceError when no source held a record that means anything."""
        configurations = [c for source in done for c in source.collected.configurations]
        trainer, engine = self._trainer(done), self._engine(done)
        name = trainer or engine
        if name is None:
            raise SourceError(self._nothing(done, configurations))
        owner = self._owner(name, configurations)
        observed = self._observed(owner, done, configurations)
        topology, setpoints = self._facts(owner, engine, observed, done, configurations)
        rows, notes = self._rows(trainer, topology.mode, done)
        if trainer == NEUTRAL.name and topology.mode is Mode.UNKNOWN:
            topology = replace(topology, mode=mode_of_rows(rows))
        rows = lately(rows, self.last_s)
        beside = self._engines(done)
        beside += self._beside(trainer, topology.mode, done)
        engines = lately(merge_engines(beside), self.last_s)
        notes += [n for s in done for n in s.collected.notes] + self._impossible()
        notes += self._foreign({owner, engine}, configurations)
        notes += [Note(r.code, r.detail) for r in self.remarks]
        sources = Sources(self.provenance.trust, self.provenance.keys)
        snapshot = assemble(rows, engines, notes, sources)
        framework = self.matchers[owner].framework
        return Reading(
            topology=replace(topology, framework=topology.framework or _public(owner)),
            setpoints=setpoints,
            snapshot=snapshot,
            framework=_public(owner),
            sources=tuple(self._seen(source, configurations) for source in done),
            knobs={
                k.knob: k
                for k in (*self._engine_knobs(engine), *framework.knobs)
                if k.holds(topology.mode, observed.config)
            },
        )

    def _owner(self, name: str, configurations: Sequence[Configuration]) -> str:
        """The framework whose facts and knobs hold: neutral rows leave that to the configuration or the job file."""
        if name != NEUTRAL.name:
            return name
        stated = self.config.to_topology().framework if self.config is not None else None
        frameworks = [m.framework for m in self.matchers.values() if not m.framework.engine]
        owners = [c.framework or configured_by(frameworks, c.values) for c in configurations]
        found = next((o for o in (stated, *owners) if o in self.matchers), None)
        return found or name

    def _trainer(self, done: Sequence[SourceRead]) -> str | None:
        """The training framework that most of the data speaks of; gauges without any step only where nobody has one."""
        weight: dict[str, int] = {}
        stepped: set[str] = set()
        for source in done:
            for name, rows in source.collected.rows.items():
                known = sum(bool(self.matchers[name].aliases(key)) for key in source.collected.keys[name])
                weight[name] = weight.get(name, 0) + known * len(rows)
                if known and any(row.step is not None for row in rows):
                    stepped.add(name)
        best = max(weight, key=lambda n: (n in stepped, weight[n]), default=None)
        return best if best is not None and weight[best] > 0 else None

    def _engine(self, done: Sequence[SourceRead]) -> str | None:
        counts: dict[str, int] = {}
        for source in done:
            for name, rows in source.collected.engine_rows.items():
                counts[name] = counts.get(name, 0) + len(rows)
        best = max(counts, key=lambda n: (counts[n] > 0 and not self._relays(n), counts[n]), default=None)
        return best if best is not None and counts[best] > 0 else None

    def _relays(self, name: str) -> bool:
        return self.matchers[name].framework.relays

    def _engines(self, done: Sequence[SourceRead]) -> list[list[Row]]:
        """Rows of engines; of routers before them what no engine says itself."""
        held = [(name, rows) for s in done for name, rows in s.collected.engine_rows.items()]
        own = [rows for name, rows in held if not self._relays(name)]
        said = {signal for rows in own for row in rows for signal in row.values}
        return own + [without(rows, said) for name, rows in held if self._relays(name)]

    def _observed(self, name: str, done: Sequence[SourceRead], configurations: Sequence[Configuration]) -> Observed:
        """What the sources say of one framework; a configuration of nobody in particular counts for it too."""
        frameworks = [m.framework for m in self.matchers.values()]
        config: dict[str, object] = {}
        for item in configurations:
            owner = item.framework or configured_by(frameworks, item.values)
            if owner in (None, name):
                config |= item.values
        keys = frozenset(k for s in done for k in s.collected.keys.get(name, ()))
        values = {k: v for s in done for k, v in s.collected.latest.get(name, {}).items()}
        return Observed(keys, config, values)

    def _facts(
        self,
        name: str,
        engine: str | None,
        observed: Observed,
        done: Sequence[SourceRead],
        configurations: Sequence[Configuration],
    ) -> tuple[Topology, Setpoints]:
        """Facts, who knows best first: the job file, tables, the framework, its engines."""
        framework = self.matchers[name].framework
        topology, setpoints = stated_facts(observed.config)
        if self.config is not None:
            topology = better(self.config.to_topology(), topology)
            setpoints = better(self.config.to_setpoints(), setpoints)
        own_topology, own_setpoints = framework.facts(observed)
        topology, setpoints = better(topology, own_topology), better(setpoints, own_setpoints)
        if engine is not None and engine != name:
            beside = self.matchers[engine].framework.facts(self._observed(engine, done, configurations))
            topology = better(topology, replace(beside[0], mode=Mode.UNKNOWN, framework=None))
            setpoints = better(setpoints, beside[1])
        if topology.gpus_total is None and setpoints.gpus_trainer and setpoints.gpus_generator:
            topology = replace(topology, gpus_total=setpoints.gpus_trainer + setpoints.gpus_generator)
        mode = topology.mode if topology.mode is not Mode.UNKNOWN else framework.mode(observed)
        return replace(topology, mode=mode), setpoints

    def _rows(self, trainer: str | None, mode: Mode, done: Sequence[SourceRead]) -> tuple[list[Row], list[Note]]:
        if trainer is None:
            return [], []
        told = [s for s in done if s.collected.rows.get(trainer)]
        told = _stepped(told) if trainer == NEUTRAL.name else told
        held = summed([s.collected.rows[trainer] for s in told])
        raw, notes = merge_sources([(s.origin, rows) for s, rows in zip(told, held, strict=True) if rows])
        rows = translate_rows(self.matchers[trainer], raw, mode, self.provenance)
        return [row for row in rows if row.values], notes

    def _beside(self, trainer: str | None, mode: Mode, done: Sequence[SourceRead]) -> list[list[Row]]:
        """Rows under our own names beside those of a framework: sandboxes, queues and whatever else it does not log."""
        if NEUTRAL.name not in self.matchers:
            return []
        told = [s for s in done if s.collected.rows.get(NEUTRAL.name)]
        steps = _stepped(told) if trainer == NEUTRAL.name else []
        held = summed([s.collected.rows[NEUTRAL.name] for s in told if not any(s is one for one in steps)])
        rows = [translate_rows(self.matchers[NEUTRAL.name], raw, mode, self.provenance) for raw in held if raw]
        return [[replace(row, step=None, last_step=None) for row in some if row.values] for some in rows]

    def _impossible(self) -> list[Note]:
        """Values outside their signal's range: named, and not used."""
        notes = []
        for signal, (key, value, origin, count) in self.provenance.impossible.items():
            where = f" at {origin}" if origin else ""
            more = f", {count} times" if count > 1 else ""
            detail = f"{key} = {value:.4g}{where}{more} cannot be {signal}; it is not used."
            notes.append(Note("impossible-value", detail, {"signal": signal, "count": float(count)}))
        return notes

    def _foreign(self, used: set[str | None], configurations: Sequence[Configuration]) -> list[Note]:
        """Configurations of a framework that the data does not speak of: named, and not used."""
        frameworks = [m.framework for m in self.matchers.values()]
        notes = []
        for item in configurations:
            owner = item.framework or configured_by(frameworks, item.values)
            if owner is not None and owner not in used:
                detail = f"{item.origin} configures {owner}, of which there is no data here; it is not used."
                notes.append(Note("foreign-configuration", detail, {"framework": owner}))
        return notes[:3]

    def _engine_knobs(self, engine: str | None) -> tuple[KnobKey, ...]:
        return self.matchers[engine].framework.knobs if engine is not None else ()

    def _seen(self, source: SourceRead, configurations: Sequence[Configuration]) -> SourceSeen:
        held = source.collected
        name = max(held.records, key=lambda n: held.records[n], default=None)
        version = None
        if name is not None:
            version = self.matchers[name].framework.version(self._observed(name, [source], configurations))
        rows = [r for n, found in held.rows.items() if n == name for r in found]
        first, last = _place(rows[0]) if rows else None, _place(rows[-1]) if rows else None
        return SourceSeen(source.kind, source.origin, _public(name), version, sum(held.records.values()), first, last)

    def _nothing(self, done: Sequence[SourceRead], configurations: Sequence[Configuration]) -> str:
        """Why there is no answer: what was found, what is read, what to do."""
        looked = ", ".join(f"{s.origin} ({s.kind})" for s in done[:5])
        trouble = "; ".join(r.detail for r in self.remarks[:3])
        unknown = sum(s.collected.unmatched for s in done)
        if not done:
            return trouble or "nothing to read"
        said = [f"no metrics record in {looked}"]
        if self.asked:
            said.append(f"with {self.asked}: try without it")
        if unknown:
            said.append(f"{unknown} records with names of no known framework")
        if configurations:
            said.append("a configuration alone has no measurements: add the log or the metrics file")
        if trouble:
            said.append(trouble)
        names = ", ".join(n for n in self.matchers if n != NEUTRAL.name)
        return "; ".join(said) + f". Read are logs and metrics of {names}, and CSV with our signal names."


def _public(name: str | None) -> str | None:
    return None if name == NEUTRAL.name else name


def _stepped(told: Sequence[SourceRead]) -> list[SourceRead]:
    """Of sources under our own names those that tell the trainer's steps; all of them where none does."""
    found = [s for s in told if any(row.step is not None for row in s.collected.rows[NEUTRAL.name])]
    return found or list(told)


def _place(row: RawRow) -> str | None:
    if row.step is not None:
        return str(row.last_step if row.last_step is not None else row.step)
    if row.time_s is None or row.time_s < UNIX_TIME_MIN_S:
        return None
    return datetime.fromtimestamp(row.time_s, UTC).isoformat()


def mode_of_rows(rows: Sequence[Row]) -> Mode:
    """The mode that neutral rows show: a trainer that waits overlaps, phases that fill the step take turns."""
    names = {name for row in rows for name in row.values}
    if "trainer_wait_s" in names or {"gen_samples_per_s", "train_samples_per_s"} <= names:
        return Mode.OVERLAPPED
    if {"rollout_s", "step_s"} <= names and names & {"trainer_busy_s", "update_s"}:
        return Mode.SERIAL
    return Mode.UNKNOWN if names & {"step_s", "rollout_s", "reward_mean"} or not names else Mode.ENGINE
