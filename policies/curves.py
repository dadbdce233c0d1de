"""Throughput against the split of GPUs, as a report draws it. Data only."""

from dataclasses import dataclass

from policies.base import Interval


@dataclass(frozen=True, slots=True)
class SplitPoint:
    """One legal split and what it would give, relative to now (1.0)."""

    gpus_trainer: int
    relative_throughput: Interval


@dataclass(frozen=True, slots=True)
class SplitCurve:
    """All legal splits of a job in order of trainer GPUs, with the one in force and the one proposed."""

    points: tuple[SplitPoint, ...]
    current: int | None = None
    proposed: int | None = None
