"""Typed look-ups in a flat configuration: what is absent, of another type or not finite is `None`."""

from collections.abc import Mapping
from math import prod

LARGEST = 2**53
"""No count or size of a job is larger; a larger integer would not survive as a float."""


def whole(config: Mapping[str, object], *keys: str) -> int | None:
    """The first of the keys that holds a whole number (not a truth value)."""
    found = (number for key in keys if (number := real(config, key)) is not None and number.is_integer())
    return next((int(number) for number in found), None)


def positive(config: Mapping[str, object], *keys: str) -> int | None:
    """The same, above zero; verl and its kin write -1 for `never` and `no limit`."""
    value = whole(config, *keys)
    return value if value is not None and value > 0 else None


def real(config: Mapping[str, object], *keys: str) -> float | None:
    """The first of the keys that holds a finite number."""
    return next((number for key in keys if (number := number_of(config.get(key))) is not None), None)


def number_of(value: object) -> float | None:
    """The value as a number of this world: no truth value, finite, and smaller than any count or size can be."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < LARGEST else None


def truth(config: Mapping[str, object], *keys: str) -> bool | None:
    """The first of the keys that holds True or False."""
    return next((value for key in keys if isinstance(value := config.get(key), bool)), None)


def times(*factors: int | None) -> int | None:
    """The product, or None when any factor is unknown."""
    known = [f for f in factors if f is not None]
    return prod(known) if len(known) == len(factors) else None
