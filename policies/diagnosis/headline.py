"""The one sentence a tired person reads first."""

from policies.base import Verdict
from policies.diagnosis.budget import NAMES, Budget
from policies.diagnosis.generator import UNNAMED
from policies.diagnosis.reading import is_few
from policies.wording import seconds
from simulators.plant import Mode, Topology
from simulators.snapshot import Snapshot

SAID = {
    Verdict.BAD_DATA: "The data contradicts itself",
    Verdict.POLICY_COLLAPSE: "The model has collapsed and speed does not matter now",
    Verdict.NO_SIGNAL: "Most of the compute teaches nothing",
    Verdict.STRAGGLER_WEDGE: "The job is stuck on a rollout that does not end",
    Verdict.MEMORY_GROWTH: "The rollout buffer grows until its host dies",
    Verdict.GENERATION_BOUND: "Generation is the bottleneck",
    Verdict.TAIL_BOUND: "A few long rollouts hold up every batch",
    Verdict.PREFILL_BOUND: "The engines are busy reading prompts",
    Verdict.KV_BOUND: "The KV pool is the limit",
    Verdict.KV_THRASH: "The engines do work twice",
    Verdict.CONCURRENCY_CAPPED: "Too little is in flight",
    Verdict.CLIENT_BOUND: "Requests do not reach the engines fast enough",
    Verdict.SLOW_ENGINE: "The engines decode far slower than they should",
    Verdict.ENV_BOUND: "Tools and environments are the bottleneck",
    Verdict.SANDBOX_BOUND: "Sandboxes are the bottleneck",
    Verdict.REWARD_BOUND: "Computing rewards is the bottleneck",
    Verdict.TRAINER_BOUND: "Training is the bottleneck",
    Verdict.WEIGHT_SYNC_BOUND: "Publishing weights is the bottleneck",
    Verdict.STALENESS_WASTE: "Rollouts grow too old and are thrown away",
    Verdict.VALIDATION_BOUND: "Evaluation is the bottleneck",
    Verdict.CHECKPOINT_BOUND: "Checkpoints are the bottleneck",
    Verdict.OVERHEAD_BOUND: "Overhead, not work, fills the step",
    Verdict.BALANCED: "Generator and trainer are in balance",
    Verdict.CANNOT_TELL: "This data cannot tell who waits for whom",
}
"""Each verdict as the start of a sentence that its reason ends."""


VOID = frozenset({Verdict.BAD_DATA, Verdict.POLICY_COLLAPSE, Verdict.NO_SIGNAL})
"""Verdicts under which the seconds of a step are beside the point."""


def headline(verdict: Verdict, reason: str, topology: Topology, snapshot: Snapshot, budget: Budget | None) -> str:
    """Verdict in words and its reason after one colon, its main numbers, and how little it rests on, where it does."""
    said = f"{SAID[verdict]}: {_because(verdict, reason, topology, snapshot, budget)}"
    steps = sum(row.weight for row in snapshot.rows)
    if is_few(snapshot):
        said += f"; only {steps} step{'s' if steps > 1 else ''} read"
    return said + "."


def _because(verdict: Verdict, reason: str, topology: Topology, snapshot: Snapshot, budget: Budget | None) -> str:
    """The reason with the shares of the step; where it is a bare fallback, the shares come first."""
    if budget is None or verdict in VOID:
        return reason
    own = {Verdict.TRAINER_BOUND: "trainer_busy_s", Verdict.GENERATION_BOUND: "rollout_s"}.get(verdict)
    if topology.mode is not Mode.OVERLAPPED and own is not None and budget.frac(own) > 0.0:
        return _share_of_step(own, budget) + ("" if own == "trainer_busy_s" else f"; {reason}")
    idle = snapshot.get("trainer_idle_frac") if topology.mode is Mode.OVERLAPPED else None
    if idle is not None and reason == UNNAMED:
        return f"the trainer waits {idle:.0%} of each {seconds(budget.step_s)} step; {reason}"
    shares = [f"the trainer waits {idle:.0%}"] if idle is not None else []
    if verdict is Verdict.CANNOT_TELL and "(" in reason:
        return reason
    if topology.mode is not Mode.OVERLAPPED and verdict is not Verdict.CANNOT_TELL:
        shares = [f"{NAMES[n]} {budget.frac(n):.0%}" for n in ("rollout_s", "trainer_busy_s") if budget.frac(n)]
    return f"{reason} ({', '.join([f'step {seconds(budget.step_s)}', *shares])})"


def _share_of_step(own: str, budget: Budget) -> str:
    """`54% of each 261 s step, training 37%`; a phase of unknown period is left out, and said."""
    other = "rollout_s" if own == "trainer_busy_s" else "trainer_busy_s"
    rare = sum(budget.frac(name) for name in budget.unknown_period)
    kept = 1.0 - rare
    if kept <= 0.0:
        return f"{budget.frac(own):.0%} of each {seconds(budget.step_s)} step"
    beside = f", {NAMES[other]} {budget.frac(other) / kept:.0%}" if budget.frac(other) else ""
    told = f"{budget.frac(own) / kept:.0%} of each {seconds(budget.step_s * kept)} step{beside}"
    if rare <= 0.0:
        return told
    names = " and ".join(NAMES[name] for name in sorted(budget.unknown_period, reverse=True))
    return f"{told} (without {names}, {seconds(budget.step_s * rare)} here)"
