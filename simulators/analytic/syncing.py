"""What a publication of weights costs the engines, in seconds of their work."""

from itertools import pairwise

from simulators.analytic.case import Case
from simulators.analytic.engine import Stops, iteration_s
from simulators.analytic.generation import Generation, step_of
from simulators.queueing.order_statistics import Curve
from simulators.stations import Plug, SyncMode

CELLS_MAX = 48
PERIODS_MAX, NEGLIGIBLE = 64, 1e-3
"""Aborts that one rollout is followed through; smaller chances are left out."""
EDGES = tuple(2.0**-k for k in range(7, -1, -1))
"""Shares of a period between which its seconds are gathered: most rollouts may take far less than one."""
PHASES = 8
"""Moments between two aborts at which a first attempt may start."""
RAREST = 1e-3
"""Chance to be done between two aborts below which a job is said to stand still (the event engine's 1,000 attempts)."""
HALVINGS = 14
"""Of the longest time: the last resident is then known to a ten-thousandth of it."""
DRAIN_STEPS = 16
LAST = 0.5614594835668851
"""exp(-Euler's constant): so many are left at the mean maximum."""


def stops_of(case: Case, lost_s: float, step_s: float) -> Stops:
    """One publication per sync_interval steps; a serial job has nothing in flight when it comes."""
    return Stops() if case.layout.serial else Stops(lost_s, step_s * case.layout.sync_interval)


def in_one_piece(case: Case) -> bool:
    """Rollouts of one turn: an engine that is empty has finished them. Others come back to it from their tools."""
    return case.rollout.turns_mean <= 1.0


def drained_in_batches(case: Case) -> bool:
    """All engines drain at once under a cap on started groups: what is in flight then is left of the last batches."""
    capped = case.layout.plug in (Plug.WIP_CAP, Plug.PER_SYNC) and not case.layout.serial
    drains = case.stations.sync.mode is SyncMode.DRAIN and not case.stations.sync.rolling
    return capped and drains and in_one_piece(case)


def lost_s(case: Case, made: Generation, times: Curve, step_s: float) -> float:
    """Seconds of an engine's work that one publication takes.

    in flight: the pause, and the prefill of all residents where KV is not kept
    abort: the pause and that prefill with partial rollout; else what starting anew changes
    drain: the pause and the slots that stand empty until the last resident is done; under a cap see capped.py
    Who is in a tool when it comes is neither stopped nor waited for.
    """
    sync = case.stations.sync
    residents = made.residents / case.layout.engines
    refill = residents * case.context_mean * case.stations.engine.prefill_s_per_token
    if sync.mode is SyncMode.IN_FLIGHT or drained_in_batches(case):
        return sync.seconds + (0.0 if sync.keeps_kv else refill)
    if sync.mode is SyncMode.ABORT and case.partial:
        return sync.seconds + refill
    period_s = step_s * case.layout.sync_interval
    if sync.mode is SyncMode.ABORT:
        return sync.seconds + max(0.0, period_s - sync.seconds) * (1.0 - _kept_frac(case, made, times, period_s))
    drain_s, worked_s = _drain(case, made, times, period_s)
    return sync.seconds + _drains_per_period(case, drain_s, period_s) * max(0.0, drain_s - worked_s)


def _drains_per_period(case: Case, drain_s: float, period_s: float) -> float:
    """A trainer that does not wait may publish again before the engines are empty: then it is one drain for both, and
    the next begins with the next step, half a period later on average.

    # drain of .4 periods: 1 | 1 period: .67 | 4 periods: .22
    """
    if case.stations.sync.trainer_waits or case.stations.sync.rolling:
        return 1.0
    return min(1.0, period_s / max(1e-12, drain_s + 0.5 * period_s))


def trainer_hold_s(case: Case, made: Generation, times: Curve, step_s: float) -> float:
    """Seconds that the trainer waits for the last resident of a drain, per publication."""
    sync = case.stations.sync
    if sync.mode is not SyncMode.DRAIN or sync.rolling or not sync.trainer_waits or case.layout.serial:
        return 0.0
    return _drain(case, made, times, step_s * case.layout.sync_interval)[0]


def _residence(case: Case, made: Generation, times: Curve) -> Curve:
    """How long one stays in a running engine: all of a rollout, or one of its turns."""
    found = times if in_one_piece(case) else case.rollout.turn_times().curve().scaled(made.token_s)
    return found.scaled(made.running_frac)


