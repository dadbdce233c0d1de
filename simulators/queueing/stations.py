"""One station alone: many servers, one server with any service law, processor sharing, a finite population.

Erlang (1917); Pollaczek (1930) and Khinchine (1932); Cobham (1954) for priorities; Kingman (1961); Kleinrock,
*Queueing Systems* I and II. Rates and times in any one unit.
"""

import math
from dataclasses import dataclass

NEVER, ROUNDING = 1e-18, 1e-17
"""A share that is lost, or waits, below which it is none; a part of a sum that no longer changes it."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """P(n in the system) and what follows from it."""

    probabilities: tuple[float, ...]
    mean: float
    throughput: float

    @property
    def busy_frac(self) -> float:
        return 1.0 - self.probabilities[0]


def little(rate: float, time: float) -> float:
    """L = lambda W: what is inside on average."""
    return rate * time


def erlang_b(servers: int, load: float) -> float:
    """Share lost at `servers` servers without a queue. Load in servers: lambda / mu. # 8 servers, load 7.2: 0.190313

    1 / B = 1 + c/a + c (c - 1)/a^2 + ..., as far as it matters: a small part of the servers where they are many.
    """
    if load <= 0.0:
        return 0.0
    total = term = 1.0
    for c in range(servers, 0, -1):
        term *= c / load
        total += term
        if term < ROUNDING * total or total > 1.0 / NEVER:
            break
    return 1.0 / total if total < 1.0 / NEVER else 0.0


def erlang_c(servers: int, load: float) -> float:
    """Share that waits in M/M/c. # 8 servers, load 7.2: 0.701533 | 16, 14.4: 0.591343"""
    if load >= servers:
        return 1.0
    lost = erlang_b(servers, load)
    return servers * lost / (servers - load * (1.0 - lost))


def mmc_wait(servers: int, load: float) -> float:
    """Mean wait of M/M/c in mean service times. # 8 servers, load 7.2: 0.876916 | 1 server, 0.9: 9"""
    if load >= servers:
        return math.inf
    return erlang_c(servers, load) / (servers - load)


def mg1_wait(load: float, scv: float) -> float:
    """Pollaczek-Khinchine: mean wait of M/G/1 in mean service times, scv = variance / mean^2.

    # load 0.8: exponential (scv 1) 4 | lognormal sigma 1 (scv e - 1) 5.43656
    """
    if load >= 1.0:
        return math.inf
    return load * (1.0 + scv) / (2.0 * (1.0 - load))


def kingman_wait(load: float, arrival_scv: float, service_scv: float) -> float:
    """Upper bound of the mean wait of G/G/1 in mean service times (exact in heavy traffic).

    (ca / load^2 + cs) load / (2 (1 - load)), with ca the variance of the time between arrivals over its mean squared.
    """
    if load >= 1.0:
        return math.inf
    return load * (arrival_scv / load**2 + service_scv) / (2.0 * (1.0 - load))


def priority_waits(loads: tuple[float, ...]) -> tuple[float, ...]:
    """Cobham: mean waits of M/M/1 classes of equal service, first class first, nobody interrupted.

    # loads 0.2, 0.6: waits 1, 5 service times (times in system 2, 6)
    """
    total, above, waits = sum(loads), 0.0, []
    for load in loads:
        below = above + load
        waits.append(total / ((1.0 - above) * (1.0 - below)) if below < 1.0 else math.inf)
        above = below
    return tuple(waits)


def sharing_time(load: float, size: float = 1.0) -> float:
    """M/G/1 processor sharing: E[T | size] = size / (1 - load), whatever the distribution of sizes."""
    return size / (1.0 - load) if load < 1.0 else math.inf


def birth_death(births: tuple[float, ...], deaths: tuple[float, ...]) -> Distribution:
    """births[n] from n to n + 1, deaths[n] from n + 1 to n."""
    logs = [0.0]
    for up, down in zip(births, deaths, strict=True):
        logs.append(logs[-1] + math.log(up) - math.log(down))
    peak = max(logs)
    weights = [math.exp(v - peak) for v in logs]
    norm = math.fsum(weights)
    shares = tuple(w / norm for w in weights)
    mean = math.fsum(n * p for n, p in enumerate(shares))
    return Distribution(shares, mean, math.fsum(p * down for p, down in zip(shares[1:], deaths, strict=True)))


def capacitated_sharing(arrival: float, service: float, most: int, up_to: int = 400) -> Distribution:
    """Processor sharing with a threshold (R-PS): up to `most` customers are served at full rate `service` each, more
    share `most` x service evenly. Insensitive to the law of the sizes.
    # lambda 10, mu 12, R 3: .43213 .36011 .15005 .04168 .01158 .00322
    """
    deaths = tuple(service * min(n, most) for n in range(1, up_to + 1))
    return birth_death((arrival,) * up_to, deaths)


def limited_sharing(arrival: float, service: float, slots: int, up_to: int = 400) -> Distribution:
    """At most `slots` share one server, the others queue; M/M: the number is that of M/M/1, residents min(n, slots)."""
    if slots < 1:
        raise ValueError(f"slots={slots} must be >= 1: somebody must be served")
    return birth_death((arrival,) * up_to, (service,) * up_to)


def machine_repairman(machines: int, repairers: int, failure: float, repair: float) -> Distribution:
    """`machines` that fail at `failure` each and `repairers` that mend at `repair` each: number broken.

    # 6 machines, 1 repairer, 0.1, 1: busy 0.51549, mean 0.84515 | 10, 2, 1/20, 1/3: mean 1.67743
    """
    births = tuple(failure * (machines - n) for n in range(machines))
    deaths = tuple(repair * min(n, repairers) for n in range(1, machines + 1))
    return birth_death(births, deaths)
