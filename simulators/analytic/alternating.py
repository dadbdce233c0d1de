"""A prefix cache behind a prefill pool, too small for the contexts of all in flight: hits and misses come in turns.

On average there is one solution. The pool prefills a tokens for a hit and a + C for a miss, on c servers of sigma
seconds a token; the decoders keep what their KV leaves beside residents, so with turns of S seconds and tools of Z

    X = c / (sigma (a + (1 - h) C)),      X (S context + h Z C) = KV        (left falls in h as right rises: one h)

but the job does not stay there. What pauses while the decoders are full is evicted and comes back as one block of
misses; while the pool works that off the decoders run empty and keep all that pauses; those come through at once, as a
block of hits, and fill the decoders. So all of it is followed, from an empty start as a job has it, in steps of dt:

    leave    R_i k dt / (turn tokens x t(R) + transfer)     R_1 ... R_k: a turn in k stages, k from its variance
    return   H dt / Z hits, M dt / Z misses                 H + M in their tools, H with their context kept
    prefill  one rollout after the other, dt seconds of each server; who returns joins the shortest queue
    admit    while R < slots and R context < KV; the others are held
    evict    H C <= E[min((H + M) C, KV - R context)]       over engines, whose loads differ; where any is held, H
                                                            goes with every second one that leaves

Misses differ in size, which keeps the servers out of step: each takes the next of a fixed list of sizes, lognormal with
the variance of a context met on a return. Nothing here is fitted to a job.

# 1,024 in flight, 51 turns, tools of 1.5 s and 420 tokens, engines of 3 M tokens of KV; turns per second
# prefill : decode engines   1 : 9   3 : 7   5 : 5   7 : 3   9 : 1
# by events                   54.6    30.6    23.0    16.2    7.3
# by this                     60.7    29.6    22.3    16.8    7.4
"""

import math
from collections import deque
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

from simulators.analytic.engine import Stops, iteration_s
from simulators.analytic.outgrowing import Loop
from simulators.streams import mixed, normal_quantile

STEP_FRAC, SHORTEST_FRAC = 0.5, 0.1
"""Of the shortest stay (a tool, a stage of an unhindered turn): one step; tools shorter than so much of a stage are
taken for that long."""
LANES_MAX = 8
"""Queues that are followed; more servers share them."""
LOOPS, STEPS_MAX = 24, 3000
"""Turns of every rollout that are followed, and steps at most; of them the first part is warm-up."""
WARM_UP_FRAC = 0.4
SIZES = 61
"""Sizes of misses in the list: a prime, so that no number of lanes shares its rhythm."""
STEADY_LOOPS, STEADY_FRAC = 3, 0.003
"""It is over before, when so many turns of every rollout in a row have taken the same time."""
NODES, STOPPED_PARTS = 4, 64
"""Numbers in flight to an octave that are followed (linear in between); shares of the time that engines stand still."""


@dataclass(frozen=True, slots=True)
class Means:
    """Over the time that was followed after the warm-up."""

    turns_per_s: float
    residents: float
    paused: float
    hit_frac: float
    """Of returns."""

    def between(self, high: "Means", share: float) -> "Means":
        return Means(
            self.turns_per_s + share * (high.turns_per_s - self.turns_per_s),
            self.residents + share * (high.residents - self.residents),
            self.paused + share * (high.paused - self.paused),
            self.hit_frac + share * (high.hit_frac - self.hit_frac),
        )


def alternating(loop: Loop, in_flight: float, stops: Stops) -> Means:
    """With that many in flight and engines that stop for publications: what returns meanwhile comes in one block."""
    stops = _rounded(stops)
    place = NODES * math.log2(max(1.0, in_flight))
    below = math.floor(place)
    low, high = 2.0 ** (below / NODES), 2.0 ** ((below + 1) / NODES)
    share = (max(1.0, in_flight) - low) / (high - low)
    found = _followed(loop, low, stops)
    return found if share <= 0.0 else found.between(_followed(loop, high, stops), share)


