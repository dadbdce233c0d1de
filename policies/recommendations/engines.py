"""What to change about the engines: how many requests they hold, their KV pool, prefill, the way to them."""

from collections.abc import Iterator
from statistics import median

from policies.allocation import central
from policies.base import Direction, Interval, Recommendation, Verdict
from policies.diagnosis.generator import BUSY_CLIENT_PER_S, FEW_RESIDENTS, SLOW_S_PER_TOKEN, residents_per_engine
from policies.prospects import gain_of
from policies.recommendations.case import UNTOLD, Case, Ranked, at_most, freed
from policies.wording import figure
from simulators.calibration.priors import HALF_RATE_PER_GPU
from simulators.plant import Change, Mode

HALF_RATES_PER_GPU = tuple(HALF_RATE_PER_GPU.quantile((i + 0.5) / 9) for i in range(9))
"""Batch at which decode reaches half of its ceiling, where the engine's curve is unknown."""
KV_TARGET_FRAC = 0.8
"""A batch is not grown beyond the requests that fill this share of the KV pool."""
EVENLY = tuple((i + 0.5) / 20 for i in range(20))
"""Midpoints of U[0, 1]."""
WORTH_DRAFTING = 0.2
"""Share of the wall time from which faster decoding is worth a draft."""
DRAFTED_RESIDENTS = 64.0
"""With more residents per engine drafted tokens compete for compute."""
CHUNKS = "chunked prefill budget"
"""What engines call the prompt tokens of one iteration."""


def engines(case: Case) -> Iterator[Ranked]:
    """One rule per generator-side verdict that an engine or its client can mend."""
    match case.verdict:
        case Verdict.CONCURRENCY_CAPPED:
            yield from _more_in_flight(case)
        case Verdict.KV_BOUND | Verdict.KV_THRASH:
            yield from _more_kv(case)
        case Verdict.PREFILL_BOUND:
            yield from _prefill(case)
        case Verdict.CLIENT_BOUND:
            yield from _client(case)
        case Verdict.SLOW_ENGINE:
            yield from _slow(case)
        case Verdict.GENERATION_BOUND | Verdict.CANNOT_TELL:
            yield from _many_short_requests(case)
            yield from _rarely_full(case)
            yield from _speculate(case)
        case _:
            yield from _rarely_full(case)
    if (
        case.serial
        and (case.get("slowest_s_per_token") or 0.0) > SLOW_S_PER_TOKEN
        and case.verdict is not Verdict.SLOW_ENGINE
    ):
        yield from _slow(case)


def of_generation(share: float, gain: Interval) -> Interval:
    """Gain of the whole when this share of the wall time gains so much."""
    return Interval(*(freed(share * g / (1.0 + g)) for g in (gain.low, gain.mean, gain.high)))


def batch_gain(now: float, then: float, gpus_per_engine: int | None = None) -> Interval:
    """Gain in decode throughput from a larger batch: X(b) = b / (h + b), h the half-rate batch.

    An engine of one GPU, where its size is not stated:
    # 8 -> 16: 43 % .. 84 % | 64 -> 96: 6 % .. 24 % | 256 -> 512: 2 % .. 14 %
    """
    halves = [(gpus_per_engine or 1) * each for each in HALF_RATES_PER_GPU]
    return central([then * (h + now) / (now * (h + then)) - 1.0 for h in halves])


def _more_in_flight(case: Case) -> Iterator[Ranked]:
    """By the calibrated model where the job states the cap; else by the engines alone and their share of the time."""
    running, queued, kv = case.get("running"), case.get("queued") or 0.0, case.get("kv_usage_frac")
    waves = [n for n in case.snapshot.series("queued") if n > 0]
    if running and not queued and waves:  # a queue at the start of every batch: the state at the cap is what counts
        running, queued = max(case.snapshot.series("running")), median(waves)
        kv = max(case.snapshot.series("kv_usage_frac"), default=kv)
    residents = running if running else residents_per_engine(case.setpoints, case.snapshot)
    if not residents:
        return
    wanted = residents + queued if queued else 2.0 * residents
    room = residents * KV_TARGET_FRAC / kv if kv else wanted
    most = case.bounds.max_in_flight_max or wanted
    proposed = max(residents, min(wanted, room, most))
    if proposed <= residents:
        return
    answer = case.prospects.scaled_cap(proposed / residents)
    scale = 1.0 if case.topology.mode is Mode.ENGINE else max(case.generator_frac, 0.1)
    gain = gain_of(answer) or of_generation(scale, batch_gain(residents, proposed, case.topology.gpus_per_engine))
    fits = f"; the KV pool would be {kv * proposed / residents:.0%} full" if kv else ""
    reason = (
        f"{residents:.0f} requests run where {proposed:.0f} could{fits}. Larger batches decode more per second, with "
        "falling returns; how fast they fall is assumed, and measuring two caps would tell."
    )
    risks = ("more rollouts are in flight at a weight update, so samples are older",)
    yield Ranked(
        max(gain.mean, 0.1),
        Recommendation(
            "max_in_flight",
            Direction.UP,
            residents,
            float(round(proposed)),
            "requests",
            gain,
            reason,
            risks,
            data_changing=True,
        ),
        answer,
    )


