"""What a change of settings would bring: every possible job behind the data asked the same question."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from simulators.calibration.draws import Draw
from simulators.model import Prediction
from simulators.plant import Setpoints

CENTRAL = (0.1, 0.9)
"""The 80 % central interval."""
WEAK_WIDTH_FRAC = 0.03
"""Where the analytic model should not decide alone, this much of the throughput is added on both sides."""


Change = Callable[[Draw], Draw]
"""The job after a change, from one of the possible jobs: what was filled in may differ between them."""


@dataclass(frozen=True, slots=True)
class Spread:
    low: float
    mean: float
    high: float


@dataclass(frozen=True, slots=True)
class Answer:
    now: tuple[tuple[float, Prediction], ...]
    """(weight, prediction) of each draw, today."""
    then: tuple[tuple[float, Prediction], ...]
    jobs: tuple[Draw, ...]
    """Each draw after the change, with its prediction in `now`."""
    gain: Spread
    """In useful rollouts per second, as a share of now."""
    weak: tuple[str, ...]
    """Why the analytic model should not decide alone, then or now, the commonest reason first; widens the interval."""
    stopped: str | None
    """Why the job would not run, where it would not."""


def spread(values: Iterable[tuple[float, float]]) -> Spread:
    """Mean and central interval of (weight, value) pairs; quantiles linear between the middles of the weights."""
    ordered = sorted(values, key=lambda pair: pair[1])
    total = sum(weight for weight, _ in ordered)
    mean = sum(weight * value for weight, value in ordered) / total
    places, before = [], 0.0
    for weight, value in ordered:
        places.append(((before + 0.5 * weight) / total, value))
        before += weight
    low, high = (_at(places, share) for share in CENTRAL)
    return Spread(min(low, mean), mean, max(high, mean))


def _at(places: list[tuple[float, float]], share: float) -> float:
    if share <= places[0][0]:
        return places[0][1]
    for (p0, v0), (p1, v1) in pairwise(places):
        if share <= p1:
            return v0 + (v1 - v0) * (share - p0) / (p1 - p0) if p1 > p0 else v1
    return places[-1][1]


def ask(draws: Sequence[Draw], *changes: Change) -> Answer:
    """The answer to one change; of several, each draw takes the one that is best for it.

    Several are steps of one quantity (a split's shares), in order: what they bring rises and then falls.
    Raises ValueError where the settings make no job (fields and values named).
    """
    jobs: list[Draw] = []
    for draw in draws:
        jobs.append(_best(draw, changes, jobs[-1].setpoints if jobs else None))
    then = tuple((job.weight, job.now) for job in jobs)
    ratios = [
        (draw.weight, job.now.useful_rollouts_per_s / draw.now.useful_rollouts_per_s - 1.0)
        for job, draw in zip(jobs, draws, strict=True)
    ]
    predictions = (p for pair in zip(draws, jobs, strict=True) for p in (pair[1].now, pair[0].now))
    weak = tuple(reason for reason, _ in Counter(reason for p in predictions for reason in p.weak).most_common())
    gain = spread(ratios)
    if weak:
        gain = Spread(gain.low - WEAK_WIDTH_FRAC, gain.mean, gain.high + WEAK_WIDTH_FRAC)
    stopped = next((p.stopped for _, p in then if p.stopped is not None), None)
    return Answer(tuple((d.weight, d.now) for d in draws), then, tuple(jobs), gain, weak, stopped)


def _best(draw: Draw, changes: Sequence[Change], near: Setpoints | None) -> Draw:
    """Uphill from `near`, the best of a draw that differs a little; changes that round to one job are asked once."""
    jobs = list({job.setpoints: job for job in (change(draw) for change in changes)}.values())
    at = next((i for i, job in enumerate(jobs) if job.setpoints == near), len(jobs) // 2)
    best = _asked(jobs[at])
    for step in (1, -1):
        start = at
        while 0 <= at + step < len(jobs):
            further = _asked(jobs[at + step])
            if further.now.useful_rollouts_per_s < best.now.useful_rollouts_per_s:
                break
            best, at = further, at + step
        if at != start:
            break
    return best


def _asked(job: Draw) -> Draw:
    return replace(job, now=job.predict())
