"""The one sentence a tired person reads first."""

from policies.base import Verdict
from policies.diagnosis.budget import Budget
from policies.diagnosis.reading import is_few
from simulators.plant import Mode, Topology
from simulators.snapshot import Snapshot

SAID = {
    Verdict.BAD_DATA: "The data contradicts itself",
    Verdict.POLICY_COLLAPSE: "The model has collapsed; speed does not matter now",
    Verdict.NO_SIGNAL: "Most of the compute teaches nothing",
    Verdict.STRAGGLER_WEDGE: "The job is stuck on a rollout that does not end",
    Verdict.MEMORY_GROWTH: "The rollout buffer grows until its host dies",
    Verdict.GENERATION_BOUND: "Generation is the bottleneck",
    Verdict.TAIL_BOUND: "A few long rollouts hold up every batch",
    Verdict.PREFILL_BOUND: "The engines are busy reading prompts",
    Verdict.KV_BOUND: "The KV pool is full",
    Verdict.KV_THRASH: "The KV pool is full and work is done twice",
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


def headline(verdict: Verdict, reason: str, topology: Topology, snapshot: Snapshot, budget: Budget | None) -> str:
    """Verdict in words, its main numbers, its reason; and how little it rests on, where it does."""
    numbers = _numbers(topology, snapshot, budget)
    said = f"{SAID[verdict]}: {reason}"
    if numbers:
        said += f" ({numbers})"
    steps = sum(row.weight for row in snapshot.rows)
    if is_few(snapshot):
        said += f"; only {steps} step{'s' if steps > 1 else ''} read"
    return said + "."


def _numbers(topology: Topology, snapshot: Snapshot, budget: Budget | None) -> str:
    if budget is None:
        return ""
    if topology.mode is Mode.OVERLAPPED:
        idle = snapshot.get("trainer_idle_frac")
        waits = f", the trainer waits {idle:.0%}" if idle is not None else ""
        return f"step {budget.step_s:.4g} s{waits}"
    gen, train = budget.frac("rollout_s"), budget.frac("trainer_busy_s")
    parts = [f"generation {gen:.0%}" if gen else "", f"training {train:.0%}" if train else ""]
    return ", ".join([f"step {budget.step_s:.4g} s", *(p for p in parts if p)])
