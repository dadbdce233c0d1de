"""PlantModel: what a model of a job must answer. Two do: `analytic` in microseconds, `event_model` by simulation."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from simulators.plant import Setpoints, Topology
from simulators.workload import Workload


@dataclass(frozen=True, slots=True)
class Staleness:
    """Versions between generation and training; mean, 95 % quantile and maximum over trained rollouts."""

    mean: float
    p95: float | None = None
    maximum: float | None = None


@dataclass(frozen=True, slots=True)
class Prediction:
    """Steady state of one job under one workload and one set of knobs. None: this model cannot tell."""

    rollouts_per_s: float
    """Trained rollouts per second of wall time."""
    useful_rollouts_per_s: float
    """Of them, those in groups whose rewards differ."""
    tokens_per_s: float
    """Trained tokens (prompt and response) per second."""
    step_s: float
    trainer_idle_frac: float
    """Share of wall time in which the trainer waits for rollouts."""
    generator_busy_frac: float
    """Share of the engines' slots-in-use capacity: throughput over what the engines would make if never held back."""
    staleness: Staleness | None = None
    """Trajectory level: trained version minus the version at the rollout's start."""
    token_staleness_mean: float | None = None
    """Versions that one rollout's tokens span."""
    resumed_frac: float | None = None
    """Environment-state level: share of trained rollouts that were resumed from an earlier policy."""
    queue_groups: float | None = None
    queue_age_s: float | None = None
    in_flight: float | None = None
    """Rollouts dispatched and unfinished."""
    rollout_s: float | None = None
    """Mean time of a rollout from dispatch to end."""
    group_s: float | None = None
    waste: Mapping[str, float] = field(default_factory=dict)
    """Share of dispatched rollouts that no batch used, by cause: filtered, oversampled, stale, dropped, pruned,
    aborted, failed."""
    kept_length_ratio: float | None = None
    """Mean response length of what is trained over what was attempted: the length bias."""
    kept_solve_ratio: float | None = None
    kept_length_error: float | None = None
    kept_solve_error: float | None = None
    """Standard errors of both, where they were simulated."""
    sandbox_wait_s: float | None = None
    sandbox_failed_frac: float | None = None
    preemptions_per_rollout: float | None = None
    prefix_hit_frac: float | None = None
    tenant_tokens_per_s: float | None = None
    standard_error_frac: float | None = None
    """Of rollouts_per_s, where it was simulated."""
    stopped: str | None = None
    """Why the job cannot make progress, where it cannot; the rates are then 0."""
    weak: tuple[str, ...] = ()
    """Why this model should not decide alone here; fixed by rules on the inputs."""


class PlantModel(Protocol):
    """Pure: the same inputs give the same prediction. Impossible inputs raise ValueError that names field and value."""

    def predict(self, topology: Topology, workload: Workload, setpoints: Setpoints) -> Prediction: ...
