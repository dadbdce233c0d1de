"""What is believed of a parameter before this job's data, and points spread evenly over several beliefs at once.

Priors are wide and have a source; none is fitted to a job that the tests know.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp, log


@dataclass(frozen=True, slots=True)
class Prior:
    """Uniform from low to high, on a logarithmic scale where `by_ratio`."""

    low: float
    high: float
    by_ratio: bool = False

    def quantile(self, share: float) -> float:
        if self.by_ratio:
            return exp(log(self.low) + share * (log(self.high) - log(self.low)))
        return self.low + share * (self.high - self.low)

    def __str__(self) -> str:
        return f"{'log-' if self.by_ratio else ''}uniform from {self.low:g} to {self.high:g}"


STEP_SCATTER = 0.1
"""Relative scatter of one step, where a single one is all there is."""
EXPONENT = Prior(0.5, 1.0)
"""alpha of the trainer: between the square root of its GPUs and linear, before the first resize."""
HALF_RATE_PER_GPU = Prior(8.0, 128.0, by_ratio=True)
"""Residents, for each GPU of an engine, at which it reaches half of its decode ceiling (a / k of t = a + k b).

a is the reading of the weights, which are what an engine has its GPUs for; k is the reading of one resident's cache,
which hardly grows with the model (29 to 192 kB a token from 1.5B to 235B). So the ratio goes with the GPUs.
# weights / (kB a token x tokens held), per GPU: 7B BF16 on 1, 8k: 33 | 235B FP8 on 8, 12k: 13 (measured, v01: 100 / 8)
# 30B-A3B BF16 on 2, 1.8k: 170 | 235B BF16 on 16, 3k: 51 | an engine of ours on two CPU cores: 19
"""
LENGTH_SIGMA = Prior(0.4, 1.2)
"""Deviation of log length: published longest-of-8 over mean 1.4 to 3.1, maximum over mean 3 to 20."""
CAP_OVER_MEAN = Prior(2.5, 10.0, by_ratio=True)
"""Longest allowed response over the mean one, where only the cap is known: published 2.9 and 5.4, seldom over 10."""
BETWEEN_PROMPT = Prior(0.2, 0.75)
"""h: answers to one prompt resemble each other, by how much is seldom logged."""
HEADROOM = Prior(1.0, 1.5)
"""What a generator that nobody measured alone could do, over what it is asked for."""
RESIDENTS = Prior(8.0, 128.0, by_ratio=True)
"""Rollouts for each GPU of the generator, where requests are not counted: published jobs hold 2 to 128."""
ENGINE_SIZE = Prior(-0.5, 3.5)
"""Logarithm to base 2 of the GPUs of an engine: 1, 2, 4 or 8, each as likely, where it is not stated."""
GENERATION_SHARE = Prior(0.3, 0.9)
"""Generation over generation and training of one batch, where no phase is timed: published jobs lie inside."""
OVERLAPPED_TRAINER = Prior(0.8, 1.25, by_ratio=True)
"""The trainer's work on a batch once it overlaps, over its work in turn: offloading goes, publications and memory
traffic join it. The passes of log-probabilities may go besides (verl runs none, NeMo-RL keeps them): where they are
timed, the low end is lower by their share."""
TRAINER_FIXED = Prior(0.0, 0.2)
"""Share of a trainer step that no GPU shortens."""


def spread_points(count: int, dimensions: int) -> Iterator[tuple[float, ...]]:
    """`count` points of the unit cube, evenly spread (additive recurrence on the generalised golden ratio).

    The ratio g solves g^(d+1) = g + 1; coordinate j of point i is the fraction of 1/2 + i g^-j (Roberts 2018).
    # 4 points, 1 dimension: 0.12 0.74 0.35 0.97
    """
    ratio = 2.0
    for _ in range(40):
        ratio = (1.0 + ratio) ** (1.0 / (dimensions + 1.0))
    steps = [ratio ** -(j + 1.0) for j in range(dimensions)]
    for i in range(1, count + 1):
        yield tuple((0.5 + i * step) % 1.0 for step in steps)
