"""What a trial is judged by: measurements of its cases against those of the settings in force, same case by same case.

    gain = prod (useful rollouts per GPU-hour there / here)^weight - 1

Both sides of each ratio see the same prompts, lengths and rewards, so that their noise cancels for the greater part.
Bounds are constraints of the study, never part of an objective: no gain buys a broken one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log
from typing import Literal

from policies.base import Interval

WORST_RATIO = 1e-3
"""A job that stands still counts as a thousand times slower: the logarithm stays finite."""
NOISE_FRAC = 0.01
"""By so much a ratio differs between two runs of one setting."""
T80 = (0.0, 3.078, 1.886, 1.638, 1.533, 1.476, 1.440, 1.415, 1.397, 1.383, 1.372)
"""Student's t for an 80 % central interval, by degrees of freedom; beyond, the normal's."""
NORMAL80 = 1.282


@dataclass(frozen=True, slots=True)
class Measured:
    """One case under one point."""

    useful_per_gpu_h: float
    """Useful rollouts per GPU-hour; 0: the job stands still."""
    staleness: float | None = None
    """Mean, in versions."""
    waste_frac: float | None = None
    tokens_per_gpu_h: float | None = None
    """Trained tokens."""
    moves: float = 0.0
    """Orders of a controller."""
    excess: Mapping[str, float] = field(default_factory=dict)
    """By how much a bound is broken, by bound; at most 0: it is kept."""
    stopped: str | None = None
    """Why the job stands still."""


Better = Literal["maximize", "minimize"]


@dataclass(frozen=True, slots=True)
class Objective:
    name: str
    title: str
    better: Better
    of: Callable[[Sequence[float], Sequence[float], Sequence[Measured]], float]
    """From weights, logarithms of ratios and measurements."""
    unit: str = "1"


def _gain(weights: Sequence[float], logs: Sequence[float], _: Sequence[Measured]) -> float:
    return exp(sum(w * x for w, x in zip(weights, logs, strict=True)) / sum(weights)) - 1.0


def _worst(_: Sequence[float], logs: Sequence[float], __: Sequence[Measured]) -> float:
    return exp(min(logs)) - 1.0


def _mean(
    of: Callable[[Measured], float | None],
) -> Callable[[Sequence[float], Sequence[float], Sequence[Measured]], float]:
    def mean(weights: Sequence[float], _: Sequence[float], measured: Sequence[Measured]) -> float:
        known = [(w, v) for w, m in zip(weights, measured, strict=True) if (v := of(m)) is not None]
        return sum(w * v for w, v in known) / sum(w for w, _ in known) if known else 0.0

    return mean


def _gpu_h_per_mtok(measured: Measured) -> float | None:
    return 1e6 / measured.tokens_per_gpu_h if measured.tokens_per_gpu_h else None


OBJECTIVES: Mapping[str, Objective] = {
    o.name: o
    for o in (
        Objective("useful", "gain in useful rollouts per GPU-hour", "maximize", _gain),
        Objective("worst", "the same gain where it is smallest", "maximize", _worst),
        Objective("staleness", "mean staleness", "minimize", _mean(lambda m: m.staleness), "versions"),
        Objective("waste", "rollouts that no batch used", "minimize", _mean(lambda m: m.waste_frac)),
        Objective("cost", "GPU-hours per million trained tokens", "minimize", _mean(_gpu_h_per_mtok), "GPU-h/Mtok"),
        Objective("moves", "moves of a run", "minimize", _mean(lambda m: m.moves), "moves"),
    )
}
"""What `--objective` names. Dollars per Mtok are the cost times the price of a GPU-hour: the same optimum."""


def ratios(there: Sequence[Measured], here: Sequence[Measured]) -> list[float]:
    """Logarithms of useful work there over here, case by case."""
    return [
        log(max(WORST_RATIO, a.useful_per_gpu_h / b.useful_per_gpu_h)) if b.useful_per_gpu_h > 0.0 else 0.0
        for a, b in zip(there, here, strict=True)
    ]


def values_of(
    names: Sequence[str], weights: Sequence[float], there: Sequence[Measured], here: Sequence[Measured]
) -> list[float]:
    logs = ratios(there, here)
    return [OBJECTIVES[name].of(weights, logs, there) for name in names]


def excess_of(there: Sequence[Measured], here: Sequence[Measured]) -> dict[str, float]:
    """The constraints: the most by which any case breaks a bound that the settings in force keep there.

    A bound that is broken today may stay broken, by no more than it is and a hundredth: what a run's noise moves it.
    """
    names = dict.fromkeys(name for m in there for name in m.excess)
    pairs = list(zip(there, here, strict=True))
    found = {n: max(m.excess.get(n, 0.0) - _allowed(now.excess.get(n, 0.0)) for m, now in pairs) for n in names}
    return found | {"runs": float(any(m.stopped for m in there))}


def _allowed(today: float) -> float:
    return today + NOISE_FRAC if today > 0.0 else 0.0


def central(logs: Sequence[float], weights: Sequence[float], doubt: bool) -> Interval:
    """The gain with its 80 % interval. `doubt`: of one more case like these; else of their mean (Student's t).

    # ratios 1.02, 1.04, 1.03 of equal weight -> +3 % (+2..+4) as a mean
    """
    total = sum(weights)
    mean = sum(w * x for w, x in zip(weights, logs, strict=True)) / total
    if doubt:
        low, high = (_quantile(logs, weights, share) for share in (0.1, 0.9))
        return Interval(exp(min(low, mean)) - 1.0, exp(mean) - 1.0, exp(max(high, mean)) - 1.0)
    n = len(logs)
    if n < 2:
        return Interval(float("-inf"), exp(mean) - 1.0, float("inf"))
    variance = sum((x - mean) ** 2 for x in logs) / (n - 1)
    half = (T80[n - 1] if n <= len(T80) else NORMAL80) * (variance / n) ** 0.5
    return Interval(exp(mean - half) - 1.0, exp(mean) - 1.0, exp(mean + half) - 1.0)


def _quantile(values: Sequence[float], weights: Sequence[float], share: float) -> float:
    """Of weighted values: the first at which the weights up to its middle reach the share."""
    total, before = sum(weights), 0.0
    ordered = sorted(zip(values, weights, strict=True))
    for value, weight in ordered:
        before += weight / total
        if before >= share - 1e-12:
            return value
    return ordered[-1][0]
