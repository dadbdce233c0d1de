"""Observations made fit to be read: without what cannot be, and of their true age."""

from dataclasses import asdict, fields, replace

from policies.settings import values
from simulators.fields import range_of
from simulators.plant import Inventory, Observation, Setpoints
from simulators.signals import LARGEST, SIGNALS
from simulators.snapshot import Note, Row, Signal

REAL = ("oversampling_ratio", "staleness_bound")
"""Setpoints that need not be whole."""
SWITCHES = frozenset(f.name for f in fields(Setpoints) if f.type == bool | None)
RANGES = {name: (spec.low, spec.high) for name, spec in SIGNALS.items()}
EVERYTHING = (-LARGEST, LARGEST)
SYNCING = "syncing"


def sane(seen: Observation) -> Observation:
    """The observation without any value that cannot be: of another type, not finite, out of its signal's range.

    What is left out is noted; a sane observation is returned as it is.
    """
    snapshot = seen.snapshot
    in_force = Setpoints(**{n: v for n, v in values(seen.in_force).items() if _settable(n, v)})
    rows = (*snapshot.rows, *snapshot.engine_rows)
    bad = values(seen.in_force).keys() - values(in_force).keys()
    bad |= {f"inventory.{n}" for n, v in asdict(seen.inventory).items() if not _is_stock(n, v)}
    bad |= set() if _is_clock(seen.time_s) else {"time_s"}
    if not bad and all(map(_is_sane_row, rows)) and all(_is_sane_signal(n, s) for n, s in snapshot.signals.items()):
        return seen
    bad |= {n for n, s in snapshot.signals.items() if not _is_sane_signal(n, s)}
    bad |= {n for row in rows for n, v in row.values.items() if not _is_possible(n, v)}
    bad |= {"time_s" for row in rows if not _is_time(row.time_s)}
    snapshot = replace(
        snapshot,
        signals={n: s for n, s in snapshot.signals.items() if _is_sane_signal(n, s)},
        rows=tuple(_sane_row(row) for row in snapshot.rows),
        engine_rows=tuple(_sane_row(row) for row in snapshot.engine_rows),
        notes=(*snapshot.notes, Note("impossible-value", f"left out: {', '.join(sorted(bad))}")),
    )
    time_s = seen.time_s if _is_clock(seen.time_s) else 0.0  # of no time at all: as old as can be
    return replace(seen, time_s=time_s, snapshot=snapshot, in_force=in_force, inventory=_sane_inventory(seen.inventory))


def _sane_inventory(told: Inventory) -> Inventory:
    """Without what cannot be counted; who cannot say whether a weight sync is under way may be in the middle of one."""
    known = {name: value for name, value in asdict(told).items() if _is_stock(name, value)}
    return Inventory(**{SYNCING: True, **known})


def _is_stock(name: str, value: object) -> bool:
    if name == SYNCING:
        return isinstance(value, bool)
    return value is None or (type(value) is int and 0 <= value <= LARGEST)


def aged(seen: Observation, now_s: float) -> Observation:
    """The observation as of now: one that was made earlier (an outage, a recording) is older by so much."""
    late = now_s - seen.time_s
    if late <= 0.0:
        return replace(seen, time_s=now_s)
    signals = {n: replace(s, age_s=(s.age_s or 0.0) + late) for n, s in seen.snapshot.signals.items()}
    return replace(seen, time_s=now_s, snapshot=replace(seen.snapshot, signals=signals))


def _sane_row(row: Row) -> Row:
    time_s = row.time_s if _is_time(row.time_s) else None
    return replace(row, values={n: v for n, v in row.values.items() if _is_possible(n, v)}, time_s=time_s)


def _is_sane_row(row: Row) -> bool:
    return _is_time(row.time_s) and all(_is_possible(n, v) for n, v in row.values.items())


def _is_sane_signal(name: str, signal: Signal) -> bool:
    return _is_possible(name, signal.value) and _is_time(signal.age_s)


def _is_time(seconds: object) -> bool:
    """A time or an age may be unknown, else it is finite and not negative."""
    return seconds is None or _is_clock(seconds)


def _is_clock(seconds: object) -> bool:
    return isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0.0 <= seconds <= LARGEST


def _is_possible(name: str, value: object) -> bool:
    """A number inside its signal's range: no other type, no NaN, no infinity."""
    if type(value) is not float and type(value) is not int:
        return False
    low, high = RANGES.get(name, EVERYTHING)
    return low <= value <= high


def unsettable(wish: Setpoints) -> str:
    """What of a wish can be no setting, with its value; empty where all can be."""
    return ", ".join(f"{name}={value!r}" for name, value in values(wish).items() if not _settable(name, value))


def _settable(name: str, value: object) -> bool:
    """A switch is on or off, a count whole, and all are in the range of their name."""
    if name in SWITCHES or isinstance(value, bool):
        return name in SWITCHES and isinstance(value, bool)
    low, high = range_of(name)
    known = isinstance(value, int | float) and low <= value <= high
    return known and (name in REAL or isinstance(value, int))
