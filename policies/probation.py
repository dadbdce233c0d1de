"""Probation: did a move do what was predicted? Realised against predicted gain, by difference in differences.

A job drifts by itself, so before-and-after is not the gain. What drifts from outside is mostly how long rollouts are,
and that is the same under either setting: so work is compared, not rollouts,

    realised = (tokens/s after) / (tokens/s before) - 1

(rollouts/s where no tokens are logged). A model fitted *after* the move would not do as the control: it would take the
move's harm for drift. The error has the noise of both means, and for everything that drifted from outside a doubt,
|ln(after / before)| times DOUBTS: what a token costs in longer rollouts, and how many were made for each one kept, is
not known better. Without tokens, UNKNOWN_DRIFT_FRAC.
A move is bad when its realised gain is negative beyond the error (80 %): it is taken back, and its knob is frozen; the
way back is not judged.
# before 2.0 rollouts/s of 8k tokens, after 1.8 of 10k -> tokens/s +12.5 %, doubt 5.6 %: good, though the rate fell
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import exp, log, sqrt

from policies.base import Interval
from policies.beliefs import CENTRAL_80
from policies.following import level_now, since_jump, wander
from policies.moves import Move
from policies.readings import ROWS_MIN, Level, work, work_series
from simulators.signals import TINY
from simulators.snapshot import Snapshot

STEPS_MIN = 5
"""Steps after settling before a move is judged: fewer have no error to speak of."""
DOUBTS = {"length": 0.25, "outside": 0.25, "usable": 0.5}
"""How far a drift of these may have changed the cost of a token: with a power between 0 and 1/2 for lengths (decoding
reads all of the context) and seconds outside, between 0 (trainer-bound) and 1 (generator-bound) for the kept share."""
UNKNOWN_DRIFT_FRAC = 0.05
"""Without tokens the drift meanwhile is unknown by this much."""
JUDGED_STEPS = 16
"""From the last step before a move to the middle of those that it is judged by, about."""
PATIENCE = 4.0
"""A probation without enough steps ends undecided after so many settling times."""


class Judgement(StrEnum):
    WAIT = "wait"
    GOOD = "good"
    """The realised gain is positive, or at least not negative beyond its error."""
    BAD = "bad"
    UNSURE = "unsure"
    """Too few steps came in time: neither."""


@dataclass(frozen=True, slots=True)
class Probation:
    """A finished move that is being judged."""

    move: Move
    knobs: tuple[str, ...]
    since_s: float
    """The settled moment: only steps after it count."""
    predicted: Interval | None
    before: Mapping[str, Level] = field(default_factory=dict)
    """The work done before the move (standing)."""
    health: Mapping[str, Level] = field(default_factory=dict)


def standing(snapshot: Snapshot, since_s: float | None, until_s: float) -> dict[str, Level]:
    """The work done before a move, as it stands at its end: of a job that drifts, an average would be of another one.

    Its error holds what a walk adds until the move is judged.
    """
    found = {}
    for name, values in work_series(snapshot, since_s, until_s).items():
        known = [log(value) for value in values if value > TINY]
        known = known[since_jump(known) :]  # before it the job was another one
        if len(known) < ROWS_MIN:
            continue
        seen = wander(known)
        at, variance = level_now(known, seen)
        error = sqrt(variance + seen.expected_walk * JUDGED_STEPS)
        found[name] = Level(exp(at), exp(at) * error, 1)
    return found


def realised_gain(before: Mapping[str, Level], after: Mapping[str, Level]) -> Interval | None:
    """80 % interval of the gain in work per second; None where the two cannot be compared."""
    unit = next((u for u in ("tokens", "rollouts") if u in before and u in after), None)
    if unit is None or before[unit].mean <= TINY:
        return None
    # In one order: a sum over a set differs from process to process.
    shared = [name for name in DOUBTS if name in before and name in after]
    doubt = sum(DOUBTS[name] * _shift(before[name], after[name]) for name in shared)
    doubt += UNKNOWN_DRIFT_FRAC if unit == "rollouts" else 0.0
    ratio = after[unit].mean / before[unit].mean * _owed_to_the_filter(before, after)
    error = sqrt(_relative(before[unit]) ** 2 + _relative(after[unit]) ** 2 + doubt**2)
    half = CENTRAL_80 * error  # of the logarithm: nothing loses more than all that it had
    return Interval(ratio * exp(-half) - 1.0, ratio - 1.0, ratio * exp(half) - 1.0)


def _owed_to_the_filter(before: Mapping[str, Level], after: Mapping[str, Level]) -> float:
    """By how much less was kept of what was made, the middle of both readings: power 1/2, with DOUBTS either way.

    # kept 62 % before, 25 % after -> tokens trained count 1.57 times, for the doubt 1 to 2.5 times
    """
    if "usable" not in before or "usable" not in after or after["usable"].mean <= TINY:
        return 1.0
    return sqrt(max(TINY, before["usable"].mean) / after["usable"].mean)


def judged(probation: Probation, snapshot: Snapshot, now_s: float) -> tuple[Judgement, Interval | None]:
    """(verdict, realised gain) of a move after its settling."""
    after = work(snapshot, probation.since_s)
    if max((found.n for found in after.values()), default=0) < STEPS_MIN:
        over = now_s - probation.since_s > PATIENCE * max(probation.move.settle_s, probation.move.leg_limit_s)
        # Before a first step nobody knows how long one takes: what was begun on the file's word waits for it.
        over = over and bool(snapshot.rows)
        return (Judgement.UNSURE if over else Judgement.WAIT), None
    gain = realised_gain(probation.before, after)
    if gain is None:
        return Judgement.UNSURE, None
    return (Judgement.BAD if gain.high < 0.0 else Judgement.GOOD), gain


def _shift(before: Level, after: Level) -> float:
    """|ln(after / before)|."""
    return abs(log(max(TINY, after.mean) / max(TINY, before.mean)))


def _relative(known: Level) -> float:
    return known.sigma / sqrt(known.n) / max(known.mean, TINY)
