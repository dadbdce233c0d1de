"""StepLog: one trainer step of a simulated job as it truly was, beside what its metrics would show."""

from collections.abc import Mapping
from dataclasses import dataclass

from simulators.counters import Counters
from simulators.event_state import Job
from simulators.snapshot import Row


@dataclass(frozen=True, slots=True)
class Rollouts:
    """So many rollouts, with the sum of their response tokens and how many of them were solved."""

    count: int = 0
    response_tokens: int = 0
    solved: int = 0

    def __add__(self, other: "Rollouts") -> "Rollouts":
        tokens = self.response_tokens + other.response_tokens
        return Rollouts(self.count + other.count, tokens, self.solved + other.solved)


@dataclass(frozen=True, slots=True)
class StepLog:
    """One trainer step as it truly was."""

    row: Row
    """Signals without noise, nothing hidden."""
    useful: float
    """Trained rollouts in groups whose rewards differ."""
    waste: Mapping[str, float]
    """Rollouts that no batch used, by cause."""
    batch_latency_s: float | None
    """Mean time of the trained rollouts (`rollout_latency_s`: of those that finished during the step); None of a job
    that needs no more than the event engine's core, which does not count it."""
    job: Job
    seen: bool
    """False inside a metrics outage."""
    trained: Rollouts = Rollouts()
    attempted: Rollouts = Rollouts()
    """All that ended during the step, those too that were given up: with the length that they would have had."""


def logged(row: Row, delta: Counters, job: Job, seen: bool) -> StepLog:
    """Of a step in which the counters grew by `delta`."""
    latency_s = delta.trained_rollout_s / delta.trained if delta.trained_rollout_s > 0.0 else None
    trained = Rollouts(delta.trained, delta.trained_response, delta.trained_solved)
    attempted = Rollouts(delta.attempted, delta.attempted_response, delta.attempted_solved)
    return StepLog(row, float(delta.useful), delta.waste, latency_s, job, seen, trained, attempted)
