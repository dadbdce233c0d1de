"""The binding constraint: which single limit, raised alone, makes the job faster, and by how much.

Asked of a model, not of utilisations: a limit that is reached need not bind (a full buffer behind a slow trainer), and
one that is not may (the slots of an engine that waits for memory).

# 24 engines of 64 slots, WIP cap of 3 batches, sigma 1: cap + 25 % -> + 23 % | engines + 25 % -> + 4 % | slots: nothing
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from simulators.event_state import Job
from simulators.model import PlantModel
from simulators.plant import Mode, Setpoints
from simulators.stations import Stations

STEP_FRAC = 0.25
"""How far a limit is raised to see what it does."""
LEAST_GAIN_FRAC = 0.002
"""Less than this is the models' own noise."""


@dataclass(frozen=True, slots=True)
class Limit:
    name: str
    now: float
    raised: float
    gain_frac: float
    """Of useful rollouts per second."""


def binding_limits(make: Callable[[Stations], PlantModel], job: Job, step_frac: float = STEP_FRAC) -> tuple[Limit, ...]:
    """Limits that help when raised alone, the best first; empty where none does."""
    now = _useful(make, job)
    found = []
    for name, value, raised, changed in raises(job, step_frac):
        rate = _useful(make, changed)
        gain = rate / now - 1.0 if now > 0.0 else (math.inf if rate > 0.0 else 0.0)
        if gain > LEAST_GAIN_FRAC:
            found.append(Limit(name, value, raised, gain))
    return tuple(sorted(found, key=lambda limit: -limit.gain_frac))


def _useful(make: Callable[[Stations], PlantModel], job: Job) -> float:
    return make(job.stations).predict(job.topology, job.workload, job.setpoints).useful_rollouts_per_s


def raises(job: Job, step_frac: float) -> Iterator[tuple[str, float, float, Job]]:
    """(name, value, raised value, the job with it raised) of every limit that the job has."""
    for name, value, raised, setpoints in _knobs(job, step_frac):
        yield name, value, raised, replace(job, setpoints=setpoints)
    for name, value, raised, stations in _stations(job, step_frac):
        yield name, value, raised, replace(job, stations=stations)


def _up(value: float, step_frac: float, unit: int = 1) -> int:
    """At least one unit more."""
    return int(value) + unit * max(1, round(value * step_frac / unit))


def _knobs(job: Job, frac: float) -> Iterator[tuple[str, float, float, Setpoints]]:
    now = job.setpoints
    for name, unit in _knob_units(job):
        value = getattr(now, name)
        if value is not None:
            more = _up(value, frac, unit)
            changed: dict[str, Any] = {name: more}
            yield name, value, more, replace(now, **changed)
    if now.staleness_bound is not None and job.stations.admission.limit_groups is None:
        bound = now.staleness_bound + 1.0
        yield "staleness_bound", now.staleness_bound, bound, replace(now, staleness_bound=bound)


def _knob_units(job: Job) -> Iterator[tuple[str, int]]:
    """Setpoints that are limits in this job, with the step in which each moves."""
    pool, engine_gpus = job.stations.prefill, job.topology.gpus_per_engine or 1
    if job.topology.mode is not Mode.SERIAL:
        yield "gpus_trainer", job.topology.trainer_gpu_step or 1
        if job.setpoints.engines is None:
            yield "gpus_generator" if pool is None else "gpus_decode", engine_gpus
    if pool is not None:
        yield "gpus_prefill", pool.gpus_per_engine
    if job.stations.sandboxes is not None:
        yield "sandbox_quota", 1
    yield from (("engines", 1), ("max_in_flight", 1), ("max_in_flight_per_engine", 1))


def _stations(job: Job, frac: float) -> Iterator[tuple[str, float, float, Stations]]:
    now = job.stations
    engine, admission, boxes, verifier = now.engine, now.admission, now.sandboxes, now.verifier
    more = _up(engine.slots, frac)
    yield "engine.slots", engine.slots, more, replace(now, engine=replace(engine, slots=more))
    if engine.kv_tokens is not None:
        more = _up(engine.kv_tokens, frac)
        yield "engine.kv_tokens", engine.kv_tokens, more, replace(now, engine=replace(engine, kv_tokens=more))
    if admission.limit_groups is not None and job.topology.mode is not Mode.SERIAL:
        more = _up(admission.limit_groups, frac)
        changed = replace(now, admission=replace(admission, limit_groups=more))
        yield "admission.limit_groups", admission.limit_groups, more, changed
    if boxes is not None and boxes.live_limit is not None and job.setpoints.sandbox_quota is None:
        more = _up(boxes.live_limit, frac)
        changed = replace(now, sandboxes=replace(boxes, live_limit=more))
        yield "sandboxes.live_limit", boxes.live_limit, more, changed
    if boxes is not None and boxes.starts_per_s_limit is not None:
        rate = boxes.starts_per_s_limit * (1.0 + frac)
        changed = replace(now, sandboxes=replace(boxes, starts_per_s_limit=rate))
        yield "sandboxes.starts_per_s_limit", boxes.starts_per_s_limit, rate, changed
    if verifier is not None and verifier.concurrency is not None:
        more = _up(verifier.concurrency, frac)
        changed = replace(now, verifier=replace(verifier, concurrency=more))
        yield "verifier.concurrency", verifier.concurrency, more, changed
