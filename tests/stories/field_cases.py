"""Reads field_cases.toml: reported problems as topology, setpoints and snapshot, with what a right answer may say."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulators.plant import Mode, Setpoints, Topology
from simulators.snapshot import Snapshot, snapshot_of

REPORTED = Path(__file__).with_name("field_cases.toml")
ALL_IDS = frozenset(f"A-{i}" for i in range(1, 44))


@dataclass(frozen=True, slots=True)
class FieldCase:
    id: str
    told: str
    topology: Topology
    setpoints: Setpoints
    snapshot: Snapshot
    verdicts: frozenset[str]
    """The right ones and `cannot-tell`."""
    fix: tuple[str, ...]
    forbidden: tuple[str, ...]
    gain_at_most: dict[str, float]
    asks_for: frozenset[str]


def _case(entry: dict[str, Any]) -> FieldCase:
    facts = dict(entry["topology"])
    return FieldCase(
        id=entry["id"],
        told=entry["told"],
        topology=Topology(mode=Mode(facts.pop("mode", "unknown")), **facts),
        setpoints=Setpoints(**entry.get("setpoints", {})),
        snapshot=snapshot_of(**entry["signals"]),
        verdicts=frozenset(entry["verdicts"]) | {"cannot-tell"},
        fix=tuple(entry.get("fix", ())),
        forbidden=tuple(entry.get("forbidden", ())),
        gain_at_most=entry.get("gain_at_most", {}),
        asks_for=frozenset(entry.get("asks_for", ())),
    )


def _read() -> dict[str, Any]:
    return tomllib.loads(REPORTED.read_text(encoding="utf-8"))


def field_cases() -> tuple[FieldCase, ...]:
    return tuple(_case(entry) for entry in _read()["case"])


def not_carried() -> dict[str, str]:
    """Cases without a number that a Snapshot can hold, each with the reason."""
    return {entry["id"]: entry["why"] for entry in _read()["not_carried"]}
