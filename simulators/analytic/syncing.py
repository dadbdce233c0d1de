"""What a publication of weights costs the engines, in seconds of their work."""

from simulators.analytic.case import Case
from simulators.analytic.generation import Generation
from simulators.queueing.order_statistics import Curve
from simulators.stations import SyncMode

LEAST_RUNNING = 0.02
"""However often weights come, engines run this share of the time: below it the formulas mean nothing."""


def running_frac(case: Case, lost_s: float, step_s: float) -> float:
    """phi: share of time in which engines work, at one publication per sync_interval steps."""
    if case.layout.serial:
        return 1.0
    return max(LEAST_RUNNING, 1.0 - lost_s / (step_s * case.layout.sync_interval))


def lost_s(case: Case, made: Generation, times: Curve, step_s: float) -> float:
    """Seconds of an engine's work that one publication takes.

    in flight: the pause, and the prefill of all residents where KV is not kept
    abort: the pause and that prefill with partial rollout; else all that the residents have done so far
    drain: the pause and the slots that stand empty until the last resident is done
    """
    sync = case.stations.sync
    residents = made.residents / case.layout.engines
    refill = residents * case.rollout.context_mean * case.stations.engine.prefill_s_per_token
    if sync.mode is SyncMode.IN_FLIGHT:
        return sync.seconds + (0.0 if sync.keeps_kv else refill)
    if sync.mode is SyncMode.ABORT and case.partial:
        return sync.seconds + refill
    if sync.mode is SyncMode.ABORT:
        return sync.seconds + _mean_age(times, step_s * case.layout.sync_interval)
    return sync.seconds + _drain_s(times, residents, made)


def _mean_age(times: Curve, period_s: float) -> float:
    """E[min(age, time since the last abort)] of a rollout in flight: integral of P(age > x) up to the period."""
    steps = 16
    inside = [times.beyond(period_s * (i + 0.5) / steps) for i in range(steps)]
    return period_s / steps * sum(inside) / times.mean


def _drain_s(times: Curve, residents: float, made: Generation) -> float:
    """Time until the last of them is done, less the work that is done meanwhile.

    The residual life of a rollout met at a random moment has the tail beyond(x) / mean, and its mean is the integral.
    """
    low, high = 0.0, times.xs[-1]
    for _ in range(30):
        middle = 0.5 * (low + high)
        if residents * times.beyond(middle) / times.mean > 0.5615:
            low = middle
        else:
            high = middle
    steps = 16
    worked = high / steps * sum(times.beyond(high * (i + 0.5) / steps) for i in range(steps)) / times.mean
    return max(0.0, high - worked)
