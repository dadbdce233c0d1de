"""From a job to the event engine's parameters: every name and law as a number, or the reason why there is none."""

from bisect import bisect_left
from functools import lru_cache
from itertools import pairwise
from math import ceil

from simulators.distributions import NEVER, duration_law, length_law, solve_law, turn_law
from simulators.event_state import DISCARD_STALE, PLUGS, SYNC_MODES, Counts, Job, Laws, Parameters, Rates
from simulators.fields import at_least, refused
from simulators.plant import Mode, Setpoints, Topology
from simulators.stations import Admission, Order, Plug, PrefillWork, StepTime, Verifier, Victim
from simulators.workload import Lengths

MOST_HELD = 1 << 21
"""Rollouts, in flight or of one batch, whose arrays still fit into some hundred MB; published jobs have thousands."""

MOST_PLACES = 1 << 24
"""Slots of all engines: 16 bytes each."""

MOST_GROUP_TOKENS = (1 << 31) - 1
"""Tokens of a group, counted in 32 bits: a group of 16 holds contexts of 134 million."""


def step_seconds(step: StepTime, residents: float) -> float:
    """f(b): linear between the table's points and beyond its last."""
    table = step.table
    right = min(max(1, bisect_left([p[0] for p in table], residents)), len(table) - 1)
    (b0, s0), (b1, s1) = table[right - 1], table[right]
    return s0 + (s1 - s0) * (residents - b0) / (b1 - b0)


@lru_cache(maxsize=64)
def _step_table(step: StepTime, slots: int) -> tuple[float, ...]:
    points = [p[0] for p in step.table]
    if len(points) < 2 or any(a >= b for a, b in pairwise(points)):
        raise refused("engine.step.table", step.table, "needs two points or more, residents rising")
    seconds = (0.0, *(step_seconds(step, float(b)) for b in range(1, slots + 1)))
    if not all(0.0 < s < float("inf") for s in seconds[1:]):
        raise refused("engine.step.table", step.table, "gives a step of no time; every step must take some")
    return seconds


def engine_count(topology: Topology, setpoints: Setpoints) -> int:
    """How many engines decode."""
    if setpoints.engines is not None:
        count = setpoints.engines
    else:
        per_engine = topology.gpus_per_engine or 1
        serial = topology.mode is Mode.SERIAL
        gpus = topology.gpus_total if serial else setpoints.gpus_decode or setpoints.gpus_generator
        if gpus is None:
            name = "topology.gpus_total" if serial else "setpoints.gpus_generator"
            raise refused(name, None, "the number of engines follows from it; or give setpoints.engines")
        count = gpus // per_engine
    if count < 1:
        raise refused("engines", count, "the generator needs at least one engine")
    return count


def _trainer_gpus(topology: Topology, setpoints: Setpoints) -> int:
    gpus = topology.gpus_total if topology.mode is Mode.SERIAL else setpoints.gpus_trainer
    gpus = setpoints.gpus_trainer if gpus is None else gpus
    if gpus is None or gpus < 1:
        raise refused("setpoints.gpus_trainer", gpus, "the trainer needs at least one GPU")
    return gpus


def _batch_groups(setpoints: Setpoints) -> tuple[int, int]:
    size, batch = setpoints.group_size or 1, setpoints.batch_rollouts
    if batch is None or batch < 1 or size < 1:
        raise refused("setpoints.batch_rollouts", batch, "rollouts of one training step, at least 1")
    if batch % size:
        raise refused("setpoints.batch_rollouts", batch, f"must be a multiple of group_size={size}")
    return batch // size, size


def _admission(job: Job, batch: int, round_groups: int) -> tuple[int, int, int]:
    """Plug, its limit in groups, and whether slots are freed at the start of training."""
    rules, setpoints = job.stations.admission, job.setpoints
    needed = round_groups or batch
    if job.topology.mode is Mode.SERIAL:
        rules = Admission(Plug.WIP_CAP, needed)
    limit = rules.limit_groups
    if limit is not None and limit < 1:
        raise refused("admission.limit_groups", limit, "must be at least 1")
    if limit is None and rules.plug is Plug.WIP_CAP:
        limit = ceil((1.0 + (setpoints.staleness_bound or 0.0)) * needed)
    if limit is None and rules.plug in (Plug.BUFFER_CAP, Plug.DROP_OLDEST, Plug.PER_SYNC):
        raise refused("admission.limit_groups", None, f"plug {rules.plug.value!r} needs a limit in groups")
    return PLUGS.index(rules.plug), NEVER if limit is None else limit, int(rules.freed_at_start)


