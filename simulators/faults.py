"""What makes a job impossible: each fault names the key, the value and what would be possible."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from itertools import pairwise

from simulators.event_state import Job
from simulators.fields import LARGEST, range_of
from simulators.plant import Mode, Setpoints, Topology
from simulators.stations import Engine, Plug, Stations, SyncMode
from simulators.workload import Lengths, TurnLaw, Workload


@dataclass(frozen=True, slots=True)
class Fault:
    key: str
    """Dotted path in the scenario."""
    value: object
    why: str
    """What is wrong with the value, and what to write instead."""


def job_faults(job: Job) -> list[Fault]:
    """Everything that is impossible in a job; empty for one that can be simulated."""
    ranges = [fault for part, record in _parts(job) for fault in range_faults(part, record)]
    return ranges or [
        *setting_faults(job.topology, job.setpoints),
        *_unheard(job),
        *_workload(job.workload),
        *_stations(job),
    ]


def _parts(job: Job) -> Iterator[tuple[str, object]]:
    yield from (("topology", job.topology), ("setpoints", job.setpoints))
    yield from (("workload", job.workload), ("stations", job.stations))


def range_faults(path: str, value: object) -> Iterator[Fault]:
    """Every number outside the range that its field's name promises."""
    if is_dataclass(value):
        for f in fields(value):
            yield from range_faults(f"{path}.{f.name}", getattr(value, f.name))
        return
    if isinstance(value, tuple):
        for place, inner in enumerate(value):
            yield from range_faults(f"{path}.{place}", inner)
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    low, high = range_of(next(part for part in reversed(path.split(".")) if not part.isdecimal()))
    if not low <= value <= high:
        why = f"must be at least {low:g}" if high >= LARGEST else f"must be between {low:g} and {high:g}"
        yield Fault(path, value, why if value < low or high < LARGEST else "is larger than anything of a job")


def setting_faults(topology: Topology, knobs: Setpoints) -> Iterator[Fault]:
    """What no job of this topology can be set to. Also asked before a knob of a running one is turned."""
    if topology.mode not in (Mode.SERIAL, Mode.OVERLAPPED):
        yield Fault("topology.mode", str(topology.mode), "must be serial or overlapped: nothing else is simulated")
        return
    yield from _batch(knobs)
    yield from _generator(topology, knobs)
    if topology.mode is Mode.OVERLAPPED:
        yield from _trainer(topology, knobs)
    elif topology.gpus_total is None:
        yield Fault("topology.gpus_total", None, "is needed: in a serial job both sides use all GPUs")
    if knobs.overlap is not None and knobs.overlap is not (topology.mode is Mode.OVERLAPPED):
        why = f"contradicts topology.mode = {topology.mode}, which is what is simulated: change that, or leave this out"
        yield Fault("setpoints.overlap", knobs.overlap, why)


def _batch(knobs: Setpoints) -> Iterator[Fault]:
    size, batch = knobs.group_size, knobs.batch_rollouts
    if size is None:
        yield Fault("setpoints.group_size", None, "is needed: rollouts of one prompt, at least 1")
    if batch is None:
        yield Fault("setpoints.batch_rollouts", None, "is needed: rollouts trained per step")
    if size is not None and batch is not None and batch % size:
        near = max(size, batch - batch % size)
        yield Fault("setpoints.batch_rollouts", batch, f"must be a multiple of group_size={size}, e.g. {near}")


