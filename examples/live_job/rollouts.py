"""What is generated: rollouts, the groups that are compared, and the samples that they become."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import fmean, pstdev

from examples.live_job.batch import Sample


@dataclass
class Rollout:
    """One attempt at a prompt, of one turn or several."""

    tokens: list[int]
    chosen: list[bool]
    logprobs: list[float]
    reward: float = 0.0
    turns: int = 0
    seconds: float = 0.0
    outside_s: float = 0.0
    """With its tools."""

    def append(self, tokens: list[int], logprobs: list[float], chosen: bool) -> None:
        self.tokens += tokens
        self.logprobs += logprobs
        self.chosen += [chosen] * len(tokens)


@dataclass
class Group:
    """Attempts at the same prompt."""

    version: int
    """Of the weights when its first rollout began: the oldest that any of its tokens can be from."""
    rollouts: list[Rollout] = field(default_factory=list)

    @property
    def teaches(self) -> bool:
        return len({rollout.reward for rollout in self.rollouts}) > 1

    def samples(self) -> Iterator[Sample]:
        """Each rollout with its advantage over its group."""
        rewards = [rollout.reward for rollout in self.rollouts]
        mean, deviation = fmean(rewards), pstdev(rewards)
        for r in self.rollouts:
            yield Sample(r.tokens, r.chosen, r.logprobs, (r.reward - mean) / (deviation + 1e-4))
