"""Probation: did a move do what was predicted? Realised against predicted gain, by difference in differences.

A job drifts by itself, so before-and-after is not the gain. What drifts from outside is mostly how long rollouts are,
and that is the same under either setting: so work is compared, not rollouts,

    realised = (tokens/s after) / (tokens/s before) - 1

(rollouts/s where no tokens are logged), as an intervention in a level that may wander (policies/intervention.py). A
model fitted *after* the move would not do as the control: it would take the move's harm for drift. The error has the
noise of both sides and what a walk may have added, and for all that drifted from outside a doubt, |ln(after / before)|
times DOUBTS: what a token costs in longer rollouts, and how many were made for each one kept, is not known better.
Without tokens, UNKNOWN_DRIFT_FRAC.

Judged at every step from STEPS_MIN on, by the odds of the promised gain g against a loss of the same size,

    ln odds = 2 g d / sigma^2,      d = ln(realised + 1) +- sigma              (Wald's sequential test, 1945)

- bad: odds under 1 : CLEAR, and the 80 % interval below 0. Of moves that keep their promise this takes back one in
  CLEAR at most, however often it looks. It is taken back, and its knob is frozen; the way back is not judged;
- good: at even odds or better, at once: what looks right must not hold up what comes next. So is what no step to come
  could make clear, as the doubt of what drifted meanwhile would leave it open alone;
- between both it is watched on, to STEPS_MOST. Then it stays, and nothing was proved.
After a restart the first ROWS_MIN steps fill the pipeline, and do not count.
# g 10 %, d -12 %: sigma 7 % after 5 steps: ln odds -4.7 and -12 + 9 < 0 -> bad | sigma 12 %: -1.6 -> watched on
# before 2.0 rollouts/s of 8k tokens, after 1.8 of 10k -> tokens/s +12.5 %, doubt 5.6 %: good, though the rate fell
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import exp, log, sqrt
from statistics import fmean

from policies.base import Interval
from policies.beliefs import CENTRAL_80
from policies.following import since_jump
from policies.intervention import effect_of
from policies.moves import Move
from policies.readings import ROWS_MIN, WORK_STEPS, Level, work_series
from simulators.signals import TINY
from simulators.snapshot import Snapshot

Series = Mapping[str, Sequence[float]]
"""Work step by step (policies/readings.py)."""

STEPS_MIN = 5
"""Steps after settling before a move is judged: fewer have no error to speak of."""
STEPS_MOST = 20
"""Then it is left: where steps scatter by 15 %, twenty on either side tell 10 % from nothing (error 4.7 %, 80 %
interval +-6 %); forty would tell 7 %, in twice the time."""
CLEAR = 9.0
"""Odds that decide, as P >= 0.9 does at the gate."""
PROMISE_FRAC = 0.05
"""Of a law that promises no number."""
DOUBTS = {"length": 0.25, "outside": 0.25, "usable": 0.5}
"""How far a drift of these may have changed the cost of a token: with a power between 0 and 1/2 for lengths (decoding
reads all of the context) and seconds outside, between 0 (trainer-bound) and 1 (generator-bound) for the kept share."""
FILLED_MIN = 2
"""Steps of a filled pipeline are better than more that fill it: how they scatter, those after the move say too."""
UNKNOWN_DRIFT_FRAC = 0.05
"""Without tokens the drift meanwhile is unknown by this much."""
PATIENCE = 4.0
"""A probation without enough steps ends undecided after so many settling times."""


class Judgement(StrEnum):
    WAIT = "wait"
    GOOD = "good"
    """The promise is likelier than a loss of its size, or no loss can be shown."""
    BAD = "bad"
    UNSURE = "unsure"
    """Too few steps came in time, or all that were waited for look like a loss that is not certain: neither."""


@dataclass(frozen=True, slots=True)
class Probation:
    """A finished move that is being judged."""

    move: Move
    knobs: tuple[str, ...]
    since_s: float
    """The settled moment: only steps after it count."""
    predicted: Interval | None
    work: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """The work done before the move, step by step."""
    health: Mapping[str, Level] = field(default_factory=dict)
    restarted: bool = False
    """The move was a restart: the first steps after it fill the pipeline, as a job's first steps do."""


