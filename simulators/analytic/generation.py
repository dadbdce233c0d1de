"""The generator with a given number of rollouts in flight: what its engines make, and how long a rollout takes."""

import math
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from simulators.analytic.alternating import alternating
from simulators.analytic.case import Case
from simulators.analytic.engine import Demand, Flow, Server, Stops, flow, iteration_s
from simulators.analytic.outgrowing import loop_of, outgrows
from simulators.analytic.prefill import prefill_pause_s
from simulators.queueing.order_statistics import Mixture
from simulators.stations import Engine, StepTime

LOOKS = 24
"""At a falling line, until it is met."""
NEARLY = 10.0
"""Times so much, where nothing is known to be too much."""
CLOSE = 5e-6
"""Of the whole range: so near to its own argument a falling line is met."""
HIT_CLOSE = 0.02
"""The same for the share of paused context that the prefix cache holds."""

HIT_ALL = 0.99
"""With fewer hits than these the closed form for a cache that holds all is never the lower one, and is not asked."""


class Generation(NamedTuple):
    """Steady state of all engines together."""

    rollouts_per_s: float
    """Finished, failed attempts not counted."""
    in_flight: float
    residents: float
    paused: float
    token_s: float
    """Seconds from one token of a resident to its next, pauses for weights included."""
    turn_s: float
    """Seconds of a turn besides its tokens: queue and prefill."""
    rollout_s: float
    wait_s: float
    """Of a rollout before it may start: for a sandbox, or behind a limit on starts."""
    running_frac: float
    """Share of the time in which engines work."""
    hit_frac: float
    """Share of paused context that the prefix cache still holds."""

    def times(self, case: Case) -> Mixture:
        """Distribution of the time from dispatch to end."""
        return case.rollout.times((self.token_s, self.turn_s, case.fixed_s + self.wait_s), case.failure_frac)


def speeds(engine: Engine, engines: int) -> tuple[tuple[float, int], ...]:
    """(relative speed, engines that have it); engines in lockstep run at the slowest of their number."""
    if not engine.speeds:
        return ((1.0, engines),)
    each = [engine.speeds[i % len(engine.speeds)] for i in range(engines)]
    width = max(1, engine.lockstep)
    if width > 1:
        each = [min(each[i - i % width : i - i % width + width]) for i in range(engines)]
    return tuple(sorted(Counter(each).items()))


def resident_limit(case: Case) -> float:
    """Slots, or what the KV pool holds of mean contexts where that is less."""
    engine = case.stations.engine
    if engine.kv_tokens is None:
        return float(case.layout.slots)
    room = engine.kv_tokens * (1.0 - engine.kv_watermark_frac) / case.context_mean
    return max(1.0, min(float(case.layout.slots), room))


def step_of(case: Case) -> StepTime:
    """The engine's step time; with a second tenant every slot is always taken, so it is that of a full engine."""
    step, tenant = case.stations.engine.step, case.stations.tenant
    if tenant is None:
        return step
    slots = resident_limit(case)
    full = iteration_s(step, slots, slots * case.context_mean)
    return StepTime(((0.0, full), (1.0, full)))


def demand_of(case: Case, hit_frac: float) -> Demand:
    """A mean turn: its tokens, and the prefill of the prompt first, then the tool's answer and what the cache lost."""
    per_token = 0.0 if case.stations.prefill is not None else case.stations.engine.prefill_s_per_token
    rollout = case.rollout
    return Demand(rollout.turn_tokens, case.context_mean, prefilled_tokens(case, hit_frac) * per_token)


def prefilled_tokens(case: Case, hit_frac: float) -> float:
    """Per turn.

    Of a cache that holds a part, what it holds and what it lost are both reckoned at the middle of a mean rollout: with
    the exact loss alone the two do not meet, and a job on the brink is taken for one that has collapsed.
    """
    rollout = case.rollout
    later = rollout.turns_mean - 1.0
    cached = case.stations.engine.prefix_cache
    lost = later * (1.0 - hit_frac) * rollout.resumed_context() if cached else rollout.returned_tokens()
    return (rollout.prompt_tokens + later * rollout.tool_tokens + lost) / rollout.turns_mean


def pause_s(case: Case) -> float:
    """Delay per turn outside the engine: tools, and the rollout's fixed seconds spread over its turns."""
    rollout = case.rollout
    return ((rollout.turns_mean - 1.0) * rollout.tool.mean + case.fixed_s) / rollout.turns_mean


