"""Decisions, settings and times in words, for the page and the terminal."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from policies.control import Action, Decision
from policies.settings import values
from tuner.report import words

NAMES = {
    "gpus_trainer": "trainer GPUs",
    "gpus_generator": "generator GPUs",
    "gpus_prefill": "prefill GPUs",
    "gpus_decode": "decode GPUs",
    "engines": "engines",
    "oversampling_ratio": "oversampling ratio",
    "max_in_flight": "rollouts in flight, at most",
    "max_in_flight_per_engine": "in flight per engine, at most",
}
"""Setpoints for people, in their order on the page; others keep their name."""


def when(at_s: float | None) -> str | None:
    """A time as people and programs read it, in UTC."""
    if at_s is None or not 0.0 <= at_s < 253402300800.0:
        return None
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


WALL_S = 1e9
"""Times from here on are of the wall clock (since 2001); a simulated job counts from its own start."""


def moment(at_s: float) -> str:
    """When it was, as the job counts: UTC, or seconds since a simulated start."""
    told = when(at_s) if at_s >= WALL_S else None
    return f"{at_s:.0f} s" if told is None else told


def sentence(decision: Decision) -> str:
    """What was decided last, with its reason."""
    wish = decision.order or decision.changes
    what = changes(None if wish is None else values(wish))
    match decision.action:
        case Action.HOLD:
            return f"It leaves everything as it is: {decision.reason}"
        case Action.ADVISE:
            return f"It advises {what}: {decision.reason}"
        case Action.ASK:
            return f"It asks for {what}: {decision.reason}"
        case Action.APPLY:
            return f"It sets {what}: {decision.reason}"


def known(wish: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in wish.items() if value is not None}


def changes(wish: Mapping[str, Any] | None) -> str:
    return "" if wish is None else ", ".join(f"{NAMES.get(n, n)} {words.figure(v)}" for n, v in known(wish).items())


def clock(at_s: float) -> str:
    """`14:03:10`, in UTC; with its day where a time is unreal."""
    told = when(at_s)
    return "?" if told is None else told[11:19]


def ago(seconds: float) -> str:
    """`12 s`, `4 min`, `3 h`, `2 d`.

    >>> ago(12.3), ago(250), ago(9000), ago(200000)
    ('12 s', '4 min', '2.5 h', '2.3 d')
    """
    for limit, unit, size in ((100.0, "s", 1.0), (5400.0, "min", 60.0), (172800.0, "h", 3600.0)):
        if seconds < limit:
            number = max(0.0, seconds) / size
            return f"{number:.0f} {unit}" if size < 3600.0 else f"{number:.2g} {unit}"
    return f"{seconds / 86400.0:.2g} d"
