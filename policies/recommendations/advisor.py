"""The whole answer: diagnosis, ranked changes, warnings, gaps. One pure function over what is known of a job."""

from collections.abc import Iterator
from dataclasses import replace

from policies.allocation import split_curve
from policies.base import Advice, Direction, Recommendation, SplitCurve, Verdict
from policies.diagnosis import diagnose
from policies.diagnosis.budget import wall_time_budget
from policies.diagnosis.learning import RUNAWAY_TRUNCATION, TRUNCATION
from policies.estimators import estimate
from policies.prospects import Prospects, prospects_of
from policies.recommendations.case import GAIN_MAX, Case, Ranked
from policies.recommendations.curriculum import curriculum
from policies.recommendations.engines import engines
from policies.recommendations.environment import environment
from policies.recommendations.periodic import periodic
from policies.recommendations.sides import sides
from policies.recommendations.simulating import AtHand, simulated
from policies.recommendations.staleness import staleness
from policies.recommendations.warnings import VOID, do_not, missing
from policies.recommendations.waste import waste
from simulators.plant import Bounds, Mode, Setpoints, Topology
from simulators.snapshot import Snapshot


def advise(
    topology: Topology,
    setpoints: Setpoints,
    snapshot: Snapshot,
    bounds: Bounds | None = None,
    engine_at_hand: AtHand | None = None,
) -> Advice:
    """Advice on one snapshot. Estimates what follows from it first, so a raw snapshot is enough. Pure and total.

    With `engine_at_hand` gains are checked by the event engine where the queueing model is weak.
    """
    limits = bounds or Bounds()
    known = estimate(topology, setpoints, snapshot)
    diagnosis = diagnose(topology, setpoints, known)
    budget = wall_time_budget(topology.mode, setpoints, known)
    prospects = Prospects(None) if diagnosis.verdict in VOID else prospects_of(topology, setpoints, known)
    case = Case(topology, setpoints, known, limits, diagnosis, budget, prospects)
    curve = split_curve(topology, setpoints, known, limits, prospects) if case.verdict not in VOID else None
    ranked = sorted(filter(_gives_something, _candidates(case, curve)), key=lambda r: -r.expected)
    warnings = do_not(case)
    warned = {(d.knob, d.direction) for d in warnings}
    allowed = [r for r in ranked if (r.recommendation.knob, r.recommendation.direction) not in warned]
    chosen, unchecked = simulated(case, _one_per_knob(allowed), engine_at_hand)
    return Advice(
        diagnosis=replace(diagnosis, findings=(*diagnosis.findings, *unchecked)),
        recommendations=(*(r.recommendation for r in chosen), *_log(case)),
        do_not=warnings,
        missing=missing(case),
        split_curve=curve,
    )


def _gives_something(ranked: Ranked) -> bool:
    """False where the change acts on a share of the time that is nil, or of which nothing is known."""
    gain = ranked.recommendation.gain_frac
    return gain is None or gain.high > 0.0


def _candidates(case: Case, curve: SplitCurve | None) -> Iterator[Ranked]:
    """Every rule that applies; under a verdict that voids speed only what mends the learning."""
    if case.verdict in VOID:
        yield from _mend_learning(case)
        return
    if case.verdict is Verdict.BALANCED:
        yield from curriculum(case)
        yield from periodic(case)
        return
    yield from engines(case)
    if case.topology.mode is not Mode.ENGINE:
        yield from curriculum(case)
        yield from waste(case)
        yield from staleness(case)
        yield from environment(case)
        yield from periodic(case)
        yield from sides(case, curve)


FIRST = 2.0 * GAIN_MAX
"""Of an expected gain before all others: where no answer ends, no choice of tasks teaches."""


def _mend_learning(case: Case) -> Iterator[Ranked]:
    yield from curriculum(case)
    cut = case.get("truncated_frac_last") or case.get("truncated_frac") or 0.0
    if cut >= TRUNCATION:
        longest = max(case.snapshot.series("resp_len_max"), default=case.get("resp_len_max"))
        cap = case.topology.max_response_tokens or longest
        reason = (
            f"{cut:.0%} of the rollouts end at the cap: raise it, or shorten the answers the reward asks for. Half an "
            "answer earns no reward, whatever the speed."
        )
        none_ends = cut >= RUNAWAY_TRUNCATION
        yield Ranked(
            FIRST if none_ends else cut,
            Recommendation(
                "engine_settings",
                Direction.UP,
                cap,
                2.0 * cap if cap else None,
                "response tokens",
                None,
                reason,
                ("longer rollouts cost generation",),
                data_changing=True,
            ),
        )
    if case.verdict is Verdict.POLICY_COLLAPSE:
        reason = (
            "Go back to a checkpoint from before the collapse and log entropy, KL and clip fraction each step, so that "
            "the next run stops where it starts."
        )
        yield Ranked(0.1, Recommendation("logging", Direction.ON, None, "entropy, kl, clip fraction", "", None, reason))


def _one_per_knob(chosen: list[Ranked]) -> tuple[Ranked, ...]:
    """The best of each knob, in rank order: two opinions on one knob are one too many."""
    seen: dict[str, Ranked] = {}
    for item in chosen:
        seen.setdefault(item.recommendation.knob, item)
    return tuple(seen.values())


def _log(case: Case) -> tuple[Recommendation, ...]:
    """No verdict: log what would give one, after what is worth doing anyway."""
    gaps = missing(case)
    if case.verdict is not Verdict.CANNOT_TELL or not gaps:
        return ()
    names = ", ".join(m.signal for m in gaps[:3])
    reason = f"This would answer the question. {' '.join(dict.fromkeys(m.how_to_get_it for m in gaps[:3]))}"
    return (Recommendation("logging", Direction.ON, None, names, "", None, reason),)
