"""A quantity followed over the steps in view: a random walk seen through noise, both variances from the series itself.

    y_k = x_k + v_k, v ~ N(0, r);   x_k = x_(k-1) + w_k, w ~ N(0, s r)       (local-level model: Harvey 1989, ch. 4)

on the logarithm. Of the ratio s a few sizes are tried; the concentrated likelihood of its one-step errors e_k with
variances r f_k,

    ln L(s) = -(n ln r + sum ln f_k) / 2,   r = mean of e_k^2 / f_k

decides, and a walk is believed only where it explains the series better than standing still by EVIDENCE: pure noise
taken for a walk would be followed up and down. Then the filter of policies/beliefs.py follows, outliers and all.
Where no walk is believed, both speak for the level, each by its odds (model averaging: Hoeting et al. 1999).
What swings (policies/swings.py) comes back, and is not followed: its level is its mean.
# noise of 10 % about one level, 32 steps: s 0, known to 1.8 % | a level that walks by 5 % a step in 5 % of noise: s 1
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import exp, inf, log
from statistics import fmean

from policies.beliefs import VARIANCE_FLOOR, Belief, Reading, predicted, updated
from policies.readings import NOISE_FLOOR, NOISE_VARIANCE, ROWS_MIN
from policies.swings import likeliest_swing
from simulators.signals import TINY
from simulators.snapshot import Row

RATIOS = (1.0 / 256.0, 1.0 / 64.0, 1.0 / 16.0, 1.0 / 4.0, 1.0, 4.0)
"""Walk over noise, per step: memories of 16, 8, 4, 2, 1 steps and less."""
EVIDENCE = 2.0
"""In ln L: of series that stand still one in 50 is taken for a walk (chi-square with one degree, half of it at 0)."""


@dataclass(frozen=True, slots=True)
class Wander:
    """How a series scatters and how it wanders: variances of its logarithm."""

    noise: float
    """Of one reading."""
    walk: float
    """Per step: 0 unless it is clearly more."""
    expected_walk: float = 0.0
    """Per step, over all that is as likely: after a few steps nobody knows that a series stands still."""
    still: float = 0.0
    """The probability that it stands still; before it was looked at EVIDENCE says the odds against each walk."""
    period_steps: float | None = None
    """Of a swing, which comes back: then it stands still, and the swing is part of its noise."""


UNSEEN = Wander(NOISE_VARIANCE, 0.0, NOISE_VARIANCE / 16.0)
"""Of a series too short to tell: any walk that its noise would hide."""


def wander(logs: Sequence[float]) -> Wander:
    """The likeliest of a few; standing still unless walking is clearly likelier."""
    tried = [(ratio, *_likelihood(logs, ratio)) for ratio in (0.0, *RATIOS)]
    scores = [found - (EVIDENCE if ratio else 0.0) for ratio, found, _ in tried]
    weights = [exp(score - max(scores)) for score in scores]
    expected = sum(w * ratio * r for w, (ratio, _, r) in zip(weights, tried, strict=True)) / sum(weights)
    best = tried[scores.index(max(scores))]
    swing = likeliest_swing(logs)
    # Like a jump, which may be anywhere, a swing may have any period.
    if swing is not None and swing.log_likelihood > max(found for _, found, _ in tried) + EVIDENCE + log(len(logs)):
        return Wander(max(NOISE_FLOOR, tried[0][2]), 0.0, 0.0, 1.0, swing.period_steps)
    return Wander(max(NOISE_FLOOR, best[2]), best[0] * best[2], expected, weights[0] / sum(weights))


def _likelihood(logs: Sequence[float], ratio: float) -> tuple[float, float]:
    """(ln L, r) for a walk of `ratio` times the noise; the first value is where it starts."""
    level, variance, squares, spread = logs[0], 1.0, 0.0, 0.0
    for value in logs[1:]:
        variance += ratio
        f = variance + 1.0
        error = value - level
        squares += error * error / f
        spread += log(f)
        gain = variance / f
        level += gain * error
        variance *= 1.0 - gain
    n = len(logs) - 1
    noise = max(VARIANCE_FLOOR, squares / n) if n > 0 else inf
    return -0.5 * (n * log(noise) + spread), noise


def since_jump(logs: Sequence[float]) -> int:
    """Where the last jump left the series: the steps from there on are of the world as it is now. 0 without a jump.

    Two levels that stand still against the likeliest walk: ln L, EVIDENCE + ln n for a split that may be anywhere.
    What jumped there and back may do so again: then all of it speaks.
    # noise of 7 %, a jump of 40 % four steps ago: there | a ramp of 2 % a step over 30 steps: 0
    """
    start, ways = 0, set[bool]()
    while (cut := _likeliest_jump(logs[start:])) > 0:
        ways.add(fmean(logs[start : start + cut]) < fmean(logs[start + cut :]))
        start += cut
    return start if len(ways) == 1 else 0


def _likeliest_jump(logs: Sequence[float]) -> int:
    """The likeliest jump of the series; 0 where a walk explains it as well, or too little is seen on either side."""
    n = len(logs)
    if n < 2 * ROWS_MIN:
        return 0
    walking = max(_likelihood(logs, ratio)[0] for ratio in (0.0, *RATIOS))
    sums, squares = (list(accumulate(v, initial=0.0)) for v in (logs, (x * x for x in logs)))
    # Of two levels the means explain a^2/k + b^2/(n - k) of all squares: most at the likeliest jump.
    explained = {k: sums[k] ** 2 / k + (sums[n] - sums[k]) ** 2 / (n - k) for k in range(ROWS_MIN, n - ROWS_MIN + 1)}
    cut = max(explained, key=lambda k: explained[k])
    noise = max(VARIANCE_FLOOR, (squares[n] - explained[cut]) / (n - 2))
    return cut if -0.5 * (n - 1) * log(noise) - walking > EVIDENCE + log(n) else 0


def level_now(logs: Sequence[float], seen: Wander) -> tuple[float, float]:
    """(where the series stands at its end, variance of that), by the filter of these two variances."""
    level, variance = logs[0], seen.noise
    for value in logs[1:]:
        variance += seen.walk
        gain = variance / (variance + seen.noise)
        level += gain * (value - level)
        variance *= 1.0 - gain
    return level, variance


def followed(rows: Sequence[Row], values: Sequence[float | None]) -> Belief | None:
    """The positive quantity at the end of the series, with its variance; None without a value.

    Under ROWS_MIN values nobody knows how they scatter: as those of any job do.
    """
    known = [(row, value) for row, value in zip(rows, values, strict=True) if value is not None and value > TINY]
    if not known:
        return None
    known = known[since_jump([log(value) for _, value in known]) :]
    seen = wander([log(value) for _, value in known]) if len(known) >= ROWS_MIN else UNSEEN
    times = [row.time_s if row.time_s is not None else float(i) for i, (row, _) in enumerate(known)]
    apart = max(TINY, (times[-1] - times[0]) / max(1, len(times) - 1))
    readings = [(at_s, Reading(value, seen.noise)) for at_s, (_, value) in zip(times, known, strict=True)]
    if seen.walk or seen.still in (0.0, 1.0):
        return _filtered(readings, (seen.walk or seen.expected_walk) / apart)
    standing, walking = (_filtered(readings, walk / apart) for walk in (0.0, seen.expected_walk / (1.0 - seen.still)))
    return standing and walking and _averaged(standing, walking, seen.still)


def _filtered(readings: Sequence[tuple[float, Reading]], walk_per_s: float) -> Belief | None:
    belief: Belief | None = None
    for at_s, reading in readings:
        belief = belief if belief is None else predicted(belief, at_s, walk_per_s)
        belief, _ = updated(belief, reading, at_s)
    return belief


def _averaged(one: Belief, other: Belief, share: float) -> Belief:
    """The level where one of two holds, with that probability: what they disagree by is doubt too."""
    mean = share * one.log_mean + (1.0 - share) * other.log_mean
    spread = share * (1.0 - share) * (one.log_mean - other.log_mean) ** 2
    return replace(one, log_mean=mean, variance=share * one.variance + (1.0 - share) * other.variance + spread)


def newest(rows: Sequence[Row], name: str) -> float | None:
    belief = followed(rows, [row.values.get(name) for row in rows])
    return None if belief is None else belief.rate


def level(rows: Sequence[Row], name: str) -> float | None:
    """The same of what may be 0: 0 where all of it is."""
    found = newest(rows, name)
    return 0.0 if found is None and any(name in row.values for row in rows) else found


def mean_of(rows: Sequence[Row], name: str) -> float | None:
    """For what may be 0: the plain mean."""
    known = [row.values[name] for row in rows if name in row.values]
    return fmean(known) if known else None