def _generator(topology: Topology, knobs: Setpoints) -> Iterator[Fault]:
    engine = topology.gpus_per_engine
    if engine is None:
        yield Fault("topology.gpus_per_engine", None, "is needed: GPUs of one inference engine")
        return
    split = knobs.gpus_decode is not None or knobs.gpus_prefill is not None
    if split and (knobs.gpus_decode is None or knobs.gpus_prefill is None):
        missing = "gpus_decode" if knobs.gpus_decode is None else "gpus_prefill"
        yield Fault(f"setpoints.{missing}", None, "is needed: a disaggregated generator has both pools")
        return
    pools = (knobs.gpus_prefill or 0) + (knobs.gpus_decode or 0)
    if split and knobs.gpus_generator not in (None, pools):
        why = f"must be gpus_prefill + gpus_decode = {pools}: turn the pools with it, or leave it out"
        yield Fault("setpoints.gpus_generator", knobs.gpus_generator, why)
    serial = topology.mode is Mode.SERIAL
    name = "topology.gpus_total" if serial else "setpoints.gpus_decode" if split else "setpoints.gpus_generator"
    pool = topology.gpus_total if serial else knobs.gpus_decode if split else knobs.gpus_generator
    if pool is None:
        yield Fault(name, None, "is needed: GPUs of all inference engines")
    elif pool < engine:
        yield Fault(name, pool, f"is less than one engine of topology.gpus_per_engine={engine}")
    elif knobs.engines is not None and knobs.engines * engine > pool:
        most = pool // engine
        yield Fault("setpoints.engines", knobs.engines, f"is more than {pool} GPUs carry: at most {most} of {engine}")


