"""How far the reading itself can be trusted: few steps, cut records, contradictions, time nobody accounts for."""

from policies.base import Finding, Severity
from policies.diagnosis.budget import NAMES, Budget
from policies.diagnosis.notes import note_spec
from policies.wording import figure
from simulators.plant import Mode, Setpoints, Topology
from simulators.snapshot import Note, Snapshot

FEW_STEPS = 3
"""With fewer steps nothing is left out and confidence stays at most 0.3."""
SHARE_WORTH_A_WORD = 0.1
"""Shares of the wall time above this get a finding."""
IDLE_MISMATCH = 0.1
"""A published idle share this far from the one in raw seconds is wrong."""
OFF_POLICY_VERSIONS = 4.0
"""Mean staleness up to this is safe with a decoupled loss (AReaL's table: 0-4 equal, 8 and more worse)."""


def reading_findings(
    topology: Topology, setpoints: Setpoints, snapshot: Snapshot, budget: Budget | None
) -> list[Finding]:
    """All findings about the data rather than about the job, most basic first."""
    found = [_noted(note) for note in snapshot.notes]
    found += _few(topology, snapshot)
    if topology.mode is Mode.SERIAL:
        found.append(
            Finding(
                "serial-job",
                Severity.INFO,
                "Generation and training take turns",
                "The same GPUs generate, then train: there is no split to move until the two overlap.",
            )
        )
    if budget is not None:
        found += _shares(budget, setpoints)
    found += _idle_mismatch(snapshot) + _flow(snapshot, setpoints)
    return found


def is_few(snapshot: Snapshot) -> bool:
    """True when steps were read, but too few to leave any out."""
    return 0 < sum(row.weight for row in snapshot.rows) < FEW_STEPS


def _noted(note: Note) -> Finding:
    spec = note_spec(note.code)
    return Finding(note.code, spec.severity, spec.title, note.detail, note.evidence)


def _few(topology: Topology, snapshot: Snapshot) -> list[Finding]:
    steps = sum(row.weight for row in snapshot.rows)
    found = []
    if is_few(snapshot):
        detail = f"{steps} step{'s' if steps > 1 else ''} read: start-up and noise are inside every figure."
        found.append(Finding("few-steps", Severity.WARNING, "Few steps", detail, {"steps": steps}))
    scrapes = sum(row.weight for row in snapshot.engine_rows)
    if topology.mode is Mode.ENGINE and scrapes == 1:
        detail = "One scrape shows gauges of a moment and totals since the start. Take two, a minute apart."
        found.append(Finding("single-scrape", Severity.WARNING, "A single scrape", detail, {"scrapes": scrapes}))
    return found


def _shares(budget: Budget, setpoints: Setpoints) -> list[Finding]:
    found = []
    share = budget.frac("validation_s")
    if share >= SHARE_WORTH_A_WORD:
        found.append(_validation(budget, share, setpoints))
    rest = budget.phases[-1]
    if len(budget.phases) > 1 and abs(rest.frac) >= SHARE_WORTH_A_WORD:
        what = (
            "nobody accounts for" if rest.frac > 0 else "the phases claim beyond the step (other windows, or overlap)"
        )
        detail = f"{figure(abs(rest.seconds))} s of {figure(budget.step_s)} s a step ({abs(rest.frac):.0%}) {what}."
        found.append(
            Finding(
                "unaccounted-time", Severity.INFO, "Time not accounted for", detail, {"unaccounted_frac": rest.frac}
            )
        )
    return found


def _validation(budget: Budget, share: float, setpoints: Setpoints) -> Finding:
    seconds = next(p.seconds for p in budget.phases if p.name == NAMES["validation_s"])
    rest = budget.step_s - seconds
    evidence: dict[str, float | str] = {"validation_s": seconds, "phase_validation_frac": share}
    if "validation_s" not in budget.unknown_period:
        detail = f"Evaluation takes {share:.0%} of the wall time, amortised over its period."
        return Finding("validation-share", Severity.WARNING, "Evaluation is a large share", detail, evidence)
    tenth, twentieth = (seconds / n / (rest + seconds / n) for n in (10, 20))
    detail = (
        f"Evaluation takes {figure(seconds)} s of this step ({share:.0%}); how often it runs is not known. "
        f"Every 10th step it would cost {tenth:.0%} of the wall time, every 20th {twentieth:.0%}."
    )
    evidence |= {"every_10th_frac": tenth, "every_20th_frac": twentieth}
    return Finding("validation-share", Severity.WARNING, "Evaluation inside the step", detail, evidence)


def _idle_mismatch(snapshot: Snapshot) -> list[Finding]:
    found = []
    for side in ("trainer", "generator"):
        published, derived = snapshot.get(f"published_{side}_idle_frac"), snapshot.get(f"{side}_idle_frac")
        if published is None or derived is None or abs(published - derived) <= IDLE_MISMATCH:
            continue
        detail = (
            f"The framework prints {published:.0%} idle for the {side}; its own seconds say {derived:.0%}. "
            "The seconds are used."
        )
        evidence = {"published": published, "derived": derived}
        found.append(Finding("idle-mismatch", Severity.WARNING, f"Two idle shares of the {side}", detail, evidence))
    waiting, by_rates = snapshot.get("trainer_idle_frac"), snapshot.get("utilisation_ratio")
    if waiting is not None and by_rates is not None and abs(waiting - (1.0 - by_rates)) > IDLE_MISMATCH:
        detail = f"Seconds say the trainer waits {waiting:.0%}; 1 - lambda/mu says {1.0 - by_rates:.0%}."
        evidence = {"trainer_idle_frac": waiting, "from_rates": 1.0 - by_rates}
        found.append(Finding("idle-mismatch", Severity.INFO, "Seconds and rates disagree", detail, evidence))
    return found


def _flow(snapshot: Snapshot, setpoints: Setpoints) -> list[Finding]:
    found = []
    groups = snapshot.get("filtered_groups")
    if groups:
        detail = f"{figure(groups)} groups a step were dropped for equal rewards and generated again: a generator loss."
        found.append(
            Finding(
                "filtered-groups", Severity.INFO, "Groups are dropped and refilled", detail, {"filtered_groups": groups}
            )
        )
    stale = snapshot.get("staleness_mean")
    bound = setpoints.staleness_bound if setpoints.staleness_bound is not None else OFF_POLICY_VERSIONS
    if stale is not None and stale > bound:
        detail = f"Rollouts are {stale:.1f} versions old on average; {figure(bound)} is the bound."
        found.append(Finding("off-policy", Severity.WARNING, "Rollouts are old", detail, {"staleness_mean": stale}))
    waste = snapshot.get("waste_frac")
    if waste is not None and waste >= SHARE_WORTH_A_WORD:
        detail = f"{waste:.0%} of the dispatched rollouts are never trained."
        found.append(Finding("waste", Severity.WARNING, "Rollouts are thrown away", detail, {"waste_frac": waste}))
    return found
