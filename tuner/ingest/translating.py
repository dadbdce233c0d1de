"""From a writer's own keys to our signals: aliases, scales, running totals, impossible values set aside."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from simulators.plant import Mode
from simulators.signals import SIGNALS, SMALLEST, is_possible
from simulators.snapshot import Row, fold_values
from tuner.frameworks.base import Alias
from tuner.ingest.history import RawRow
from tuner.ingest.matching import Matcher
from tuner.records import Record

TOTALS = ("_sum", "_count", "_total")
"""Ends of the names of running totals, as Prometheus clients write them."""


@dataclass(slots=True)
class Provenance:
    """What translation learnt besides the values: trust and keys of each signal, and what could not be true."""

    trust: dict[str, float] = field(default_factory=dict)
    keys: dict[str, tuple[str, ...]] = field(default_factory=dict)
    impossible: dict[str, tuple[str, float, str, int]] = field(default_factory=dict)
    """signal -> (raw key, first value, where, how often)."""

    def reject(self, signal: str, key: str, value: float, origin: str) -> None:
        first = self.impossible.get(signal, (key, value, origin, 0))
        self.impossible[signal] = (*first[:3], first[3] + 1)


def translate_rows(matcher: Matcher, rows: Sequence[RawRow], mode: Mode, provenance: Provenance) -> list[Row]:
    """Each raw row as a row of signals; running totals become differences between neighbours."""
    befores: list[RawRow | None] = [None, *rows[:-1]]
    return [
        Row(translate(matcher, row, before, mode, provenance), row.step, row.time_s, row.weight, row.last_step)
        for before, row in zip(befores, rows, strict=True)
    ]


def translate(
    matcher: Matcher, row: RawRow, before: RawRow | None, mode: Mode, provenance: Provenance
) -> dict[str, float]:
    """The signals of one raw row."""
    parts: dict[str, list[tuple[int, Alias, str, float]]] = {}
    for key, raw in row.values.items():
        for rank, alias in matcher.aliases(key):
            if alias.only is not None and alias.only is not mode:
                continue
            value = _rate(alias, key, row, before) if alias.counter else raw
            if value is not None and value == value:
                parts.setdefault(alias.signal, []).append((rank, alias, key, value * alias.scale))
    found = {signal: _settle(signal, candidates, provenance) for signal, candidates in parts.items()}
    meant = replace(row, values=_between(row, before)) if matcher.framework.engine and before is not None else row
    found |= _interpreted(matcher, meant, found, mode, provenance)
    return _possible(found, row.origin, provenance)


def _settle(signal: str, candidates: list[tuple[int, Alias, str, float]], provenance: Provenance) -> float:
    """One value from several keys: the most trusted alias wins, parts add up, domains fold."""
    if len(candidates) == 1 and signal in provenance.keys:
        return candidates[0][3]
    whole = [c for c in candidates if not c[1].add]
    if whole:
        best = max(whole, key=lambda c: (c[1].trust, -c[0]))
        chosen = [c for c in whole if c[1] is best[1]]
        value = fold_values(SIGNALS[signal].across, (c[3] for c in chosen))
    else:
        chosen = candidates
        value = sum(c[3] for c in chosen)
    if signal not in provenance.keys:
        provenance.trust[signal] = min(c[1].trust for c in chosen)
        provenance.keys[signal] = tuple(sorted({c[2] for c in chosen}))[:8]
    return value


def _rate(alias: Alias, key: str, row: RawRow, before: RawRow | None) -> float | None:
    """Difference of a running total to the row before: per second for a rate, else per step. None at a reset."""
    if before is None or key not in before.values:
        return None
    rise = row.values[key] - before.values[key]
    if rise < 0:
        return None
    if not alias.signal.endswith("_per_s"):
        return rise / row.weight
    if row.time_s is None or before.time_s is None or row.time_s <= before.time_s:
        return None
    return rise / (row.time_s - before.time_s)


def _between(row: RawRow, before: RawRow) -> dict[str, float]:
    """The values with running totals as what they grew by since the row before; at a reset, since that.

    A mean of a histogram then speaks of now and not of all the time since the engine started.
    """
    values = dict(row.values)
    for key in values.keys() & before.values.keys():
        if key.endswith(TOTALS) and values[key] >= before.values[key]:
            values[key] -= before.values[key]
    return values


def _interpreted(
    matcher: Matcher, row: RawRow, found: Mapping[str, float], mode: Mode, provenance: Provenance
) -> Mapping[str, float]:
    framework = matcher.framework
    if framework.interpret is None:
        return {}
    record = Record(row.values, row.step, row.time_s, row.labels, framework.name, row.origin)
    extra = framework.interpret(record, found, mode)
    for signal, value in extra.items():
        if found.get(signal) != value:
            provenance.trust[signal] = framework.computed_trust.get(signal, provenance.trust.get(signal, 1.0))
            provenance.keys.setdefault(signal, (f"{framework.name}: computed",))
    return extra


def _possible(found: Mapping[str, float], origin: str, provenance: Provenance) -> dict[str, float]:
    kept: dict[str, float] = {}
    for signal, value in found.items():
        if is_possible(signal, value):
            kept[signal] = value if abs(value) >= SMALLEST else 0.0
        elif value == value:
            key = provenance.keys.get(signal, (signal,))[0]
            provenance.reject(signal, key, value, origin)
    return kept
