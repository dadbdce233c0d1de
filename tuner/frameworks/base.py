"""What an adapter says of a framework: names of signals and knobs, line formats, how to read its configuration."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from simulators.plant import Change, Mode, Setpoints, Topology
from tuner.records import LineParser, Record


@dataclass(frozen=True, slots=True)
class Alias:
    """One raw key and the neutral signal it is. Several `add=True` aliases of one signal sum inside a record."""

    key: str
    """Exact, or with `*` for one path part (`train/*/off_policy/mean`)."""
    signal: str
    scale: float = 1.0
    trust: float = 1.0
    add: bool = False
    counter: bool = False
    """True for a running total: ingest takes differences per writer and copes with resets."""
    only: Mode | None = None
    """Use this alias only in that mode (verl's `timing_s/gen` is a phase when serial, a wait when overlapped)."""


def exported(prefix: str, alias: Alias) -> tuple[Alias, Alias]:
    """The alias of a Prometheus metric, spelled `prefix:name` as engines do, and `prefix_name` as re-exporters do."""
    return replace(alias, key=f"{prefix}:{alias.key}"), replace(alias, key=f"{prefix}_{alias.key}")


@dataclass(frozen=True, slots=True)
class KnobKey:
    """The framework's own name of one of our knobs."""

    knob: str
    key: str
    change: Change
    data_changing: bool = False
    note: str = ""
    only: Mode | None = None
    """The key does something in that mode only."""
    where_set: str = ""
    """A configuration key: this is the knob's name where the configuration sets it. Such keys stand after the usual."""
    setpoint: str | None = None
    """The setpoint that the key holds, where that is not named as the knob."""
    per: tuple[str, ...] = ()
    """Configuration keys, the first that is set counts: the key holds the setpoint divided by it (GPUs per node)."""
    times: tuple[str, ...] = ()
    """The same, multiplied: an oversampling ratio is written as a number of prompts."""

    def holds(self, mode: Mode, config: Mapping[str, object]) -> bool:
        return self.only in (None, mode) and (not self.where_set or self.where_set in config)


@dataclass(frozen=True, slots=True)
class LineFormat:
    """One kind of console line (or block of lines) that the framework prints."""

    name: str
    markers: tuple[str, ...]
    """A line that holds none of these cannot start this format (plain substrings: they are searched first)."""
    parser: Callable[[], LineParser]
    block: bool = False
    """True when lines after the marker belong to it: then each line goes to `feed` until a flush."""
    faint: tuple[str, ...] = ()
    """Markers that others' lines hold too, and often: they count once a log has shown one of `markers`."""
    shared: bool = False
    """True: one parser reads the lines of all speakers, and adds them up."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What ingest knows of a whole reading when it asks an adapter for its mode and facts."""

    keys: frozenset[str] = frozenset()
    """All raw keys seen."""
    config: Mapping[str, object] = field(default_factory=dict)
    """All configurations merged, later ones win."""
    values: Mapping[str, float] = field(default_factory=dict)
    """Latest raw value of each key."""


class Interpret(Protocol):
    """An oddity: adds or corrects the neutral signals of one record, given what the aliases found and the mode."""

    def __call__(self, record: Record, found: Mapping[str, float], mode: Mode) -> Mapping[str, float]: ...


def unknown_mode(_: Observed) -> Mode:
    return Mode.UNKNOWN


def unknown_version(_: Observed) -> str | None:
    return None


def unknown_facts(_: Observed) -> tuple[Topology, Setpoints]:
    return Topology(), Setpoints()


@dataclass(frozen=True, slots=True)
class Framework:
    """One framework as data."""

    name: str
    aliases: tuple[Alias, ...]
    knobs: tuple[KnobKey, ...] = ()
    formats: tuple[LineFormat, ...] = ()
    serves: tuple[str, ...] = ()
    """What it serves as Prometheus metrics: prefixes ending in `:` or `_`, under which aliases stand, and full names
    that only `interpret` or `facts` read."""
    signature: tuple[str, ...] = ()
    """Raw keys, or prefixes ending in `/` `.` or `_`, that only this framework writes; each hit counts."""
    config_signature: tuple[str, ...] = ()
    """Configuration keys (or prefixes) that only this framework has."""
    step_keys: tuple[str, ...] = ("step", "global_step", "training/global_step", "train/global_step")
    """Raw keys that hold the step number where the record itself has none."""
    time_keys: tuple[str, ...] = ("time", "timestamp", "_timestamp")
    engine: bool = False
    """True for an inference engine: its records are scrapes, not trainer steps."""
    relays: bool = False
    """True for what stands before engines: of its signals those count that no engine says itself."""
    mode: Callable[[Observed], Mode] = unknown_mode
    version: Callable[[Observed], str | None] = unknown_version
    facts: Callable[[Observed], tuple[Topology, Setpoints]] = unknown_facts
    """Topology and knobs in force, from configuration and from keys that state them; unknown stays None."""
    interpret: Interpret | None = None
    computed_trust: Mapping[str, float] = field(default_factory=dict)
    """Trust of signals that `interpret` adds, where it is not 1."""
    config_style: str = ""
    """How its settings are written over: `hydra`, `arguments`, `toml` or `yaml`; empty: they are not."""
    sync_keys: tuple[str, ...] = ()
    """Raw keys above 0 while an engine takes new weights."""
    """What its launch command takes last and lets win: `hydra` overrides, `arguments`, a `toml` file; empty: none."""
    copy_labels: tuple[str, ...] = ()
    """Labels that tell copies of one speaker apart (`tp_rank`): of records that differ only in these, one counts."""
