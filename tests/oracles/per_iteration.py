"""A job that steps every decode iteration of every engine: nothing fluid, no virtual time, no closed form.

It knows the core (turns, tools, groups, four plugs, trainer, weight sync in flight) and a full KV pool. It shares the
parameters and the keyed draws with the product; how time passes is its own. An iteration takes f(b) + m S seconds, S
at its start, gives each resident one token, and only between two iterations does anybody join or leave.
"""

from collections import deque
from dataclasses import dataclass, field
from itertools import count
from math import exp, inf

from simulators.distributions import CELLS, FIXED, exact_quantile
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
    seed_key,
    uniform,
)
from tests.oracles.events_reference import Group, drawn, quantile, whole


@dataclass
class Rollout:
    number: int
    group: Group
    member: int
    turns: int
    context: int
    engine: "Engine | None" = None
    turn: int = 0
    left: int = 0
    """Tokens of this turn to come."""
    made: int = 0
    """Tokens generated so far, in all turns."""
    cached: bool = True
    """Whether its context is in the KV pool (or costs nothing to bring there)."""


@dataclass
class Engine:
    id: int
    residents: list[Rollout] = field(default_factory=list)
    """In the order of admission."""
    queue: deque[Rollout] = field(default_factory=deque)
    in_flight: int = 0
    ends: float = inf
    """When the running iteration is over; inf: none runs."""
    frozen_until: float = 0.0
    overflowed: bool = False
    """A resident was put out, and nobody has left since: nobody is admitted."""

    @property
    def context(self) -> int:
        return sum(r.context for r in self.residents)