@lru_cache(maxsize=1024)
def _followed(loop: Loop, in_flight: float, stops: Stops) -> Means:
    job, first = _Job(loop, in_flight, stops), 0
    seen, loops = [job.sums()], [0]
    while len(loops) <= LOOPS and len(seen) <= STEPS_MAX:
        job.advance()
        seen.append(job.sums())
        if job.turns < len(loops) * in_flight:
            continue
        loops.append(len(seen) - 1)
        if len(loops) > STEADY_LOOPS and _steady([seen[i] for i in loops[-STEADY_LOOPS - 1 :]]):
            first = loops[-STEADY_LOOPS - 1]
            break
    first = first or int(WARM_UP_FRAC * len(seen))
    seconds, turns, residents, paused, hits, misses = (b - a for a, b in zip(seen[first], seen[-1], strict=True))
    hit_frac = hits / max(1e-12, hits + misses)
    return Means(turns / seconds, residents / seconds, paused / seconds, hit_frac)


def _rounded(stops: Stops) -> Stops:
    """A search for the period asks again and again with nearly the same ones."""
    parts = round(STOPPED_PARTS * stops.lost_s / stops.every_s)
    return Stops(stops.lost_s, stops.lost_s * STOPPED_PARTS / parts) if parts else Stops()


def _steady(marks: list[tuple[float, ...]]) -> bool:
    """Whether each of these stretches of as many turns took as long as the others."""
    stretches = [b[0] - a[0] for a, b in pairwise(marks)]
    return max(stretches) < (1.0 + STEADY_FRAC) * min(stretches)


@lru_cache(maxsize=64)
def _sizes(moment: float) -> tuple[float, ...]:
    """Of mean 1 and the variance of a context; shuffled, as in a regular order one lane of two gets all large ones."""
    sigma = math.sqrt(math.log(moment))
    found = [math.exp(sigma * normal_quantile((i + 0.5) / SIZES)) for i in sorted(range(SIZES), key=mixed)]
    return tuple(size * SIZES / sum(found) for size in found)


def _excess(mean: float, sigma: float) -> float:
    """E[max(0, N)] of a normal variable."""
    if sigma <= 0.0 or abs(mean) > 6.0 * sigma:
        return max(0.0, mean)
    z = mean / sigma
    return mean * 0.5 * math.erfc(-z / math.sqrt(2.0)) + sigma * math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)


@dataclass(slots=True)
class _Lane:
    """A queue in front of prefill servers: (rollouts, seconds of work) in the order of their coming."""

    rollouts: float = 0.0
    parcels: deque[tuple[float, float]] = field(default_factory=deque)

    def join(self, rollouts: float, work_s: float) -> None:
        self.rollouts += rollouts
        self.parcels.append((rollouts, work_s))

    def served(self, seconds: float) -> float:
        """Rollouts that are done after so much work."""
        done, parcels = 0.0, self.parcels
        while parcels:
            rollouts, work_s = parcels[0]
            if work_s > seconds:
                part = rollouts * seconds / work_s
                parcels[0] = (rollouts - part, work_s - seconds)
                done += part
                break
            seconds -= work_s
            done += rollouts
            parcels.popleft()
        self.rollouts = max(0.0, self.rollouts - done)
        return done


