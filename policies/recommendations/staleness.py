"""How far the generator may run ahead: the least staleness that gives most of what more would give."""

from collections.abc import Iterator

from policies.base import Direction, Interval, Recommendation, Verdict
from policies.diagnosis.waiting import BALANCED_IDLE, BUSY_GENERATOR_IDLE
from policies.recommendations.case import GAIN_MIN, Case, Ranked, at_most, freed, ranked
from simulators.calibration import Answer

LOSS_WORTH_IT = 0.01
"""Fewer rollouts lost to age than this change nothing."""
FRESH_BOUND = 1.0
"""A staleness bound under this keeps the generator from running ahead a single batch."""
STEPS = (0.25, 0.5, 1.0)
"""How much further ahead is looked at, in versions."""
MOST = 0.8
"""Share of the largest of these gains that is enough: every version costs freshness."""


def staleness(case: Case) -> Iterator[Ranked]:
    bound, dropped = case.setpoints.staleness_bound, case.get("dropped_stale")
    if case.serial or (bound is None and not dropped) or not _worth_a_look(case, bound):
        return
    if (lost := _share_lost(case, dropped or 0.0)) >= LOSS_WORTH_IT:
        told = "Rollouts are dropped as too old; a wider bound, or fewer in flight, keeps them."
        further = None if bound is None else bound + STEPS[-1]
        yield _recommended(bound, further, at_most(min(freed(lost), freed(case.generator_frac))), told)
        return
    if bound is None:
        return
    told = f"The generator may run only {bound:.3g} batches ahead, so it stops at every update and the trainer waits."
    modelled = least_enough(case, bound)
    if modelled is not None and modelled[1].mean >= GAIN_MIN:
        yield _recommended(bound, *modelled, told, case.prospects.answer(staleness_bound=modelled[0]))
    elif case.prospects.calibration is None:
        yield _recommended(bound, bound + 0.5, at_most(freed(case.generator_frac)), told)


def _share_lost(case: Case, dropped: float) -> float:
    """Share of the rollouts that are dropped as too old; all, at most, where nobody says how many there are."""
    whole = case.get("dispatched") or dropped + (case.get("batch_rollouts") or case.setpoints.batch_rollouts or 0.0)
    return min(1.0, dropped / whole) if whole > 0.0 else 0.0


def least_enough(case: Case, bound: float) -> tuple[float, Interval] | None:
    """The smallest step with most of the gain of the largest; None where no step gains."""
    gains = [(bound + step, case.prospects.gain(staleness_bound=bound + step)) for step in STEPS]
    known = [(further, gain) for further, gain in gains if gain is not None]
    best = max((gain.mean for _, gain in known), default=0.0)
    if best <= 0.0:
        return None
    return next((further, gain) for further, gain in known if gain.mean >= MOST * best)


def _worth_a_look(case: Case, bound: float | None) -> bool:
    """Something waits, and the bound may be why."""
    if not case.generator_side and (case.get("trainer_idle_frac") or 0.0) < BALANCED_IDLE:
        return False
    if bound is not None and bound >= FRESH_BOUND and case.verdict is not Verdict.STALENESS_WASTE:
        return False
    gated = case.get("generator_idle_frac")
    return bool(case.get("dropped_stale")) or gated is None or gated > BUSY_GENERATOR_IDLE


def _recommended(
    bound: float | None, further: float | None, gain: Interval, reason: str, answer: Answer | None = None
) -> Ranked:
    risks = ("older samples: keep an eye on clip fraction and KL",)
    return ranked(
        Recommendation(
            "staleness_bound", Direction.UP, bound, further, "versions", gain, reason, risks, data_changing=True
        ),
        answer,
    )
