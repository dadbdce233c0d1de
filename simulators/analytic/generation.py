"""The generator running freely: what its engines make with a given number of rollouts in flight."""

import math
from collections import Counter
from dataclasses import dataclass

from simulators.analytic.engine import Demand, Flow, flow
from simulators.analytic.layout import Layout
from simulators.analytic.rollout import Rollout
from simulators.queueing.order_statistics import Mixture
from simulators.stations import Engine, Stations


@dataclass(frozen=True, slots=True)
class Case:
    """One job, resolved."""

    layout: Layout
    stations: Stations
    rollout: Rollout
    usable_frac: float
    """Of finished groups."""
    yield_frac: float
    """Finished groups that reach the trainer: 1, or usable_frac when the others are filtered."""
    attempts: float
    """Rollouts started per rollout finished: more than 1 with failures."""
    partial: bool
    fixed_s: float
    """Seconds of a rollout outside its turns: sandbox start, verifier."""


@dataclass(frozen=True, slots=True)
class Generation:
    """Steady state of all engines together."""

    rollouts_per_s: float
    """Finished, failed attempts not counted."""
    in_flight: float
    residents: float
    token_s: float
    """Seconds from one token of a resident to its next, pauses for weights included."""
    turn_s: float
    """Seconds of a turn besides its tokens: queue and prefill."""
    rollout_s: float

    def times(self, case: Case) -> Mixture:
        """Distribution of the time from dispatch to end."""
        rollout = case.rollout
        if not rollout.tool.mean and not case.fixed_s and not self.turn_s:
            return rollout.times(1.0, 0.0, 0.0).scaled(self.token_s)
        return rollout.times(self.token_s, self.turn_s, case.fixed_s)


def speeds(engine: Engine, engines: int) -> tuple[tuple[float, int], ...]:
    """(relative speed, engines that have it); engines in lockstep run at the slowest of their number."""
    if not engine.speeds:
        return ((1.0, engines),)
    each = [engine.speeds[i % len(engine.speeds)] for i in range(engines)]
    width = max(1, engine.lockstep)
    if width > 1:
        each = [min(each[i - i % width : i - i % width + width]) for i in range(engines)]
    return tuple(sorted(Counter(each).items()))


def demand_of(case: Case, hit_frac: float) -> Demand:
    """Prefill of a mean turn: the prompt first, then the tool's answer and what the cache has lost."""
    rollout, engine = case.rollout, case.stations.engine
    later = rollout.turns_mean - 1.0
    lost = later * (1.0 - hit_frac) * rollout.resumed_context()
    prefilled = (rollout.prompt_tokens + later * rollout.tool_tokens + lost) / rollout.turns_mean
    per_token = engine.prefill_s_per_token if case.stations.prefill is None else 0.0
    return Demand(rollout.turn_tokens, rollout.context_mean, prefilled * per_token)


def resident_limit(case: Case) -> float:
    """Slots, or what the KV pool holds of mean contexts where that is less."""
    engine = case.stations.engine
    if engine.kv_tokens is None:
        return float(case.layout.slots)
    room = engine.kv_tokens * (1.0 - engine.kv_watermark_frac) / case.rollout.context_mean
    return max(1.0, min(float(case.layout.slots), room))


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
    free = engine.kv_tokens - residents * case.rollout.context_mean
    return max(0.0, min(1.0, free / (paused * case.rollout.resumed_context())))


def generate(case: Case, in_flight: float, phi: float) -> Generation:
    """Engines with `in_flight` rollouts between them that run the share `phi` of the time."""
    population = in_flight / case.layout.engines
    limit, pause = resident_limit(case), pause_s(case)
    hits = 1.0 if case.stations.engine.prefix_cache else 0.0
    demand = demand_of(case, hits)
    flows = _flows(case, demand, (limit, population, pause), phi)
    if case.stations.engine.kv_tokens is not None and case.rollout.turns_mean > 1.0:
        count = sum(n for _, n, _ in flows)
        hits = hit_frac(
            case, sum(n * f.residents for _, n, f in flows) / count, sum(n * f.paused for _, n, f in flows) / count
        )
        demand = demand_of(case, hits)
        flows = _flows(case, demand, (limit, population, pause), phi)
    return _together(case, demand, flows, in_flight)


def _flows(case: Case, demand: Demand, load: tuple[float, float, float], phi: float) -> list[tuple[float, int, Flow]]:
    limit, population, pause = load
    engine = case.stations.engine
    return [
        (phi * speed, count, flow(engine.step, demand, limit, population, pause * phi * speed))
        for speed, count in speeds(engine, case.layout.engines)
    ]


def _together(case: Case, demand: Demand, flows: list[tuple[float, int, Flow]], in_flight: float) -> Generation:
    turns = sum(rate * count * f.turns_per_s for rate, count, f in flows)
    residents = sum(count * f.residents for _, count, f in flows)
    queueing = sum(count * f.queueing for _, count, f in flows)
    rollouts = turns / case.rollout.turns_mean
    clock = sum(rate * count for rate, count, _ in flows) / case.layout.engines
    prefill_s = demand.prefill_s / clock
    resident_s = residents / turns if turns > 0.0 else 0.0
    return Generation(
        rollouts_per_s=rollouts / case.attempts,
        in_flight=in_flight,
        residents=residents,
        token_s=max(resident_s - prefill_s, 1e-12) / demand.tokens,
        turn_s=(queueing / turns if turns > 0.0 else 0.0) + prefill_s,
        rollout_s=in_flight / rollouts if rollouts > 0.0 else math.inf,
    )


def in_flight_for(case: Case, rollouts_per_s: float, phi: float) -> float:
    """Rollouts in flight that make that many per second: less than the most, where the trainer is the slower side."""
    low, high = 0.0, float(case.layout.in_flight)
    for _ in range(24):
        middle = 0.5 * (low + high)
        if generate(case, middle, phi).rollouts_per_s < rollouts_per_s:
            low = middle
        else:
            high = middle
    return high
