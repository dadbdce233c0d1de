"""The generator's engines: processor sharing in a closed network with the tools.

One engine holds n rollouts: j of them resident or queueing, n - j in their tools. Exact for exponential turns and by
insensitivity close for others: P(j) ~ Z^(n-j)/(n-j)! x product of the times 1/mu(1) ... 1/mu(j), with
mu(j) = min(j, K) / (turn tokens x t(min(j, K)) + min(j, K) x prefill seconds).
"""

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache

from simulators.stations import StepTime

EXACT_UP_TO = 400
"""Rollouts of one engine; beyond, the mean field is as good and quicker."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What one turn asks of an engine."""

    tokens: float
    """Decoded."""
    context_tokens: float
    """Held meanwhile, on average."""
    prefill_s: float = 0.0
    """Seconds of the engine's clock."""


@dataclass(frozen=True, slots=True)
class Flow:
    """Steady state of one engine."""

    turns_per_s: float
    residents: float
    queueing: float
    paused: float
    """In tools or other delays."""


def iteration_s(step: StepTime, residents: float, context_tokens: float) -> float:
    """t = f(b) + m S, f linear between the points of its table and beyond its ends."""
    return _f(step.table, residents) + step.per_context_token_s * context_tokens


def _f(table: tuple[tuple[float, float], ...], b: float) -> float:
    if len(table) == 1:
        return table[0][1]
    i = min(max(1, bisect_left(table, (b, -math.inf))), len(table) - 1)
    (b0, t0), (b1, t1) = table[i - 1], table[i]
    return t0 + (t1 - t0) * (b - b0) / (b1 - b0)


def turn_rate(step: StepTime, demand: Demand, residents: float) -> float:
    """Turns per second of one engine with that many residents."""
    if residents <= 0.0:
        return 0.0
    t = iteration_s(step, residents, residents * demand.context_tokens)
    return residents / (demand.tokens * t + residents * demand.prefill_s)


@lru_cache(maxsize=512)
def _turn_times(step: StepTime, demand: Demand, slots: int) -> tuple[float, ...]:
    """log of seconds between turns with 1, 2 ... slots residents."""
    return tuple(-math.log(turn_rate(step, demand, j)) for j in range(1, slots + 1))


def flow(step: StepTime, demand: Demand, slots: float, population: float, pause_s: float) -> Flow:
    """One engine that holds `population` rollouts, each pausing `pause_s` between turns."""
    if population <= 0.0:
        return Flow(0.0, 0.0, 0.0, 0.0)
    if pause_s <= 0.0:
        residents = min(population, slots)
        return Flow(turn_rate(step, demand, residents), residents, population - residents, 0.0)
    if population > EXACT_UP_TO or slots < 1.0:
        return _mean_field(step, demand, slots, population, pause_s)
    below = math.floor(population)
    share = population - below
    low = _convolution(step, demand, int(slots), below, pause_s)
    if share < 1e-9:
        return low
    return _between(low, _convolution(step, demand, int(slots), below + 1, pause_s), share)


def _between(low: Flow, high: Flow, share: float) -> Flow:
    return Flow(
        low.turns_per_s + share * (high.turns_per_s - low.turns_per_s),
        low.residents + share * (high.residents - low.residents),
        low.queueing + share * (high.queueing - low.queueing),
        low.paused + share * (high.paused - low.paused),
    )


@lru_cache(maxsize=4096)
def _convolution(step: StepTime, demand: Demand, slots: int, population: int, pause_s: float) -> Flow:
    if population == 0:
        return Flow(0.0, 0.0, 0.0, 0.0)
    times = _turn_times(step, demand, min(slots, population))
    log_pause = math.log(pause_s)
    logs = [0.0] * (population + 1)
    total = 0.0
    for j in range(1, population + 1):
        total += times[min(j, slots) - 1] - log_pause + math.log(population - j + 1)
        logs[j] = total
    peak = max(logs)
    weights = [math.exp(v - peak) for v in logs]
    norm = sum(weights)
    at_engine = sum(j * w for j, w in enumerate(weights)) / norm
    residents = sum(min(j, slots) * w for j, w in enumerate(weights)) / norm
    turns = (population - at_engine) / pause_s
    if at_engine > 0.999 * population:
        turns = sum(w * math.exp(-times[min(j, slots) - 1]) for j, w in enumerate(weights) if j) / norm
    return Flow(turns, residents, at_engine - residents, population - at_engine)


def _mean_field(step: StepTime, demand: Demand, slots: float, population: float, pause_s: float) -> Flow:
    """The number at the engine that makes its rate equal to what returns from the pauses."""
    low, high = 0.0, population
    for _ in range(50):
        middle = 0.5 * (low + high)
        if turn_rate(step, demand, min(middle, slots)) < (population - middle) / pause_s:
            low = middle
        else:
            high = middle
    residents = min(low, slots)
    return Flow(turn_rate(step, demand, residents), residents, low - residents, population - low)


def population_for(step: StepTime, demand: Demand, slots: float, turns_per_s: float, pause_s: float) -> float:
    """Rollouts that one engine must hold to do that many turns per second; inf where it cannot."""
    high = 1.0
    while flow(step, demand, slots, high, pause_s).turns_per_s < turns_per_s:
        high *= 2.0
        if high > 1e6:
            return math.inf
    low = 0.0
    for _ in range(30):
        middle = 0.5 * (low + high)
        if flow(step, demand, slots, middle, pause_s).turns_per_s < turns_per_s:
            low = middle
        else:
            high = middle
    return high
