"""The generator's engines: processor sharing in a closed network with the tools.

One engine holds n rollouts: j of them resident or queueing, n - j in their tools. Exact for exponential turns and by
insensitivity close for others: P(j) ~ Z^(n-j)/(n-j)! x product of the times 1/mu(1) ... 1/mu(j), with
mu(j) = min(j, K) / (turn tokens x t(min(j, K)) + min(j, K) x prefill seconds).
"""

import math
from bisect import bisect_left
from collections.abc import Callable
from functools import lru_cache
from itertools import accumulate, repeat, takewhile
from operator import mul, truediv
from typing import NamedTuple

from simulators.queueing.roots import crossing
from simulators.stations import StepTime

EXACT_UP_TO = 400
"""Rollouts of one engine; beyond, the mean field is as good and quicker."""
LEAST_RUNNING = 0.02
"""However often weights come, engines run this share of the time: below it the formulas mean nothing."""
CYCLES, CYCLE_STEPS = 3, 12
"""Of stopping and going, until the state repeats; steps in each of the two phases."""
REPEATS = 1e-8
NEGLIGIBLE = 1e-18
"""Of the chance of a likely number at the engine."""


class Demand(NamedTuple):
    """What one turn asks of an engine."""

    tokens: float
    """Decoded."""
    context_tokens: float
    """Held meanwhile, on average."""
    prefill_s: float = 0.0
    """Seconds of the engine's clock."""


class Stops(NamedTuple):
    """Engines stand still for `lost_s` out of every `every_s` seconds."""

    lost_s: float = 0.0
    every_s: float = math.inf

    @property
    def running_frac(self) -> float:
        return max(LEAST_RUNNING, 1.0 - self.lost_s / self.every_s)


class Flow(NamedTuple):
    """Steady state of one engine."""

    turns_per_s: float
    residents: float
    queueing: float
    paused: float
    """In tools or other delays."""

    def times(self, ratio: float, population: float) -> "Flow":
        """That much faster, with as many more in the pauses."""
        paused = min(population, self.paused * ratio)
        here = (population - paused) / max(1e-12, population - self.paused)
        return Flow(self.turns_per_s * ratio, self.residents * here, self.queueing * here, paused)


class Server(NamedTuple):
    """One engine: seconds of a step, what a turn asks, how many may be resident, how fast it is among its like."""

    step: StepTime
    demand: Demand
    slots: float
    speed: float = 1.0

    def turn_rate(self, present: float) -> float:
        """Turns per second with that many at the engine."""
        return self.speed * turn_rate(self.step, self.demand, min(present, self.slots))

    def leaving(self) -> Callable[[float], float]:
        """Turns per second of each of those at the engine, as a function of their number."""
        line, slots, speed = _line(self.step, self.demand), self.slots, self.speed
        if line is None:
            return lambda present: self.turn_rate(present) / max(present, 1e-9)
        a, b = line
        full = a + b * slots

        def straight(present: float) -> float:
            return speed / (a + b * present) if present < slots else speed * slots / (full * present)

        return straight

    def mean_field(self, population: float, pause_s: float, running_frac: float) -> float:
        """Who is at the engine where what leaves is what returns: running x mu(R) = (n - R) / Z.

        Where a turn takes a + b R seconds: b R^2 + (a + k - n b) R = n a,  k = running x speed x Z
        """
        line = _line(self.step, self.demand)
        if line is None or min(line) < 0.0:
            return crossing(lambda n: running_frac * self.turn_rate(n) * pause_s - (population - n), 0.0, population)
        (a, b), k = line, running_frac * self.speed * pause_s
        half = 0.5 * (a + k - population * b)
        root = math.sqrt(half * half + b * population * a)
        present = population * a / (half + root) if half > 0.0 else (root - half) / b
        return present if present <= self.slots else population - k * self.slots / (a + b * self.slots)


def _line(step: StepTime, demand: Demand) -> tuple[float, float] | None:
    """(a, b) of the a + b R seconds that a turn takes among R residents; None where f is no straight line."""
    table = step.table
    if len(table) > 2:
        return None
    rise = demand.tokens * step.per_context_token_s * demand.context_tokens + demand.prefill_s
    if len(table) == 1:
        return demand.tokens * table[0][1], rise
    (b0, t0), (b1, t1) = table
    slope = (t1 - t0) / (b1 - b0)
    return demand.tokens * (t0 - slope * b0), demand.tokens * slope + rise


def iteration_s(step: StepTime, residents: float, context_tokens: float) -> float:
    """t = f(b) + m S, f linear between the points of its table and beyond its ends."""
    return _f(step.table, residents) + step.per_context_token_s * context_tokens


def _f(table: tuple[tuple[float, float], ...], b: float) -> float:
    if len(table) == 1:
        return table[0][1]
    last = len(table) - 1
    i = 1 if last == 1 else min(max(1, bisect_left(table, (b, -math.inf))), last)
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
    """Seconds between turns with 1, 2 ... slots residents."""
    line = _line(step, demand)
    if line is None:
        return tuple([1.0 / turn_rate(step, demand, j) for j in range(1, slots + 1)])
    a, b = line
    return tuple([a / j + b for j in range(1, slots + 1)])


