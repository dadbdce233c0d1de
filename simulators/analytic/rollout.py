"""What one rollout asks of the stations: tokens, context, turns, and how both spread inside and between groups."""

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from simulators.queueing.order_statistics import Mixture, Part, clipped_moments, mixture, normal_nodes
from simulators.stations import Pruning
from simulators.workload import Duration, Lengths, TimeLaw, TurnLaw, Turns, Workload

PROMPT_NODES_MIN, PROMPT_NODES_MAX = 8, 16
"""Values of what a group has in common; with them E[longest of 8] is good to 1e-3 up to a share of 0.75."""
TURNS_LISTED = 24
"""So many different turn counts are taken one by one; more are gathered into strata."""
STRATA = (0.0, 0.1, 0.3, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98, 0.992, 0.997, 0.999, 1.0)
"""Shares between which the turn counts of a long law are gathered: fine in the tail, which the longest comes from."""
TAIL = 1e-5
SHAPE_FRAC = 1e-5
"""Of a rollout's tokens: times that differ by less from one another have one shape."""


@dataclass(frozen=True, slots=True)
class Moments:
    """Mean and variance of one draw."""

    mean: float
    variance: float = 0.0


@dataclass(frozen=True, slots=True)
class PromptClass:
    """Rollouts of prompts that have the same common part."""

    weight: float
    turn: Moments
    """Response tokens of one turn, cut at the maximum."""
    turn_mean: float
    turn_sigma: float
    """The lognormal before the cut."""


@dataclass(frozen=True, slots=True, eq=False)
class Rollout:
    """Means over rollouts, and the parts of their distribution. Equal to itself only: `rollout_of` remembers it."""

    turns: tuple[tuple[float, float], ...]
    """(weight, turns)"""
    classes: tuple[PromptClass, ...]
    turn_cap: float
    turns_mean: float
    turn_tokens: float
    response_tokens: float
    prompt_tokens: float
    tool_tokens: float
    """Per turn but the last."""
    tool: Moments
    """Seconds outside the engine, per turn but the last."""
    context_mean: float
    """Context tokens averaged over the tokens that are generated: long contexts count more often."""
    context_end: float
    pruned_frac: float = 0.0
    unpruned_ratio: float = 1.0
    """Mean response of those that were not pruned, over that of all."""
    cut_frac: float = 0.0
    """Rollouts of several turns that the context limit ends."""

    def scales(self, fixed_s: float) -> bool:
        """Its times are its tokens, times seconds: faster engines change their scale and nothing else."""
        return self.tool.mean == 0.0 and fixed_s == 0.0

    def resumed_context(self) -> float:
        """Mean context at the start of a turn that is not the first."""
        return self.prompt_tokens + 0.5 * (self.context_end - self.prompt_tokens)

    def returned_tokens(self) -> float:
        """Context that a rollout comes back with from its tools, all of its returns together, the answers aside.

        The k-th of n turns finds what the k - 1 before it left: rollouts of many turns count by the square of them.
        # 200 tokens a turn: always 21 turns 42,000 | geometric around 21: 84,000
        """
        returns = sum(weight * (n - 1.0) for weight, n in self.turns)
        turns_before = sum(weight * n * (n - 1.0) / 2.0 for weight, n in self.turns)
        tools_before = turns_before - returns
        return returns * self.prompt_tokens + turns_before * self.turn_tokens + tools_before * self.tool_tokens

    def times(self, seconds: tuple[float, float, float], failure_frac: float) -> Mixture:
        """Distribution of a rollout's time from (seconds per token, per turn, per rollout) and its tools.

        Its shape depends on how these compare with its tokens: rounded, so that a shape met again is remembered.
        """
        token_s, turn_s, rollout_s = seconds
        tools_s = self.tool.mean * (self.turns_mean - 1.0)
        shape = (
            self._tokens(turn_s / token_s, self.turns_mean),
            self._tokens(rollout_s / token_s, 1.0),
            self._tokens(1.0 / token_s, tools_s) if tools_s > 0.0 else 0.0,
        )
        return _shape(self, shape, failure_frac).scaled(token_s)

    def turn_times(self) -> Mixture:
        """Distribution of a turn's tokens."""
        return _turn_shape(self)

    def _tokens(self, value: float, count: float) -> float:
        """Rounded to 1e-5 of the response's tokens, if a rollout has so many."""
        step = SHAPE_FRAC * self.response_tokens / count
        return step * round(value / step) if value < math.inf else value

    def shape(self, tokens: tuple[float, float, float], failure_frac: float) -> Mixture:
        """Times in seconds of a token, from what (a turn, a rollout, a second of tools) takes of them.

        Sums of several turns are taken as lognormal with their own mean and variance (Fenton-Wilkinson); a rollout
        that is lost breaks off at an even share of its way, and is run again.
        """
        groups = []
        for c in self.classes:
            parts = [self._part(c, (weight * (1.0 - failure_frac), n), tokens) for weight, n in self.turns]
            if failure_frac > 0.0:
                parts += [_again(self._part(c, (weight * failure_frac, n), tokens)) for weight, n in self.turns]
            groups.append((c.weight, parts))
        return mixture(groups)

    def _part(self, c: PromptClass, turns: tuple[float, float], tokens: tuple[float, float, float]) -> Part:
        weight, n = turns
        of_turn, of_rollout, of_second = tokens
        fixed = of_turn * n + of_rollout
        if n == 1.0:  # cut after all else is added, as it is
            mean = fixed + c.turn_mean
            sigma = math.sqrt(math.log1p(math.expm1(c.turn_sigma**2) * (c.turn_mean / mean) ** 2))
            return Part(weight, mean, sigma, fixed + self.turn_cap)
        tools = (n - 1.0) * self.tool.mean * of_second
        mean = fixed + n * c.turn.mean + tools
        variance = n * c.turn.variance + (n - 1.0) * self.tool.variance * of_second**2
        cap = fixed + n * self.turn_cap + tools
        sigma = math.sqrt(math.log1p(variance / mean**2))
        return Part(weight, mean, sigma, math.inf if self.tool.variance else max(cap, mean))


