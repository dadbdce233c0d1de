"""One verdict from all candidates: what voids everything, what stands still, else the largest recoverable share."""

from dataclasses import dataclass, replace

from policies.base import Cause, Diagnosis, Finding, Rates, Severity, Verdict
from policies.diagnosis.budget import Budget, wall_time_budget
from policies.diagnosis.engine import engine_findings, engine_state
from policies.diagnosis.generator import BUSY_CLIENT_PER_S, generator_cause
from policies.diagnosis.headline import headline
from policies.diagnosis.learning import learning_health
from policies.diagnosis.reading import FEW_STEPS, is_few, reading_findings
from policies.diagnosis.waiting import BALANCED_IDLE, ERROR_FLOOR, causes_of
from policies.drift import drift_findings
from simulators.plant import Mode, Setpoints, Topology
from simulators.snapshot import Snapshot

CONTRADICTION = 2.0
"""Two sides that overlap claim at most twice the step; phases that claim more are not of that step."""
MEMORY_NEAR = 0.8
"""From this share of its limit a growing host memory is a question of when."""
QUEUE_BATCHES = 4.0
"""A buffer of more batches than this, still growing and without a cap, is memory growth."""
FEW_CONFIDENCE = 0.3
"""The most that fewer than three steps can carry."""
SINGLE_LOOK_CONFIDENCE = 0.6
"""The most that averages without steps, or one scrape, can carry."""
ORDER = (Severity.CRITICAL, Severity.WARNING, Severity.INFO)
"""Findings, worst first."""
FIRST = (
    "interleaved-writers",
    "zero-advantage",
    "truncation",
    "preemptions",
    "kv-forecast",
    "waste",
    "validation-share",
)
"""Findings that change what a reader does, told before others of their severity."""
LAST = ("serial-job", "few-steps", "unknown-columns", "impossible-value", "step-restart", "truncated-record")
"""Findings that a reader can do without, told after others of their severity."""


@dataclass(frozen=True, slots=True)
class _Choice:
    verdict: Verdict
    confidence: float
    reason: str
    causes: tuple[Cause, ...] = ()


def diagnose(topology: Topology, setpoints: Setpoints, snapshot: Snapshot) -> Diagnosis:
    """The diagnosis of an *estimated* snapshot (policies.estimators.estimate): pure, total, never without a reason."""
    budget = wall_time_budget(topology.mode, setpoints, snapshot)
    health = learning_health(snapshot)
    choice = _choose(topology, setpoints, snapshot, budget, health.void)
    findings = [
        *health.findings,
        *reading_findings(topology, setpoints, snapshot, budget),
        *engine_findings(snapshot),
        *drift_findings(snapshot),
    ]
    rates = _rates(snapshot)
    confidence = round(_capped(topology, snapshot, choice.confidence), 2)
    return Diagnosis(
        verdict=choice.verdict,
        confidence=confidence,
        headline=headline(choice.verdict, choice.reason, topology, snapshot, budget),
        findings=_ranked(findings),
        rates=rates,
        budget=budget.phases if budget else (),
        causes=choice.causes,
    )


def _choose(
    topology: Topology, setpoints: Setpoints, snapshot: Snapshot, budget: Budget | None, void: Cause | None
) -> _Choice:
    if void is not None:
        return _Choice(void.verdict, 0.8, void.reason, (void,))
    claimed = 1.0 - budget.phases[-1].frac if budget is not None else 0.0
    if claimed > CONTRADICTION:
        reason = f"the phases of a step claim {claimed:.3g} times its own wall time"
        return _Choice(Verdict.BAD_DATA, 0.7, reason)
    still = _stands_still(snapshot)
    if still is not None:
        return _Choice(still.verdict, 0.8, still.reason, (still,))
    if topology.mode is Mode.ENGINE:
        return _engine_only(setpoints, snapshot)
    if budget is None:
        return _without_step_time(topology, setpoints, snapshot)
    causes = causes_of(topology, setpoints, snapshot, budget)
    if not causes:
        return _Choice(Verdict.CANNOT_TELL, 0.3, "it holds step times but not what fills them, neither waits nor work")
    choice = _largest(topology, snapshot, causes)
    inside = generator_cause(setpoints, snapshot)
    if choice.verdict is not inside.verdict or inside.verdict is Verdict.GENERATION_BOUND:
        return choice
    return replace(choice, confidence=min(choice.confidence, inside.confidence))  # no surer than what names it


def _largest(topology: Topology, snapshot: Snapshot, causes: list[Cause]) -> _Choice:
    """The largest recoverable share, if it leads the next by more than what is not known of the two."""
    best = causes[0]
    idle = snapshot.get("trainer_idle_frac"), snapshot.get("generator_idle_frac")
    both = all(share is not None and share <= BALANCED_IDLE for share in idle)
    others = max((c.recoverable_frac for c in causes if c.verdict is not Verdict.TRAINER_BOUND), default=0.0)
    if topology.mode is Mode.OVERLAPPED and both and others <= BALANCED_IDLE:
        return _Choice(Verdict.BALANCED, 0.7, "both sides are idle under 10% of the time", tuple(causes))
    second = causes[1] if len(causes) > 1 else None
    lead = best.recoverable_frac - (second.recoverable_frac if second else 0.0)
    error = max(best.error_frac, second.error_frac if second else ERROR_FLOOR)
    confidence = lead / (lead + error) if lead > 0 else 0.0
    if second is not None and lead <= error:
        reason = (
            f"{best.verdict} ({best.recoverable_frac:.0%}) leads {second.verdict} ({second.recoverable_frac:.0%}) "
            f"by less than the error of {error:.0%}"
        )
        return _Choice(Verdict.CANNOT_TELL, 0.3, reason, tuple(causes))
    return _Choice(best.verdict, confidence, best.reason, tuple(causes))