def _more_kv(case: Case) -> Iterator[Ranked]:
    running = case.get("running")
    gain = None
    if running:
        gpus = case.topology.gpus_per_engine
        small, large = batch_gain(running, 1.25 * running, gpus), batch_gain(running, 2.0 * running, gpus)
        gain = Interval(small.low, (small.mean + large.mean) / 2.0, large.high)
    reason = (
        "The KV pool decides how many requests run. More memory for it (memory fraction, FP8 KV cache, larger tensor "
        "parallelism) lets the batch grow; fewer in flight would only make it smaller."
    )
    yield Ranked(
        max(gain.mean if gain else 0.0, 0.2),
        Recommendation(
            "kv_memory",
            Direction.UP,
            None,
            "1.25x to 2x the pool",
            "tokens",
            gain,
            reason,
            ("less memory for activations: watch for out-of-memory",),
        ),
    )
    if case.verdict is Verdict.KV_THRASH:
        twice = case.get("recompute_frac") or 0.0
        yield Ranked(
            0.5 * freed(twice),
            Recommendation(
                "max_in_flight",
                Direction.DOWN,
                running,
                None,
                "requests",
                at_most(freed(twice)),
                f"{twice:.0%} of the tokens are computed twice after preemption; a cap just below saves them.",
                data_changing=True,
            ),
        )


def _prefill(case: Case) -> Iterator[Ranked]:
    per_request = case.get("decode_tokens_per_s_per_request")
    pace = f"; a running request gets {figure(per_request)} tokens/s" if per_request else ""
    reason = (
        f"Prompts take the engines' time and decode starves{pace}. Prefix caching, a smaller {CHUNKS} or separate "
        "prefill engines give decode its share back; how much needs the prompt reuse (prefix hit rate) to tell."
    )
    yield Ranked(
        0.3,
        Recommendation("engine_settings", Direction.SET, None, f"prefix cache on, smaller {CHUNKS}", "", None, reason),
    )
    yield Ranked(
        0.25,
        Recommendation(
            "prefill_decode_split",
            Direction.UP,
            None,
            "more prefill",
            "",
            None,
            "A prefill pool of its own takes the prompts off the decoding engines; its size follows from prompt and "
            "output tokens per second, which one more minute of both counters would give.",
        ),
    )


def _client(case: Case) -> Iterator[Ranked]:
    share = max(case.generator_frac, 0.1)
    bound = at_most(freed(0.5 * share))
    reason = (
        "Requests arrive slower than the engines could take them: send one request per group instead of per rollout, "
        "raise the client's connection limit, or run more client processes."
    )
    yield Ranked(
        max(bound.mean, 0.3),
        Recommendation("client_concurrency", Direction.UP, None, "one request per group", "", bound, reason),
    )


def _slow(case: Case) -> Iterator[Ranked]:
    pace = case.get("slowest_s_per_token") or 0.0
    share = case.frac("rollout_s") if case.serial else case.generator_frac
    gain = at_most(freed(share * 0.5))
    reason = (
        f"{pace * 1e3:.0f} ms per token is slow decode: look for eager mode, preemption, a CPU fallback or one sick "
        "engine before adding anything."
    )
    yield Ranked(
        gain.mean,
        Recommendation("engine_settings", Direction.SET, None, "CUDA graphs on, check each engine", "", gain, reason),
    )


