"""Several sources of one job: rows joined on the step, configurations and stated facts joined by who knows best."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, fields, replace
from enum import StrEnum
from typing import Any, TypeVar

from simulators.plant import Mode, Setpoints, Topology, TrainerResize
from simulators.snapshot import Note, Row
from tuner.ingest.history import RawRow, is_same

Facts = TypeVar("Facts", Topology, Setpoints)
CHOICES: Mapping[str, type[StrEnum]] = {"mode": Mode, "trainer_resize": TrainerResize}
CONFLICT_FRAC = 0.5
"""Two sources that contradict each other on more of their common steps than this tell of two runs."""


def merge_sources(sources: Sequence[tuple[str, list[RawRow]]]) -> tuple[list[RawRow], list[Note]]:
    """One row a step from all sources of a job, longest first; a source of another run is left out with a note."""
    notes: list[Note] = []
    merged: dict[int, RawRow] = {}
    fragments: list[RawRow] = []
    unnumbered: list[RawRow] = []
    for origin, rows in sorted(sources, key=lambda s: -len(s[1])):
        common = [row for row in rows if row.step is not None and row.step in merged]
        clashes = sum(_is_another_run(merged[row.step], row) for row in common if row.step is not None)
        if common and clashes > CONFLICT_FRAC * len(common):
            detail = f"{origin} contradicts the other sources on {clashes} of {len(common)} common steps: left out."
            notes.append(Note("conflicting-sources", detail, {"steps": float(clashes)}))
            continue
        for row in rows:
            if row.step is None:
                (unnumbered if merged and not any(r.step is not None for r in rows) else fragments).append(row)
            elif row.step in merged:
                first = merged[row.step]
                stamp = first.time_s if first.time_s is not None else row.time_s
                merged[row.step] = replace(first, values={**row.values, **first.values}, time_s=stamp)
            else:
                merged[row.step] = row
    if unnumbered:
        detail = f"{len(unnumbered)} records without a step could not be joined to the other source's steps."
        notes.append(Note("unnumbered-records", detail, {"records": float(len(unnumbered))}))
    return [*(merged[step] for step in sorted(merged)), *fragments], notes


def _is_another_run(a: RawRow, b: RawRow) -> bool:
    """True when two rows of one step say the same things with other values; two processes of one job share few keys."""
    shared = len(a.values.keys() & b.values.keys())
    return shared > CONFLICT_FRAC * min(len(a.values), len(b.values)) and not is_same(a.values, b.values)


def merge_engines(sources: Sequence[list[Row]]) -> list[Row]:
    """Rows of all engine sources in time order where they have times, else one source after the other."""
    rows = [row for source in sources for row in source]
    return sorted(rows, key=lambda r: r.time_s or 0.0) if all(r.time_s is not None for r in rows) else rows


def without(rows: Sequence[Row], signals: Collection[str]) -> list[Row]:
    """The rows without these signals; a row of nothing else is left out."""
    bare = (replace(row, values={n: v for n, v in row.values.items() if n not in signals}) for row in rows)
    return [row for row in bare if row.values]


def better(first: Facts, second: Facts) -> Facts:
    """`first`, with what it does not know taken from `second`."""
    unknown = (None, (), False, Mode.UNKNOWN)
    known, fallback = asdict(first), asdict(second)
    merged: dict[str, Any] = {n: v if v not in unknown else fallback[n] for n, v in known.items()}
    return replace(first, **merged)


def stated_facts(config: Mapping[str, object]) -> tuple[Topology, Setpoints]:
    """Facts under our own names (`job.gpus_trainer`), as tables state them; a value of a wrong type is not one."""
    return _stated(Topology(), config), _stated(Setpoints(), config)


def _stated(blank: Facts, config: Mapping[str, object]) -> Facts:
    values: dict[str, Any] = {}
    for item in fields(blank):
        value = config.get(f"job.{item.name}")
        if item.name in CHOICES:
            value = next((choice for choice in CHOICES[item.name] if choice == value), None)
        if value is not None and _is_a(value, str(item.type)):
            values[item.name] = value
    return replace(blank, **values)


def _is_a(value: object, kind: str) -> bool:
    """Whether a value fits a field's declared type; numbers must be positive or zero and finite."""
    if isinstance(value, bool):
        return "bool" in kind
    if isinstance(value, int | float):
        return 0 <= value < 1e15 and ("float" in kind or ("int" in kind and isinstance(value, int)))
    return isinstance(value, str) and "int" not in kind and "float" not in kind and "bool" not in kind
