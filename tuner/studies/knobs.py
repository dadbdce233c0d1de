"""The knobs of a study: for each its lattice on the job at hand, or the sentence why this job has none."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from math import ceil

from policies.laws import parameters
from policies.settings import SPLIT
from simulators.legality import legal_sizes
from simulators.plant import Bounds, Mode, Setpoints, Topology
from simulators.stations import Plug, Stations
from tuner.errors import ConfigError
from tuner.studies.space import LIMITED, PARAMETER, Dimension, Space, lattice_of

VALUES = 24
"""About so many values of a limit in flight are told apart: under 5 % of its range each, which is below what one
more rollout in flight shows."""
WIDER = 4.0
"""A limit in flight is looked for from a quarter of today's to four times today's."""
ABOVE = 1.5
"""Where nothing is limited today, a limit this far above what is in flight is none."""
RATIO_STEP, RATIO_MAX = 0.125, 2.0
STALENESS_MAX = 8
"""Versions that are looked at where no bound says less."""
SYNC_MAX = 8
LOG_FROM = 10.0
"""A parameter whose bounds are so many times apart is searched by ratio."""


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What the space of a job's settings follows from."""

    topology: Topology
    setpoints: Setpoints
    bounds: Bounds
    stations: Stations | None = None
    in_flight: float | None = None
    """Rollouts in flight today, where they are known."""


Found = tuple[Dimension, ...] | str
"""The dimensions of a knob, or why this job has none."""


def _split(job: JobFacts) -> Found:
    now = job.setpoints
    if job.topology.mode is not Mode.OVERLAPPED:
        return f"a {job.topology.mode} job has no split: both sides use the same GPUs"
    if not now.gpus_trainer or not now.gpus_generator:
        return "the GPUs of each side are not known; state [setpoints] gpus_trainer and gpus_generator in a job file"
    legal = sorted({*legal_sizes(job.topology, now, job.bounds), now.gpus_trainer})
    if len(legal) < 2:
        return f"gpus_trainer={now.gpus_trainer} is the only legal size"
    return (lattice_of(SPLIT, legal, now.gpus_trainer),)


def _prefill(job: JobFacts) -> Found:
    now, pool = job.setpoints, job.stations.prefill if job.stations is not None else None
    if not now.gpus_prefill or not now.gpus_decode or pool is None:
        return "this job has no prefill engines of its own"
    most = (job.topology.gpus_total or now.gpus_prefill + now.gpus_decode) // 2
    return (lattice_of("gpus_prefill", range(pool.gpus_per_engine, most + 1, pool.gpus_per_engine), now.gpus_prefill),)


