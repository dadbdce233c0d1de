"""What a job's metrics show: differences of the simulation's counters as signals under their neutral names."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import exp
from zlib import crc32

from simulators.counters import Counters
from simulators.event_model import capacity_tokens_per_s
from simulators.event_parameters import parameters
from simulators.event_state import Job
from simulators.signals import SIGNALS, TINY
from simulators.snapshot import Row
from simulators.streams import normal_quantile, uniform

NOISE = 65
"""Stream of measurement errors; the job's own streams are smaller."""
EXACT = frozenset({"step_s", "validation_s", "checkpoint_s", "weight_sync_s", "resp_len_max"})
"""Differences of one clock, and one rollout's count. What is uncertain inside a step is who was busy and who waited."""
SCATTERED = ("s", "tokens", "1", "tokens/s")
"""Units of what is measured with an error; counts are exact."""


def signals_of(delta: Counters, job: Job, step: int, longest_tokens: int) -> dict[str, float]:
    """Signals of the `step`-th trainer step of a process, in which the counters grew by `delta`.

    `longest_tokens` is the longest response of its batch.
    """
    seconds = delta.now_s
    found = {
        **_step(delta, job, seconds, step),
        **_flow(delta, job, seconds),
        **_rollouts(delta, job),
        "resp_len_max": float(longest_tokens) or None,
        **_engines(delta, job, seconds),
        **_sandboxes(delta, job, seconds),
    }
    return _with_rates({name: value for name, value in found.items() if value is not None})


def scraped(delta: Counters, job: Job) -> dict[str, float]:
    """What engines and sandboxes show without a trainer's step: means over the time in which the counters grew."""
    seconds = delta.now_s
    found = {
        "inflight_rollouts": _over(delta.area_in_flight, seconds),
        **_engines(delta, job, seconds),
        **_sandboxes(delta, job, seconds),
    }
    return {name: value for name, value in found.items() if value is not None}


def _step(delta: Counters, job: Job, seconds: float, step: int) -> dict[str, float | None]:
    """Where the trainer's time went. What is neither training nor publication, validation or checkpoint is waiting."""
    trainer, knobs = job.stations.trainer, job.setpoints
    seldom = {
        "validation_s": trainer.validation_s if _falls(step - 1, knobs.validation_interval) else 0.0,
        "checkpoint_s": trainer.checkpoint_s if _falls(step - 1, knobs.checkpoint_interval) else 0.0,
    }
    return {
        "step_s": seconds,
        "trainer_busy_s": delta.training_s,
        "trainer_wait_s": max(0.0, seconds - delta.training_s - delta.sync_s),
        "weight_sync_s": max(0.0, delta.sync_s - sum(seldom.values())),
        **{name: value for name, value in seldom.items() if value},
    }


def _falls(step: int, interval: int | None) -> bool:
    """What falls due after a step is spent at the start of the next one."""
    return interval is not None and step > 0 and step % interval == 0


def _flow(delta: Counters, job: Job, seconds: float) -> dict[str, float | None]:
    knobs, size = job.setpoints, job.setpoints.group_size or 1
    ages = [(age, count) for age, count in enumerate(delta.staleness) if count]
    return {
        "batch_rollouts": float(delta.trained),
        "accepted": float(delta.trained),
        "dispatched": float(delta.dispatched),
        "dropped_stale": float(delta.stale + delta.dropped),
        "aborted": float(delta.oversampled + delta.pruned + delta.aborted),
        "errored": float(delta.failed),
        "filtered_zero_adv": float(delta.filtered),
        "filtered_groups": delta.filtered / size,
        "queue_depth": _over(delta.area_ring * size, seconds),
        "inflight_rollouts": _over(delta.area_in_flight, seconds),
        "inflight_limit": None if knobs.max_in_flight is None else float(knobs.max_in_flight),
        "staleness_mean": _over(sum(age * count for age, count in ages), sum(count for _, count in ages)),
        "staleness_max": float(max((age for age, _ in ages), default=0)),
        "train_tokens_per_s": _over(delta.trained_tokens, seconds),
        "gen_tokens_per_s": _over(delta.decoded_tokens, seconds),
        "zero_adv_frac": _over(delta.trained - delta.useful, delta.trained),
        "reward_mean": _over(delta.trained_solved, delta.trained),
    }


def _rollouts(delta: Counters, job: Job) -> dict[str, float | None]:
    turns, judged = _over(delta.turns, delta.finished), job.stations.verifier is not None
    return {
        "rollout_latency_s": _over(delta.rollout_s, delta.finished),
        "non_generation_mean_s": _over(delta.outside_s - delta.verifying_s, delta.finished),
        "reward_latency_s": _over(delta.judge_s, delta.finished) if judged else None,
        "resp_len_mean": _over(delta.trained_response, delta.trained),
        "prompt_len_mean": _over(delta.trained_tokens - delta.trained_response, delta.trained),
        "tokens_total": float(delta.trained_tokens),
        "truncated_frac": _over(delta.truncated, delta.attempted),
        "turns_mean": turns,
        "tool_calls_mean": None if turns is None else max(0.0, turns - 1.0),
    }


