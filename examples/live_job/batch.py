"""What goes between the job and its trainer: samples one way, how the update went the other."""

from dataclasses import dataclass


@dataclass
class Sample:
    """One rollout as it is trained: all tokens in order, and which of them the model chose."""

    tokens: list[int]
    chosen: list[bool]
    logprobs: list[float]
    """Of each token when it was generated; 0 where it was given."""
    advantage: float


@dataclass
class Batch:
    """What one update is given."""

    samples: list[Sample]
    threads: int
    """As many as the trainer has cores now."""


@dataclass
class Done:
    """What one update says of itself."""

    busy_s: float
    save_s: float
    entropy: float
    grad_norm: float
