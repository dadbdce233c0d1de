"""What the model needs and the job does not state: filled in so that it changes no ratio, or as little as can be."""

from dataclasses import dataclass, replace
from math import floor

from simulators.calibration.priors import RESIDENTS
from simulators.plant import Mode, Setpoints, Topology
from simulators.snapshot import Snapshot

BATCH = 256
"""Rollouts of a batch that nobody stated, where no GPU is counted either: engines then follow from it."""
GROUP = 8
SMALL_JOB_GPUS = 32
ENGINES_MAX = 4096
SLOTS = 1024
"""Requests of one engine at once where no cap is stated: more than any KV pool holds of long rollouts."""
SIDES_ASSUMED = "GPUs of each side"
"""How the list of what was assumed begins to say that the split is made up."""
MOST = {"batch_rollouts": 1_000_000, "group_size": 10_000, "engines": 100_000, "gpus_generator": 1_000_000}
"""Larger counts were misread, and a model of them would take for ever."""
TURNS_MOST, BOUND_MOST, RATIO_MOST = 10_000.0, 1_000.0, 100.0


@dataclass(frozen=True, slots=True)
class Laid:
    """A job with all the model needs, and what of it was filled in."""

    topology: Topology
    setpoints: Setpoints
    separate: bool
    """True for a serial job whose two sides have GPUs of their own: they work in turn, each on its own."""
    assumed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Guess:
    """Used where engines cannot be counted."""

    residents: float
    """Rollouts for each GPU of the generator."""
    engine_size: int
    """GPUs of one engine."""


def complete(topology: Topology, setpoints: Setpoints, snapshot: Snapshot, guess: Guess) -> Laid:
    """The job with the gaps filled."""
    assumed: list[str] = []
    batch = setpoints.batch_rollouts or int(snapshot.get("batch_rollouts") or 0)
    if batch < 1:
        batch, told = _batch(topology, setpoints, guess)
        assumed.append(told)
    group = setpoints.group_size or int(snapshot.get("group_size_seen") or 0)
    if group < 1:
        group = GROUP
        assumed.append(f"group_size {GROUP}")
    group = next(g for g in range(min(group, batch), 0, -1) if batch % g == 0)
    if setpoints.staleness_bound is None and topology.mode is Mode.OVERLAPPED:
        assumed.append("one step off")
    known = replace(
        setpoints,
        batch_rollouts=batch,
        group_size=group,
        sync_interval=setpoints.sync_interval or 1,
        max_in_flight_per_engine=_slots(setpoints, snapshot),
    )
    laid = Laid(topology, known, _separate(topology, setpoints), tuple(assumed))
    return _with_gpus(laid, snapshot, guess)


def _batch(topology: Topology, setpoints: Setpoints, guess: Guess) -> tuple[int, str]:
    """A batch that fills the generator as the guess has it: how full engines are decides what more of them bring."""
    gpus = setpoints.gpus_generator or topology.gpus_total
    if not gpus:
        return BATCH, f"batch_rollouts {BATCH}"
    filling = guess.residents * gpus / _running_ahead(setpoints)
    least, most = RESIDENTS.low, RESIDENTS.high
    told = f"batch_rollouts: {least:g} to {most:g} in flight for each GPU of the generator"
    return min(MOST["batch_rollouts"], max(1, round(filling))), told


def beyond_any_job(setpoints: Setpoints, snapshot: Snapshot) -> str | None:
    """A sentence on the first count that no job has; None where all are possible."""
    counts = {
        "batch_rollouts": max(setpoints.batch_rollouts or 0, snapshot.get("batch_rollouts") or 0.0),
        "group_size": max(setpoints.group_size or 0, snapshot.get("group_size_seen") or 0.0),
        "engines": max(setpoints.engines or 0, snapshot.get("engines") or 0.0),
        "gpus_generator": setpoints.gpus_generator or 0,
    }
    odd = [(name, value) for name, value in counts.items() if value > MOST[name]]
    for name, number, most in (
        ("turns_mean", snapshot.get("turns_mean"), TURNS_MOST),
        ("staleness_bound", setpoints.staleness_bound, BOUND_MOST),
        ("oversampling_ratio", setpoints.oversampling_ratio, RATIO_MOST),
    ):
        odd += [(name, number)] if number is not None and number > most else []
    return f"{odd[0][0]}={odd[0][1]:g} is more than any job has: nothing can be calibrated on it" if odd else None


def _separate(topology: Topology, setpoints: Setpoints) -> bool:
    trainer, generator, total = setpoints.gpus_trainer, setpoints.gpus_generator, topology.gpus_total
    return bool(
        topology.mode is Mode.SERIAL and trainer and generator and total is not None and trainer + generator <= total
    )


def _slots(setpoints: Setpoints, snapshot: Snapshot) -> int | None:
    limit, engines = snapshot.get("running_limit"), setpoints.engines or snapshot.get("engines") or 1
    return setpoints.max_in_flight_per_engine or (max(1, floor(limit / engines)) if limit else None)


def _with_gpus(laid: Laid, snapshot: Snapshot, guess: Guess) -> Laid:
    topology, setpoints = laid.topology, laid.setpoints
    if topology.mode is Mode.SERIAL and not laid.separate:
        gpus = topology.gpus_total or setpoints.gpus_trainer
    else:
        gpus = setpoints.gpus_generator
    engines = setpoints.engines or int(snapshot.get("engines") or 0) or None
    if gpus:
        size = topology.gpus_per_engine or (max(1, gpus // engines) if engines else _engine_size(gpus, guess))
        trainer, told = _trainer_gpus(topology, setpoints, gpus)
        return replace(
            laid,
            topology=replace(topology, gpus_per_engine=min(size, gpus), gpus_total=topology.gpus_total or gpus),
            setpoints=replace(setpoints, gpus_generator=gpus, gpus_trainer=trainer, engines=None),
            assumed=(*laid.assumed, *told),
        )
    in_flight = setpoints.max_in_flight or _running_ahead(setpoints) * (setpoints.batch_rollouts or BATCH)
    count = engines or min(ENGINES_MAX, max(1, round(in_flight / guess.residents)))
    return replace(
        laid,
        topology=replace(topology, gpus_per_engine=1, gpus_total=count),
        setpoints=replace(setpoints, gpus_generator=count, gpus_trainer=setpoints.gpus_trainer or count, engines=None),
        assumed=(*laid.assumed, SIDES_ASSUMED if engines else f"{SIDES_ASSUMED} and residents per engine"),
    )


def _trainer_gpus(topology: Topology, setpoints: Setpoints, generator: int) -> tuple[int, tuple[str, ...]]:
    """As stated, else what the generator leaves of the whole job, else as many as the generator: made up."""
    if setpoints.gpus_trainer is not None or topology.mode is Mode.SERIAL:
        return setpoints.gpus_trainer or generator, ()
    if topology.gpus_total is not None and topology.gpus_total > generator:
        return topology.gpus_total - generator, ()
    return generator, (f"{SIDES_ASSUMED}: the trainer's",)


def _engine_size(gpus: int, guess: Guess) -> int:
    """A small job's engines are one GPU each; a large one's no more than a node, and they fill the generator."""
    if gpus < SMALL_JOB_GPUS:
        return 1
    return next(size for size in range(guess.engine_size, 0, -1) if gpus % size == 0)


def _running_ahead(setpoints: Setpoints) -> float:
    return 1.0 + (setpoints.staleness_bound or 0.0)
