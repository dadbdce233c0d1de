"""The first gains checked by the event engine, where the queueing model behind them should not decide alone."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from policies.base import Finding, Recommendation, Severity
from policies.prospects import interval
from policies.recommendations.case import GAIN_MIN, Case, Ranked, below
from simulators.calibration import Answer, Draw
from simulators.calibration.checking import Checked, checked

FIRST = 3
"""Recommendations that are checked: those a reader acts on."""
MOST_TURNS = 600_000
"""Simulated turns of one check: a fifth of a second."""
COMPILE = "`make warm` compiles the simulator once; from then on gains like this are checked."
TOO_LARGE = "The job is too large to simulate in passing, or stands still in the simulation."

AtHand = Callable[[], bool]
"""Whether the event engine answers at once: asked only where it is needed, since it takes a second to load."""


def simulated(case: Case, ordered: Sequence[Ranked], at_hand: AtHand | None) -> tuple[list[Ranked], list[Finding]]:
    """The candidates, best first again, and a word on those that were not checked. Without an engine nothing changes.

    A gain that simulation takes away goes with its recommendation.
    """
    calibration = case.prospects.calibration
    weak = [place for place, r in enumerate(ordered[:FIRST]) if r.answer is not None and r.answer.weak]
    if at_hand is None or calibration is None or not weak:
        return list(ordered), []
    if not at_hand():
        return list(ordered), [_unchecked([ordered[place] for place in weak], COMPILE)]
    asked = {place: _asked(ordered[place], calibration.draws) for place in weak}
    silent = [ordered[place] for place, found in asked.items() if found is None]
    kept = [asked.get(place) or r for place, r in enumerate(ordered)]
    kept = [r for r in kept if r not in asked.values() or r.expected >= GAIN_MIN]
    return sorted(kept, key=lambda r: -r.expected), [_unchecked(silent, TOO_LARGE)] if silent else []


def _asked(candidate: Ranked, draws: Sequence[Draw]) -> Ranked | None:
    """The candidate with its gain corrected; None where simulation says nothing."""
    if candidate.answer is None or (found := checked(candidate.answer, draws, MOST_TURNS)) is None:
        return None
    gain = below(candidate.most, interval(found.corrects(candidate.answer.gain)))
    reason = f"{candidate.recommendation.reason} {_told(candidate.answer, found)}"
    advised = replace(candidate.recommendation, gain_frac=gain, reason=reason)
    return replace(candidate, expected=gain.mean, recommendation=advised)


def _told(answer: Answer, found: Checked) -> str:
    return (
        f"Simulated, because {answer.weak[0]}: {found.simulated_gain:+.0%}, where the queueing model says "
        f"{found.analytic_gain:+.0%}; the gain is corrected for it."
    )


def _unchecked(candidates: Sequence[Ranked], remedy: str) -> Finding:
    told = "; ".join(f"{_named(r.recommendation)}: {r.answer.weak[0]}" for r in candidates if r.answer is not None)
    detail = f"The queueing model should not decide alone ({told}), so the interval is wider. {remedy}"
    return Finding("gain-unchecked", Severity.INFO, "A gain is not checked by simulation", detail)


def _named(advised: Recommendation) -> str:
    return f"{advised.knob} {advised.direction}"
