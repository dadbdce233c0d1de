"""What comes every so often and need not: evaluation, checkpoints, weight publications, offloading."""

from collections.abc import Iterator
from math import exp

from policies.base import Direction, Interval, Recommendation, Verdict
from policies.prospects import gain_of
from policies.recommendations.case import (
    GAIN_MIN,
    UNTOLD,
    Case,
    Ranked,
    at_most,
    below,
    freed,
    nearly,
    ranked,
    saved_by_doubling,
)
from simulators.calibration import Answer

WORTH_IT = 0.03
"""Phases under this share of the wall time are left alone."""
ONE_STEP = 1.28 * 0.1 * 2.0**0.5
"""80 % of the logarithm of a ratio between two single steps, each of which scatters by a tenth."""


def periodic(case: Case) -> Iterator[Ranked]:
    """Twice the interval halves the share; offloading can go altogether where memory allows."""
    yield from _evaluation(case)
    yield from _interval(
        case, "checkpoint_interval", "checkpoint_s", case.setpoints.checkpoint_interval, "Checkpoints take"
    )
    yield from _weight_sync(case)
    yield from _overhead(case)


def _evaluation(case: Case) -> Iterator[Ranked]:
    now = case.setpoints.validation_interval
    if case.budget is None or "validation_s" not in case.budget.unknown_period:
        yield from _interval(case, "validation_interval", "validation_s", now, "Evaluation takes")
        return
    share = case.frac("validation_s")
    if share < WORTH_IT:
        return
    reason = (
        f"Evaluation takes {share:.0%} of the step that holds it. Its period is not in the data, so the gain of a "
        "longer one cannot be told: log more steps, or give the configuration."
    )
    yield Ranked(share / 10.0, Recommendation("validation_interval", Direction.UP, None, None, "steps", None, reason))


def _interval(case: Case, knob: str, signal: str, now: int | None, what: str) -> Iterator[Ranked]:
    share = case.frac(signal)
    if share < WORTH_IT:
        return
    gain = saved_by_doubling(share)
    reason = f"{what} {share:.0%} of the wall time; half as often gives half of that back."
    proposed = 2 * now if now else "twice the interval"
    risks = ("more work is lost when the job dies",) if knob == "checkpoint_interval" else ()
    yield Ranked(gain.mean, Recommendation(knob, Direction.UP, now, proposed, "steps", gain, reason, risks))


def _weight_sync(case: Case) -> Iterator[Ranked]:
    share = case.frac("weight_sync_s")
    if share >= WORTH_IT:
        yield _publish_less(case, share)
    if case.setpoints.in_flight_update or case.serial:
        return
    answer = case.prospects.answer(in_flight_update=True) if case.setpoints.in_flight_update is False else None
    drained = gain_of(answer)
    if drained is not None and drained.mean >= GAIN_MIN:
        reason = "Engines are drained at every publication: updated in flight, they go on without waiting for the last."
        yield _in_flight(case, drained, reason, answer)
    elif share >= WORTH_IT:
        reason = f"Updating weights while requests stay in flight hides at most the {share:.0%} that publishing takes."
        yield _in_flight(case, at_most(freed(share)), reason)
    else:
        yield from _drain(case)


def _publish_less(case: Case, share: float) -> Ranked:
    """Half of its share in a job that works in turn; overlapped, by the calibrated model: it depends on who waits."""
    now = case.setpoints.sync_interval
    answer = None if case.serial else case.prospects.answer(sync_interval=2 * (now or 1))
    modelled, most = gain_of(answer), freed(share / 2.0)
    gain = saved_by_doubling(share) if modelled is None else nearly(below(most, modelled))
    reason = f"Publishing weights takes {share:.0%} of the wall time; half as often gives at most half of that back."
    proposed = 2 * now if now else "twice the interval"
    risks = ("rollouts are up to twice as many versions old",)
    return ranked(
        Recommendation("sync_interval", Direction.UP, now, proposed, "steps", gain, reason, risks, data_changing=True),
        answer,
        most,
    )


def _in_flight(case: Case, gain: Interval, reason: str, answer: Answer | None = None) -> Ranked:
    now, risks = "off" if case.setpoints.in_flight_update is False else None, ("a rollout may span two versions",)
    return ranked(
        Recommendation("in_flight_update", Direction.ON, now, "on", "", gain, reason, risks, data_changing=True), answer
    )


def _drain(case: Case) -> Iterator[Ranked]:
    """Updates known to wait for the requests in flight, and no log of how long that takes."""
    known = case.get("weight_sync_s") is not None
    if case.serial or known or case.setpoints.in_flight_update is not False or not case.may_wait_for_generator:
        return
    reason = (
        "Before each weight update the engines finish what is in flight, nearly empty towards the end. How long that "
        "takes is not logged; updated in flight, they stay full."
    )
    risks = ("a rollout may span two versions",)
    yield Ranked(
        UNTOLD,
        Recommendation("in_flight_update", Direction.ON, "off", "on", "", None, reason, risks, data_changing=True),
    )


def _overhead(case: Case) -> Iterator[Ranked]:
    share = case.frac("offload_s")
    if share >= WORTH_IT:
        gain = _kept_resident(case, share)
        reason = (
            f"Moving weights and caches between GPU and host takes {share:.0%} of the wall time. "
            "Keep both sides resident if memory allows."
        )
        yield Ranked(
            gain.mean,
            Recommendation(
                "engine_settings", Direction.OFF, "offload on", "offload off", "", gain, reason, ("needs the memory",)
            ),
        )
    if case.verdict is Verdict.OVERHEAD_BOUND and share < WORTH_IT:
        idle = case.get("gpu_idle_in_rollout_frac") or case.frac("overhead_s")
        reason = (
            f"{idle:.0%} of the time no GPU works: start-up, graph capture, loading or logging. "
            "Try eager mode against graphs, keep engines awake between steps, and profile one step."
        )
        yield Ranked(
            idle,
            Recommendation("engine_settings", Direction.SET, None, "keep engines warm", "", None, reason),
        )


def _kept_resident(case: Case, share: float) -> Interval:
    """Both sides stay in memory: U[0.8, 1] of the moving goes, and none to all of the publication that wakes engines.

    One step alone scatters by a tenth, before the change and after it.
    """
    whole = share + case.frac("weight_sync_s")
    step = case.snapshot.signals.get("step_s")
    factor = exp(ONE_STEP) if step is not None and step.n == 1 else 1.0
    low, mean, high = freed(0.82 * share), freed(0.9 * (share + whole) / 2.0), freed(0.98 * whole)
    return Interval((1.0 + low) / factor - 1.0, mean, (1.0 + high) * factor - 1.0)