def _kept_frac(case: Case, made: Generation, times: Curve, period_s: float) -> float:
    """Share of the engines' work that is not thrown away by aborts.

    Attempts are drawn anew, but for what the rollouts of one prompt have in common: a long one stays long, and holds
    its place for many attempts. So the time that a place spends on a rollout is averaged over prompts.
    """
    of_prompts = made.times(case).by_common()
    if in_one_piece(case):
        pace = made.running_frac
        alike = _place_s(times.scaled(pace), period_s)
        apart = sum(weight * _place_s(curve.scaled(pace), period_s) for weight, curve in of_prompts)
        return _renewals(times.scaled(pace), period_s) * times.mean * pace / period_s * alike / apart
    outside = made.paused / made.in_flight
    pace, hit = outside + (1.0 - outside) * made.running_frac, made.residents / made.in_flight
    return min(1.0, _survivors(times.scaled(pace), period_s, hit) * times.mean * pace)


def _place_s(times: Curve, period_s: float) -> float:
    """Seconds of a place until a rollout is done that starts anew at each abort, its first start at any moment between
    two: E[min(L, P - u)] + P(L > P - u) E[min(L, P)] / P(L <= P).
    """
    early = [period_s * (i + 0.5) / PHASES for i in range(PHASES)]
    first_s = sum(map(times.at_most, early)) / PHASES
    missed = sum(map(times.over, early)) / PHASES
    return first_s + missed * times.at_most(period_s) / max(RAREST, 1.0 - times.over(period_s))


def _survivors(times: Curve, period_s: float, hit: float) -> float:
    """Rollouts per second of one place, where each abort stops it with chance `hit`: a chain of two kinds of attempt.

    One that was stopped starts again at the abort (0); after one that is done the next starts at any moment (u). With
    s(x) = (1 - hit)^floor(x / P): chance to be done f0 = E[s(L)], time D0 = integral of P(L > x) s(x); at any moment
    f_u = 1 - hit D0 / P, and D_u likewise. Their numbers are as (1 - f_u) to f0.

    # hit 0: 1 / mean;  P much longer than L: about 1 / (mean + hit (mean^2 - E[L^2] / 2) / P)
    """
    done0 = time0 = time_u = 0.0
    alive, start, n, over, least = 1.0, 0.0, 0, 1.0, 0.0
    while alive > NEGLIGIBLE and over > NEGLIGIBLE and n < PERIODS_MAX:
        end_over = times.over(start + period_s)
        done0 += alive * (over - end_over)
        for low, high in pairwise((0.0, *EDGES)):
            end = times.at_most(start + period_s * high)
            time0 += alive * (end - least)
            time_u += alive * (1.0 - hit * (low + high) / 2.0) * (end - least)
            least = end
        alive, start, n, over = alive * (1.0 - hit), start + period_s, n + 1, end_over
    done_u = max(0.0, 1.0 - hit * time0 / period_s)
    again, fresh = 1.0 - done_u, done0
    return (again * done0 + fresh * done_u) / max(1e-12, again * time0 + fresh * time_u)


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


def _drain(case: Case, made: Generation, times: Curve, period_s: float) -> tuple[float, float]:
    """(seconds until the last resident is done, seconds of a full engine's work that are done meanwhile).

    All have started since the last drain, `period_s` ago. One still runs at token-clock reading x with chance
    P(L > period + x) + (E[min(L, period + x)] - E[min(L, x)]) / E[L]; in seconds of a full engine, of which one takes
    t(b x share) / t(b) where a share still runs: emptying engines are faster.

    # 64 residents, exponential stays of 100 s, seldom: t = k b: 99 s | t = 8 + 0.1 b ms: 307 s | t constant: 473 s
    """
    stays = _residence(case, made, times)
    each = made.residents / case.layout.engines
    waited_for = each if case.stations.sync.rolling else made.residents
    low, high = 0.0, stays.longest
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if waited_for * _runs(stays, period_s, middle) > LAST:
            low = middle
        else:
            high = middle
    shares = [_runs(stays, period_s, high * (i + 0.5) / DRAIN_STEPS) for i in range(DRAIN_STEPS)]
    step, context = step_of(case), case.context_mean
    full_s = iteration_s(step, each, each * context)
    paces = [iteration_s(step, each * share, each * share * context) / full_s for share in shares]
    return high / DRAIN_STEPS * sum(paces), high / DRAIN_STEPS * sum(shares)


def _runs(times: Curve, period_s: float, x: float) -> float:
    renewed = (times.at_most(period_s + x) - times.at_most(x)) / times.mean
    return min(1.0, times.over(period_s + x) + renewed)
