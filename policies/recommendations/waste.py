"""What to change about rollouts that are started and not trained, and about those that a batch waits for."""

from collections.abc import Iterator
from dataclasses import dataclass

from policies.base import Direction, Interval, Recommendation
from policies.diagnosis.generator import refills
from policies.prospects import gain_of
from policies.recommendations.case import Case, Ranked, at_most, freed, ranked, scaled
from policies.recommendations.curriculum import useful_frac
from policies.wording import figure

WASTE_WORTH_IT = 0.1
"""Less waste than this is the price of any oversampling."""
LONG_TAIL = 2.0
"""A slowest rollout of this many means holds the batch up."""
LONG_LENGTHS = 2.5
"""Responses whose longest is this many means have a tail worth cutting."""


def waste(case: Case) -> Iterator[Ranked]:
    """Dispatch fewer, carry over, stop early."""
    if not (case.generator_side or case.serial):
        return
    lost = _lost(case)
    if lost is not None:
        yield _fewer(case, lost)
        if not case.setpoints.partial_rollout:
            yield _carried(case, lost)
        yield _pruned(lost)
    yield from _refill(case)
    yield from _tail(case)


@dataclass(frozen=True, slots=True)
class Lost:
    """Rollouts that are started and never trained, beyond what the advantage filter explains."""

    frac: float
    ratio: float
    """Dispatched over needed, today."""
    gain: Interval
    """Of losing none, up to the trainer's own rate."""


def _lost(case: Case) -> Lost | None:
    waste = case.get("waste_frac")
    if waste is None or waste >= 1.0:
        return None
    useful = useful_frac(case)
    filtered = min(0.99, 1.0 - useful) if useful is not None else 0.0
    beyond = 1.0 - (1.0 - waste) / (1.0 - filtered)
    if beyond < WASTE_WORTH_IT:
        return None
    ratio = case.setpoints.oversampling_ratio or 1.0 / (1.0 - waste)
    return Lost(beyond, ratio, at_most(min(freed(beyond), freed(case.generator_frac))))


def _fewer(case: Case, lost: Lost) -> Ranked:
    room = freed(case.generator_frac)
    reason = (
        f"{lost.frac:.0%} of the dispatched rollouts are thrown away for other reasons than equal rewards. Kept "
        f"instead, they would raise the effective rate up to the trainer's own ({room:+.0%})."
    )
    proposed = 1.0 + (lost.ratio - 1.0) / 2.0
    answer = case.prospects.answer(oversampling_ratio=proposed) if case.setpoints.oversampling_ratio else None
    gain = gain_of(answer) or lost.gain
    return ranked(
        Recommendation(
            "oversampling_ratio",
            Direction.DOWN,
            round(lost.ratio, 2),
            round(proposed, 2),
            "dispatched/needed",
            gain,
            reason,
            ("the slowest rollouts hold batches up longer",),
            data_changing=True,
        ),
        answer,
    )


def _carried(case: Case, lost: Lost) -> Ranked:
    """By the calibrated model where rounds are oversampled beside a training; in turn it has no station for the rest
    of a round that stands still meanwhile, and without a stated ratio the loss has other causes.
    """
    modelled = bool(case.setpoints.oversampling_ratio) and not case.serial
    answer = case.prospects.answer(partial_rollout=True) if modelled else None
    gain = gain_of(answer) or scaled(0.8, lost.gain)
    reason = "Aborted rollouts that resume later keep their tokens instead of starting again."
    risks = ("a resumed rollout spans versions; its tools must survive",)
    return ranked(
        Recommendation("partial_rollout", Direction.ON, None, "on", "", gain, reason, risks, data_changing=True), answer
    )


def _pruned(lost: Lost) -> Ranked:
    reason = (
        "The tail of a group decides when it enters the queue, and most of what is thrown away is tail. Stopping it "
        "early saves its tokens; how many needs the length distribution (p50, p99) to tell."
    )
    risks = ("long answers are pruned first: watch kept over attempted length",)
    what = "stop hopeless rollouts early"
    advised = Recommendation("pruning", Direction.ON, None, what, "", None, reason, risks, data_changing=True)
    return Ranked(0.7 * lost.gain.mean, advised)


def _refill(case: Case) -> Iterator[Ranked]:
    """Groups filtered in the middle of a batch are generated again, one wave after the other."""
    groups = case.get("filtered_groups")
    if not groups:
        return
    now = case.setpoints.oversampling_ratio
    reason = (
        f"{figure(groups)} groups a step are dropped for equal rewards and refilled in another wave while the engines "
        "are nearly empty. Dispatching more at once fills the batch in one wave."
    )
    yield Ranked(
        0.3,
        Recommendation(
            "oversampling_ratio",
            Direction.UP,
            now,
            round(now * 1.5, 2) if now else 1.5,
            "dispatched/needed",
            None,
            reason,
            ("surplus groups are thrown away or grow older",),
            data_changing=True,
        ),
    )


def _tail(case: Case) -> Iterator[Ranked]:
    """A batch that waits for its longest: carry that one over, or start more than needed and drop the last.

    By the measured tail: the model would need the lengths of single rollouts, which such a log does not hold.
    """
    slowest, lengths = case.get("slowest_over_mean"), case.get("response_max_over_mean")
    ratio, seen = (slowest, True) if slowest is not None else (lengths, False)
    threshold = LONG_TAIL if seen else LONG_LENGTHS
    if ratio is None or ratio < threshold or refills(case.setpoints, case.snapshot):
        return
    share = case.frac("rollout_s") if case.serial else case.generator_frac
    bound = freed(share * (1.0 - 1.0 / ratio) * (1.0 if seen else 0.5))
    what = "slowest rollout takes" if seen else "longest response is"
    reason = f"The {what} {ratio:.1f}x the mean: the engines run nearly empty while the batch waits for it."
    carried = not case.setpoints.partial_rollout
    if carried:
        told, risks = f"{reason} Carry it into the next batch.", ("a resumed rollout spans versions",)
        yield ranked(
            Recommendation(
                "partial_rollout", Direction.ON, None, "on", "", at_most(bound), told, risks, data_changing=True
            )
        )
    told = f"{'' if carried else f'{reason} '}Start a few rollouts more than a batch needs and drop the last."
    risks = ("biased to short answers: watch kept over attempted length",)
    gain, what = at_most(0.8 * bound), "drop the slowest of each batch"
    yield ranked(Recommendation("pruning", Direction.ON, None, what, "", gain, told, risks, data_changing=True))