def _trainer(topology: Topology, knobs: Setpoints) -> Iterator[Fault]:
    size, total = knobs.gpus_trainer, topology.gpus_total
    floor, step = topology.trainer_gpus_min or 1, topology.trainer_gpu_step or 1
    if total is not None and floor > total:
        yield Fault("topology.trainer_gpus_min", floor, f"is more than gpus_total={total}: no trainer size is legal")
        return
    if total is not None and not topology.trainer_sizes and -(-floor // step) * step >= total:
        why = f"has no multiple from trainer_gpus_min={floor} to under gpus_total={total}: no trainer size is legal"
        yield Fault("topology.trainer_gpu_step", step, why)
        return
    legal = [s for s in topology.trainer_sizes if s >= floor and (total is None or s < total)]
    if topology.trainer_sizes and not legal:
        yield Fault("topology.trainer_sizes", list(topology.trainer_sizes), "holds no size that the GPUs allow")
        return
    if size is None:
        yield Fault("setpoints.gpus_trainer", None, "is needed: GPUs of the trainer")
        return
    if size < floor:
        yield Fault("setpoints.gpus_trainer", size, f"is under the memory floor topology.trainer_gpus_min={floor}")
    elif topology.trainer_sizes and size not in topology.trainer_sizes:
        yield Fault("setpoints.gpus_trainer", size, f"must be one of topology.trainer_sizes={list(legal)}")
    elif size % step:
        yield Fault("setpoints.gpus_trainer", size, f"must be a multiple of topology.trainer_gpu_step={step}")
    elif topology.batch_must_divide and knobs.batch_rollouts and knobs.batch_rollouts % (size // step):
        ranks = size // step
        fewer = next(r for r in range(ranks, 0, -1) if knobs.batch_rollouts % r == 0)
        why = f"makes {ranks} data-parallel ranks, which do not divide batch_rollouts={knobs.batch_rollouts}"
        why += f"; {fewer * step} would" if fewer * step >= floor else ""
        yield Fault("setpoints.gpus_trainer", size, why)
    used = size + (knobs.gpus_generator or (knobs.gpus_prefill or 0) + (knobs.gpus_decode or 0))
    if total is not None and used > total:
        yield Fault("setpoints.gpus_trainer", size, f"and the generator use {used} of topology.gpus_total={total} GPUs")


SPLIT_KNOBS = ("gpus_trainer", "gpus_generator", "gpus_prefill", "gpus_decode")
"""What divides GPUs between the sides: nothing to a serial job."""


def _unheard(job: Job) -> Iterator[Fault]:
    """Knobs that another key decides: one that says otherwise would be passed over without a word."""
    topology, knobs, mode = job.topology, job.setpoints, job.stations.sync.mode
    for name in SPLIT_KNOBS if topology.mode is Mode.SERIAL else ():
        gpus = getattr(knobs, name)
        if gpus not in (None, topology.gpus_total):
            why = f"means nothing to topology.mode = serial, where both sides use gpus_total={topology.gpus_total}"
            yield Fault(f"setpoints.{name}", gpus, f"{why}: leave it out, or make the mode overlapped")
    stated = knobs.in_flight_update
    if stated is not None and stated is not (mode is SyncMode.IN_FLIGHT):
        wanted = "in-flight" if stated else "drain or abort"
        why = f"contradicts stations.sync.mode = {mode}, which is what is simulated"
        yield Fault("setpoints.in_flight_update", stated, f"{why}: make that {wanted}, or leave this out")


MOST_TURNS = 100_000
"""Model calls of one rollout: published jobs have up to some hundred."""


def _workload(workload: Workload) -> Iterator[Fault]:
    named = (("prompt", workload.prompt), ("response", workload.response), ("tool_tokens", workload.tool_tokens))
    for name, lengths in named:
        if lengths is not None:
            yield from _lengths(f"workload.{name}", lengths)
    turns = workload.turns
    if turns.law is TurnLaw.EMPIRICAL and not turns.quantiles:
        yield Fault("workload.turns.quantiles", [], "is needed by law = empirical: pairs of share and turns")
    if turns.mean > MOST_TURNS:
        yield Fault("workload.turns.mean", turns.mean, f"must be at most {MOST_TURNS}: model calls of one rollout")
    yield from _quantiles("workload.turns.quantiles", turns.quantiles)
    if any(value < 1.0 for _, value in turns.quantiles):
        counts = [value for _, value in turns.quantiles]
        yield Fault("workload.turns.quantiles", counts, "must be turns of at least 1: a rollout calls the model")
    prompt, most = workload.prompt, workload.max_context_tokens
    if most is not None and not prompt.quantiles and most <= prompt.mean_tokens:
        why = f"leaves no room for a response after a mean prompt of {prompt.mean_tokens:g} tokens: raise it"
        yield Fault("workload.max_context_tokens", most, why)
    if workload.failure_frac >= 1.0:
        yield Fault("workload.failure_frac", workload.failure_frac, "must be under 1: no rollout would ever finish")
    solve = workload.solve
    if solve.always_frac + solve.never_frac > 1.0:
        yield Fault("workload.solve.always_frac", solve.always_frac, "and never_frac must together be at most 1")
    for place, part in enumerate(solve.parts):
        if part.weight <= 0 or part.a <= 0 or part.b <= 0:
            values = (part.weight, part.a, part.b)
            yield Fault(f"workload.solve.parts.{place}", values, "needs positive weight, a and b")
    if not solve.parts and solve.always_frac + solve.never_frac < 1.0:
        yield Fault("workload.solve.parts", [], "is empty: give a mixture, e.g. [{weight = 1, a = 1, b = 1}]")


def _lengths(key: str, lengths: Lengths) -> Iterator[Fault]:
    if not lengths.quantiles and lengths.mean_tokens < 1.0:
        yield Fault(f"{key}.mean_tokens", lengths.mean_tokens, "must be at least 1: an empty workload is none")
    yield from _quantiles(f"{key}.quantiles", lengths.quantiles)


def _quantiles(key: str, pairs: tuple[tuple[float, float], ...]) -> Iterator[Fault]:
    if not pairs:
        return
    shares = [share for share, _ in pairs]
    if (shares[0], shares[-1]) != (0.0, 1.0) or len(pairs) < 2:
        yield Fault(key, shares, "must start at share 0 and end at share 1")
    elif any(a >= b for a, b in pairwise(shares)) or any(a > b for (_, a), (_, b) in pairwise(pairs)):
        yield Fault(key, list(pairs), "must rise in shares and in values")


def _stations(job: Job) -> Iterator[Fault]:
    stations, workload, knobs = job.stations, job.workload, job.setpoints
    yield from _step_times(stations.engine)
    if knobs.filter_zero_adv and workload.solve.always_frac + workload.solve.never_frac >= 1.0:
        yield Fault("setpoints.filter_zero_adv", True, "drops every group when no prompt varies: no batch ever fills")
    context = workload.prompt.mean_tokens + workload.response.mean_tokens
    if stations.engine.kv_tokens is not None and stations.engine.kv_tokens < context:
        why = f"is less than one mean prompt and response ({context:g} tokens): nothing could finish"
        yield Fault("stations.engine.kv_tokens", stations.engine.kv_tokens, why)
    if stations.trainer.exponent > 1.0:
        yield Fault(
            "stations.trainer.exponent", stations.trainer.exponent, "must be at most 1: no trainer scales better"
        )
    if knobs.gpus_prefill is not None and stations.prefill is None:
        yield Fault("stations.prefill", None, "is needed when setpoints.gpus_prefill is set")
    elif stations.prefill is not None and (knobs.gpus_prefill or 0) < stations.prefill.gpus_per_engine:
        size = stations.prefill.gpus_per_engine
        yield Fault("setpoints.gpus_prefill", knobs.gpus_prefill, f"must hold one prefill engine of {size} GPUs")
    boxes = stations.sandboxes
    if boxes is not None and boxes.failure_frac >= 1.0:
        yield Fault("stations.sandboxes.failure_frac", boxes.failure_frac, "must be under 1: no start would succeed")
    if boxes is not None and boxes.starts_per_s_limit == 0.0:
        why = "must be positive: nothing would ever start; leave it out where starts are not limited"
        yield Fault("stations.sandboxes.starts_per_s_limit", boxes.starts_per_s_limit, why)
    if stations.tenant is not None and stations.tenant.response_tokens < 1.0:
        yield Fault("stations.tenant.response_tokens", stations.tenant.response_tokens, "must be at least 1")
    yield from _plug(stations, knobs)


NEVER_FILLS = {
    Plug.WIP_CAP: "never lets a batch start",
    Plug.DROP_OLDEST: "drops groups before a batch of them waits",
    Plug.PER_SYNC: "lets fewer groups start between two publications than their steps train",
}
"""What becomes of a limit under one batch."""


def _plug(stations: Stations, knobs: Setpoints) -> Iterator[Fault]:
    plug, limit = stations.admission.plug, stations.admission.limit_groups
    batch = -(-(knobs.batch_rollouts or 0) // (knobs.group_size or 1))
    need = batch * (knobs.sync_interval or 1) if plug is Plug.PER_SYNC else batch
    if plug in NEVER_FILLS and limit is not None and limit < need:
        yield Fault("stations.admission.limit_groups", limit, f"{NEVER_FILLS[plug]}: it needs {need} groups")
    if plug in (Plug.BUFFER_CAP, Plug.DROP_OLDEST, Plug.PER_SYNC) and limit is None:
        yield Fault("stations.admission.limit_groups", None, f"is needed by plug = {plug}")
    if plug is Plug.DISCARD_STALE and knobs.staleness_bound is None:
        yield Fault("setpoints.staleness_bound", None, f"is needed by plug = {plug}: older groups are thrown away")


def _step_times(engine: Engine) -> Iterator[Fault]:
    table = engine.step.table
    if len(table) < 2 or any(a >= b for (a, _), (b, _) in pairwise(table)):
        why = "must be two pairs or more of rising residents and seconds"
        yield Fault("stations.engine.step.table", list(table), why)
    elif any(seconds <= 0 for _, seconds in table):
        yield Fault("stations.engine.step.table", list(table), "must hold positive seconds")
    elif table[-1][1] < table[-2][1]:
        why = "must not end falling: the last slope goes on, and a larger batch would take no time"
        yield Fault("stations.engine.step.table", list(table), why)
    if any(speed <= 0 for speed in engine.speeds):
        yield Fault("stations.engine.speeds", list(engine.speeds), "must all be positive")
