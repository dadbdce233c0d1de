"""What a publication of weights costs the engines, in seconds of their work."""

from simulators.analytic.case import Case
from simulators.analytic.engine import Stops
from simulators.analytic.generation import Generation
from simulators.queueing.order_statistics import Curve
from simulators.stations import Plug, SyncMode

CELLS_MAX = 48
LAST = 0.5614594835668851
"""exp(-Euler's constant): so many are left at the mean maximum."""


def stops_of(case: Case, lost_s: float, step_s: float) -> Stops:
    """One publication per sync_interval steps; a serial job has nothing in flight when it comes."""
    return Stops() if case.layout.serial else Stops(lost_s, step_s * case.layout.sync_interval)


def drained_in_batches(case: Case) -> bool:
    """All engines drain at once under a cap on started groups: what is in flight then is left of the last batches."""
    capped = case.layout.plug in (Plug.WIP_CAP, Plug.PER_SYNC) and not case.layout.serial
    return capped and case.stations.sync.mode is SyncMode.DRAIN and not case.stations.sync.rolling


def lost_s(case: Case, made: Generation, times: Curve, step_s: float) -> float:
    """Seconds of an engine's work that one publication takes.

    in flight: the pause, and the prefill of all residents where KV is not kept
    abort: the pause and that prefill with partial rollout; else what starting anew changes
    drain: the pause and the slots that stand empty until the last resident is done; under a cap see capped.py
    """
    sync = case.stations.sync
    residents = made.residents / case.layout.engines
    refill = residents * case.rollout.context_mean * case.stations.engine.prefill_s_per_token
    if sync.mode is SyncMode.IN_FLIGHT or drained_in_batches(case):
        return sync.seconds + (0.0 if sync.keeps_kv else refill)
    if sync.mode is SyncMode.ABORT and case.partial:
        return sync.seconds + refill
    period_s, times = step_s * case.layout.sync_interval, times.scaled(made.running_frac)
    if sync.mode is SyncMode.ABORT:
        return sync.seconds + max(0.0, period_s - sync.seconds) * (
            1.0 - _renewals(times, period_s) * times.mean / period_s
        )
    drain_s, worked_s = _drain(times, residents if sync.rolling else made.residents, period_s)
    return sync.seconds + max(0.0, drain_s - worked_s)


def trainer_hold_s(case: Case, made: Generation, times: Curve, step_s: float) -> float:
    """Seconds that the trainer waits for the last resident of a drain, per publication."""
    sync = case.stations.sync
    if sync.mode is not SyncMode.DRAIN or sync.rolling or not sync.trainer_waits or case.layout.serial:
        return 0.0
    return _drain(times.scaled(made.running_frac), made.residents, step_s * case.layout.sync_interval)[0]


def _renewals(times: Curve, period_s: float) -> float:
    """E[rollouts that one slot finishes between two aborts], each attempt drawn anew: m = F + m * dF on a grid.

    # period of many means: period / mean + (scv - 1) / 2; of few: P(length < period)
    """
    cells = min(CELLS_MAX, max(8, round(6.0 * period_s / times.mean)))
    width = period_s / cells
    below = [1.0 - times.over(width * i) for i in range(cells + 1)]
    steps = [below[i + 1] - below[i] for i in range(cells)]
    counts = [0.0]
    for i in range(1, cells + 1):
        inner = sum(steps[j] * 0.5 * (counts[i - j] + counts[i - j - 1]) for j in range(1, i))
        counts.append((below[i] + inner + 0.5 * steps[0] * counts[i - 1]) / (1.0 - 0.5 * steps[0]))
    return counts[-1]


def _drain(times: Curve, residents: float, period_s: float) -> tuple[float, float]:
    """(time until the last of so many is done, slot-seconds per slot that are worked meanwhile).

    All have started since the last drain, `period_s` ago. One still runs x later with chance
    P(L > period + x) + (E[min(L, period + x)] - E[min(L, x)]) / E[L].
    """
    low, high = 0.0, times.xs[-1]
    for _ in range(30):
        middle = 0.5 * (low + high)
        if residents * _runs(times, period_s, middle) > LAST:
            low = middle
        else:
            high = middle
    steps = 16
    worked = high / steps * sum(_runs(times, period_s, high * (i + 0.5) / steps) for i in range(steps))
    return high, worked


def _runs(times: Curve, period_s: float, x: float) -> float:
    renewed = (times.at_most(period_s + x) - times.at_most(x)) / times.mean
    return min(1.0, times.over(period_s + x) + renewed)
