"""What an inference engine's own figures say: KV pool, queue, admission, prefill against decode."""

from dataclasses import dataclass
from itertools import pairwise

from policies.base import Finding, Severity, Verdict
from simulators.plant import Setpoints
from simulators.signals import TINY
from simulators.snapshot import Snapshot

KV_FULL = 0.9
"""Above this the pool admits nothing more of normal length (prime-rl cancels here, vLLM's watermark is near)."""
KV_ROOMY = 0.5
"""Under this the pool does not limit anything."""
RECOMPUTE_THRASH = 0.1
"""More computed twice than this, and preemption rather than capacity is the loss (vLLM serving: 10-23 %)."""
FLAT = 0.05
"""A rate that changes less than this over the window is saturated."""
GROWING = 1.2
"""Requests in the batch grew by this factor: the batch is not at its cap."""
YOUNG = 0.1
"""Running requests that have made less than this of their output on average were all admitted just now."""
STICKY = 3.0
"""A gauge that contradicts the counters by this factor is stuck."""
AT_CAP = 0.95
"""Running requests from this share of the most that ever ran are at the cap; so nearly all that wait must be."""
WAVES_MIN = 0.2
"""Requests that wait on fewer scrapes than this are not the rule."""
BRIEF_S = 60.0
"""A log shorter than this shows a moment, not a state."""


@dataclass(frozen=True, slots=True)
class EngineState:
    """The verdict on the engines alone, with its reason; None where they are not the limit or say too little."""

    verdict: Verdict | None
    confidence: float
    reason: str


def engine_state(snapshot: Snapshot, setpoints: Setpoints) -> EngineState:
    """Reads the engines in the order thrash, prefill, KV, admission, emptiness: each rule rules out the ones before it.

    # queue | KV pool | batch                 -> verdict
    # any   | any     | > 10 % computed twice -> kv-thrash
    # yes   | any     | grows, prefill flat   -> prefill-bound
    # yes   | >= 0.9  | -                     -> kv-bound
    # yes   | less than one request is free   -> kv-bound
    # yes   | filling, what waits cannot fit  -> kv-bound, low confidence
    # yes   | < 0.9   | all just admitted     -> none: a ramp, not a state
    # yes   | < 0.9   | still growing         -> none, the same
    # yes   | < 0.9   | at its cap            -> concurrency-capped
    # yes   | < 0.9   | below it, or unknown  -> concurrency-capped, lower confidence
    # waves | < 0.5   | at its cap            -> concurrency-capped
    # no    | < 0.5   | for a minute          -> concurrency-capped, low confidence: too little is sent
    # no    | < 0.5   | for a moment          -> none: a tail, tools or a gated trainer look the same
    # no    | >= 0.5  | any                   -> none: the limit is elsewhere
    """
    running, queued, kv = (snapshot.get(n) for n in ("running", "queued", "kv_usage_frac"))
    twice = snapshot.get("recompute_frac")
    if twice is not None and twice > RECOMPUTE_THRASH:
        pool = f" while the KV pool is {kv:.0%} full" if kv is not None else ""
        return EngineState(Verdict.KV_THRASH, 0.8, f"{twice:.0%} of the tokens are computed again{pool}")
    if running is None or queued is None:
        gaps = " and ".join(word for word, value in (("running", running), ("waiting", queued)) if value is None)
        return EngineState(None, 0.0, f"the engines' {gaps} requests are not known")
    if queued > 0 and _prefill_saturated(snapshot):
        rate = snapshot.get("prompt_tokens_per_s") or 0.0
        return EngineState(
            Verdict.PREFILL_BOUND,
            0.7,
            f"prompt throughput is flat at {rate:,.0f} tokens/s while the batch grows and {queued:.0f} wait",
        )
    if queued > 0 and kv is not None and (kv >= KV_FULL or _last_to_fit(snapshot, running)):
        return _full_pool(snapshot, running, queued, kv)
    if queued > 0 and _will_not_fit(snapshot, running, queued, kv):
        fits = snapshot.get("requests_at_full_kv") or 0.0
        return EngineState(
            Verdict.KV_BOUND,
            0.4,
            f"it is {kv:.0%} full and filling, and about {fits:.0f} of {running + queued:.0f} requests fit",
        )
    if queued > 0:
        return _admission(snapshot, setpoints, running, queued, kv)
    if (waves := _capped_in_waves(snapshot)) is not None:
        return waves
    return _room(snapshot, running, kv)


