"""Learning health: did the model's learning shift after a move? Speed that changes the learning is not a gain.

What a model learns drifts by itself: entropy and gradients fall, answers grow. A signal that clearly wanders
(policies/following.py) stands where it stands last, and goes on wandering: that is no shift.

    shift:  |after - before| > max(4 sqrt(s0^2 / n0 + s1^2 / n1 + w n1 / 3), before / 5)

w n / 3 is the variance of the mean of n steps of a walk of variance w each.
"""

from collections.abc import Mapping, Sequence
from math import sqrt

from policies.diagnosis.learning import learning_health
from policies.following import level_now, wander
from policies.readings import Level, kept_rows, level
from policies.wording import figure
from simulators.signals import TINY
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

BACK_STEPS = 5
"""Steps after settling that say that all is as before: as many as tell of a shift in a probation."""
STANDING_STEPS = 16
"""Steps that say that a new level stands: its later half is held against the earlier one, as steps after a move are."""


def baseline(snapshot: Snapshot, until_s: float | None = None, since_s: float | None = None) -> dict[str, Level]:
    """Where each signal stands before a move: by the rows up to it, or those of them since the last alarm was over."""
    return {n: found for n in WATCHED if (found := _standing(_series(snapshot, n, since_s, until_s))) is not None}


def _standing(series: Sequence[float]) -> Level | None:
    """Its mean; of a signal that clearly wanders its end, by a filter of its own walk and noise."""
    plain = level(series)
    largest = max(map(abs, series), default=0.0)
    if plain is None or largest <= TINY:
        return plain
    scaled = [value / largest for value in series]
    seen = wander(scaled)
    if seen.walk == 0.0:
        return plain
    end, variance = level_now(scaled, seen)
    n = max(1, round(seen.noise / variance))
    return Level(end * largest, sqrt(seen.noise) * largest, n, seen.walk * largest**2)


def shifted(before: Mapping[str, Level], snapshot: Snapshot, since_s: float, filling_steps: int = 0) -> str | None:
    """The first watched signal that is elsewhere since a move, as a sentence; None while all are where they were.

    So many first steps say nothing of lengths: of what a move started anew or besides, the short ones end first.

    # entropy 0.50 +- 0.02 over 10 steps, then 0.38 +- 0.02 over 5: 11 standard errors and 24 % -> a shift
    # gradient norm 2.9 to 0.75 over 20 steps, then 0.64 +- 0.05 over 5: it falls all the while -> none
    """
    for name, words in WATCHED.items():
        after = level(_series(snapshot, name, since_s, None)[filling_steps if name in FALLS_ONLY else 0 :])
        if name not in before or after is None:
            continue
        was = before[name]
        error = sqrt(was.sigma**2 / was.n + after.sigma**2 / after.n + was.walk * after.n / 3.0)
        change = after.mean - was.mean
        if name in FALLS_ONLY and change > 0.0:
            continue
        if abs(change) > max(BEYOND_NOISE * error, SHIFT_MIN * abs(was.mean)):
            return f"the {words} went from {figure(was.mean)} to {figure(after.mean)} after the last move"
    return None


def recovered(before: Mapping[str, Level], snapshot: Snapshot, since_s: float) -> str | None:
    """Why an alarm is over, as a sentence: the signals are where they were before the move, or stand where they are.

    # entropy 0.50 before, 0.38 under the move; since it was taken back 0.49 over 6 steps: back
    #   0.38 over 16 steps, the later half as the earlier one: that is the model now, and no move's doing
    """
    times = sorted(row.time_s for row in kept_rows(snapshot, since_s) if row.time_s is not None)
    if len(times) >= BACK_STEPS and shifted(before, snapshot, since_s) is None:
        return "learning is where it was before the move"
    if len(times) < STANDING_STEPS:
        return None
    middle_s = times[len(times) // 2 - 1]
    series = {name: _standing(_series(snapshot, name, since_s, middle_s)) for name in before}
    stood = {name: found for name, found in series.items() if found is not None}
    return None if shifted(stood, snapshot, middle_s) else "learning stands still where it is since the move"


def void(snapshot: Snapshot) -> str | None:
    """What makes every word about speed void: collapse, or no signal to learn from."""
    cause = learning_health(snapshot).void
    return None if cause is None else cause.reason


def _series(snapshot: Snapshot, name: str, since_s: float | None, until_s: float | None) -> list[float]:
    return [row.values[name] for row in kept_rows(snapshot, since_s, until_s) if name in row.values]
