"""W&B's way with values: JSON texts with nested keys, numbers to keep, media and histograms to pass over."""

import math
from collections.abc import Iterable, Iterator, Mapping

from tuner.parsing.configuration import parse_json

DEEPEST = 20
"""Levels of nested keys that are followed."""

_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""How summary files write what JSON cannot."""


def numbers(pairs: Iterable[tuple[str, object]]) -> dict[str, float]:
    """Numeric leaves under dotted keys. A mapping with `_type` is a histogram, table or picture: left out whole."""
    found: dict[str, float] = {}
    media: list[str] = []
    for key, value in pairs:
        if key.endswith("._type"):
            media.append(key.removesuffix("_type"))
        found.update(_leaves(key, value, 0))
    if not media:
        return found
    return {key: value for key, value in found.items() if not key.startswith(tuple(media))}


def _leaves(key: str, value: object, depth: int) -> Iterator[tuple[str, float]]:
    if isinstance(value, Mapping):
        if "_type" in value or depth > DEEPEST:
            return
        for name, inner in value.items():
            yield from _leaves(f"{key}.{name}", inner, depth + 1)
        return
    if isinstance(value, str):
        value = _WORDS.get(value)
    if isinstance(value, bool | int | float):
        try:
            yield key, float(value)
        except OverflowError:
            return


def item_key(item: object) -> str:
    """`key`, or the parts of `nested_key` joined with dots as W&B's pages show them."""
    parts = item.nested_key or (item.key,)  # type: ignore[attr-defined]
    return ".".join(part.decode("utf-8", "replace") for part in parts)


def item_value(item: object) -> object:
    """The item's value, from its JSON text or (since 0.19) a typed field."""
    for name in ("number", "integer", "boolean"):
        if item.HasField(name):  # type: ignore[attr-defined]
            return getattr(item, name)
    text = item.value_json or item.json  # type: ignore[attr-defined]
    return parse_json(text.decode("utf-8", "replace"))[0] if text else None


def split_clock(values: dict[str, float], start_s: float | None) -> tuple[dict[str, float], int | None, float | None]:
    """(the run's own values, `_step`, unix seconds): `_timestamp`, or the run's start plus `_runtime`."""
    step, time_s = values.get("_step"), values.get("_timestamp")
    if time_s is None and start_s is not None and "_runtime" in values:
        time_s = start_s + values["_runtime"]
    own = {key: value for key, value in values.items() if not key.startswith("_")}
    whole = int(step) if step is not None and math.isfinite(step) else None
    return own, whole, time_s if time_s is not None and math.isfinite(time_s) else None