def _engines(delta: Counters, job: Job, seconds: float) -> dict[str, float | None]:
    made = parameters(job)
    context = _over(delta.context_area, delta.area_resident)
    prefilled = _over(delta.prefilled_tokens, delta.decoded_tokens)
    capacity = capacity_tokens_per_s(made, context or 0.0, prefilled or 0.0)
    rate = _over(delta.decoded_tokens, seconds)
    return {
        "engines": float(made.counts.engines),
        "running": _over(delta.area_resident, seconds),
        "queued": _over(delta.area_queued, seconds),
        "running_limit": float(made.counts.engines * made.counts.slots),
        "generator_util_frac": None if rate is None else min(1.0, rate / capacity),
        "tpot_s": _over(delta.area_resident, delta.decoded_tokens),
        "decode_tokens_per_s": rate,
        "prompt_tokens_per_s": _over(delta.prefilled_tokens, seconds),
        "prefix_hit_frac": _over(delta.prefix_tokens, delta.prefix_tokens + delta.prefilled_tokens),
        "preemptions_per_s": _over(delta.preempted, seconds),
        "kv_usage_frac": _kv_usage(delta, job, made.counts.engines, seconds),
    }


def _kv_usage(delta: Counters, job: Job, engines: int, seconds: float) -> float | None:
    pool = job.stations.engine.kv_tokens
    used = _over(delta.context_area, seconds)
    return None if pool is None or used is None else min(1.0, used / (pool * engines))


def _sandboxes(delta: Counters, job: Job, seconds: float) -> dict[str, float | None]:
    """Waits are those of the starts of this step; how many wait follows from them by Little's law."""
    fleet = job.stations.sandboxes
    if fleet is None:
        return {}
    quota = job.setpoints.sandbox_quota or fleet.live_limit
    pending = min(delta.box_wait_s, delta.area_in_flight) / max(seconds, TINY)
    return {
        "sandbox_start_s": _over(delta.box_wait_s, delta.boxes_started),
        "sandbox_fail_frac": _over(delta.boxes_failed, delta.boxes_started),
        "sandbox_pending": pending,
        "sandbox_active": max(0.0, delta.area_in_flight / max(seconds, TINY) - pending),
        "sandbox_quota": None if quota is None else float(quota),
    }


def _over(part: float, whole: float) -> float | None:
    return part / whole if whole > TINY else None


def _with_rates(values: dict[str, float]) -> dict[str, float]:
    """The rates that a job computes from its own (perhaps wrong) seconds."""
    batch, step_s, busy_s = (values.get(name, 0.0) for name in ("batch_rollouts", "step_s", "trainer_busy_s"))
    dispatched = values.get("dispatched", 0.0)
    rates = {
        "gen_samples_per_s": _over(batch, step_s),
        "train_samples_per_s": _over(batch, busy_s),
        "waste_frac": None if batch > dispatched else _over(dispatched - batch, dispatched),
    }
    return values | {name: value for name, value in rates.items() if value is not None}


# ---- measuring ----


@dataclass(frozen=True, slots=True)
class Meter:
    """How a job measures itself."""

    key: int
    """Of `streams.seed_key`."""
    sigma: float = 0.0
    hidden: frozenset[str] = frozenset()


def measured(row: Row, meter: Meter) -> Row:
    """The row as the job's metrics show it. The same row is always measured alike: errors are keyed by step and the
    signal's name, so that a signal more changes no other.

    The seconds of a step still add up: what the trainer was not busy with, it is thought to have waited.
    """
    values = dict(row.values)
    if meter.sigma > 0.0 and row.step is not None:
        values = {name: _with_error(name, value, row.step, meter) for name, value in values.items()}
        values = _with_rates(_closed(values))
    return replace(row, values={name: value for name, value in values.items() if name not in meter.hidden})


def _with_error(name: str, value: float, step: int, meter: Meter) -> float:
    spec = SIGNALS[name]
    if name in EXACT or spec.unit not in SCATTERED:
        return value
    share = uniform(meter.key, NOISE, step, crc32(name.encode()), 0)
    return min(spec.high, value * exp(meter.sigma * normal_quantile(share)))


def _closed(values: dict[str, float]) -> dict[str, float]:
    parts = ("weight_sync_s", "validation_s", "checkpoint_s")
    rest = values.get("step_s", 0.0) - _sum(values, parts)
    busy = max(0.0, min(rest, values.get("trainer_busy_s", 0.0)))
    return values | {"trainer_busy_s": busy, "trainer_wait_s": max(0.0, rest - busy)}


def _sum(values: Mapping[str, float], names: Iterable[str]) -> float:
    return sum(values.get(name, 0.0) for name in names)
