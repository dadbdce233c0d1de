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

# 1,024 in flight, 51 turns, tools of 1.5 s and 420 tokens, engines of 3 M tokens of KV; rollouts per second, of events
# over 100 batches, +-2 %
# prefill : decode engines   1 : 9   3 : 7   5 : 5   7 : 3   9 : 1
# by events                   .896    .513    .377    .261    .117
# by this                     .976    .499    .345    .259    .119
"""

import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import cycle, islice, pairwise

from simulators.analytic.engine import Stops, iteration_s
from simulators.analytic.outgrowing import Loop
from simulators.streams import mixed, normal_quantile

STEP_FRAC, SHORTEST_FRAC = 0.8, 0.1
"""Of the shortest stay (a tool, a stage of an unhindered turn): one step; tools shorter than so much of a stage are
taken for that long."""
LANES_MAX = 4
"""Queues that are followed; more servers share them."""
LOOPS, STEPS_MAX = 10, 1000
"""Turns of every rollout that are followed, and steps at most; of them the first part is warm-up."""
WARM_UP_FRAC = 0.4
SIZES = 61
"""Sizes of misses in the list: a prime, so that no number of lanes shares its rhythm."""
STEADY_LOOPS, STEADY_FRAC = 3, 0.003
"""It is over before, when so many turns of every rollout in a row have taken the same time."""
REACH_SIGMAS = 6.0
"""Further out than this a normal has nothing."""
NODES, STOPPED_PARTS = 2, 32
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


def alternating(loop: Loop, in_flight: float, most: float, stops: Stops) -> Means:
    """With that many in flight and engines that stop for publications: what returns meanwhile comes in one block.

    `most` may be in flight and mostly are: so many are followed themselves, fewer lie between two that are.
    """
    stops = _rounded(stops)
    place = NODES * math.log2(max(1.0, in_flight) / most)
    below = math.floor(place)
    share, low, high = place - below, most * 2.0 ** (below / NODES), most * 2.0 ** ((below + 1) / NODES)
    found = _followed(loop, low, stops)
    return found if share <= 0.0 else found.between(_followed(loop, high, stops), (in_flight - low) / (high - low))


@lru_cache(maxsize=1024)
def _followed(loop: Loop, in_flight: float, stops: Stops) -> Means:
    seen, loops, first = list[tuple[float, ...]](), [0], 0
    for sums in islice(_path(loop, in_flight, stops), STEPS_MAX + 2):
        seen.append(sums)
        if sums[1] < len(loops) * in_flight:
            continue
        loops.append(len(seen) - 1)
        if len(loops) > STEADY_LOOPS and _steady([seen[i] for i in loops[-STEADY_LOOPS - 1 :]]):
            first = loops[-STEADY_LOOPS - 1]
            break
        if len(loops) > LOOPS:
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
    if abs(mean) >= REACH_SIGMAS * sigma:
        return max(0.0, mean)
    z = mean / sigma
    return mean * 0.5 * math.erfc(-z / math.sqrt(2.0)) + sigma * math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)


def _path(loop: Loop, in_flight: float, stops: Stops) -> Iterator[tuple[float, ...]]:
    """(seconds, turns, seconds x residents, seconds x paused, hits, misses) so far, before each step.

    It begins with everyone in front of the pool. One long function: here the time of a prediction goes.
    """
    turn_s, stood, sizes = _turn_s(loop), _stood(stops), cycle(_sizes(loop.context_moment))
    engines, fresh_frac, context, paused_context = loop.engines, loop.fresh_frac, loop.context, loop.paused_context
    room, kv_tokens, moment = loop.slots * engines, loop.kv_tokens * engines, loop.context_moment
    stage_s = turn_s(1.0) / loop.stages
    tool_s = max(loop.tool_s, SHORTEST_FRAC * stage_s)
    dt = STEP_FRAC * min(tool_s, stage_s)
    begun = min(1.0, dt / loop.fixed_s) if loop.fixed_s > 0.0 else 1.0
    count = max(1, min(LANES_MAX, int(loop.servers)))
    each = loop.servers / count
    waiting = [in_flight / count] * count  # rollouts in each queue; in order of their coming with their work:
    lanes = [deque([(there, there * loop.fresh_s / each)]) for there in waiting]
    stages, parts = [0.0] * loop.stages, loop.stages
    residents = held = kept = evicted = starting = debt = stood_s = 0.0
    now_s = turns = resident_s = paused_s = all_hits = all_misses = 0.0
    while True:
        yield now_s, turns, resident_s, paused_s, all_hits, all_misses
        hits, misses = kept * dt / tool_s, evicted * dt / tool_s
        # Turns end, out of who was there before.
        until_s, left = stood(now_s + dt), 0.0
        share = parts * (dt - until_s + stood_s) / turn_s(residents / engines)
        stood_s = until_s
        for i, there in enumerate(stages):
            leaving = there * share
            stages[i] = there + left - leaving
            left = leaving
        residents -= left
        # Who was outside returns, and joins the shortest queue.
        starting += left * fresh_frac
        fresh = starting * begun
        starting -= fresh
        kept += left * (1.0 - fresh_frac) - hits
        evicted -= misses
        debt += misses
        work_s, whole = fresh * loop.fresh_s + (hits + misses) * loop.hit_s, int(debt)
        if whole:  # each the next of the list; several at once are as far from their mean as their number says
            debt -= whole
            work_s += whole * (loop.miss_s - loop.hit_s) * (1.0 + (next(sizes) - 1.0) / math.sqrt(whole))
        come, shortest = fresh + hits + misses, waiting.index(min(waiting))
        waiting[shortest] += come
        lanes[shortest].append((come, work_s / each))
        for i, there in enumerate(waiting):
            if there <= 0.0:
                continue
            seconds, done, lane = dt if there >= each else dt * there / each, 0.0, lanes[i]
            rollouts, work_s = lane[0]
            while work_s <= seconds:
                seconds -= work_s
                done += rollouts
                lane.popleft()
                if not lane:
                    break
                rollouts, work_s = lane[0]
            else:
                part = rollouts * seconds / work_s
                lane[0] = (rollouts - part, work_s - seconds)
                done += part
            waiting[i] = there - done if lane else 0.0
            held += done
        # Decoders take whom they have room for.
        come = min(held, max(0.0, room - residents))
        held -= come
        stages[0] += come
        residents += come
        # Contexts that do not fit are lost.
        if held > 0.0:
            lost = _displaced(kept, left * (1.0 - fresh_frac), left / engines)
            kept -= lost
            evicted += lost
        paused = kept + evicted
        over, sigma = residents * context + paused * paused_context - kv_tokens, 0.0
        if held <= 0.0:
            # On an engine numbers are binomial and contexts differ: c^2 x E[n] x (E[c^2]/E[c]^2 - n/N).
            there = residents + paused
            sigma = context * math.sqrt(engines * there * max(0.0, moment - there / in_flight))
        if over > -REACH_SIGMAS * sigma:
            kept = min(kept, max(0.0, paused - _excess(over, sigma) / paused_context))
            evicted = paused - kept
        now_s += dt
        turns += left
        all_hits += hits
        all_misses += misses
        resident_s += residents * dt
        paused_s += (paused + starting) * dt


def _turn_s(loop: Loop) -> Callable[[float], float]:
    """Seconds of a turn, by the residents of one engine."""

    def seconds(residents: float) -> float:
        step_s = iteration_s(loop.step, residents, residents * loop.context) / loop.speed
        return loop.tokens * step_s + loop.transfer_s

    if len(loop.step.table) > 2:
        return seconds
    empty = seconds(0.0)  # a straight line
    slope = seconds(1.0) - empty
    return lambda residents: empty + slope * residents


def _stood(stops: Stops) -> Callable[[float], float]:
    """Seconds until then in which the engines stood still; they do at the end of every interval."""
    lost_s, every_s = stops.lost_s, stops.every_s
    if lost_s <= 0.0:
        return lambda until_s: 0.0
    return lambda until_s: until_s // every_s * lost_s + max(0.0, until_s % every_s - (every_s - lost_s))


def _displaced(kept: float, came: float, left: float) -> float:
    """Contexts that are lost where one is held: it takes the place of every second that leaves (of two contexts either
    is the larger), and then nothing of this engine is kept: what came as little as what was there.

    `left`: those that leave one engine.
    """
    return 0.5 * came + (kept - came) * -math.expm1(-0.5 * left)
