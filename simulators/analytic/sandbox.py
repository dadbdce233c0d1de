"""Sandboxes and verifier: how long they hold a rollout, how many may have one, how many per second pass."""

import math
from dataclasses import replace

from simulators.analytic.case import Case
from simulators.queueing.stations import mmc_wait
from simulators.stations import Sandboxes


def quota_of(case: Case) -> float | None:
    """The live limit: the provider's, or the quota that the job has set itself."""
    sandboxes = case.stations.sandboxes
    if sandboxes is None:
        return None
    return case.setpoints.sandbox_quota or sandboxes.live_limit


def start_of(sandboxes: Sandboxes, starting: float, quota: float | None) -> tuple[float, float]:
    """(seconds of one start, share that fails) while so many start or wait to.

    # quota 100, overload_factor 5: 50 starting 1 x | 150 3.5 x | 300 11 x the usual start time
    """
    over = max(0.0, starting / quota - 1.0) if quota else 0.0
    seconds = sandboxes.start_s * (1.0 + sandboxes.overload_factor * over)
    failed = sandboxes.failure_frac + sandboxes.overload_failure_frac * (1.0 - 1.0 / (1.0 + over))
    if sandboxes.start_timeout_s is not None and seconds > sandboxes.start_timeout_s:
        return sandboxes.start_timeout_s, 1.0
    return seconds, min(1.0, failed)


def surrounded(case: Case, started_per_s: float, wait_s: float) -> Case:
    """The case with what sandboxes and verifier do to it while that many rollouts per second start."""
    fixed_s, failed, rate = 0.0, 0.0, math.inf
    sandboxes, verifier = case.stations.sandboxes, case.stations.verifier
    active = math.inf
    if sandboxes is not None:
        quota = quota_of(case)
        start_s, failed = start_of(sandboxes, started_per_s * (sandboxes.start_s + wait_s), quota)
        fixed_s = start_s / max(1e-9, 1.0 - failed)
        leaked = started_per_s * sandboxes.leak_frac * (sandboxes.lifetime_s or 0.0)
        active = math.inf if quota is None else max(1.0, quota - leaked)
        if sandboxes.starts_per_s_limit is not None:
            rate = sandboxes.starts_per_s_limit * (1.0 - failed) / case.attempts
    if verifier is not None:
        fixed_s += verifier.time_s
        if verifier.concurrency is not None:
            load = started_per_s / case.attempts * verifier.time_s
            rate = min(rate, verifier.concurrency / max(1e-12, verifier.time_s))
            fixed_s += verifier.time_s * 0.5 * mmc_wait(verifier.concurrency, min(load, 0.98 * verifier.concurrency))
    return replace(case, fixed_s=fixed_s, start_failed_frac=failed, active_limit=active, rate_limit=rate)
