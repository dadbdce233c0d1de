"""The discrete-event engine in plain Python: the readable specification of the compiled one's core.

One or many turns with tools, processor sharing in virtual time, slots, the in-flight limit, four plugs, the trainer and
weight sync in flight. It shares the parameters and the keyed random numbers with the product, and no other code. Same
seed, same trace, bit for bit: so each formula is written in the product's order of operations.
"""

import heapq
from collections import deque
from dataclasses import dataclass, field
from math import exp, inf, sqrt

from simulators.distributions import CELLS, EDGE, EMPIRICAL_SHARED, FIXED, Law, exact_quantile
from simulators.event_state import BUFFER_CAP, DROP_OLDEST, WIP_CAP, Parameters
from simulators.streams import (
    PROMPT,
    RESPONSE,
    REWARD,
    SHARED_LENGTH,
    SOLVE_RATE,
    TOOL_TIME,
    TOOL_TOKENS,
    TURNS,
    normal_quantile,
    normal_share,
    seed_key,
    uniform,
)

DISPATCHED, TURN_END, RETURNED, GROUP_READY, TRAIN_START, TRAIN_END = range(6)


@dataclass
class Group:
    id: int
    size: int
    score: float
    """Of the prompt's length, on the normal scale."""
    factor: float
    solve_rate: float
    prompt_tokens: int
    started: int = 0
    done: int = 0
    solved: int = 0
    tokens: int = 0
    versions: list[int] = field(default_factory=list)


@dataclass
class Rollout:
    slot: int
    """Recycled, the last freed first; breaks ties."""
    group: Group
    member: int
    engine: "Engine"
    turns: int
    context: int
    turn: int = 0
    tokens: int = 0
    """Of this turn."""


@dataclass
class Engine:
    id: int
    clock: float = 0.0
    """Tokens that each resident has received."""
    resume: float = 0.0
    """The time at which the clock shows that; in the future while the engine stands still."""
    context: float = 0.0
    in_flight: int = 0
    residents: list[tuple[float, int, Rollout]] = field(default_factory=list)
    queue: deque[Rollout] = field(default_factory=deque)
    outside: list[tuple[float, int, Rollout]] = field(default_factory=list)
    departs: float = inf

    @property
    def returns(self) -> float:
        return self.outside[0][0] if self.outside else inf

    @property
    def next_event(self) -> float:
        return min(self.departs, self.returns)


def quantile(law: Law, share: float) -> float:
    if not EDGE < share < 1.0 - EDGE:
        return exact_quantile(law, share)
    place = share * CELLS
    cell = int(place)
    return law.table[cell] + (place - cell) * (law.table[cell + 1] - law.table[cell])


def drawn(law: Law, share: float, score: float) -> float:
    if law.kind == EMPIRICAL_SHARED:
        own = sqrt(1.0 - law.shared_frac) * normal_quantile(share)
        share = normal_share(sqrt(law.shared_frac) * score + own)
    return quantile(law, share)


def whole(law: Law, value: float) -> int:
    return max(1, min(law.limit, int(value + 0.5)))


