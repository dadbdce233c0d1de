"""A law's parameters with their bounds: one declaration for documentation, validation and search."""

from collections.abc import Mapping
from dataclasses import asdict, field, fields
from typing import Any


def within(default: float, low: float, high: float) -> Any:
    """A parameter of a law: its default and the interval that a study searches."""
    return field(default=default, metadata={"low": low, "high": high})


def space(law: Any) -> Mapping[str, tuple[float, float]]:
    """The search space of a law (its class or one of it): name to (low, high). What has no bounds is not searched."""
    return {f.name: (f.metadata["low"], f.metadata["high"]) for f in fields(law) if "low" in f.metadata}


def demand_bounds(law: Any) -> None:
    """Raises ValueError naming the parameter that is out of its bounds."""
    numbers = asdict(law)
    for name, (low, high) in space(law).items():
        number = numbers[name]
        if not low <= number <= high:
            raise ValueError(f"{type(law).__name__}.{name}={number} must be in [{low:g}, {high:g}]")
