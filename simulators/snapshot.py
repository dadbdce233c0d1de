"""What is known of a job at one moment: signals with trust and origin, their rows, and notes of the reading."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median

from simulators.signals import SIGNALS, Fold


@dataclass(frozen=True, slots=True)
class Row:
    """The signals of one trainer step (or one scrape of the engines), or of `weight` neighbouring ones merged."""

    values: Mapping[str, float]
    step: int | None = None
    time_s: float | None = None
    weight: int = 1
    last_step: int | None = None
    """The last step merged into this row; None means `step`."""


@dataclass(frozen=True, slots=True)
class Signal:
    """One number with what a reader needs to check it."""

    value: float
    unit: str
    n: int = 1
    """Steps or scrapes behind the value."""
    trust: float = 1.0
    """1: raw seconds or counters; 0.5: a framework's own derived figure; under 0.5: known to mislead."""
    age_s: float | None = None
    derived_from: tuple[str, ...] = ()
    """The framework's keys, or for a computed signal the names of the signals behind it."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something noticed while reading: a finding's code, one sentence, and its numbers."""

    code: str
    detail: str
    evidence: Mapping[str, float | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DroppedStep:
    """A step left out of rates and trends; its seconds stay in the wall-time budget."""

    step: int
    why: str


@dataclass(frozen=True, slots=True)
class Window:
    """The stretch of the run that the signals speak for."""

    steps: int = 0
    from_step: int | None = None
    to_step: int | None = None
    seconds: float | None = None
    dropped: tuple[DroppedStep, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that is known of a job now. May lack any signal; ask with `get` and say which one you needed."""

    signals: Mapping[str, Signal]
    rows: tuple[Row, ...] = ()
    """Trainer steps in order, dropped ones included (they are named in window.dropped)."""
    engine_rows: tuple[Row, ...] = ()
    """Scrapes or log lines of the engines in order."""
    notes: tuple[Note, ...] = ()
    window: Window = field(default_factory=Window)

    def get(self, name: str) -> float | None:
        signal = self.signals.get(name)
        return None if signal is None else signal.value

    def series(self, name: str) -> list[float]:
        """The values of one signal over the kept steps (or engine rows where no step has it), in order."""
        dropped = {d.step for d in self.window.dropped}
        kept = [row.values[name] for row in self.rows if name in row.values and row.step not in dropped]
        return kept or [row.values[name] for row in self.engine_rows if name in row.values]


def snapshot_of(**values: float) -> Snapshot:
    """A snapshot of bare, fully trusted numbers: for a person with a table of figures, and for tests."""
    unknown = sorted(set(values) - set(SIGNALS))
    if unknown:
        raise ValueError(f"{unknown[0]!r} is not a signal; simulators/signals.py lists them")
    return Snapshot({name: Signal(float(v), SIGNALS[name].unit) for name, v in values.items()})


def fold_values(how: Fold, values: Iterable[float], weights: Iterable[float] | None = None) -> float:
    """One value from several; `weights` (steps behind each) matter to MEAN and SUM only. Raises on no value."""
    numbers = list(values)
    if not numbers:
        raise ValueError("cannot fold no values")
    match how:
        case Fold.MAX:
            return max(numbers)
        case Fold.MIN:
            return min(numbers)
        case Fold.LAST:
            return numbers[-1]
        case Fold.LATE:
            return median(numbers[-max(1, len(numbers) // 4) :])
        case Fold.SUM:
            return sum(numbers)
        case Fold.MEAN:
            if weights is None:
                return sum(numbers) / len(numbers)
            shares = list(weights)
            return sum(v * w for v, w in zip(numbers, shares, strict=True)) / sum(shares)


def fold_rows(rows: Iterable[Row]) -> dict[str, tuple[float, int]]:
    """Each signal's window value and the steps behind it, by its own `over` rule. A signal may be absent from rows."""
    columns: dict[str, list[tuple[float, int]]] = {}
    for row in rows:
        for name, value in row.values.items():
            columns.setdefault(name, []).append((value, row.weight))
    return {
        name: (
            fold_values(SIGNALS[name].over, (v for v, _ in cells), (w for _, w in cells)),
            sum(w for _, w in cells),
        )
        for name, cells in columns.items()
    }
