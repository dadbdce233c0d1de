"""The generator's engines: processor sharing in a closed network with the tools.

One engine holds n rollouts: j of them resident or queueing, n - j in their tools. Exact for exponential turns and by
insensitivity close for others: P(j) ~ Z^(n-j)/(n-j)! x product of the times 1/mu(1) ... 1/mu(j), with
mu(j) = min(j, K) / (turn tokens x t(min(j, K)) + min(j, K) x prefill seconds).
"""

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from operator import add, mul

from simulators.queueing.roots import crossing
from simulators.stations import StepTime

EXACT_UP_TO = 400
"""Rollouts of one engine; beyond, the mean field is as good and quicker."""
LEAST_RUNNING = 0.02
"""However often weights come, engines run this share of the time: below it the formulas mean nothing."""
CYCLES, CYCLE_STEPS = 3, 12
"""Of stopping and going, until the state repeats; steps in each of the two phases."""
REPEATS = 1e-10


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
class Stops:
    """Engines stand still for `lost_s` out of every `every_s` seconds."""

    lost_s: float = 0.0
    every_s: float = math.inf

    @property
    def running_frac(self) -> float:
        return max(LEAST_RUNNING, 1.0 - self.lost_s / self.every_s)


@dataclass(frozen=True, slots=True)
class Flow:
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


@dataclass(frozen=True, slots=True)
class Server:
    """One engine: seconds of a step, what a turn asks, how many may be resident, how fast it is among its like."""

    step: StepTime
    demand: Demand
    slots: float
    speed: float = 1.0

    def turn_rate(self, present: float) -> float:
        """Turns per second with that many at the engine."""
        return self.speed * turn_rate(self.step, self.demand, min(present, self.slots))

    def mean_field(self, population: float, pause_s: float, running_frac: float) -> float:
        """Turns per second where what leaves is what returns: running x mu(R) = (n - R) / Z."""
        present = crossing(lambda n: running_frac * self.turn_rate(n) * pause_s - (population - n), 0.0, population)
        return (population - present) / pause_s


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
    """log of seconds between turns with 1, 2 ... slots residents."""
    return tuple(-math.log(turn_rate(step, demand, j)) for j in range(1, slots + 1))


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
    step, demand, slots = server.step, server.demand, server.slots
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
    times += times[-1:] * (population - len(times))
    pauses = [math.log(paused / pause_s) for paused in range(population, 0, -1)]
    logs = tuple(accumulate(map(add, times, pauses), initial=0.0))
    peak = max(logs)
    weights = [math.exp(v - peak) for v in logs]
    norm = sum(weights)
    at_engine = sum(map(mul, range(population + 1), weights)) / norm
    queueing = sum(map(mul, range(population - slots + 1), weights[slots:])) / norm
    residents = at_engine - queueing
    turns = (population - at_engine) / pause_s
    if at_engine > 0.999 * population:
        turns = sum(w * math.exp(-t) for w, t in zip(weights[1:], times, strict=True)) / norm
    return Flow(turns, residents, at_engine - residents, population - at_engine)


def _mean_field(step: StepTime, demand: Demand, slots: float, population: float, pause_s: float) -> Flow:
    """The number at the engine that makes its rate equal to what returns from the pauses."""
    present = crossing(lambda n: turn_rate(step, demand, min(n, slots)) * pause_s - (population - n), 0.0, population)
    residents = min(present, slots)
    return Flow(turn_rate(step, demand, residents), residents, present - residents, population - present)


def stopped_flow(steady: Flow, server: Server, population: float, pause_s: float, stops: Stops) -> Flow:
    """A steady flow corrected for stops that are long against a turn: returning rollouts pile up, then drain.

    dR/dt = (n - R) / Z - on x mu(R), followed for a few cycles; the ratio to its mean field (stops in no time) corrects
    the exact steady flow. Each step is exact for a rate that is constant over it, so any length is stable.
    """
    if stops.lost_s <= 0.0 or pause_s <= 0.0 or population <= 0.0:
        return steady
    running = stops.running_frac
    phases = ((True, stops.every_s * running / CYCLE_STEPS), (False, stops.every_s * (1.0 - running) / CYCLE_STEPS))
    present = population - steady.paused
    returned = 0.0
    for _ in range(CYCLES):
        before, returned = present, 0.0
        for on, step_s in phases:
            for _ in range(CYCLE_STEPS):
                leaving = server.turn_rate(present) / max(present, 1e-9) if on else 0.0
                rate = 1.0 / pause_s + leaving
                target = population / pause_s / rate
                decay = math.exp(-rate * step_s)
                area = target * step_s + (present - target) * (1.0 - decay) / rate
                present = target + (present - target) * decay
                returned += (population * step_s - area) / pause_s
        if abs(present - before) < REPEATS * population:
            break
    ratio = returned / stops.every_s / server.mean_field(population, pause_s, running)
    return steady.times(ratio, population)