def work_before(snapshot: Snapshot, since_s: float | None, until_s: float) -> dict[str, tuple[float, ...]]:
    """What a move will be held against: since the last jump, before which the job was another one.

    The first steps of a job, or after a move, fill its pipeline and deliver less than it can: they count only where
    there are no others.
    """
    rows = [r for r in snapshot.rows if since_s is None or (r.time_s is not None and r.time_s > since_s)]
    filled = rows[ROWS_MIN:] if since_s is not None else [r for r in rows if r.step is None or r.step > ROWS_MIN]
    found = {}
    for least, seen in ((ROWS_MIN, rows), (FILLED_MIN, filled)):
        for name, values in work_series(replace(snapshot, rows=tuple(seen)), since_s, until_s).items():
            known = [value for value in values if value > TINY]
            if len(known) >= least:
                found[name] = tuple(known[since_jump([log(value) for value in known]) :])
    return found


def realised_gain(before: Series, after: Series, unseen_steps: float = 0.0) -> Interval | None:
    """80 % interval of the gain in work per second; None where the two cannot be compared."""
    found = _realised(before, after, unseen_steps)
    if found is None:
        return None
    change, error, _ = found
    half = CENTRAL_80 * error  # of the logarithm: nothing loses more than all that it had
    return Interval(exp(change - half) - 1.0, exp(change) - 1.0, exp(change + half) - 1.0)


def _realised(before: Series, after: Series, unseen_steps: float) -> tuple[float, float, float] | None:
    """(ln(1 + gain), its error, the part of it that more steps do not lessen)."""
    unit = next((u for u in ("tokens", "rollouts") if before.get(u) and after.get(u)), None)
    if unit is None:
        return None
    was, now = ([log(x) for x in side[unit] if x > TINY] for side in (before, after))
    effect = effect_of(was, now, unseen_steps)
    if effect is None:
        return None
    # In one order: a sum over a set differs from process to process.
    doubt = sum(share * abs(_shift(before, after, name)) for name, share in DOUBTS.items())
    doubt += UNKNOWN_DRIFT_FRAC if unit == "rollouts" else 0.0
    # By how much less was kept of what was made: the middle of both readings, power 1/2, with DOUBTS either way.
    # kept 62 % before, 25 % after -> tokens trained count 1.57 times, for the doubt 1 to 2.5 times
    owed = -_shift(before, after, "usable") / 2.0
    return effect.change + owed, sqrt(effect.variance + doubt**2), doubt


def judged(probation: Probation, snapshot: Snapshot, now_s: float) -> tuple[Judgement, Interval | None]:
    """(verdict, realised gain) of a move after its settling."""
    filling = ROWS_MIN if probation.restarted else 0
    after = {name: values[filling:] for name, values in work_series(snapshot, probation.since_s).items()}
    steps = max((len(values) for values in after.values()), default=0)
    if steps < STEPS_MIN:
        over = now_s - probation.since_s > PATIENCE * max(probation.move.settle_s, probation.move.leg_limit_s)
        # Before a first step nobody knows how long one takes: what was begun on the file's word waits for it.
        over = over and bool(snapshot.rows)
        return (Judgement.UNSURE if over else Judgement.WAIT), None
    step_s = max(TINY, (now_s - probation.since_s) / (filling + steps))
    unseen_steps = max(0.0, probation.since_s - probation.move.begun_s) / step_s
    found = _realised(probation.work, after, unseen_steps)
    if found is None:
        return Judgement.UNSURE, None
    return _verdict(*found, _promised(probation), steps), realised_gain(probation.work, after, unseen_steps)


def _verdict(change: float, error: float, doubt: float, promised: float, steps: int) -> Judgement:
    log_odds = 2.0 * promised * change / error**2
    if log_odds <= -log(CLEAR) and change + CENTRAL_80 * error < 0.0:
        return Judgement.BAD
    in_vain = 2.0 * promised * change > -log(CLEAR) * doubt**2
    if log_odds >= 0.0 or in_vain:
        return Judgement.GOOD
    return Judgement.UNSURE if steps >= STEPS_MOST else Judgement.WAIT


def _promised(probation: Probation) -> float:
    """The promised gain, of the logarithm. Who promised none, or a loss, is held against what could be seen."""
    said = probation.predicted
    return log(1.0 + (said.mean if said is not None and said.mean > TINY else PROMISE_FRAC))


def _shift(before: Series, after: Series, name: str) -> float:
    """ln(after / before) of what drifts from outside; 0 where that is not seen on both sides."""
    was, now = before.get(name, ())[-WORK_STEPS:], after.get(name, ())[-WORK_STEPS:]
    if not was or not now:
        return 0.0
    return log(max(TINY, fmean(now)) / max(TINY, fmean(was)))
