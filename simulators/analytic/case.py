"""One job, resolved: what all parts of the analytic model read."""

from dataclasses import dataclass

from simulators.analytic.layout import Layout
from simulators.analytic.rollout import Rollout
from simulators.plant import Setpoints
from simulators.stations import Stations


@dataclass(frozen=True, slots=True)
class Case:
    layout: Layout
    stations: Stations
    rollout: Rollout
    setpoints: Setpoints
    usable_frac: float
    """Of finished groups."""
    yield_frac: float
    """Finished groups that the trainer may have: 1, or usable_frac when the others are filtered."""
    failure_frac: float
    """Rollouts lost after their start, each."""
    fixed_s: float = 0.0
    """Seconds of a rollout outside its turns: sandbox start, verifier."""
    active_limit: float = float("inf")
    """Rollouts that may hold a sandbox at once."""
    rate_limit: float = float("inf")
    """Rollouts finished per second that sandbox starts and verifier let through."""
    start_s: float = 0.0
    """Of one start of a sandbox, whether it fails or not."""
    start_failed_frac: float = 0.0
    grown_frac: float = 1.0
    """Mean response so far of a rollout in an engine, over that where none is given up: the oldest are."""

    @property
    def context_mean(self) -> float:
        """Context tokens averaged over the tokens that are generated."""
        prompt = self.rollout.prompt_tokens
        return prompt + self.grown_frac * (self.rollout.context_mean - prompt)

    @property
    def partial(self) -> bool:
        return bool(self.setpoints.partial_rollout)

    @property
    def attempts(self) -> float:
        """Rollouts started per rollout finished."""
        return 1.0 / max(1e-9, 1.0 - self.failure_frac)

    @property
    def work(self) -> float:
        """Rollouts' worth of engine time per rollout finished: a lost one breaks off half-way on average."""
        return 1.0 + 0.5 * (self.attempts - 1.0)

    @property
    def oversampled(self) -> bool:
        layout = self.layout
        return layout.members > layout.group_size or layout.round_groups > layout.batch_groups
