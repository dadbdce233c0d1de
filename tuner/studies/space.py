"""The search space: knobs with their legal lattices, parameters with their bounds, and what one point makes of a job.

Every lattice goes through the value in force, so that today's settings are a point of the space.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from math import gcd, prod
from typing import Protocol

from policies.settings import SPLIT, merged, with_trainer
from simulators.faults import setting_faults
from simulators.legality import refusal
from simulators.plant import Bounds, Setpoints, Topology

Value = float | int | bool
Point = Mapping[str, Value]

LIMITED = "max_in_flight_limited"
"""Whether the rollouts in flight are limited at all: asked of jobs without a limit today."""
PARAMETER = "policy."
"""What the names of a policy's parameters begin with."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """One coordinate: a lattice (`step`), an interval (no step), or a few values that stand in no order."""

    name: str
    low: float = 0.0
    high: float = 0.0
    step: float | None = None
    whole: bool = False
    log: bool = False
    choices: tuple[Value, ...] = ()
    now: Value | None = None
    """In force today, or a parameter's default; None: nothing is."""
    only_if: tuple[str, Value] | None = None
    """A coordinate that is there only where another has this value."""

    @property
    def count(self) -> int | None:
        """Values that it can take; None: a continuum."""
        if self.choices:
            return len(self.choices)
        return None if self.step is None else int((self.high - self.low) / self.step + 1e-9) + 1

    @property
    def values(self) -> tuple[Value, ...]:
        """All of them, of a lattice or a choice."""
        if self.choices or self.step is None:
            return self.choices
        found = [self.low + i * self.step for i in range(self.count or 0)]
        return tuple(int(v) for v in found) if self.whole else tuple(found)

    def holds(self, value: Value) -> bool:
        return value in self.values if self.values else self.low <= value <= self.high


class Suggest(Protocol):
    """What chooses the coordinates: a trial of Optuna's, or a test."""

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int: ...

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float: ...

    def suggest_categorical(self, name: str, choices: Sequence[Value]) -> Value: ...


@dataclass(frozen=True, slots=True)
class Space:
    dimensions: tuple[Dimension, ...]
    policy: str | None = None
    """Whose parameters are among the dimensions."""

    @property
    def size(self) -> int | None:
        """Points of the lattice, conditions not counted; None: a continuum."""
        counts = [d.count for d in self.dimensions]
        return None if None in counts else prod(n or 1 for n in counts)

    @property
    def conditional(self) -> bool:
        return any(d.only_if is not None for d in self.dimensions)

    def points(self) -> Iterator[Point]:
        """Every point of a lattice, once; a coordinate whose condition is not met is left out."""
        names = [d.name for d in self.dimensions]
        seen: set[tuple[tuple[str, Value], ...]] = set()
        for values in product(*(d.values for d in self.dimensions)):
            whole = dict(zip(names, values, strict=True))
            point = {d.name: whole[d.name] for d in self.dimensions if self._asks(d, whole)}
            if not self.conditional or tuple(point.items()) not in seen:
                seen.add(tuple(point.items()))
                yield point

    def _asks(self, d: Dimension, point: Point) -> bool:
        return d.only_if is None or point.get(d.only_if[0]) == d.only_if[1]

    def chosen(self, ask: Suggest) -> Point:
        """A point, coordinate by coordinate; those whose condition is not met are left out."""
        point: dict[str, Value] = {}
        for d in self.dimensions:
            if self._asks(d, point):
                point[d.name] = _asked(d, ask)
        return point

    def now(self) -> Point:
        """The point in force; a coordinate that has no value today is left out."""
        point: dict[str, Value] = {}
        for d in self.dimensions:
            if d.now is not None and self._asks(d, point):
                point[d.name] = d.now
        return point

    def parameters(self, point: Point) -> Mapping[str, float]:
        """The policy's parameters among the coordinates."""
        return {n.removeprefix(PARAMETER): float(v) for n, v in point.items() if n.startswith(PARAMETER)}

    def settings(self, point: Point, start: Setpoints, topology: Topology) -> Setpoints:
        """What a job that starts at `start` is set to; what goes with a knob goes with it (policies/settings.py)."""
        then = start
        if SPLIT in point:
            then = merged(then, with_trainer(then, topology, int(point[SPLIT])))
        if "gpus_prefill" in point:
            pool = (then.gpus_prefill or 0) + (then.gpus_decode or 0)
            prefill = int(point["gpus_prefill"])
            then = replace(then, gpus_prefill=prefill, gpus_decode=pool - prefill)
        if point.get(LIMITED) is False:
            then = replace(then, max_in_flight=None)
        rest = {n: v for n, v in point.items() if n not in (SPLIT, "gpus_prefill", LIMITED) and PARAMETER not in n}
        return replace(then, **rest)  # type: ignore[arg-type]


def _asked(d: Dimension, ask: Suggest) -> Value:
    if d.choices:
        return ask.suggest_categorical(d.name, d.choices)
    if d.whole:
        return ask.suggest_int(d.name, int(d.low), int(d.high), step=int(d.step or 1), log=d.log)
    return ask.suggest_float(d.name, d.low, d.high, step=d.step, log=d.log)


def illegal(settings: Setpoints, topology: Topology, bounds: Bounds) -> tuple[str, ...]:
    """Why a job cannot have these settings; empty: it can. They are constraints of a study, never simulated."""
    found = [f"{fault.key}={fault.value} {fault.why}" for fault in setting_faults(topology, settings)]
    if settings.overlap is not False and settings.gpus_trainer and settings.gpus_generator:
        why = refusal(topology, settings, bounds, settings.gpus_trainer)
        found += [] if why is None else [why]
    for name, most in (("max_in_flight", bounds.max_in_flight_max), ("staleness_bound", bounds.staleness_max)):
        value = getattr(settings, name)
        if value is not None and most is not None and value > most:
            found.append(f"{name}={value:g} is above the bound {most:g}")
    quota, flight = settings.sandbox_quota, settings.max_in_flight
    if quota is not None and flight is not None and flight > quota:
        found.append(f"max_in_flight={flight} is above sandbox_quota={quota}")
    prefill, decode = settings.gpus_prefill, settings.gpus_decode
    if (prefill is not None and prefill < 1) or (decode is not None and decode < 1):
        found.append(f"gpus_prefill={prefill} leaves gpus_decode={decode}")
    return tuple(found)


def lattice_of(name: str, values: Sequence[int], now: Value | None) -> Dimension:
    """The coarsest lattice that holds these whole numbers; holes in it are illegal points.

    >>> lattice_of("gpus_trainer", [16, 32, 64], 32).values
    (16, 32, 48, 64)
    """
    first, last = min(values), max(values)
    step = reduce(gcd, (v - first for v in values), 0) or 1
    return Dimension(name, first, last, step, whole=True, now=now)