def flow(server: Server, population: float, pause_s: float, stops: Stops) -> Flow:
    """One engine that holds `population` rollouts, each pausing `pause_s` between turns; in real seconds."""
    if population <= 0.0:
        return Flow(0.0, 0.0, 0.0, 0.0)
    pace = stops.running_frac * server.speed
    if pause_s <= 0.0:
        residents = min(population, server.slots)
        rate = pace * turn_rate(server.step, server.demand, residents)
        return Flow(rate, residents, population - residents, 0.0)
    found = _steady(server, population, pause_s * pace)
    slowed = Flow(found.turns_per_s * pace, found.residents, found.queueing, found.paused)
    return stopped_flow(slowed, server, population, pause_s, stops)


def _steady(server: Server, population: float, pause_s: float) -> Flow:
    """In seconds of the running engine."""
    if population > EXACT_UP_TO or server.slots < 1.0:
        present = server.mean_field(population, pause_s * server.speed, 1.0 / server.speed)
        residents = min(present, server.slots)
        rate = turn_rate(server.step, server.demand, residents)
        return Flow(rate, residents, present - residents, population - present)
    below = math.floor(population)
    low, high = _convolution(server.step, server.demand, int(server.slots), below, pause_s)
    return _between(low, high, population - below)


def _between(low: Flow, high: Flow, share: float) -> Flow:
    return Flow(
        low.turns_per_s + share * (high.turns_per_s - low.turns_per_s),
        low.residents + share * (high.residents - low.residents),
        low.queueing + share * (high.queueing - low.queueing),
        low.paused + share * (high.paused - low.paused),
    )


@lru_cache(maxsize=4096)
def _convolution(step: StepTime, demand: Demand, slots: int, population: int, pause_s: float) -> tuple[Flow, Flow]:
    """Of that population, and of one more, n: the chance of j is that of the latter x (n - j), as far as it matters.

    P(j) / P(j - 1) = (seconds between turns with j) x (n - j + 1) / Z, from near the most likely j both ways.
    """
    n = population + 1
    times = _turn_times(step, demand, min(slots, n))
    times += times[-1:] * (n - len(times))
    near = round(Server(step, demand, slots).mean_field(n, pause_s, 1.0))
    rising = map(truediv, map(mul, times[near:], range(n - near, 0, -1)), repeat(pause_s))
    falling = map(truediv, map(mul, reversed(times[:near]), range(n - near + 1, n + 1)), repeat(pause_s))
    above = list(takewhile(NEGLIGIBLE.__lt__, accumulate(rising, mul, initial=1.0)))
    below = list(takewhile(NEGLIGIBLE.__lt__, accumulate(falling, truediv, initial=1.0)))
    weights, least = [*below[:0:-1], *above], near - len(below) + 1
    with_one_less = list(map(mul, weights, range(n - least, -1, -1)))
    return (
        _flow_of(with_one_less[: population + 1 - least], (population, least), (times, slots), pause_s),
        _flow_of(weights, (n, least), (times, slots), pause_s),
    )


def _flow_of(
    weights: list[float], numbers: tuple[int, int], engine: tuple[tuple[float, ...], int], pause_s: float
) -> Flow:
    """`weights`: of `least` at the engine, and of one more each."""
    (population, least), (times, slots) = numbers, engine
    norm = sum(weights)
    at_engine = sum(map(mul, range(least, least + len(weights)), weights)) / norm
    full = max(0, slots - least)
    queueing = sum(map(mul, range(least + full - slots, population), weights[full:])) / norm
    turns = (population - at_engine) / pause_s
    if at_engine > 0.999 * population:
        first = max(1, least)
        turns = sum(map(truediv, weights[first - least :], times[first - 1 :])) / norm
    return Flow(turns, at_engine - queueing, queueing, population - at_engine)


def stopped_flow(steady: Flow, server: Server, population: float, pause_s: float, stops: Stops) -> Flow:
    """A steady flow corrected for stops that are long against a turn: returning rollouts pile up, then drain.

    dR/dt = (n - R) / Z - on x mu(R), followed for a few cycles; the ratio to its mean field (stops in no time) corrects
    the exact steady flow. Each step is exact for a rate that is constant over it, so any length is stable; while the
    engine stands still one step is all.
    """
    if stops.lost_s <= 0.0 or pause_s <= 0.0 or population <= 0.0:
        return steady
    running = stops.running_frac
    step_s, stood_s = stops.every_s * running / CYCLE_STEPS, stops.every_s * (1.0 - running)
    kept = math.exp(-stood_s / pause_s)
    leaving, present, settled = server.leaving(), population - steady.paused, REPEATS * population / CYCLE_STEPS
    for _ in range(CYCLES):
        before, paused_s = present, 0.0  # rollouts x seconds outside
        for left in range(CYCLE_STEPS, 0, -1):
            rate = 1.0 / pause_s + leaving(present)
            target = population / pause_s / rate
            decay, was = math.exp(-rate * step_s), present
            present = target + (was - target) * decay
            paused_s += (population - target) * step_s - (was - target) * (1.0 - decay) / rate
            if abs(present - was) < settled:  # so is what is left of this phase
                paused_s += (left - 1) * (population - present) * step_s
                break
        paused_s += (population - present) * (1.0 - kept) * pause_s
        present = population + (present - population) * kept
        if abs(present - before) < REPEATS * population:
            break
    paused = population - server.mean_field(population, pause_s, running)
    return steady.times(paused_s / stops.every_s / paused, population)