def _full_pool(snapshot: Snapshot, running: float, queued: float, kv: float) -> EngineState:
    lost = snapshot.get("preemptions") or 0.0
    tail = f", {lost:.0f} preemptions so far" if lost else ""
    return EngineState(
        Verdict.KV_BOUND, 0.7, f"it is {kv:.0%} full with {running:.0f} requests while {queued:.0f} wait{tail}"
    )


def _last_to_fit(snapshot: Snapshot, running: float) -> bool:
    """True where the pool has no room for one more like those that run, and was full while some waited.

    # five requests, each a sixth of the pool: 83 % in use, and the sixth goes in only to push another out
    """
    fits, pool = snapshot.get("requests_at_full_kv"), snapshot.series("kv_usage_frac")
    return fits is not None and running + 1.0 > fits and max(pool, default=0.0) >= KV_FULL


def _prefill_saturated(snapshot: Snapshot) -> bool:
    """Prompt tokens/s at a ceiling while more requests come in: prefill takes the iterations that decode needs."""
    rates, batch = snapshot.series("prompt_tokens_per_s"), snapshot.series("running")
    if len(rates) < 3 or len(batch) < 3 or batch[0] <= 0 or min(rates) <= 0:
        return False
    decode = snapshot.get("decode_tokens_per_s")
    flat = max(rates) / min(rates) - 1.0 <= FLAT
    return flat and batch[-1] / batch[0] >= GROWING and (decode is None or decode < rates[-1])


def _will_not_fit(snapshot: Snapshot, running: float, queued: float, kv: float | None) -> bool:
    fits, pool = snapshot.get("requests_at_full_kv"), snapshot.series("kv_usage_frac")
    if kv is None or kv < KV_ROOMY or fits is None or len(pool) < 3:
        return False
    return pool[-1] > pool[0] and running + queued > fits


def _admission(
    snapshot: Snapshot, setpoints: Setpoints, running: float, queued: float, kv: float | None
) -> EngineState:
    share = _output_share_done(snapshot, running)
    if share is not None and share < YOUNG:
        return EngineState(
            None,
            0.0,
            f"the {running:.0f} running requests were all admitted just now, which is a ramp and no steady state",
        )
    if (ramp := _growing(snapshot)) is not None:
        return EngineState(None, 0.0, ramp)
    limit = snapshot.get("running_limit") or setpoints.max_in_flight_per_engine
    at_cap = limit is not None and running >= 0.95 * limit
    pool = f"the KV pool is {kv:.0%} full" if kv is not None else "the KV pool's fill is not known"
    return EngineState(
        Verdict.CONCURRENCY_CAPPED,
        0.7 if at_cap or len(snapshot.engine_rows) > 2 else 0.5,
        f"{running:.0f} requests run and {queued:.0f} wait although {pool}, so a cap holds them back, not memory",
    )


def _growing(snapshot: Snapshot) -> str | None:
    """Requests go from the queue into the batch on every one of the last looks: no cap holds them back yet."""
    running, queued = snapshot.series("running"), snapshot.series("queued")
    if len(running) < 3 or len(queued) < 3:
        return None
    batch, line = running[-3:], queued[-3:]
    if not (batch[0] < batch[1] < batch[2] and line[0] > line[1] > line[2]):
        return None
    return (
        f"the batch still grows, from {running[0]:.0f} to {running[-1]:.0f} requests, while the queue empties into it: "
        "a ramp and no steady state"
    )


