"""Sandboxes and verifier: how long they hold a rollout, how many may have one, how many per second pass.

A provider is pressed by all that want a start: s that are starting and w that wait for one. Of what is in flight, all
but those that have a sandbox wait, so a limit in flight above the quota is no longer free: starts take longer and fail
more often, a start holds its place of the quota all the while, and one that fails holds it again. With q places, E
seconds in a sandbox after its start, S(p) seconds of a start and F(p) the share that fails (stations.Sandboxes):

    p = w + s,    s = S q / (S + (1 - F) E) while any wait,    rollouts/s = q / (S / (1 - F) + E)

and w is what is in flight less q: all of the limit, or what the plug lets start (capped.py). A job begins with all of
that at once, and so does one whose quota falls; where the cliff keeps it there, it stays.

# q 700, S 12 s, overload 2, 30 % more failures, E 123 s; in flight, and rollouts/s over those at 700:
#   1,536  p 943, 20.3 s, 8.2 %, -7 % | 2,304  p 1,842, 51.1 s, 19.1 %, -27 %
"""

import math
from dataclasses import dataclass, replace

from simulators.analytic.case import Case
from simulators.analytic.waiting import Waiting
from simulators.queueing.stations import mmc_wait
from simulators.stations import Sandboxes

TURNS = 30
SETTLED = 1e-4
LEAST_SUCCESS = 1e-9


@dataclass(frozen=True, slots=True)
class Pressing:
    """What a balance asks of sandboxes and verifier."""

    started_per_s: float
    """Rollouts, failed starts not counted."""
    stay_s: float
    """In a sandbox once it is there."""
    waiting: Waiting


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


def starts_of(sandboxes: Sandboxes, quota: float | None, pressing: Pressing) -> tuple[float, float]:
    """(seconds of one start, share that fails), means over starts: the formula above, from where all are starting."""
    seconds, failed, starting = sandboxes.start_s, sandboxes.failure_frac, quota or 0.0
    for _ in range(TURNS):
        looks = [(weight, start_of(sandboxes, n + starting, quota)) for weight, n in pressing.waiting.found()]
        seconds = sum(weight * s for weight, (s, _) in looks)
        failed = sum(weight * f for weight, (_, f) in looks)
        success = max(LEAST_SUCCESS, 1.0 - failed)
        per_s = pressing.started_per_s / success
        if quota is not None:
            per_s = min(per_s, quota / max(1e-12, seconds + success * pressing.stay_s))
        found = per_s * seconds
        if abs(found - starting) <= SETTLED * found:
            break
        starting = found
    return seconds, min(failed, 1.0 - LEAST_SUCCESS)


def surrounded(case: Case, pressing: Pressing) -> Case:
    """The case with what sandboxes and verifier do to it."""
    fixed_s, start_s, failed, rate = 0.0, 0.0, 0.0, math.inf
    sandboxes, verifier = case.stations.sandboxes, case.stations.verifier
    active = math.inf
    if sandboxes is not None:
        quota = quota_of(case)
        start_s, failed = starts_of(sandboxes, quota, pressing)
        fixed_s = start_s / (1.0 - failed)
        leaked = pressing.started_per_s * sandboxes.leak_frac * (sandboxes.lifetime_s or 0.0)
        active = math.inf if quota is None else max(1.0, quota - leaked)
        if sandboxes.starts_per_s_limit is not None:
            rate = sandboxes.starts_per_s_limit * (1.0 - failed) / case.attempts
    if verifier is not None:
        fixed_s += verifier.time_s
        if verifier.concurrency is not None:
            load = pressing.started_per_s / case.attempts * verifier.time_s
            rate = min(rate, verifier.concurrency / max(1e-12, verifier.time_s))
            fixed_s += verifier.time_s * 0.5 * mmc_wait(verifier.concurrency, min(load, 0.98 * verifier.concurrency))
    return replace(
        case, fixed_s=fixed_s, start_s=start_s, start_failed_frac=failed, active_limit=active, rate_limit=rate
    )