def _counts(job: Job) -> Counts:
    topology, stations, knobs = job.topology, job.stations, job.setpoints
    engine, sync, pool = stations.engine, stations.sync, stations.prefill
    engines = engine_count(topology, knobs)
    batch, size = _batch_groups(knobs)
    slots = min(engine.slots, knobs.max_in_flight_per_engine or engine.slots)
    limit = engines * slots if knobs.max_in_flight is None else knobs.max_in_flight
    for field, value in (("engine.slots", slots), ("setpoints.max_in_flight", limit), ("lockstep", engine.lockstep)):
        at_least(field, value, 1)
    _not_too_many(knobs, engines, slots, batch * size)
    ratio = at_least("setpoints.oversampling_ratio", knobs.oversampling_ratio or 1.0, 1.0)
    rounds = round(ratio * batch) if ratio > 1.0 and stations.group_wise_oversampling else 0
    started = size if stations.group_wise_oversampling else max(size, round(ratio * size))
    plug, plug_limit, freed_at_start = _admission(job, batch, rounds)
    bound = knobs.staleness_bound
    if plug == DISCARD_STALE and bound is None:
        raise refused("setpoints.staleness_bound", None, "plug 'discard-stale' throws away by it")
    boxes = stations.sandboxes
    quota = knobs.sandbox_quota or (boxes.live_limit if boxes else None)
    return Counts(
        engines=engines,
        slots=slots,
        in_flight_limit=limit,
        group_size=size,
        members_started=started,
        batch_groups=batch,
        round_groups=rounds if rounds > batch else 0,
        plug=plug,
        plug_limit=plug_limit,
        freed_at_start=freed_at_start,
        in_order=int(stations.admission.order is Order.ADMISSION),
        staleness_bound=NEVER if bound is None else int(bound),
        sync_interval=max(1, knobs.sync_interval or 1),
        sync_mode=SYNC_MODES.index(sync.mode),
        rolling=int(sync.rolling),
        trainer_waits=int(sync.trainer_waits),
        keeps_kv=int(sync.keeps_kv),
        filtering=int(bool(knobs.filter_zero_adv)),
        partial=int(bool(knobs.partial_rollout)),
        max_context=min(job.workload.max_context_tokens or MOST_GROUP_TOKENS, MOST_GROUP_TOKENS // started),
        lockstep=engine.lockstep,
        shortest_victim=int(engine.victim is Victim.SHORTEST_OUTPUT),
        chunked=int(engine.prefill is PrefillWork.CHUNKED),
        prefix_cache=int(engine.prefix_cache),
        prefill_engines=0 if pool is None else _pool_engines(knobs, pool.gpus_per_engine),
        sandboxed=int(boxes is not None),
        sandbox_limit=NEVER if quota is None else quota,
        verified=int(stations.verifier is not None),
        verifier_limit=_verifier_limit(stations.verifier),
        prune_tokens=stations.pruning.tokens if stations.pruning else NEVER,
        tenant=int(stations.tenant is not None),
        validation_interval=knobs.validation_interval or NEVER,
        checkpoint_interval=knobs.checkpoint_interval or NEVER,
    )


def _not_too_many(knobs: Setpoints, engines: int, slots: int, batch_rollouts: int) -> None:
    """Refuses what the arrays of a simulation do not hold."""
    held = engines * slots
    if knobs.max_in_flight is None and held > MOST_HELD:
        why = f"{engines:,} engines hold {held:,} rollouts, and a simulation up to {MOST_HELD:,}: lower one of them"
        raise refused("stations.engine.slots", slots, why)
    for field, value in (("max_in_flight", knobs.max_in_flight), ("batch_rollouts", batch_rollouts)):
        if value is not None and value > MOST_HELD:
            raise refused(f"setpoints.{field}", value, f"a simulation holds up to {MOST_HELD:,} rollouts")
    if held > MOST_PLACES:
        raise refused("engine.slots", slots, f"a simulation holds up to {MOST_PLACES:,} of them in all engines")


def _pool_engines(knobs: Setpoints, gpus_per_engine: int) -> int:
    engines = (knobs.gpus_prefill or 0) // max(1, gpus_per_engine)
    if engines < 1:
        raise refused("setpoints.gpus_prefill", knobs.gpus_prefill, "a prefill pool needs at least one engine")
    return engines


def _verifier_limit(verifier: Verifier | None) -> int:
    return NEVER if verifier is None or verifier.concurrency is None else verifier.concurrency


def _rates(job: Job) -> Rates:
    stations, knobs = job.stations, job.setpoints
    engine, trainer, boxes, pool = stations.engine, stations.trainer, stations.sandboxes, stations.prefill
    never = float(NEVER)
    gpus = float(_trainer_gpus(job.topology, knobs))
    kv = never if engine.kv_tokens is None else float(engine.kv_tokens)
    numbers = Rates(
        per_context_token_s=engine.step.per_context_token_s,
        trainer_base_s=trainer.base_s,
        trainer_s_per_token=trainer.gpu_s_per_token / gpus**trainer.exponent,
        sync_s=stations.sync.seconds,
        validation_s=trainer.validation_s,
        checkpoint_s=trainer.checkpoint_s,
        prefill_s_per_token=0.0 if pool else engine.prefill_s_per_token,
        kv_tokens=kv,
        kv_admission_tokens=kv if kv >= never else kv * (1.0 - engine.kv_watermark_frac),
        failure_frac=job.workload.failure_frac,
        pool_s_per_token=pool.prefill_s_per_token if pool else 0.0,
        pool_kv_tokens=never if pool is None or pool.kv_tokens is None else float(pool.kv_tokens),
        transfer_s_per_token=pool.transfer_s_per_token if pool else 0.0,
        transfer_base_s=pool.transfer_base_s if pool else 0.0,
        sandbox_start_s=boxes.start_s if boxes else 0.0,
        sandbox_start_gap_s=1.0 / boxes.starts_per_s_limit if boxes and boxes.starts_per_s_limit else 0.0,
        sandbox_failure_frac=boxes.failure_frac if boxes else 0.0,
        sandbox_overload_factor=boxes.overload_factor if boxes else 0.0,
        sandbox_overload_failure_frac=boxes.overload_failure_frac if boxes else 0.0,
        sandbox_timeout_s=never if boxes is None or boxes.start_timeout_s is None else boxes.start_timeout_s,
        sandbox_leak_frac=boxes.leak_frac if boxes else 0.0,
        sandbox_lifetime_s=never if boxes is None or boxes.lifetime_s is None else boxes.lifetime_s,
        verifier_s=stations.verifier.time_s if stations.verifier else 0.0,
        prune_frac=stations.pruning.frac if stations.pruning else 0.0,
        tenant_tokens=stations.tenant.response_tokens if stations.tenant else 0.0,
        length_correlation=job.workload.solve.length_correlation,
    )
    for field in Rates.__dataclass_fields__:
        if field != "length_correlation":
            at_least(field, getattr(numbers, field), 0.0)
    return numbers


@lru_cache(maxsize=16)
def parameters(job: Job) -> Parameters:
    """Raises ValueError that names field and value where the job cannot be simulated."""
    counts, work = _counts(job), job.workload
    laws = Laws(
        prompt=length_law(work.prompt, "workload.prompt"),
        response=length_law(work.response, "workload.response"),
        turns=turn_law(work.turns),
        tool_tokens=length_law(work.tool_tokens or Lengths(0.0), "workload.tool_tokens"),
        tool_time=duration_law(work.tool),
        solve_rate=solve_law(work.solve),
    )
    engine = job.stations.engine
    speeds = engine.speeds or (1.0,)
    if min(speeds) <= 0.0:
        raise refused("engine.speeds", speeds, "every speed must be above 0")
    slowness = tuple(1.0 / speeds[e % len(speeds)] for e in range(counts.engines))
    return Parameters(counts, _rates(job), laws, _step_table(engine.step, counts.slots), slowness)
