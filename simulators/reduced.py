"""ReducedModel: a large fleet by simulation of a smaller one, where size changes nothing but numbers.

Groups of a batch, engines, rollouts in flight and what admission counts are divided by one whole number; the trainer is
as many times slower by the token. Rates and counts are multiplied again, times and shares are as they are. That holds
where all stations are engines alike without queues of their own in front, and no group is waited for by name: what is
left is chance, which is larger in a smaller fleet, and the last group of a batch, exp(-Euler) / groups of a cap.

# 2,400 engines, 6,400 groups a batch: 120 engines, 320 groups, a trainer 20 times as slow by the token
"""

from dataclasses import dataclass, replace
from math import gcd

from simulators.event_model import EventModel
from simulators.event_parameters import engine_count
from simulators.event_state import Job
from simulators.model import Prediction
from simulators.plant import Mode, Setpoints, Topology
from simulators.stations import Order, Plug, SyncMode
from simulators.workload import Workload

ENGINES_MIN, GROUPS_MIN = 120, 128
"""Of the smaller fleet, and of its batches: rates of one and the other then differ by half a percent
(tests/laws/test_reduced_fleets.py)."""
BATCHES_OPEN = 3
"""A cap on started groups that holds fewer batches waits for the last of a batch, which is later in a larger one."""


@dataclass(frozen=True, slots=True)
class ReducedModel:
    model: EventModel
    scale: int
    """Engines of the fleet for each that is simulated."""

    def predict(self, topology: Topology, workload: Workload, setpoints: Setpoints) -> Prediction:
        small = reduced(Job(topology, self.model.stations, workload, setpoints), self.scale)
        found = replace(self.model, stations=small.stations).predict(topology, workload, small.setpoints)
        return enlarged(found, self.scale)


def scale_of(job: Job) -> int:
    """By how much a job may be reduced; 1 where it is small, or its size matters."""
    knobs, limit = job.setpoints, job.stations.admission.limit_groups
    if not _alike(job) or not knobs.batch_rollouts:
        return 1
    groups, engines = knobs.batch_rollouts // (knobs.group_size or 1), engine_count(job.topology, knobs)
    if knobs.batch_rollouts % (knobs.group_size or 1) or (limit is not None and limit < BATCHES_OPEN * groups):
        return 1
    most, whole = min(engines // ENGINES_MIN, groups // GROUPS_MIN), gcd(groups, limit or 0)
    return max((k for k in range(1, most + 1) if whole % k == 0), default=1)


def _alike(job: Job) -> bool:
    """Whether all that is done is done by engines of one kind, and in no order."""
    stations, knobs = job.stations, job.setpoints
    engine, rules = stations.engine, stations.admission
    beside = (stations.prefill, stations.sandboxes, stations.verifier, stations.tenant)
    if any(station is not None for station in beside) or job.topology.mode is Mode.SERIAL:
        return False
    if engine.speeds or engine.lockstep > 1 or (knobs.oversampling_ratio or 1.0) > 1.0:
        return False
    if stations.sync.mode is not SyncMode.IN_FLIGHT or stations.sync.rolling or rules.order is Order.ADMISSION:
        return False
    if rules.plug is Plug.WIP_CAP and rules.limit_groups is None:
        return 1.0 + (knobs.staleness_bound or 0.0) >= BATCHES_OPEN
    return rules.plug in (Plug.NONE, Plug.WIP_CAP, Plug.BUFFER_CAP, Plug.DROP_OLDEST)


def reduced(job: Job, scale: int) -> Job:
    """The smaller job. A part of an engine is none: those that are left are as much faster or slower."""
    knobs, stations = job.setpoints, job.stations
    engines = engine_count(job.topology, knobs)
    fewer = max(1, round(engines / scale))
    slots = min(stations.engine.slots, knobs.max_in_flight_per_engine or stations.engine.slots)
    in_flight = engines * slots if knobs.max_in_flight is None else knobs.max_in_flight
    speed, limit = engines / (scale * fewer), stations.admission.limit_groups
    return replace(
        job,
        stations=replace(
            stations,
            engine=stations.engine if speed == 1.0 else replace(stations.engine, speeds=(speed,)),
            trainer=replace(stations.trainer, gpu_s_per_token=stations.trainer.gpu_s_per_token * scale),
            admission=replace(stations.admission, limit_groups=None if limit is None else limit // scale),
        ),
        setpoints=replace(
            knobs,
            engines=fewer,
            batch_rollouts=(knobs.batch_rollouts or 0) // scale,
            max_in_flight=max(1, round(in_flight / scale)),
        ),
    )


def enlarged(found: Prediction, scale: int) -> Prediction:
    """What the whole fleet does."""
    return replace(
        found,
        rollouts_per_s=found.rollouts_per_s * scale,
        useful_rollouts_per_s=found.useful_rollouts_per_s * scale,
        tokens_per_s=found.tokens_per_s * scale,
        queue_groups=None if found.queue_groups is None else found.queue_groups * scale,
        in_flight=None if found.in_flight is None else found.in_flight * scale,
    )
