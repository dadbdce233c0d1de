"""An intervention in a level that may wander: by how much a move at a known time changed it, and how sure that is.

    y_k = x_k + d z_k + v_k, v ~ N(0, r);   x_k = x_(k-1) + w_k, w ~ N(0, s r);   z = 0 before the move, 1 after it

on the logarithm (Box and Tiao 1975; Harvey 1989, chapter 7.6). Of the ratio s the sizes of policies/following.py are
tried. Steps before *and* after say which: six before the move alone cannot tell noise from a walk, and a walk that
nobody saw hides any loss. For each s the filter's innovations of y are regressed on those of z,

    d = sum(e u / f) / sum(u^2 / f),   r = sum((e - d u)^2 / f) / (n - 2),   ln L restricted (Patterson, Thompson 1971)

and what they say is averaged by their odds: what they disagree by is error too. A level may also stand still around a
trend b k, which is regressed out beside z: a job that gets slower all the while was not made so by the move.
# noise of 10 % around one level, 3 steps unseen: 16 before, 5 after: 6.2 % | 20 after: 4.4 %
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

from policies.following import EVIDENCE, RATIOS
from policies.readings import NOISE_FLOOR, ROWS_MIN

WALKS = EVIDENCE + log(len(RATIOS))
"""Against each walk, in ln L: EVIDENCE is against walking at all, and its size may be any of RATIOS."""


@dataclass(frozen=True, slots=True)
class Effect:
    """A change of a logarithm, and the variance of that."""

    change: float
    variance: float


def effect_of(before: Sequence[float], after: Sequence[float], unseen_steps: float) -> Effect | None:
    """What the move changed, with `unseen_steps` between both; None where they are too few to have a scatter."""
    if not before or not after or len(before) + len(after) < ROWS_MIN:
        return None
    n = len(before) + len(after)
    tried = [(_fitted(before, after, unseen_steps, ratio), WALKS if ratio else 0.0) for ratio in (0.0, *RATIOS)]
    # A slope may be any: half of ln n against it (Schwarz 1978), beside the evidence. It can only excuse a move: what
    # rises after one (a queue that fills) would, drawn out to before it, make a loss of any gain.
    trend = _fitted(before, after, unseen_steps, 0.0, trending=True)
    if trend[1].change > tried[0][0][1].change:
        tried.append((trend, EVIDENCE + log(n) / 2.0))
    scores = [likely - against for (likely, _), against in tried]
    odds = [exp(score - max(scores)) for score in scores]
    found = [(o / sum(odds), effect) for o, ((_, effect), _) in zip(odds, tried, strict=True)]
    mean = sum(share * e.change for share, e in found)
    return Effect(mean, sum(share * (e.variance + (e.change - mean) ** 2) for share, e in found))


def _fitted(
    before: Sequence[float], after: Sequence[float], unseen: float, ratio: float, trending: bool = False
) -> tuple[float, Effect]:
    """(ln L, effect) with a walk of `ratio` times the noise per step; the first value is where it starts."""
    level, of_move, of_trend, variance, at = before[0], 0.0, 0.0, 1.0, 0.0
    ee = eu = uu = ew = uw = ww = spread = 0.0
    for k, value in enumerate([*before[1:], *after], start=1):
        passed = 1.0 + unseen if k == len(before) else 1.0
        variance, at = variance + ratio * passed, at + passed
        f = variance + 1.0
        e, u, w = value - level, float(k >= len(before)) - of_move, at - of_trend
        ee, eu, uu, spread = ee + e * e / f, eu + e * u / f, uu + u * u / f, spread + log(f)
        ew, uw, ww = ew + e * w / f, uw + u * w / f, ww + w * w / f
        gain = variance / f
        level, of_move, of_trend = level + gain * e, of_move + gain * u, of_trend + gain * w
        variance *= 1.0 - gain
    if trending:
        ee, eu, uu = ee - ew * ew / ww, eu - ew * uw / ww, uu - uw * uw / ww
    free, change = len(before) + len(after) - 2, eu / uu
    left = ee - change * eu
    noise = max(NOISE_FLOOR, left / free)
    likely = -0.5 * (free * log(noise) + left / noise + spread + log(uu))
    return likely, Effect(change, noise / uu)