def hit_frac(case: Case, residents: float, paused: float) -> float:
    """Share of paused context that the free part of the KV pool still holds."""
    engine = case.stations.engine
    if not engine.prefix_cache:
        return 0.0
    if engine.kv_tokens is None or paused <= 0.0:
        return 1.0
    free = engine.kv_tokens - residents * case.context_mean
    return max(0.0, min(1.0, free / (paused * case.rollout.resumed_context())))


def generate(case: Case, in_flight: float, stops: Stops) -> Generation:
    """Engines with `in_flight` rollouts between them that stop for publications.

    Those that have no sandbox, or come too fast for a limit on starts, wait in front of the engines.
    """
    made = _cached(case, min(in_flight, case.active_limit), stops)
    if made.rollouts_per_s > case.rate_limit:
        made = in_flight_for(case, case.rate_limit, stops, made)
    if made.in_flight >= in_flight or made.rollouts_per_s <= 0.0:
        return made
    whole_s = in_flight / (made.rollouts_per_s * case.attempts)
    return made._replace(in_flight=in_flight, rollout_s=whole_s, wait_s=whole_s - made.rollout_s)


def _met(falling: Callable[[float], float], high: float, close: float) -> float:
    """x = falling(x) in (0, high): regula falsi with the Illinois rule, until they differ by `close` of the range.

    # 1 - x on (0, 1): 0.5
    """
    span, low, above, below = high, 0.0, max(falling(0.0), close * high), -high
    x = high * above / (above + high)
    for _ in range(LOOKS):
        gap = falling(x) - x
        if abs(gap) < close * span or high - low < close * span:
            break
        if gap > 0.0:
            low, above, below = x, gap, below / 2.0
        else:
            high, below, above = x, gap, above / 2.0
        x = low + (high - low) * above / (above - below)
    return x


def _queued(through: Callable[[float], float], ends: tuple[float, float], guess: float) -> float:
    """x = through(x) of those that queue in front of a pool that lets `most` through: with u = x / (most - x)

        1/u = most / through - 1 = c + w u        (met where w u^2 + c u = 1)

    The wait is a straight line of u where the pool is nearly full, and by Little's law 1 / through is one of the wait:
    by secants of it, from u = 0, where nobody waits.

    `ends`: the most that the pool lets through, and what comes through where nobody waits; `guess`: of w.
    """
    (most, unhindered), low, high = ends, 0.0, math.inf
    before, was = 0.0, most / unhindered - 1.0
    u = 1.0 / was if was > 0.0 else _root(guess, was)
    for _ in range(LOOKS):
        x = most * u / (1.0 + u)
        found = through(x)
        if abs(found - x) < CLOSE * min(ends):
            break
        short = most / found - 1.0
        low, high = (u, high) if found > x else (low, u)
        rise = (short - was) / (u - before)
        before, was, u = u, short, _root(max(0.0, rise), short - rise * u)
        if not low < u < high:
            u = math.sqrt(low * high) if high < math.inf else NEARLY * low
    return x


def _root(w: float, c: float) -> float:
    """u > 0 with w u^2 + c u = 1."""
    root = math.sqrt(c * c + 4.0 * w)
    return 2.0 / (c + root) if c > 0.0 else (root - c) / (2.0 * w) if w > 0.0 else math.inf


def _cached(case: Case, in_flight: float, stops: Stops) -> Generation:
    """With the prefix cache as full as it is: what it holds follows from who is paused, and who is paused from it.

    A cache that holds less has more prefilled again, so fewer are resident and it holds more. Behind a prefill pool
    the two do not settle, and are followed (alternating.py); evictions only cost.
    """
    if case.stations.prefill is not None:
        evicting = _alternating(case, in_flight, stops) if outgrows(case, in_flight) else None
        if evicting is not None and evicting.hit_frac < HIT_ALL:
            return evicting
        made = _generate(case, in_flight, stops, 1.0 if case.stations.engine.prefix_cache else 0.0)
        return made if evicting is None or made.rollouts_per_s < evicting.rollouts_per_s else evicting
    whole = 1.0 if case.stations.engine.prefix_cache else 0.0
    made = _generate(case, in_flight, stops, whole)
    if case.stations.engine.kv_tokens is None or case.rollout.turns_mean <= 1.0 or _room(case, made) >= whole:
        return made
    hits = _met(lambda held: _room(case, _generate(case, in_flight, stops, held)), whole, HIT_CLOSE)
    return _generate(case, in_flight, stops, hits)


