"""Learning health: did the model's learning shift after a move? Speed that changes the learning is not a gain."""

from collections.abc import Mapping
from math import sqrt

from policies.diagnosis.learning import learning_health
from policies.readings import Level, kept_rows, level
from policies.wording import figure
from simulators.snapshot import Snapshot

WATCHED: Mapping[str, str] = {
    "entropy": "entropy",
    "kl": "divergence",
    "grad_norm": "gradient norm",
    "reward_mean": "reward",
    "resp_len_mean": "length of what is kept",
}
"""Signals whose jump right after a move means that the move changed the data."""
FALLS_ONLY = ("resp_len_mean",)
"""What throws long answers away makes the kept ones shorter; longer ones are what models learn to write."""
BEYOND_NOISE = 4.0
"""Standard errors of the difference: five signals at every tick of a probation must not cry wolf."""
SHIFT_MIN = 0.2
"""A smaller change, as a share of the level before, is no reason to undo a move."""


def baseline(snapshot: Snapshot, until_s: float | None = None) -> dict[str, Level]:
    """The levels before a move: of the rows up to it."""
    return {n: found for n in WATCHED if (found := level(_series(snapshot, n, None, until_s))) is not None}


def shifted(before: Mapping[str, Level], snapshot: Snapshot, since_s: float) -> str | None:
    """The first watched signal that is elsewhere since a move, as a sentence; None while all are where they were.

    # entropy 0.50 +- 0.02 over 10 steps, then 0.38 +- 0.02 over 5: 11 standard errors and 24 % -> a shift
    """
    for name, words in WATCHED.items():
        after = level(_series(snapshot, name, since_s, None))
        if name not in before or after is None:
            continue
        was = before[name]
        error = sqrt(was.sigma**2 / was.n + after.sigma**2 / after.n)
        change = after.mean - was.mean
        if name in FALLS_ONLY and change > 0.0:
            continue
        if abs(change) > max(BEYOND_NOISE * error, SHIFT_MIN * abs(was.mean)):
            return f"the {words} went from {figure(was.mean)} to {figure(after.mean)} after the last move"
    return None


def void(snapshot: Snapshot) -> str | None:
    """What makes every word about speed void: collapse, or no signal to learn from."""
    cause = learning_health(snapshot).void
    return None if cause is None else cause.reason


def _series(snapshot: Snapshot, name: str, since_s: float | None, until_s: float | None) -> list[float]:
    return [row.values[name] for row in kept_rows(snapshot, since_s, until_s) if name in row.values]