def _concurrency(job: JobFacts) -> Found:
    limit, group = job.setpoints.max_in_flight, job.setpoints.group_size or 1
    centre = limit or job.in_flight or _slots(job)
    if centre is None:
        return "neither a limit in flight nor the rollouts in flight are known; state [setpoints] max_in_flight"
    low, high = max(group, centre / WIDER), centre * (WIDER if limit else ABOVE)
    roofs = [r for r in (job.bounds.max_in_flight_max, job.setpoints.sandbox_quota) if r is not None]
    high = max(centre if limit else low + group, min([high, *roofs]))
    step = max(1, ceil((high - low) / VALUES / group)) * group
    anchor = round(centre)
    first, last = anchor - int((anchor - low) // step) * step, anchor + int((high - anchor) // step) * step
    sizes = Dimension("max_in_flight", max(1, first), max(1, last), step, whole=True, now=limit)
    if limit is not None:
        return (sizes,)
    condition = Dimension(LIMITED, choices=(True, False), now=False)
    return condition, Dimension(sizes.name, sizes.low, sizes.high, step, whole=True, only_if=(LIMITED, True))


def _slots(job: JobFacts) -> float | None:
    """What all engines together hold."""
    pool, size = job.setpoints.gpus_decode or job.setpoints.gpus_generator, job.topology.gpus_per_engine
    if job.stations is None or not pool or not size:
        return None
    return float(job.stations.engine.slots * max(1, pool // size))


def _oversampling(job: JobFacts) -> Found:
    now = job.setpoints.oversampling_ratio or 1.0
    first = now - int((now - 1.0) / RATIO_STEP + 1e-9) * RATIO_STEP
    last = first + int((max(RATIO_MAX, now) - first) / RATIO_STEP + 1e-9) * RATIO_STEP
    return (Dimension("oversampling_ratio", first, last, RATIO_STEP, now=now),)


def _staleness(job: JobFacts) -> Found:
    now, admission = job.setpoints.staleness_bound, job.stations.admission if job.stations is not None else None
    follows = admission is not None and (
        admission.plug is Plug.DISCARD_STALE or (admission.plug is Plug.WIP_CAP and admission.limit_groups is None)
    )
    if now is None or not follows:
        return "nothing in this job follows a staleness bound"
    most = job.bounds.staleness_max if job.bounds.staleness_max is not None else max(STALENESS_MAX, 2 * now)
    return (Dimension("staleness_bound", 0, max(int(most), round(now)), 1, whole=True, now=round(now)),)


def _sync(job: JobFacts) -> Found:
    now = job.setpoints.sync_interval or 1
    return (Dimension("sync_interval", 1, max(SYNC_MAX, 2 * now), 1, whole=True, now=now),)


def _group(job: JobFacts) -> Found:
    now = job.setpoints.group_size
    if not now:
        return "the group size is not known; state [setpoints] group_size"
    return (Dimension("group_size", choices=_octaves(now), now=now),)


def _batch(job: JobFacts) -> Found:
    now = job.setpoints.batch_rollouts
    if not now:
        return "the batch is not known; state [setpoints] batch_rollouts"
    return (Dimension("batch_rollouts", choices=_octaves(now), now=now),)


def _octaves(now: int) -> tuple[int, ...]:
    """Half of today's (where it is even), today's, twice and four times as many."""
    return tuple(n for n in (now // 2 if now % 2 == 0 else 0, now, 2 * now, 4 * now) if n > 0)


KNOBS: Mapping[str, Callable[[JobFacts], Found]] = {
    "split": _split,
    "prefill": _prefill,
    "concurrency": _concurrency,
    "oversampling": _oversampling,
    "staleness": _staleness,
    "sync": _sync,
    "group": _group,
    "batch": _batch,
}
"""What `--knobs` names."""
USUAL = ("split", "prefill", "concurrency")
"""Without `--knobs`: what changes no data and costs nothing, as far as the job has it."""
LEARNING = ("oversampling_ratio", "staleness_bound", "sync_interval", "group_size", "batch_rollouts")
"""Settings that change what is learned from, which no simulator of throughput prices."""


def space_of(job: JobFacts, names: Sequence[str] = ()) -> Space:
    """The settings to search. A knob that was named and that this job has not is refused; of the usual, left out."""
    for name in names:
        if name not in KNOBS:
            raise ConfigError(f"--knobs {name}: no such knob; known: {', '.join(KNOBS)}")
    answers = {name: KNOBS[name](job) for name in dict.fromkeys(names or USUAL)}
    for name, answer in answers.items():
        if isinstance(answer, str) and names:
            raise ConfigError(f"--knobs {name}: {answer}")
    found = tuple(d for answer in answers.values() if not isinstance(answer, str) for d in answer)
    if not found:
        why = "; ".join(f"{name}: {answer}" for name, answer in answers.items() if isinstance(answer, str))
        raise ConfigError(f"this job has no setting to search ({why}); name others: --knobs {','.join(KNOBS)}")
    return Space(found)


def parameters_of(law: object) -> tuple[Dimension, ...]:
    """A policy's parameters with the bounds that its fields declare (policies/laws/parameters.py)."""
    defaults = {f.name: getattr(law, f.name) for f in fields(law)}  # type: ignore[arg-type]
    found = []
    for name, (low, high) in parameters.space(law).items():
        whole, log = isinstance(defaults[name], int), low > 0.0 and high / low >= LOG_FROM
        step = 1 if whole and not log else None
        found.append(Dimension(PARAMETER + name, low, high, step, whole=whole, log=log, now=defaults[name]))
    return tuple(found)
