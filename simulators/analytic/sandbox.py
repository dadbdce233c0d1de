"""Sandboxes: how many rollouts may have one, how long they take to start, how many fail."""

from dataclasses import dataclass

from simulators.plant import Setpoints
from simulators.stations import Sandboxes


@dataclass(frozen=True, slots=True)
class Fleet:
    start_s: float
    failed_frac: float
    live_limit: float | None
    starts_per_s_limit: float | None


def fleet_of(sandboxes: Sandboxes, setpoints: Setpoints, starting: float, starts_per_s: float) -> Fleet:
    """State of the fleet while `starting` sandboxes start at once.

    # quota 100, overload_factor 5: 50 starting 1 x | 150 3.5 x | 300 11 x the usual start time
    """
    quota = setpoints.sandbox_quota or sandboxes.live_limit
    over = max(0.0, starting / quota - 1.0) if quota else 0.0
    start_s = sandboxes.start_s * (1.0 + sandboxes.overload_factor * over)
    failed = sandboxes.failure_frac
    if over > 0.0:
        failed += sandboxes.overload_failure_frac * (1.0 - 1.0 / (1.0 + over))
    if sandboxes.start_timeout_s is not None and start_s > sandboxes.start_timeout_s:
        failed, start_s = 1.0, sandboxes.start_timeout_s
    leaked = starts_per_s * sandboxes.leak_frac * (sandboxes.lifetime_s or 0.0)
    live = None if sandboxes.live_limit is None else max(0.0, sandboxes.live_limit - leaked)
    return Fleet(start_s, min(1.0, failed), live, sandboxes.starts_per_s_limit)