@lru_cache(maxsize=128)
def _shape(rollout: Rollout, tokens: tuple[float, float, float], failure_frac: float) -> Mixture:
    """A change of the engines' speed asks for the same shape again."""
    return rollout.shape(tokens, failure_frac)


@lru_cache(maxsize=128)
def _turn_shape(rollout: Rollout) -> Mixture:
    return mixture([(c.weight, [rollout._part(c, (1.0, 1.0), (0.0, 0.0, 0.0))]) for c in rollout.classes])


def _again(part: Part) -> Part:
    """A part U of a rollout, U even on 0 ... 1, and then a whole one: means m/2 + m, variances v/3 + m^2/12 + v."""
    spread = math.expm1(part.sigma**2)
    variance = 4.0 / 3.0 * spread + 1.0 / 12.0
    return Part(part.weight, 1.5 * part.mean, math.sqrt(math.log1p(variance / 1.5**2)), 2.0 * part.cap)


def _turn_law(turns: Turns) -> tuple[tuple[float, float], ...]:
    if turns.law is TurnLaw.FIXED:
        return ((1.0, max(1.0, min(turns.mean, turns.max_turns or math.inf))),)
    if turns.law is TurnLaw.EMPIRICAL:
        return _empirical_turns(turns)
    stop = 1.0 / max(1.0, turns.mean)
    if stop >= 1.0:
        return ((1.0, 1.0),)
    last = turns.max_turns or 1 + math.ceil(math.log(TAIL) / math.log1p(-stop))
    if last <= TURNS_LISTED:
        head = [(stop * (1.0 - stop) ** (n - 1), float(n)) for n in range(1, last)]
        return (*head, ((1.0 - stop) ** (last - 1), float(last)))
    return _gathered(stop, last)


def _gathered(stop: float, last: int) -> tuple[tuple[float, float], ...]:
    """Strata of a geometric law cut at `last`, each with its own mean: E[N; N > k] = (1 - p)^k (k + 1/p)."""
    cuts = sorted({min(last, round(math.log1p(-share) / math.log1p(-stop))) for share in STRATA[:-1]} | {last})
    parts = []
    for low, high in pairwise(cuts):
        above_low, above_high = (1.0 - stop) ** low, (1.0 - stop) ** high
        weight = above_low - above_high
        first = above_low * (low + 1.0 / stop) - above_high * (high + 1.0 / stop)
        if high == last:
            weight, first = above_low, first + above_high * last
        parts.append((weight, first / weight))
    return tuple(parts)


def _empirical_turns(turns: Turns) -> tuple[tuple[float, float], ...]:
    parts = []
    cap = turns.max_turns or math.inf
    for i in range(TURNS_LISTED):
        share = (i + 0.5) / TURNS_LISTED
        parts.append((1.0 / TURNS_LISTED, max(1.0, min(cap, float(round(interpolate(turns.quantiles, share)))))))
    return tuple(parts)


def interpolate(points: tuple[tuple[float, float], ...], x: float) -> float:
    """Linear between (x, y) points, flat outside."""
    if x <= points[0][0]:
        return points[0][1]
    for (x0, y0), (x1, y1) in pairwise(points):
        if x <= x1:
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0) if x1 > x0 else y1
    return points[-1][1]


def lognormal_of(lengths: Lengths) -> tuple[float, float]:
    """(mean, sigma) of the law; an empirical one by its first two moments."""
    if not lengths.quantiles:
        return lengths.mean_tokens, lengths.sigma
    first = second = 0.0
    for (s0, y0), (s1, y1) in pairwise(lengths.quantiles):
        first += (s1 - s0) * (y0 + y1) / 2.0
        second += (s1 - s0) * (y0 * y0 + y0 * y1 + y1 * y1) / 3.0
    return first, math.sqrt(math.log(max(1.0, second / first**2)))


