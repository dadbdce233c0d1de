"""How a job changed over the window: last third against first third, beyond the noise of both."""

from statistics import mean, stdev

from policies.base import Finding, Severity
from simulators.snapshot import Snapshot

WATCHED = {
    "step_s": "step time",
    "resp_len_mean": "response length",
    "prompt_len_mean": "prompt length",
    "turns_mean": "turns",
    "tool_calls_mean": "tool calls",
    "rollout_latency_s": "rollout latency",
    "non_generation_mean_s": "tool time",
    "reward_latency_s": "time with the judge",
    "zero_adv_frac": "share of groups without advantage",
    "truncated_frac": "share of truncated rollouts",
    "gen_tokens_per_s": "generation rate",
    "gen_samples_per_s": "accepted rollouts per second",
}
"""Signals whose drift moves the balance."""
DRIFT_MIN = 0.1
"""Smaller changes are not worth a sentence."""
STEPS_MIN = 6
"""Fewer steps have no thirds to compare."""
BEYOND_NOISE = 2.0
"""Standard errors of the difference that a change must exceed."""


def drift_findings(snapshot: Snapshot) -> list[Finding]:
    """One finding for each watched signal that moved."""
    return [f for name in WATCHED if (f := _drift(snapshot, name)) is not None]


def change_over_window(series: list[float]) -> tuple[float, float] | None:
    """(mean of the first third, mean of the last third) where they differ beyond their noise; else None."""
    if len(series) < STEPS_MIN:
        return None
    third = len(series) // 3
    early, late = series[:third], series[-third:]
    before, after = mean(early), mean(late)
    noise = ((stdev(early) ** 2 + stdev(late) ** 2) / third) ** 0.5
    if abs(after - before) <= max(BEYOND_NOISE * noise, DRIFT_MIN * abs(before)):
        return None
    return before, after


def _drift(snapshot: Snapshot, name: str) -> Finding | None:
    moved = change_over_window(snapshot.series(name))
    if moved is None:
        return None
    before, after = moved
    times = f" ({after / before:.2g}x)" if before > 0 and after >= 0 else ""
    detail = f"From {before:.4g} to {after:.4g}{times} within the window."
    evidence: dict[str, float | str] = {"signal": name, "before": before, "after": after}
    return Finding("drift", Severity.INFO, f"The {WATCHED[name]} drifts", detail, evidence)