class _Job:
    """What is where; it begins with everyone in front of the pool."""

    def __init__(self, loop: Loop, in_flight: float, stops: Stops) -> None:
        self.loop, self.in_flight, self.stops = loop, in_flight, stops
        count = max(1, min(LANES_MAX, int(loop.servers)))
        self.each = loop.servers / count
        self.lanes = [_Lane() for _ in range(count)]
        for lane in self.lanes:
            lane.join(in_flight / count, in_flight / count * loop.fresh_s / self.each)
        self.stages = [0.0] * loop.stages
        self.residents = self.held = self.kept = self.evicted = self.starting = 0.0
        self.debt, self.drawn, self.sizes = 0.0, 0, _sizes(loop.context_moment)
        stage_s = self._turn_s(1.0) / loop.stages
        self.tool_s = max(loop.tool_s, SHORTEST_FRAC * stage_s)
        self.dt = STEP_FRAC * min(self.tool_s, stage_s)
        self.now_s = self.turns = self.hits = self.misses = 0.0
        self.resident_s = self.paused_s = 0.0

    def sums(self) -> tuple[float, ...]:
        return self.now_s, self.turns, self.resident_s, self.paused_s, self.hits, self.misses

    def advance(self) -> None:
        loop, dt = self.loop, self.dt
        hits, misses = self.kept * dt / self.tool_s, self.evicted * dt / self.tool_s
        left = self._left()
        self.starting += left * loop.fresh_frac
        fresh = self.starting * min(1.0, dt / loop.fixed_s) if loop.fixed_s > 0.0 else self.starting
        self.starting -= fresh
        self.kept += left * (1.0 - loop.fresh_frac) - hits
        self.evicted -= misses
        work_s = fresh * loop.fresh_s + hits * loop.hit_s + self._missed_s(misses)
        min(self.lanes, key=_length).join(fresh + hits + misses, work_s / self.each)
        for lane in self.lanes:
            if lane.rollouts > 0.0:
                self.held += lane.served(dt * min(1.0, lane.rollouts / self.each))
        self._admit()
        self._evict(left)
        self.now_s += dt
        self.turns += left
        self.hits += hits
        self.misses += misses
        self.resident_s += self.residents * dt
        self.paused_s += (self.kept + self.evicted + self.starting) * dt

    def _left(self) -> float:
        """Turns that end, out of who was there before."""
        share = self._running() * self.loop.stages * self.dt / self._turn_s(self.residents / self.loop.engines)
        moved = 0.0
        for i, there in enumerate(self.stages):
            leaving = there * share
            self.stages[i] = there + moved - leaving
            moved = leaving
        self.residents -= moved
        return moved

    def _turn_s(self, residents: float) -> float:
        loop = self.loop
        step_s = iteration_s(loop.step, residents, residents * loop.context) / loop.speed
        return loop.tokens * step_s + loop.transfer_s

    def _running(self) -> float:
        """Share of this step in which the engines do not stand still; they do at the end of every interval."""
        lost_s, every_s = self.stops.lost_s, self.stops.every_s
        if lost_s <= 0.0:
            return 1.0
        return 1.0 - (_stood(self.now_s + self.dt, lost_s, every_s) - _stood(self.now_s, lost_s, every_s)) / self.dt

    def _missed_s(self, misses: float) -> float:
        """Whole ones, each the next of the list; several at once are as far from their mean as their number says."""
        loop = self.loop
        self.debt += misses
        whole = int(self.debt)
        if whole == 0:
            return misses * loop.hit_s
        self.debt -= whole
        self.drawn = (self.drawn + 1) % SIZES
        size = 1.0 + (self.sizes[self.drawn] - 1.0) / math.sqrt(whole)
        return misses * loop.hit_s + whole * (loop.miss_s - loop.hit_s) * size

    def _admit(self) -> None:
        come = min(self.held, max(0.0, self.loop.slots * self.loop.engines - self.residents))
        self.held -= come
        self.stages[0] += come
        self.residents += come

    def _evict(self, left: float) -> None:
        """Numbers on an engine are binomial, contexts differ: variance c^2 x E[n] x (E[c^2]/E[c]^2 - n/N).

        Where one is held it takes the place of every second that leaves (of two contexts either is the larger), and
        then nothing of this engine is kept: what left as little as what was there.
        """
        loop = self.loop
        if self.held > 0.0:
            came = left * (1.0 - loop.fresh_frac)
            lost = 0.5 * came + (self.kept - came) * -math.expm1(-0.5 * left / loop.engines)
            self.kept -= lost
            self.evicted += lost
        paused = self.kept + self.evicted
        over = self.residents * loop.context + paused * loop.paused_context - loop.kv_tokens * loop.engines
        sigma = 0.0
        if self.held <= 0.0:
            there = self.residents + paused
            spread = max(0.0, loop.context_moment - there / self.in_flight)
            sigma = loop.context * math.sqrt(loop.engines * there * spread)
        kept = paused - min(paused, _excess(over, sigma) / loop.paused_context)
        if self.kept > kept:
            self.evicted += self.kept - kept
            self.kept = kept


def _length(lane: _Lane) -> float:
    return lane.rollouts


def _stood(until_s: float, lost_s: float, every_s: float) -> float:
    """Seconds of standing still until then."""
    whole = math.floor(until_s / every_s)
    return whole * lost_s + max(0.0, until_s - whole * every_s - (every_s - lost_s))