def _classes(lengths: Lengths, cap: float) -> tuple[PromptClass, ...]:
    mean, sigma = lognormal_of(lengths)
    common, own = sigma * math.sqrt(lengths.between_prompt_frac), sigma * math.sqrt(1.0 - lengths.between_prompt_frac)
    nodes = normal_nodes(_nodes(common, own)) if common > 0.0 else ((1.0, 0.0),)
    found = []
    for weight, z in nodes:
        shifted = mean * math.exp(common * z - 0.5 * common**2)
        first, second = clipped_moments(shifted, own, cap)
        found.append(PromptClass(weight, Moments(first, max(0.0, second - first**2)), shifted, own))
    return tuple(found)


def _nodes(common: float, own: float) -> int:
    """Common values that are needed: steps of one sigma, and no wider than what differs inside a group."""
    return max(PROMPT_NODES_MIN, min(PROMPT_NODES_MAX, math.ceil(9.0 * common / max(own, 1e-9))))


def _duration(tool: Duration | None) -> Moments:
    if tool is None:
        return Moments(0.0)
    if tool.law is TimeLaw.FIXED:
        return Moments(tool.mean_s)
    spread = 1.0 if tool.law is TimeLaw.EXPONENTIAL else math.expm1(tool.sigma**2)
    return Moments(tool.mean_s, spread * tool.mean_s**2)


def clipped_mean(lengths: Lengths | None, cap: float = math.inf) -> float:
    if lengths is None:
        return 0.0
    return clipped_moments(*lognormal_of(lengths), min(cap, lengths.max_tokens or math.inf))[0]


@lru_cache(maxsize=256)
def rollout_of(workload: Workload, pruning: Pruning | None) -> Rollout:
    """A function of its arguments; remembered, since a search over settings asks for the same workload again."""
    prompt, tool_tokens = clipped_mean(workload.prompt), clipped_mean(workload.tool_tokens)
    turns = drawn = _turn_law(workload.turns)
    cap = float(workload.response.max_tokens or math.inf)
    if workload.max_context_tokens is not None:
        room = max(1.0, workload.max_context_tokens - prompt)
        turns = _cut_turns(turns, workload, room, tool_tokens)
        cap = min(cap, room)
    classes = _classes(workload.response, cap)
    pruned = _pruned(classes, turns, pruning)
    classes = pruned.classes
    n1 = sum(w * n for w, n in turns)
    pairs = sum(w * n * (n - 1.0) / 2.0 for w, n in turns)
    first = sum(c.weight * c.turn.mean for c in classes)
    squares = sum(c.weight * (c.turn.variance + c.turn.mean**2) for c in classes)
    products = sum(c.weight * c.turn.mean**2 for c in classes)
    response = n1 * first
    swept = response * prompt + pairs * (products + first * tool_tokens) + n1 * squares / 2.0
    return Rollout(
        turns=turns,
        classes=classes,
        turn_cap=cap,
        turns_mean=n1,
        turn_tokens=first,
        response_tokens=response,
        prompt_tokens=prompt,
        tool_tokens=tool_tokens,
        tool=_duration(workload.tool),
        context_mean=swept / response,
        context_end=prompt + response + (n1 - 1.0) * tool_tokens,
        pruned_frac=pruned.frac,
        unpruned_ratio=pruned.kept_ratio,
        cut_frac=sum(was[0] for was, now in zip(drawn, turns, strict=True) if was[1] > now[1]),
    )


def _cut_turns(
    turns: tuple[tuple[float, float], ...], workload: Workload, room: float, tool_tokens: float
) -> tuple[tuple[float, float], ...]:
    """No more turns than the context has room for, at the mean length of a turn."""
    per_turn = clipped_mean(workload.response) + tool_tokens
    most = max(1.0, (room + tool_tokens) / per_turn)
    return tuple((weight, min(n, most)) for weight, n in turns)


@dataclass(frozen=True, slots=True)
class _Pruned:
    classes: tuple[PromptClass, ...]
    frac: float
    kept_ratio: float
    """Mean response of those that were let run to their end, over that of all as pruned."""


def _pruned(
    classes: tuple[PromptClass, ...], turns: tuple[tuple[float, float], ...], pruning: Pruning | None
) -> _Pruned:
    """A rollout past `tokens` ends there with chance `frac`: shorter turns, and the share that ended so."""
    if pruning is None:
        return _Pruned(classes, 0.0, 1.0)
    share = before = after = 0.0
    for c in classes:
        for weight, n in turns:
            mean, variance = n * c.turn.mean, n * c.turn.variance
            sigma = math.sqrt(math.log1p(variance / mean**2))
            cut, _ = clipped_moments(mean, sigma, float(pruning.tokens))
            z = (math.log(pruning.tokens / mean) + 0.5 * sigma**2) / max(sigma, 1e-6)
            share += c.weight * weight * pruning.frac * 0.5 * math.erfc(z * math.sqrt(0.5))
            before += c.weight * weight * mean
            after += c.weight * weight * (mean - pruning.frac * (mean - cut))
    ratio = after / before
    shorter = tuple(
        PromptClass(
            c.weight, Moments(c.turn.mean * ratio, c.turn.variance * ratio**2), c.turn_mean * ratio, c.turn_sigma
        )
        for c in classes
    )
    kept = (after - share * pruning.tokens) / max(1e-9, 1.0 - share)
    return _Pruned(shorter, min(share, 0.999), kept / after)