def _stands_still(snapshot: Snapshot) -> Cause | None:
    """A job that waits for one rollout for ever, or that fills its host until it is killed."""
    silent, usual = snapshot.get("since_completion_s"), snapshot.get("rollout_p99_s")
    if silent is not None and usual is not None and silent > usual:
        reason = f"no rollout has finished for {silent:.0f} s; the p99 rollout takes {usual:.0f} s"
        return Cause(Verdict.STRAGGLER_WEDGE, 1.0, 0.0, reason)
    held, limit = snapshot.get("host_memory_bytes"), snapshot.get("host_memory_limit_bytes")
    if held is not None and limit and held >= MEMORY_NEAR * limit:
        reason = f"the buffer's process holds {held / 2**30:.0f} of {limit / 2**30:.0f} GiB"
        return Cause(Verdict.MEMORY_GROWTH, 1.0, 0.0, reason)
    depth, batch, room = (snapshot.get(n) for n in ("queue_depth", "batch_rollouts", "queue_capacity"))
    series = snapshot.series("queue_depth")
    growing = len(series) >= FEW_STEPS and series[-1] == max(series) and series[-1] > 2.0 * series[0]
    if depth is not None and batch and room is None and growing and series[-1] > QUEUE_BATCHES * batch:
        reason = f"the buffer grew to {series[-1]:.0f} rollouts, {series[-1] / batch:.0f} batches, and has no cap"
        return Cause(Verdict.MEMORY_GROWTH, 1.0, 0.0, reason)
    return None


def _engine_only(setpoints: Setpoints, snapshot: Snapshot) -> _Choice:
    state = engine_state(snapshot, setpoints)
    if state.verdict is None:
        return _Choice(Verdict.CANNOT_TELL, 0.3, state.reason)
    cause = Cause(state.verdict, 1.0, 1.0 - state.confidence, state.reason)
    return _Choice(state.verdict, state.confidence, state.reason, (cause,))


def _without_step_time(topology: Topology, setpoints: Setpoints, snapshot: Snapshot) -> _Choice:
    """No step time: rates may still say who waits; a generation record alone says why generation takes its time."""
    idle, gated = snapshot.get("trainer_idle_frac"), snapshot.get("generator_idle_frac")
    inside = generator_cause(setpoints, snapshot)
    if idle is not None and idle > BALANCED_IDLE and (gated is None or gated < idle):
        cause = Cause(inside.verdict, idle, 0.1, inside.reason)
        return _Choice(inside.verdict, 0.5, f"the trainer idles {idle:.0%} of the time; {inside.reason}", (cause,))
    batch, wall = snapshot.get("batch_rollouts"), snapshot.get("rollout_s")
    if inside.verdict is Verdict.GENERATION_BOUND and batch and wall and batch / wall >= BUSY_CLIENT_PER_S:
        rate = f"at {batch / wall:.0f} rollouts/s"
        reason = f"{rate} full engines and a slow client look the same without the engines' figures"
        return _Choice(Verdict.CANNOT_TELL, 0.3, reason)
    if wall is not None or inside.verdict is not Verdict.GENERATION_BOUND:
        cause = Cause(inside.verdict, inside.share_frac, 0.5, inside.reason)
        return _Choice(
            inside.verdict, 0.3 * inside.confidence / 0.6, f"only generation is on record; {inside.reason}", (cause,)
        )
    what = "an overlapped job" if topology.mode is Mode.OVERLAPPED else "this job"
    return _Choice(Verdict.CANNOT_TELL, 0.2, f"neither the step time of {what} nor its phases are in the data")


def _capped(topology: Topology, snapshot: Snapshot, confidence: float) -> float:
    if is_few(snapshot):
        return min(confidence, FEW_CONFIDENCE)
    scrapes = sum(row.weight for row in snapshot.engine_rows)
    if not snapshot.rows and (topology.mode is not Mode.ENGINE or scrapes <= 1):
        return min(confidence, SINGLE_LOOK_CONFIDENCE)
    return min(confidence, 0.95)


def _rates(snapshot: Snapshot) -> Rates:
    dispatched, step = snapshot.get("dispatched"), snapshot.get("step_s")
    flight, latency = snapshot.get("inflight_rollouts"), snapshot.get("rollout_latency_s")
    started = dispatched / step if dispatched is not None and step else None
    if started is None and flight is not None and latency:
        started = flight / latency  # Little's law
    effective = snapshot.get("gen_samples_per_s")
    return Rates(
        generator_rollouts_per_s=started if started is not None else effective,
        generator_effective_rollouts_per_s=effective,
        trainer_rollouts_per_s=snapshot.get("train_samples_per_s"),
        trainer_idle_frac=snapshot.get("trainer_idle_frac"),
        generator_idle_frac=snapshot.get("generator_idle_frac"),
        utilisation_ratio=snapshot.get("utilisation_ratio"),
    )


def _ranked(findings: list[Finding]) -> tuple[Finding, ...]:
    """Worst first; of one severity, what changes a decision before what merely concerns the reading."""

    def place(finding: Finding) -> tuple[int, int]:
        code = finding.code
        weight = FIRST.index(code) - len(FIRST) if code in FIRST else LAST.index(code) + 1 if code in LAST else 0
        return ORDER.index(finding.severity), weight

    return tuple(sorted(findings, key=place))