class Reference:
    """One job from time 0. `run` leaves the trace behind."""

    def __init__(self, parameters: Parameters, seed: int) -> None:
        self.counts, self.rates, self.laws = parameters.counts, parameters.rates, parameters.laws
        self.step_s, self.key = parameters.step_s, seed_key(seed)
        self.engines = [Engine(i) for i in range(self.counts.engines)]
        self.slots = list(range(self.counts.in_flight_limit - 1, -1, -1))
        self.now, self.version, self.step = 0.0, 0, 0
        self.open: Group | None = None
        self.next_group, self.wip, self.in_flight = 0, 0, 0
        self.buffer: deque[Group] = deque()
        self.training, self.busy, self.trainer_at, self.since_training = 0, False, inf, 0
        self.trace: list[tuple[float, int, int, int, int]] = []

    def run(self, until_step: int, until_s: float = inf) -> None:
        self.settle()
        while self.step < until_step:
            engine = min(self.engines, key=lambda e: (e.next_event, e.id))
            soonest = min(engine.next_event, self.trainer_at)
            if soonest == inf or soonest > until_s or self.starved():
                return
            self.now = soonest
            if engine.next_event <= self.trainer_at:
                self.engine_event(engine)
            else:
                self.trainer_event()
                if self.step >= until_step:
                    return  # what follows at once is the next step's
            self.settle()

    def starved(self) -> bool:
        return not self.busy and self.since_training > 10_000 * self.counts.batch_groups

    def note(self, kind: int, a: int, b: int, c: int) -> None:
        self.trace.append((self.now, kind, a, b, c))

    def settle(self) -> None:
        if not self.busy and len(self.buffer) >= self.counts.batch_groups:
            self.start_training()
        while self.in_flight < self.counts.in_flight_limit and (self.open or self.may_open()):
            self.dispatch(self.open or self.opened())

    # ---- groups and rollouts ----

    def may_open(self) -> bool:
        if self.counts.plug == BUFFER_CAP:
            return len(self.buffer) < self.counts.plug_limit
        return self.counts.plug != WIP_CAP or self.wip < self.counts.plug_limit

    def opened(self) -> Group:
        gid, laws = self.next_group, self.laws
        self.next_group, self.wip = gid + 1, self.wip + 1
        score, factor = 0.0, 1.0
        if laws.response.shared_frac > 0.0:
            score = normal_quantile(uniform(self.key, SHARED_LENGTH, gid, 0, 0))
            factor = exp(laws.response.shared_sigma * score)
        place = uniform(self.key, SOLVE_RATE, gid, 0, 0) * CELLS
        cell, table = int(place), laws.solve_rate.table
        solve_rate = table[cell] + (place - cell) * (table[cell + 1] - table[cell])
        prompt = laws.prompt.mean
        if laws.prompt.kind != FIXED:
            prompt = quantile(laws.prompt, uniform(self.key, PROMPT, gid, 0, 0))
        prompt_tokens = min(laws.prompt.limit, int(prompt + 0.5))
        self.open = Group(gid, self.counts.group_size, score, factor, solve_rate, prompt_tokens)
        return self.open

    def dispatch(self, group: Group) -> None:
        member = group.started
        group.started += 1
        if group.started == group.size:
            self.open = None
        group.versions.append(self.version)
        turns, law = self.laws.turns.mean, self.laws.turns
        if law.kind != FIXED:
            turns = exact_quantile(law, uniform(self.key, TURNS, group.id, member, 0))
        engine = min(self.engines, key=lambda e: (e.in_flight, e.id))
        rollout = Rollout(self.slots.pop(), group, member, engine, whole(law, turns), group.prompt_tokens)
        self.draw_turn(rollout)
        self.in_flight += 1
        engine.in_flight += 1
        self.note(DISPATCHED, group.id, member, engine.id)
        self.advance(engine)
        self.arrive(engine, rollout)
        self.expect(engine)

    def draw_turn(self, r: Rollout) -> None:
        law, value = self.laws.response, self.laws.response.mean
        if law.kind != FIXED:
            share = uniform(self.key, RESPONSE, r.group.id, r.member, r.turn)
            value = drawn(law, share, r.group.score) * r.group.factor
        r.tokens = whole(law, value)
        room = self.counts.max_context - r.context
        if r.tokens >= room:
            r.tokens, r.turns = max(1, room), r.turn + 1

    def finish(self, r: Rollout) -> None:
        group = r.group
        group.solved += uniform(self.key, REWARD, group.id, r.member, 0) < group.solve_rate
        group.tokens += r.context
        group.done += 1
        self.in_flight -= 1
        r.engine.in_flight -= 1
        self.slots.append(r.slot)
        if group.done == group.size:
            self.finish_group(group)

    def finish_group(self, group: Group) -> None:
        self.since_training += 1
        self.note(GROUP_READY, group.id, group.solved, group.tokens)
        if self.counts.filtering and group.solved in (0, group.size):
            self.wip -= 1
            return
        if self.counts.plug == DROP_OLDEST and len(self.buffer) >= self.counts.plug_limit:
            self.buffer.popleft()
            self.wip -= 1
        self.buffer.append(group)

    # ---- engines ----

    def advance(self, engine: Engine) -> None:
        dt = self.now - engine.resume
        if dt <= 0.0:
            return
        engine.resume = self.now
        b, m = len(engine.residents), self.rates.per_context_token_s
        if b == 0:
            return
        each = self.step_s[b] + m * engine.context
        d = 2.0 * dt / (each + sqrt(each * each + 2.0 * m * b * dt)) if m > 0.0 else dt / each
        engine.clock += d
        engine.context += b * d

    def expect(self, engine: Engine) -> None:
        """Work out the engine's next departure."""
        engine.departs = inf
        b, m = len(engine.residents), self.rates.per_context_token_s
        if b:
            d = engine.residents[0][0] - engine.clock
            each = self.step_s[b]
            if m > 0.0:
                each += m * engine.context
                each += 0.5 * m * b * d
            engine.departs = engine.resume + each * d

    def arrive(self, engine: Engine, r: Rollout) -> None:
        if len(engine.residents) >= self.counts.slots:
            engine.queue.append(r)
            return
        heapq.heappush(engine.residents, (engine.clock + r.tokens, r.slot, r))
        engine.context += r.context

    def engine_event(self, engine: Engine) -> None:
        if engine.departs <= engine.returns:
            self.departure(engine)
            if engine.queue:
                self.arrive(engine, engine.queue.popleft())
        else:
            _, _, r = heapq.heappop(engine.outside)
            self.advance(engine)
            self.note(RETURNED, r.group.id, r.member, engine.id)
            self.arrive(engine, r)
        self.settle()  # who is dispatched to this engine at once takes part in what it does next
        if not engine.residents:
            engine.clock, engine.context = 0.0, 0.0
        self.expect(engine)

    def departure(self, engine: Engine) -> None:
        b = len(engine.residents)
        mark, _, r = heapq.heappop(engine.residents)
        engine.context += b * (mark - engine.clock)
        engine.clock, engine.resume = mark, self.now
        r.context += r.tokens
        engine.context -= r.context
        r.turn += 1
        self.note(TURN_END, r.group.id, r.member, engine.id)
        if r.turn >= r.turns:
            self.finish(r)
            return
        law, use = self.laws.tool_tokens, (r.group.id, r.member, r.turn)
        if law.mean > 0.0 or law.kind != FIXED:
            value = drawn(law, uniform(self.key, TOOL_TOKENS, *use), r.group.score)
            if law.shared_sigma > 0.0:
                value *= exp(law.shared_sigma * r.group.score)
            r.context += whole(law, value)
        self.draw_turn(r)
        seconds = quantile(self.laws.tool_time, uniform(self.key, TOOL_TIME, *use))
        heapq.heappush(engine.outside, (self.now + seconds, r.slot, r))

    # ---- trainer ----

    def start_training(self) -> None:
        batch = [self.buffer.popleft() for _ in range(self.counts.batch_groups)]
        tokens = sum(group.tokens for group in batch)
        self.training, self.since_training = len(batch), 0
        if self.counts.freed_at_start:
            self.wip -= len(batch)
        self.busy = True
        self.trainer_at = self.now + (self.rates.trainer_base_s + tokens * self.rates.trainer_s_per_token)
        self.note(TRAIN_START, self.version, len(batch), tokens)

    def trainer_event(self) -> None:
        self.trainer_at = inf
        self.busy = False
        if not self.training:  # it has waited for the publication
            return
        self.step += 1
        self.note(TRAIN_END, self.step, self.training, 0)
        if not self.counts.freed_at_start:
            self.wip -= self.training
        self.training = 0
        wait = self.publish() if self.step % self.counts.sync_interval == 0 else 0.0
        if wait > 0.0:
            self.busy, self.trainer_at = True, self.now + wait

    def publish(self) -> float:
        """New weights: every engine stands still. Returns how long the trainer waits."""
        self.version += 1
        for engine in self.engines:
            if self.rates.sync_s > 0.0:
                self.advance(engine)
                engine.resume += self.rates.sync_s
                self.expect(engine)
        return self.rates.sync_s if self.counts.trainer_waits else 0.0
