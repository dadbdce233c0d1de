"""Why the generator is slow: the part of its time that one nameable thing explains."""

from dataclasses import dataclass

from policies.base import Verdict
from policies.diagnosis.engine import engine_state
from simulators.plant import Setpoints
from simulators.snapshot import Snapshot

NAMEABLE = 0.5
"""A cause names the verdict when it explains at least this share of the generator's time, if LEAST knows no other."""
FEW_RESIDENTS = 16
"""Requests per engine at or under which a decode batch gives up about half of its throughput (8: 35 %, 32: 75 %)."""
SLOW_S_PER_TOKEN = 0.1
"""A request that makes under 10 tokens/s: several times slower than a memory-bound decode at any usual batch."""
REACHED = 0.5
"""Under this share of the rollouts in flight inside the engines, requests are stuck on the way to them."""
BUSY_CLIENT_PER_S = 10.0
"""Requests per second from which one client process is a plausible limit."""
CROWDED_PER_GPU = 32.0
"""Rollouts per GPU beyond which a slow rollout may simply have waited its turn; also where the GPUs are unknown."""
MUCH_WASTE = 0.3
"""More rollouts lost than this is the first thing to say of a slow generator."""
LEAST = {Verdict.STALENESS_WASTE: MUCH_WASTE}
"""Causes that name the verdict from another share on: what is thrown away is counted, the others are inferred."""
UNNAMED = "why it is slow is not in the data"
"""The reason where no one cause can be named."""
FULL = 0.9
"""From this share of its cap the number in flight is steady: what ends is replaced."""
QUOTA_NEAR = 0.95
"""A quota is binding from this share of it."""
SLOW_START_S = 300.0
"""A sandbox start beyond this is a queue at the provider (creation limiters give up at 300 s)."""
FAILURES = 0.1
"""More sandboxes failing than this is a fault, not noise."""


@dataclass(frozen=True, slots=True)
class GeneratorCause:
    """A generator-side verdict, the share of the generator's time it explains, and how sure we are (0..1)."""

    verdict: Verdict
    share_frac: float
    confidence: float
    reason: str


def generator_cause(setpoints: Setpoints, snapshot: Snapshot) -> GeneratorCause:
    """The first nameable cause, from the outside in: sandbox, judge, environment, staleness, client, engines, tail."""
    for rule in (_sandbox, _judge, _environment, _stale, _client, _engines, _few_in_flight, _slow_engine, _tail):
        cause = rule(setpoints, snapshot)
        if cause is not None and cause.share_frac >= LEAST.get(cause.verdict, NAMEABLE):
            return cause
    waste = snapshot.get("waste_frac") or 0.0
    lost = f"{waste:.0%} of the rollouts it starts are never trained"
    reason = lost if waste >= MUCH_WASTE else UNNAMED
    return GeneratorCause(Verdict.GENERATION_BOUND, 1.0, 0.6, reason)


def _sandbox(setpoints: Setpoints, snapshot: Snapshot) -> GeneratorCause | None:
    quota = snapshot.get("sandbox_quota") or setpoints.sandbox_quota
    wanted = snapshot.get("sandbox_active") or snapshot.get("inflight_rollouts") or setpoints.max_in_flight
    failing = snapshot.get("sandbox_fail_frac") or 0.0
    if quota and wanted and wanted >= QUOTA_NEAR * quota:
        reason = f"{wanted:.0f} sandboxes are wanted and the provider allows {quota:.0f}"
        return GeneratorCause(Verdict.SANDBOX_BOUND, NAMEABLE, 0.6, reason)
    if failing >= FAILURES:
        reason = f"{failing:.0%} of the sandboxes fail"
        return GeneratorCause(Verdict.SANDBOX_BOUND, NAMEABLE, 0.6, reason)
    start, latency = snapshot.get("sandbox_start_s"), snapshot.get("rollout_latency_s")
    pending = snapshot.get("sandbox_pending") or 0.0
    if start is not None and start > SLOW_START_S:
        reason = f"a sandbox takes {start:.0f} s to start, so the provider queues"
        return GeneratorCause(Verdict.SANDBOX_BOUND, NAMEABLE, 0.6, reason)
    if start is not None and latency:
        share = start / latency
        return GeneratorCause(
            Verdict.SANDBOX_BOUND, share, 0.6, f"starting a sandbox takes {start:.0f} s of {latency:.0f} s a rollout"
        )
    if start is not None and pending > 0:
        reason = f"{pending:.0f} sandboxes are pending and one takes {start:.0f} s to start"
        return GeneratorCause(Verdict.SANDBOX_BOUND, NAMEABLE, 0.5, reason)
    return None


def _judge(_: Setpoints, snapshot: Snapshot) -> GeneratorCause | None:
    share = snapshot.get("reward_share_frac")
    if share is None:
        return None
    reason = f"{share:.0%} of a rollout passes with its judge or verifier"
    return GeneratorCause(Verdict.REWARD_BOUND, share, 0.6, reason)


