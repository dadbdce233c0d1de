"""Closed networks of one class: exact mean value analysis, load-dependent convolution, blocking after service.

Reiser and Lavenberg (1980) for MVA; Buzen (1973) for convolution, here on logarithms so that no population overflows;
Onvural and Perros (1986) for two stations with blocking.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from simulators.queueing.stations import birth_death


@dataclass(frozen=True, slots=True)
class Station:
    """Service time, visits per cycle and servers; servers = inf is a delay."""

    service: float
    visits: float = 1.0
    servers: float = 1.0

    def rate(self, present: int) -> float:
        return min(float(present), self.servers) / self.service


@dataclass(frozen=True, slots=True)
class Solution:
    throughput: float
    """Cycles per unit of time."""
    times: tuple[float, ...]
    """Per visit."""
    numbers: tuple[float, ...]


def mva(stations: Sequence[Station], population: int, think: float = 0.0) -> Solution:
    """Exact for single servers, many servers and delays (the marginal probabilities are carried along).

    # Jain: S .125 .3 .2, V 16 10 5, think 4, N 20 -> R .373 4.854 .300, Q 1.991 16.177 .500
    """
    marginals = [[1.0] for _ in stations]
    numbers, times, rate = [0.0] * len(stations), [0.0] * len(stations), 0.0
    for n in range(1, population + 1):
        times = [_time(s, number, p) for s, number, p in zip(stations, numbers, marginals, strict=True)]
        rate = n / (think + sum(s.visits * t for s, t in zip(stations, times, strict=True)))
        numbers = [rate * s.visits * t for s, t in zip(stations, times, strict=True)]
        marginals = [_marginal(s, rate, p) for s, p in zip(stations, marginals, strict=True)]
    return Solution(rate, tuple(times), tuple(numbers))


def _time(station: Station, number: float, marginal: Sequence[float]) -> float:
    if station.servers == math.inf:
        return station.service
    if station.servers == 1.0:
        return station.service * (1.0 + number)
    return sum((j + 1) / station.rate(j + 1) * p for j, p in enumerate(marginal))


def _marginal(station: Station, rate: float, before: Sequence[float]) -> list[float]:
    """P(j at the station) with one customer more; only stations of many servers need it."""
    if station.servers in (1.0, math.inf):
        return [1.0]
    after = [rate * station.visits / station.rate(j) * before[j - 1] for j in range(1, len(before) + 1)]
    return [max(0.0, 1.0 - math.fsum(after)), *after]


def convolution(stations: Sequence[Station], population: int, think: float = 0.0) -> Solution:
    """The same by normalising constants; stable at any population, and any rate(n) will do."""
    columns = [_factors(s, population) for s in stations]
    if think > 0.0:
        columns.append(_factors(Station(think, servers=math.inf), population))
    total = [0.0] + [-math.inf] * population
    for column in columns:
        total = _convolved(total, column)
    rate = math.exp(total[population - 1] - total[population])
    numbers = []
    for i in range(len(stations)):
        rest = [0.0] + [-math.inf] * population
        for column in columns[:i] + columns[i + 1 :]:
            rest = _convolved(rest, column)
        shares = [math.exp(columns[i][j] + rest[population - j] - total[population]) for j in range(population + 1)]
        numbers.append(math.fsum(j * share for j, share in enumerate(shares)))
    times = tuple(q / (rate * s.visits) for q, s in zip(numbers, stations, strict=True))
    return Solution(rate, times, tuple(numbers))


def _factors(station: Station, population: int) -> list[float]:
    """log of the product of visits / rate(1) ... visits / rate(n)."""
    logs = [0.0]
    for n in range(1, population + 1):
        logs.append(logs[-1] + math.log(station.visits / station.rate(n)))
    return logs


def _convolved(left: Sequence[float], right: Sequence[float]) -> list[float]:
    result = []
    for n in range(len(left)):
        terms = [left[j] + right[n - j] for j in range(n + 1)]
        peak = max(terms)
        result.append(peak if peak == -math.inf else peak + math.log(math.fsum(math.exp(t - peak) for t in terms)))
    return result


def asymptotic_bound(stations: Sequence[Station], population: int, think: float = 0.0) -> float:
    """No network does more: min(N / (D + Z), 1 / largest demand per server)."""
    total = think + sum(s.visits * s.service for s in stations)
    slowest = max((s.visits * s.service / s.servers for s in stations), default=0.0)
    return min(population / total, 1.0 / slowest if slowest > 0.0 else math.inf)


def blocking_pair(rates: tuple[float, float], capacities: tuple[int, int], population: int) -> float:
    """Two stations in a circle, each with room for so many; who finds the next one full waits in its server.

    The number at the first station, a blocked one counted with its destination, is a birth-death process.
    # rates 1 1, room 4 4, N 1..7: .500 .667 .750 .800 .833 .800 .750
    """
    low = max(0, population - capacities[1] - 1)
    high = min(population, capacities[0] + 1)
    if population > sum(capacities):
        raise ValueError(f"population={population} is more than there is room for ({sum(capacities)})")
    count = high - low
    return birth_death((rates[1],) * count, (rates[0],) * count).throughput
