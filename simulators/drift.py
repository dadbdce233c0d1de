"""Drift: how one number of a job changes while the job runs, as a shape over trainer steps or seconds."""

from dataclasses import dataclass, fields, is_dataclass, replace
from enum import StrEnum
from itertools import pairwise
from math import exp, log, pi, sin
from typing import Any, TypeVar

from simulators.fields import STRICT

Tree = TypeVar("Tree")

LOGISTIC_WIDTH = 6.0
"""A logistic drift runs from -6 to +6 on its own axis: 0.25 % short of both ends, then rescaled."""


class By(StrEnum):
    """What `start`, `end`, `at` and `until` count."""

    STEP = "step"
    """Trainer steps done: the model learns by them."""
    TIME = "time"
    """Seconds since the job began: the world changes by them."""


class Shape(StrEnum):
    """How a number goes from its value in the file to `to`."""

    STEP = "step"
    """Jumps at `start`; back at `end`, where one is given."""
    LINEAR = "linear"
    """By the same amount per step."""
    EXPONENTIAL = "exponential"
    """By a constant factor per step; both ends must be positive."""
    LOGISTIC = "logistic"
    """Slow, fast, slow: a skill being learned."""
    SINE = "sine"
    """Around the value in the file, as far as `to` and as far below."""
    POINTS = "points"
    """Straight lines between `points`."""


@dataclass(frozen=True, slots=True)
class Drift:
    """One number that moves. Several on one path act in the order of the file, each on what the others left.

    Before `start` the number is what the file says; after `end` it is `to`.
    # base 10, to 30, start 0, end 100, at 50: linear 20 | exponential 17.3 | logistic 20 | step 30
    """

    __pydantic_config__ = STRICT

    path: str
    """Where it stands: `workload.response.mean_tokens`, `stations.trainer.base_s`; a number in a list by its place,
    `workload.solve.parts.0.a`."""
    shape: Shape = Shape.LINEAR
    """The way from the value in the file to `to`."""
    by: By = By.STEP
    """What the drift follows."""
    to: float | None = None
    """The value at `end`, in the unit of the field (`points` do without)."""
    start: float = 0.0
    """Steps or seconds."""
    end: float | None = None
    """Steps or seconds; linear, exponential and logistic need one. Of a sine: when it stops."""
    period: float | None = None
    """Steps or seconds of one sine."""
    points: tuple[tuple[float, float], ...] = ()
    """(step or second, value), the first rising; before the first and after the last the value stays."""


def drifted(drift: Drift, base: float, at: float) -> float:
    """The value at `at` steps (or seconds) of a number that would be `base` without the drift."""
    if drift.shape is Shape.POINTS:
        return between(drift.points, at)
    to = base if drift.to is None else drift.to
    if at < drift.start:
        return base
    if drift.shape is Shape.STEP:
        return base if drift.end is not None and at >= drift.end else to
    if drift.shape is Shape.SINE:
        over = drift.end is not None and at >= drift.end
        return (
            base if over or not drift.period else base + (to - base) * sin(2 * pi * (at - drift.start) / drift.period)
        )
    end = drift.start if drift.end is None else drift.end
    if at >= end:
        return to
    part = (at - drift.start) / (end - drift.start)
    if drift.shape is Shape.EXPONENTIAL:
        return base * exp(part * log(to / base))
    return base + (to - base) * (part if drift.shape is Shape.LINEAR else _logistic(part))


def _logistic(part: float) -> float:
    """From 0 at 0 to 1 at 1."""
    foot = 1 / (1 + exp(LOGISTIC_WIDTH))
    return (1 / (1 + exp(LOGISTIC_WIDTH * (1 - 2 * part))) - foot) / (1 - 2 * foot)


def between(points: tuple[tuple[float, float], ...], at: float) -> float:
    """Linear between (x, y) points, constant beyond them."""
    if at <= points[0][0]:
        return points[0][1]
    for (left, low), (right, high) in pairwise(points):
        if at < right:
            return low + (high - low) * (at - left) / (right - left)
    return points[-1][1]


def number_at(tree: object, path: str) -> float | None:
    """The number at a dotted path inside frozen records and tuples; None where there is none.

    Raises ValueError naming the part of the path that leads nowhere.
    """
    here: Any = tree
    for part in path.split("."):
        here = _step(here, part, path)
    if isinstance(here, bool) or not isinstance(here, int | float):
        return None
    return float(here)


def with_number(tree: Tree, path: str, value: float) -> Tree:
    """The same tree with another number at `path`; a count stays a whole number."""
    changed: Tree = _replaced(tree, path.split("."), value)
    return changed


def _replaced(here: Any, parts: list[str], value: float) -> Any:
    if not parts:
        return round(value) if isinstance(here, int) else value
    inner = _replaced(_step(here, parts[0], ".".join(parts)), parts[1:], value)
    if isinstance(here, tuple):
        place = int(parts[0])
        return (*here[:place], inner, *here[place + 1 :])
    return replace(here, **{parts[0]: inner})


def _step(here: Any, part: str, path: str) -> Any:
    if isinstance(here, tuple) and part.isdecimal() and int(part) < len(here):
        return here[int(part)]
    known = [f.name for f in fields(here)] if is_dataclass(here) else []
    if part not in known:
        inside = f"one of {', '.join(known)}" if known else "nothing below it in this scenario"
        raise ValueError(f"{path!r} leads nowhere at {part!r}: there is {inside}")
    return {name: getattr(here, name) for name in known}[part]