def _many_short_requests(case: Case) -> Iterator[Ranked]:
    """Tens of rollouts per second through one client, and no engine figure that shows them arriving."""
    batch, wall = case.get("batch_rollouts"), case.get("rollout_s")
    if not batch or not wall or case.get("running") is not None or batch / wall < BUSY_CLIENT_PER_S:
        return
    reason = (
        f"{batch / wall:.0f} rollouts a second is what one client process and its HTTP path carry; the engines may be "
        "idle behind it. One request per group instead of per rollout tells: if generation shortens, that was it."
    )
    size = int(case.setpoints.group_size or case.get("group_size_seen") or 1)
    share = case.generator_frac if case.budget is not None else 1.0  # generation is all that is known
    gain = of_generation(share, one_request_per_group(size)) if size > 1 else None
    yield Ranked(
        1.5 * UNTOLD * case.generator_frac,
        Recommendation("client_concurrency", Direction.UP, None, "one request per group", "", gain, reason),
    )


def one_request_per_group(size: int) -> Interval:
    """Gain in requests carried, when of the client's time a share v ~ U[0, 1] is per request and falls by the size.

    1 / (1 - v (1 - 1/S)) - 1
    # groups of 2: 0.05 .. 0.39 .. 0.82 | 4: 0.08 .. 0.84 .. 2.08 | 16: 0.10 .. 1.85 .. 5.40
    """
    return central(1.0 / (1.0 - v * (1.0 - 1.0 / size)) - 1.0 for v in EVENLY)


def _speculate(case: Case) -> Iterator[Ranked]:
    """Drafted tokens: decoding gets U[1, 2.5] times as fast while batches are small enough to leave compute idle."""
    share = case.frac("rollout_s") if case.serial else case.generator_frac
    each = residents_per_engine(case.setpoints, case.snapshot)
    ours = case.topology.gpus_total or case.setpoints.gpus_generator or case.setpoints.engines  # else a hosted service
    if case.verdict is not Verdict.GENERATION_BOUND or share < WORTH_DRAFTING or not ours:
        return
    if each is not None and each > DRAFTED_RESIDENTS:
        return
    gain = central(freed(share * (1.0 - 1.0 / (1.0 + 1.5 * v))) for v in EVENLY)
    reason = (
        f"Generation holds {share:.0%} of the wall time. Speculative decoding (a draft head or n-grams) gives the same "
        "samples up to 2.5x as fast while decode batches are small; how small they are here is not logged."
    )
    advised = Recommendation(
        "engine_settings",
        Direction.ON,
        None,
        "speculative decoding",
        "",
        gain,
        reason,
        ("a draft must follow the model",),
    )
    yield Ranked(0.5 * gain.mean, advised)


def _rarely_full(case: Case) -> Iterator[Ranked]:
    """A generator-bound job whose batches are known to be small, or not known at all, may simply lack requests."""
    if not case.generator_slower or case.verdict in (Verdict.SANDBOX_BOUND, Verdict.STALENESS_WASTE):
        return
    each = residents_per_engine(case.setpoints, case.snapshot)
    kv, queued = case.get("kv_usage_frac"), case.get("queued")
    if (kv is not None and kv > KV_TARGET_FRAC) or (each is not None and each > 4 * FEW_RESIDENTS) or queued:
        return
    answer = None
    if each is not None and each <= 4 * FEW_RESIDENTS:
        answer = case.prospects.scaled_cap(2.0)
        gain = gain_of(answer) or of_generation(
            max(case.generator_frac, 0.1), batch_gain(each, 2.0 * each, case.topology.gpus_per_engine)
        )
        expected, now = 0.8 * gain.mean, each
        reason = (
            f"About {each:.0f} requests per engine leave decode batches small; twice as many decode more per second."
        )
    else:
        gain, expected, now = None, UNTOLD * case.generator_frac, None
        reason = (
            "If the engines have room (few running, none waiting, KV pool under half), more in flight is cheaper than "
            "more GPUs. Their /metrics would tell, and by how much."
        )
    yield Ranked(
        expected,
        Recommendation(
            "max_in_flight",
            Direction.UP,
            now,
            2.0 * now if now else None,
            "requests per engine",
            gain,
            reason,
            ("samples get older",),
            data_changing=True,
            change=Change.RESTART,
        ),
        answer,
    )