class PerIteration:
    """One job from time 0; `run` leaves its sums behind."""

    def __init__(self, parameters: Parameters, seed: int) -> None:
        self.counts, self.rates, self.laws = parameters.counts, parameters.rates, parameters.laws
        self.step_s, self.key = parameters.step_s, seed_key(seed)
        self.engines = [Engine(i) for i in range(self.counts.engines)]
        self.tools: list[tuple[float, int, Rollout]] = []
        self.numbers = count()
        self.now, self.version, self.step, self.in_flight = 0.0, 0, 0, 0
        self.open: Group | None = None
        self.next_group, self.wip = 0, 0
        self.buffer: deque[Group] = deque()
        self.training, self.busy, self.trainer_at = 0, False, inf
        self.busy_s, self.preempted, self.iterations = 0.0, 0, 0
        self.staleness: list[int] = []

    @property
    def rollouts_per_s(self) -> float:
        return self.step * self.counts.batch_groups * self.counts.group_size / self.now

    @property
    def trainer_idle_frac(self) -> float:
        """At the end of a step, so that no training is counted in part."""
        return 1.0 - self.busy_s / self.now

    def run(self, until_step: int) -> None:
        self.settle()
        while self.step < until_step:
            for each in self.engines:
                self.start_iteration(each)
            engine = min(self.engines, key=lambda e: e.ends)
            tool = min(self.tools) if self.tools else (inf, 0, None)
            self.now = min(engine.ends, tool[0], self.trainer_at)
            if self.now == inf:
                raise ValueError("nothing in flight can go on")
            if engine.ends == self.now:
                self.end_iteration(engine)
            elif tool[0] == self.now:
                self.tools.remove(tool)
                self.arrive(tool[2])
            else:
                self.trainer_event()
                if self.step >= until_step:
                    return  # what follows at once is the next step's
            self.settle()

    # ---- engines ----

    def start_iteration(self, engine: Engine) -> None:
        if engine.ends < inf:
            return
        stall = self.admit(engine)
        self.make_room(engine)
        b = len(engine.residents)
        if b:
            seconds = self.step_s[b] + self.rates.per_context_token_s * engine.context
            engine.ends = max(self.now, engine.frozen_until) + stall + seconds
            self.iterations += 1

    def admit(self, engine: Engine) -> float:
        """From the queue into free slots and free KV; returns the seconds of their prefills."""
        stall = 0.0
        while engine.queue and not engine.overflowed and len(engine.residents) < self.counts.slots:
            r = engine.queue[0]
            if engine.residents and engine.context + r.context > self.rates.kv_admission_tokens:
                break
            engine.residents.append(engine.queue.popleft())
            stall += 0.0 if r.cached else r.context * self.rates.prefill_s_per_token
            r.cached = True
        return stall

    def make_room(self, engine: Engine) -> None:
        """Each resident needs room for one more token; who does not fit goes back to the head of the queue."""
        while len(engine.residents) > 1 and engine.context + len(engine.residents) > self.rates.kv_tokens:
            victim = engine.residents[-1]
            if self.counts.shortest_victim:
                victim = min(engine.residents, key=lambda r: r.made)
            engine.residents.remove(victim)
            victim.cached = False
            engine.queue.appendleft(victim)
            engine.overflowed = True
            self.preempted += 1

    def end_iteration(self, engine: Engine) -> None:
        engine.ends = inf
        for r in engine.residents:
            r.left -= 1
            r.context += 1
            r.made += 1
        done = [r for r in engine.residents if r.left == 0]
        engine.residents = [r for r in engine.residents if r.left > 0]
        engine.overflowed = engine.overflowed and not done
        for r in done:
            self.end_turn(r)

    def arrive(self, r: Rollout) -> None:
        assert r.engine is not None
        r.engine.queue.append(r)

    def end_turn(self, r: Rollout) -> None:
        r.turn += 1
        if r.turn >= r.turns:
            self.finish(r)
            return
        law, use = self.laws.tool_tokens, (r.group.id, r.member, r.turn)
        if law.mean > 0.0 or law.kind != FIXED:
            value = drawn(law, uniform(self.key, TOOL_TOKENS, *use), r.group.score)
            r.context += whole(law, value * exp(law.shared_sigma * r.group.score))
        self.draw_turn(r)
        seconds = quantile(self.laws.tool_time, uniform(self.key, TOOL_TIME, *use))
        self.tools.append((self.now + seconds, r.number, r))

    # ---- groups and rollouts ----

    def settle(self) -> None:
        if not self.busy and len(self.buffer) >= self.counts.batch_groups:
            self.start_training()
        while self.in_flight < self.counts.in_flight_limit and (self.open or self.may_open()):
            self.dispatch(self.open or self.opened())

    def may_open(self) -> bool:
        if self.counts.plug == BUFFER_CAP:
            return len(self.buffer) < self.counts.plug_limit
        return self.counts.plug != WIP_CAP or self.wip < self.counts.plug_limit

    def opened(self) -> Group:
        gid, laws = self.next_group, self.laws
        self.next_group, self.wip = gid + 1, self.wip + 1
        score = normal_quantile(uniform(self.key, SHARED_LENGTH, gid, 0, 0)) if laws.response.shared_frac else 0.0
        place, table = uniform(self.key, SOLVE_RATE, gid, 0, 0) * CELLS, laws.solve_rate.table
        solve_rate = table[int(place)] + (place - int(place)) * (table[int(place) + 1] - table[int(place)])
        prompt = laws.prompt.mean
        if laws.prompt.kind != FIXED:
            prompt = quantile(laws.prompt, uniform(self.key, PROMPT, gid, 0, 0))
        tokens = min(laws.prompt.limit, int(prompt + 0.5))
        factor = exp(laws.response.shared_sigma * score)
        self.open = Group(gid, self.counts.group_size, score, factor, solve_rate, tokens)
        return self.open

    def dispatch(self, group: Group) -> None:
        member = group.started
        group.started += 1
        if group.started == group.size:
            self.open = None
        group.versions.append(self.version)
        law, turns = self.laws.turns, self.laws.turns.mean
        if law.kind != FIXED:
            turns = exact_quantile(law, uniform(self.key, TURNS, group.id, member, 0))
        r = Rollout(next(self.numbers), group, member, whole(law, turns), group.prompt_tokens)
        self.draw_turn(r)
        r.cached = self.rates.prefill_s_per_token == 0.0
        r.engine = min(self.engines, key=lambda e: e.in_flight)
        r.engine.in_flight += 1
        self.in_flight += 1
        self.arrive(r)

    def draw_turn(self, r: Rollout) -> None:
        law, value = self.laws.response, self.laws.response.mean
        if law.kind != FIXED:
            share = uniform(self.key, RESPONSE, r.group.id, r.member, r.turn)
            value = drawn(law, share, r.group.score) * r.group.factor
        r.left = whole(law, value)
        room = self.counts.max_context - r.context
        if r.left >= room:
            r.left, r.turns = max(1, room), r.turn + 1

    def finish(self, r: Rollout) -> None:
        assert r.engine is not None
        r.engine.in_flight -= 1
        self.in_flight -= 1
        group = r.group
        group.solved += uniform(self.key, REWARD, group.id, r.member, 0) < group.solve_rate
        group.tokens += r.context
        group.done += 1
        if group.done == group.size:
            self.finish_group(group)

    def finish_group(self, group: Group) -> None:
        if self.counts.filtering and group.solved in (0, group.size):
            self.wip -= 1
            return
        if self.counts.plug == DROP_OLDEST and len(self.buffer) >= self.counts.plug_limit:
            self.buffer.popleft()
            self.wip -= 1
        self.buffer.append(group)

    # ---- trainer ----

    def start_training(self) -> None:
        batch = [self.buffer.popleft() for _ in range(self.counts.batch_groups)]
        seconds = self.rates.trainer_base_s + sum(g.tokens for g in batch) * self.rates.trainer_s_per_token
        self.staleness += [self.version - v for g in batch for v in g.versions]
        self.training, self.busy, self.trainer_at = len(batch), True, self.now + seconds
        self.busy_s += seconds
        if self.counts.freed_at_start:
            self.wip -= len(batch)

    def trainer_event(self) -> None:
        self.busy, self.trainer_at = False, inf
        if not self.training:  # it has waited for the publication
            return
        self.step += 1
        if not self.counts.freed_at_start:
            self.wip -= self.training
        self.training = 0
        if self.step % self.counts.sync_interval == 0:
            self.publish()

    def publish(self) -> None:
        self.version += 1
        pause = self.rates.sync_s
        for engine in self.engines:
            engine.ends += pause
            engine.frozen_until = max(engine.frozen_until, self.now) + pause
        if pause > 0.0 and self.counts.trainer_waits:
            self.busy, self.trainer_at = True, self.now + pause
            self.busy_s += pause