def _alternating(case: Case, in_flight: float, stops: Stops) -> Generation:
    each = speeds(case.stations.engine, case.layout.engines)
    speed = sum(speed * count for speed, count in each) / case.layout.engines
    found = alternating(loop_of(case, step_of(case), speed), in_flight, float(case.layout.in_flight), stops)
    turns, rollout = found.turns_per_s, case.rollout
    finished = turns / rollout.turns_mean / case.work
    return Generation(
        rollouts_per_s=finished,
        in_flight=in_flight,
        residents=found.residents,
        paused=found.paused,
        token_s=found.residents / turns / rollout.turn_tokens,
        turn_s=max(0.0, in_flight - found.residents - found.paused) / turns,
        rollout_s=in_flight / (finished * case.attempts),
        wait_s=0.0,
        running_frac=stops.running_frac,
        hit_frac=found.hit_frac,
    )


def _room(case: Case, made: Generation) -> float:
    engines = case.layout.engines
    return hit_frac(case, made.residents / engines, made.paused / engines)


def _generate(case: Case, in_flight: float, stops: Stops, hits: float) -> Generation:
    demand, pause = demand_of(case, hits), pause_s(case)
    pool, engines = case.stations.prefill, case.layout.prefill_engines
    if pool is None:
        return _together(case, demand, _flows(case, demand, (in_flight, pause), stops), (in_flight, hits, 0.0, stops))
    tokens = prefilled_tokens(case, hits)

    met: dict[float, list[tuple[float, int, Flow]]] = {}

    def behind(turns: float) -> tuple[float, list[tuple[float, int, Flow]]]:
        extra = prefill_pause_s(pool, engines, tokens, turns)
        if extra not in met:  # where many servers have room nobody waits, however many turns there are
            met[extra] = _flows(case, demand, (in_flight, pause + extra), stops)
        return extra, met[extra]

    def through(turns: float) -> float:
        return sum(count * f.turns_per_s for _, count, f in behind(turns)[1])

    most = engines / max(1e-12, tokens * pool.prefill_s_per_token)
    # half of M/M/c's wait: where all of it is spent in front of a full pool, u / 2 rollouts are there
    extra, flows = behind(_queued(through, (most, through(0.0)), 0.5 / in_flight))
    return _together(case, demand, flows, (in_flight, hits, extra, stops))


def _flows(case: Case, demand: Demand, load: tuple[float, float], stops: Stops) -> list[tuple[float, int, Flow]]:
    in_flight, pause = load
    limit, step = resident_limit(case), step_of(case)
    population = in_flight / case.layout.engines
    return [
        (speed, count, flow(Server(step, demand, limit, speed), population, pause, stops))
        for speed, count in speeds(case.stations.engine, case.layout.engines)
    ]


def _together(
    case: Case, demand: Demand, flows: list[tuple[float, int, Flow]], state: tuple[float, float, float, Stops]
) -> Generation:
    in_flight, hits, extra_s, stops = state
    turns = residents = queueing = paused = speeds_sum = 0.0
    for speed, count, f in flows:
        turns += count * f.turns_per_s
        residents += count * f.residents
        queueing += count * f.queueing
        paused += count * f.paused
        speeds_sum += speed * count
    rollouts = turns / case.rollout.turns_mean
    clock = stops.running_frac * speeds_sum / case.layout.engines
    prefill_s = demand.prefill_s / clock
    resident_s = residents / turns if turns > 0.0 else 0.0
    finished = rollouts / case.work
    return Generation(
        rollouts_per_s=finished,
        in_flight=in_flight,
        residents=residents,
        paused=paused,
        token_s=max(resident_s - prefill_s, 1e-12) / demand.tokens,
        turn_s=(queueing / turns if turns > 0.0 else 0.0) + prefill_s + extra_s,
        rollout_s=in_flight / (finished * case.attempts) if finished > 0.0 else math.inf,
        wait_s=0.0,
        running_frac=stops.running_frac,
        hit_frac=hits,
    )


def in_flight_for(case: Case, rollouts_per_s: float, stops: Stops, full: Generation) -> Generation:
    """The generator with as few in flight as make that many per second: regula falsi between nothing and `full`."""
    low, high = 0.0, min(full.in_flight, case.active_limit)
    rate_low, rate_high, made = 0.0, full.rollouts_per_s, full
    for _ in range(8):
        share = (rollouts_per_s - rate_low) / max(rate_high - rate_low, 1e-300)
        middle = low + (high - low) * min(0.98, max(0.02, share))
        made = _cached(case, middle, stops)
        if abs(made.rollouts_per_s / rollouts_per_s - 1.0) < 1e-3:
            break
        if made.rollouts_per_s < rollouts_per_s:
            low, rate_low = middle, made.rollouts_per_s
        else:
            high, rate_high = middle, made.rollouts_per_s
    return made._replace(rollouts_per_s=rollouts_per_s, rollout_s=made.in_flight / (rollouts_per_s * case.attempts))
