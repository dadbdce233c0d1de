"""What the rollouts are like: lengths, turns, tools, solve rates. All of it may drift while the model learns.

Every token count is a whole number of at least 1 where it is drawn; the means here are of the distribution before the
clip at its maximum, so that a longer limit is one changed field.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from simulators.fields import STRICT


class TurnLaw(StrEnum):
    """How the number of turns of a rollout is distributed around its mean."""

    FIXED = "fixed"
    """The mean, always."""
    GEOMETRIC = "geometric"
    """On 1, 2, 3...: after every turn the rollout goes on with the same chance. The longest of 8 is 2.7 means."""
    EMPIRICAL = "empirical"
    """By `quantiles`, as measured."""


class TimeLaw(StrEnum):
    """How a duration is distributed around its mean."""

    FIXED = "fixed"
    """The mean, always."""
    EXPONENTIAL = "exponential"
    """Without memory: the coefficient of variation is 1."""
    LOGNORMAL = "lognormal"
    """Of `sigma`, the scatter of its logarithm."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """A distribution of token counts: lognormal, or empirical where `quantiles` are given.

    # longest of 8 over the mean, sigma 1: 3.08 at between_prompt_frac 0 | 2.35 at 0.5 | 1.89 at 0.75
    """

    __pydantic_config__ = STRICT

    mean_tokens: float
    """Mean before the cut at `max_tokens`."""
    sigma: float = 0.0
    """Standard deviation of the logarithm; 0 is a constant."""
    max_tokens: int | None = None
    """Longer draws are cut here (and count as truncated)."""
    between_prompt_frac: float = 0.0
    """Share of the logarithm's variance that all rollouts of one prompt have in common (h)."""
    quantiles: tuple[tuple[float, float], ...] = ()
    """(share, tokens) pairs, both rising, shares from 0 to 1; linear in between. They replace mean and sigma."""


@dataclass(frozen=True, slots=True)
class Turns:
    """Model calls inside one rollout."""

    __pydantic_config__ = STRICT

    mean: float = 1.0
    """Mean number of model calls."""
    law: TurnLaw = TurnLaw.FIXED
    """How it is distributed around its mean."""
    max_turns: int | None = None
    """No rollout has more."""
    quantiles: tuple[tuple[float, float], ...] = ()
    """(share, turns) pairs of an empirical law."""


@dataclass(frozen=True, slots=True)
class Duration:
    """A distribution of times."""

    __pydantic_config__ = STRICT

    mean_s: float
    """Mean time."""
    law: TimeLaw = TimeLaw.EXPONENTIAL
    """How it is distributed around its mean."""
    sigma: float = 0.0
    """Standard deviation of the logarithm, of a lognormal law."""


@dataclass(frozen=True, slots=True)
class SolvePart:
    """One component of the solve-rate mixture: prompts whose chance of a right answer is Beta(a, b)."""

    __pydantic_config__ = STRICT

    weight: float
    """Share of prompts, relative to the other parts."""
    a: float
    """First shape parameter of the Beta distribution."""
    b: float
    """Second shape parameter; the mean solve rate is a / (a + b)."""


@dataclass(frozen=True, slots=True)
class SolveRates:
    """How likely a prompt is to be solved, over prompts: a mixture of Betas, and shares that never vary.

    A group of S rollouts is usable when its rewards differ: chance 1 - p^S - (1 - p)^S at solve rate p.
    """

    __pydantic_config__ = STRICT

    parts: tuple[SolvePart, ...] = (SolvePart(1.0, 1.0, 1.0),)
    """The mixture, for prompts that are neither always nor never solved."""
    always_frac: float = 0.0
    """Prompts that every rollout solves."""
    never_frac: float = 0.0
    """Prompts that no rollout solves."""
    length_correlation: float = 0.0
    """Between a prompt's length (its common part) and its solve rate, on normal scores: usually negative."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What rollouts are like."""

    __pydantic_config__ = STRICT

    prompt: Lengths
    """Tokens before the first turn."""
    response: Lengths
    """Generated tokens of one turn."""
    turns: Turns = field(default_factory=Turns)
    """Model calls of one rollout."""
    tool_tokens: Lengths | None = None
    """Tokens that a tool's answer adds to the context, per turn but the last."""
    tool: Duration | None = None
    """Time outside the engine after every turn but the last."""
    solve: SolveRates = field(default_factory=SolveRates)
    """How likely prompts are to be solved."""
    failure_frac: float = 0.0
    """Rollouts lost to infrastructure, each; kept apart from reward 0."""
    max_context_tokens: int | None = None
    """A rollout ends when its context reaches this."""
