"""Contexts that outgrow the decoders' KV behind a prefill pool: whether they can, and what is followed then."""

import math
from dataclasses import dataclass

from simulators.analytic.case import Case
from simulators.analytic.rollout import Rollout
from simulators.stations import StepTime

STAGES_MAX = 4
"""Of one turn."""


@dataclass(frozen=True, slots=True)
class Loop:
    """What the stations do to a turn, of all engines together."""

    engines: int
    """That decode."""
    speed: float
    """Theirs on average."""
    servers: float
    """Prefill engines."""
    step: StepTime
    slots: float
    """Residents of one engine at most, by slots and by KV."""
    kv_tokens: float
    """Of one engine."""
    tokens: float
    """Decoded in a turn."""
    stages: int
    context: float
    """Tokens of a resident."""
    paused_context: float
    """Tokens of one that returns from a tool, the tool's answer aside."""
    context_moment: float
    """E[c^2] / E[c]^2 of these contexts."""
    tool_s: float
    fixed_s: float
    """Of a rollout outside its turns, before the first."""
    fresh_frac: float
    """Of turns: those that begin a rollout."""
    hit_s: float
    """Seconds of a server for a turn whose context is cached; likewise without, and for a first turn."""
    miss_s: float
    fresh_s: float
    transfer_s: float


def outgrows(case: Case, in_flight: float) -> bool:
    """Whether anything can be evicted: never while all that is in flight fits, wherever it is."""
    engine, rollout = case.stations.engine, case.rollout
    if case.stations.prefill is None or not engine.prefix_cache or engine.kv_tokens is None:
        return False
    if rollout.turns_mean <= 1.0 or rollout.tool.mean <= 0.0:
        return False
    context = max(rollout.context_mean, _paused_context(rollout))
    return in_flight * context > case.layout.engines * engine.kv_tokens


def loop_of(case: Case, step: StepTime, speed: float) -> Loop:
    """Of a case whose contexts outgrow the KV; the head of a queue that does not fit leaves E[c^2] / (2 E[c]) free."""
    engine, rollout, pool = case.stations.engine, case.rollout, case.stations.prefill
    if pool is None or engine.kv_tokens is None:
        raise ValueError("only engines behind a prefill pool and with a limit of KV are followed")
    moment, context = _moment(rollout), rollout.context_mean
    room = engine.kv_tokens * (1.0 - engine.kv_watermark_frac) / context
    token_s = pool.prefill_s_per_token
    return Loop(
        engines=case.layout.engines,
        servers=case.layout.prefill_engines,
        step=step,
        speed=speed,
        slots=min(float(case.layout.slots), max(1.0, room - 0.5 * moment)),
        kv_tokens=float(engine.kv_tokens),
        tokens=rollout.turn_tokens,
        stages=_stages(rollout),
        context=context,
        paused_context=_paused_context(rollout),
        context_moment=moment,
        tool_s=rollout.tool.mean,
        fixed_s=case.fixed_s,
        fresh_frac=1.0 / rollout.turns_mean,
        hit_s=rollout.tool_tokens * token_s,
        miss_s=(rollout.tool_tokens + _paused_context(rollout)) * token_s,
        fresh_s=rollout.prompt_tokens * token_s,
        transfer_s=pool.transfer_base_s + context * pool.transfer_s_per_token,
    )


def _paused_context(rollout: Rollout) -> float:
    """Of a mean return: rollouts of many turns return more often, and with more."""
    return rollout.returned_tokens() / (rollout.turns_mean - 1.0)


def _stages(rollout: Rollout) -> int:
    """mean^2 / variance of a turn's tokens."""
    mean = rollout.turn_tokens
    variance = sum(c.weight * (c.turn.variance + c.turn.mean**2) for c in rollout.classes) - mean**2
    return max(1, min(STAGES_MAX, round(mean**2 / max(variance, 1e-9 * mean**2))))


def _moment(rollout: Rollout) -> float:
    """E[c^2] / E[c]^2 of the contexts of all returns, i turns of u tokens after a prompt of p: sums over i < n.

    # p = 0: always n turns 4/3 | geometric ones 2
    """
    p, u = rollout.prompt_tokens, rollout.turn_tokens + rollout.tool_tokens
    returns = first = second = 0.0
    for weight, n in rollout.turns:
        one, two = (n - 1.0) * n / 2.0, (n - 1.0) * n * (2.0 * n - 1.0) / 6.0
        returns += weight * (n - 1.0)
        first += weight * ((n - 1.0) * p + u * one)
        second += weight * ((n - 1.0) * p * p + 2.0 * p * u * one + u * u * two)
    return max(1.0, second * returns / (first * first)) if first > 0.0 and math.isfinite(second) else 1.0