def _capped_in_waves(snapshot: Snapshot) -> EngineState | None:
    """No request waits now, but every batch begins with a queue before engines that run a constant number."""
    most = max(snapshot.series("running"), default=0.0)
    fullest = max(snapshot.series("kv_usage_frac"), default=1.0)
    rows = [row for row in snapshot.engine_rows if "running" in row.values and "queued" in row.values]
    waiting = [row for row in rows if row.values["queued"] > 0]
    capped = [row.values["queued"] > 0 and row.values["running"] >= AT_CAP * most for row in rows]
    begun = sum(now and not before for before, now in pairwise([False, *capped]))
    count = sum(capped)
    if begun < 2 or count < max(WAVES_MIN * len(rows), AT_CAP * len(waiting)) or fullest >= KV_ROOMY:
        return None
    longest = max(row.values["queued"] for row in waiting)
    reason = (
        f"on {count / len(rows):.0%} of the scrapes {most:.0f} requests run and up to {longest:.0f} wait "
        f"although the KV pool is never more than {fullest:.0%} full, so a cap holds them back, not memory"
    )
    return EngineState(Verdict.CONCURRENCY_CAPPED, 0.6, reason)


def _output_share_done(snapshot: Snapshot, running: float) -> float | None:
    """Mean share of its output that a running request has made, from the tokens held; None where unknown."""
    held, prompt, output = (
        snapshot.get(n) for n in ("kv_tokens", "request_prompt_tokens_mean", "request_output_tokens_mean")
    )
    if held is None or prompt is None or output is None or running < 1 or output < 1:
        return None
    return (held / running - prompt) / output


def _room(snapshot: Snapshot, running: float, kv: float | None) -> EngineState:
    fullest = max(snapshot.series("kv_usage_frac"), default=kv)
    longest_queue = max(snapshot.series("queued"), default=0.0)
    pool = f" and the KV pool is {kv:.0%} full" if kv is not None else ""
    reason = f"{running:.0f} {'request runs' if round(running) == 1 else 'requests run'}, none waits{pool}"
    if kv is None or fullest is None or fullest >= KV_ROOMY or longest_queue > 0:
        return EngineState(None, 0.0, reason)
    reason += ", so the engines have room"
    seconds = snapshot.window.seconds
    if seconds is None or seconds < BRIEF_S:
        return EngineState(None, 0.0, f"{reason}; too brief a look to tell a cap from a tail, tools or a gated trainer")
    return EngineState(Verdict.CONCURRENCY_CAPPED, 0.4, f"{reason}; too little is sent to them")


def engine_findings(snapshot: Snapshot) -> list[Finding]:
    """Preemptions, a pool that will not hold what waits, a gauge that sticks."""
    found = []
    lost = snapshot.get("preemptions")
    if lost:
        found.append(
            Finding(
                "preemptions",
                Severity.WARNING,
                "Requests are preempted",
                f"{lost:.0f} requests lost their KV cache and are computed again.",
                {"preemptions": lost},
            )
        )
    running, queued, fits = (snapshot.get(n) for n in ("running", "queued", "requests_at_full_kv"))
    if running is not None and queued and fits is not None and running + queued > fits > 0:
        kv = snapshot.get("kv_usage_frac") or 0.0
        detail = (
            f"{running:.0f} requests fill {kv:.0%} of the KV pool, so about {fits:.0f} fit; "
            f"{running + queued:.0f} are running or waiting."
        )
        evidence = {"requests_at_full_kv": fits, "running": running, "queued": queued}
        found.append(Finding("kv-forecast", Severity.WARNING, "The KV pool will not hold them all", detail, evidence))
    found += _sticky(snapshot)
    return found


def _sticky(snapshot: Snapshot) -> list[Finding]:
    gauge, must = snapshot.get("published_decode_tokens_per_s"), snapshot.get("decode_tokens_per_s_from_tpot")
    if gauge is None or must is None or min(gauge, must) <= TINY or 1 / STICKY <= gauge / must <= STICKY:
        return []
    detail = (
        f"The throughput gauge says {gauge:,.0f} tokens/s; the running requests and their time per token "
        f"say {must:,.0f}. The gauge is a leftover; take counter differences of two scrapes."
    )
    evidence = {"published_decode_tokens_per_s": gauge, "decode_tokens_per_s_from_tpot": must}
    return [Finding("sticky-gauge", Severity.WARNING, "A gauge contradicts the counters", detail, evidence)]
