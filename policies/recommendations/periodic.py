"""What comes every so often and need not: evaluation, checkpoints, weight publications, offloading."""

from collections.abc import Iterator

from policies.base import Direction, Recommendation, Verdict
from policies.recommendations.case import UNTOLD, Case, Ranked, at_most, freed, saved_by_doubling

WORTH_IT = 0.03
"""Phases under this share of the wall time are left alone."""


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
    if share < WORTH_IT:
        yield from _drain(case)
        return
    now = case.setpoints.sync_interval
    gain = saved_by_doubling(share)
    reason = f"Publishing weights takes {share:.0%} of the wall time; half as often gives half of that back."
    yield Ranked(
        gain.mean,
        Recommendation(
            "sync_interval",
            Direction.UP,
            now,
            2 * now if now else "twice the interval",
            "steps",
            gain,
            reason,
            ("rollouts are up to twice as many versions old",),
            data_changing=True,
        ),
    )
    if case.setpoints.in_flight_update or case.serial:
        return
    bound = at_most(freed(share))
    reason = f"Updating weights while requests stay in flight hides at most the {share:.0%} that publishing takes now."
    yield Ranked(
        bound.mean,
        Recommendation(
            "in_flight_update",
            Direction.ON,
            "off" if case.setpoints.in_flight_update is False else None,
            "on",
            "",
            bound,
            reason,
            ("a rollout may span two versions",),
            data_changing=True,
        ),
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
        gain = at_most(freed(share))
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