def _environment(_: Setpoints, snapshot: Snapshot) -> GeneratorCause | None:
    share = snapshot.get("env_share_frac")
    if share is None:
        return None
    return GeneratorCause(Verdict.ENV_BOUND, share, 0.6, f"at least {share:.0%} of a rollout is tools and environment")


def _stale(_: Setpoints, snapshot: Snapshot) -> GeneratorCause | None:
    dropped, dispatched = snapshot.get("dropped_stale"), snapshot.get("dispatched")
    if dropped is None or not dispatched:
        return None
    share = dropped / dispatched
    return GeneratorCause(
        Verdict.STALENESS_WASTE, share, 0.7, f"{share:.0%} of the dispatched rollouts are dropped as too old"
    )


def _client(_: Setpoints, snapshot: Snapshot) -> GeneratorCause | None:
    """Rollouts in flight that are neither running nor waiting inside an engine, or idle GPUs under many requests."""
    flight, running = snapshot.get("inflight_rollouts"), snapshot.get("running")
    if flight and running is not None:
        inside = running + (snapshot.get("queued") or 0.0)
        elsewhere = sum(snapshot.get(name) or 0.0 for name in ("env_share_frac", "reward_share_frac"))
        outside = max(0.0, 1.0 - inside / flight - elsewhere)
        if inside < REACHED * flight:
            reason = f"{flight:.0f} rollouts are in flight and only {inside:.0f} have reached an engine"
            return GeneratorCause(Verdict.CLIENT_BOUND, outside, 0.6, reason)
    idle, batch, wall = (snapshot.get(n) for n in ("gpu_idle_in_rollout_frac", "batch_rollouts", "rollout_s"))
    if idle is None:
        return None
    rate = batch / wall if batch and wall else 0.0
    if rate >= BUSY_CLIENT_PER_S:
        reason = f"the engines' GPUs idle {idle:.0%} of the phase at {rate:.0f} requests/s, which do not arrive in time"
        return GeneratorCause(Verdict.CLIENT_BOUND, idle, 0.5, reason)
    return GeneratorCause(
        Verdict.OVERHEAD_BOUND, idle, 0.5, f"the engines' GPUs do nothing for {idle:.0%} of the generation phase"
    )


def _engines(setpoints: Setpoints, snapshot: Snapshot) -> GeneratorCause | None:
    state = engine_state(snapshot, setpoints)
    if state.verdict is None:
        return None
    return GeneratorCause(state.verdict, NAMEABLE, state.confidence, state.reason)


def _few_in_flight(setpoints: Setpoints, snapshot: Snapshot) -> GeneratorCause | None:
    kv = snapshot.get("kv_usage_frac")
    each = residents_per_engine(setpoints, snapshot)
    if each is None or each > FEW_RESIDENTS or (kv is not None and kv > NAMEABLE):
        return None
    return GeneratorCause(
        Verdict.CONCURRENCY_CAPPED,
        NAMEABLE,
        0.5,
        f"only about {each:.0f} requests per engine, so decode batches run nearly empty",
    )


def residents_per_engine(setpoints: Setpoints, snapshot: Snapshot) -> float | None:
    """Rollouts that one engine can hold at most under today's caps, or holds; None where unknown."""
    engines = setpoints.engines or snapshot.get("engines")
    total = snapshot.get("inflight_rollouts") or snapshot.get("inflight_limit") or setpoints.max_in_flight
    if total is None and setpoints.overlap is False:
        total = snapshot.get("batch_rollouts")
    if total and engines:
        return total / engines
    return float(setpoints.max_in_flight_per_engine) if setpoints.max_in_flight_per_engine else None


def _slow_engine(setpoints: Setpoints, snapshot: Snapshot) -> GeneratorCause | None:
    pace, batch = snapshot.get("slowest_s_per_token"), snapshot.get("batch_rollouts")
    gpus = setpoints.gpus_generator
    crowded = batch is None or not gpus or batch / gpus > CROWDED_PER_GPU
    if pace is None or pace < SLOW_S_PER_TOKEN or crowded:
        return None
    reason = (
        f"the slowest rollout took {pace * 1e3:.0f} ms per token, a sign of eager mode, preemption or a sick engine"
    )
    return GeneratorCause(Verdict.SLOW_ENGINE, NAMEABLE, 0.4, reason)


def _tail(setpoints: Setpoints, snapshot: Snapshot) -> GeneratorCause | None:
    ratio = snapshot.get("slowest_over_mean")
    if ratio is None or ratio <= 1.0 or refills(setpoints, snapshot):
        return None
    share = 1.0 - 1.0 / ratio
    return GeneratorCause(Verdict.TAIL_BOUND, share, 0.5, f"the slowest rollout takes {ratio:.1f}x the mean")


def refills(setpoints: Setpoints, snapshot: Snapshot) -> bool:
    """True where a slow rollout holds nothing up: it is carried over, or its neighbours' places are taken at once."""
    if not setpoints.overlap:
        return False
    flight, limit = snapshot.get("inflight_rollouts"), snapshot.get("inflight_limit") or setpoints.max_in_flight
    full = flight is not None and limit is not None and flight >= FULL * limit
    return full or setpoints.partial_rollout is True
