"""Which settings a job may have at all: GPU splits on its lattices, inside its bounds, with the reason why not."""

from dataclasses import dataclass, replace
from functools import lru_cache

from simulators.plant import Bounds, Mode, Setpoints, Topology, TrainerResize

NODE_GPUS = 8
"""Without a stated lattice, jobs of some size move whole nodes."""
SMALL_JOB_GPUS = 32
"""A job under this size moves single GPUs."""
TOTAL_MAX = 1_000_000
"""No job has more GPUs; a count above it was misread."""


@dataclass(frozen=True, slots=True)
class Split:
    """One way to divide the GPUs."""

    gpus_trainer: int
    gpus_generator: int
    engines: int
    refused: str | None = None
    """Why the job cannot run so; None: it can."""


def generator_gpus(setpoints: Setpoints) -> int | None:
    """GPUs of all engines: as said, or of both pools; if they differ the larger, so that a budget leaves none out."""
    prefill, decode, said = setpoints.gpus_prefill, setpoints.gpus_decode, setpoints.gpus_generator
    pools = None if prefill is None or decode is None else prefill + decode
    return max((size for size in (said, pools) if size is not None), default=None)


def total_gpus(topology: Topology, setpoints: Setpoints) -> int | None:
    generator = generator_gpus(setpoints)
    if setpoints.gpus_trainer and generator:
        return setpoints.gpus_trainer + generator
    return topology.gpus_total


def _divided(setpoints: Setpoints) -> bool:
    """A pool that decodes as much as the generator has is no pool."""
    return bool(setpoints.gpus_prefill) or setpoints.gpus_decode not in (None, setpoints.gpus_generator)


def refused_pools(topology: Topology, now: Setpoints, then: Setpoints) -> str | None:
    """Why a generator cannot be divided so between prefill and decode: both pools together are all of it, each has one
    engine or more, and a pool that changes has whole ones. None: it can, it is as it was, or it is not divided.

    # engines of 8: 64 + 128 of 192 may be 72 + 120, neither 128 + 128, 68 + 124 nor 0 + 192
    """
    prefill, decode, whole = then.gpus_prefill, then.gpus_decode, then.gpus_generator
    same = (prefill, decode, whole) == (now.gpus_prefill, now.gpus_decode, now.gpus_generator)
    if same or not (_divided(now) or _divided(then)):
        return None
    if whole is not None:
        prefill = whole - decode if prefill is None and decode is not None else prefill
        decode = whole - prefill if decode is None and prefill is not None else decode
    if whole is not None and (prefill or 0) + (decode or 0) != whole:
        return f"{prefill} GPUs of prefill and {decode} of decode are not the {whole} of the generator"
    engine = topology.gpus_per_engine or 1
    for what, size, before in (("prefill", prefill, now.gpus_prefill), ("decode", decode, now.gpus_decode)):
        if size is not None and size < engine:
            return f"{size} GPUs are left to {what}, and one engine takes {engine}"
        if size is not None and size != before and size % engine:
            return f"{size} GPUs of {what} are not a multiple of {engine} per engine"
    return None


def steps(topology: Topology, total: int) -> tuple[int, int]:
    """(GPUs of one engine, GPUs in which the trainer moves): stated, else single GPUs or nodes by the job's size."""
    usual = 1 if total < SMALL_JOB_GPUS else NODE_GPUS
    return topology.gpus_per_engine or usual, topology.trainer_gpu_step or usual


def lattice(topology: Topology, setpoints: Setpoints, bounds: Bounds) -> list[int]:
    """Trainer sizes worth a look: on the lattices of engines and trainer, above the memory floor, inside the bounds."""
    total = total_gpus(topology, setpoints)
    if total is None or total > TOTAL_MAX or topology.mode is not Mode.OVERLAPPED:
        return []
    engine, step = steps(topology, total)
    floor = max(step, topology.trainer_gpus_min or 1, bounds.gpus_trainer_min or 1)
    roof = min(total - engine, bounds.gpus_trainer_max or total)
    sizes = topology.trainer_sizes or range(step, total, step)
    return [t for t in sizes if floor <= t <= roof and (total - t) % engine == 0]


@lru_cache(maxsize=32)
def legal_sizes(topology: Topology, setpoints: Setpoints, bounds: Bounds) -> tuple[int, ...]:
    """Those of the lattice that no rule refuses: what a split may move through and to. Remembered, since law and
    guardrails of one tick ask for the same."""
    return tuple([t for t in lattice(topology, setpoints, bounds) if refusal(topology, setpoints, bounds, t) is None])


def divides(topology: Topology, setpoints: Setpoints, gpus_trainer: int) -> bool | None:
    """Whether the batch divides over the trainer's data-parallel ranks; None where the batch is unknown."""
    batch = setpoints.batch_rollouts
    if not batch:
        return None
    ranks = gpus_trainer // topology.trainer_gpu_step if topology.trainer_gpu_step else gpus_trainer
    return batch % max(1, ranks) == 0


def legal_settings(topology: Topology, setpoints: Setpoints, bounds: Bounds) -> tuple[Split, ...]:
    """Every split on the trainer's step, the illegal ones with their reason; empty where GPUs cannot change sides.

    # 64 : 192, engines of 8, 512 rollouts that ranks of 8 must divide: 64 legal | 48 "48 does not divide 512 rollouts"
    """
    total = total_gpus(topology, setpoints)
    if total is None or total > TOTAL_MAX or topology.mode is not Mode.OVERLAPPED:
        return ()
    engine, step = steps(topology, total)
    sizes = sorted({*(topology.trainer_sizes or range(step, total, step)), setpoints.gpus_trainer or step})
    return tuple(
        Split(t, total - t, (total - t) // engine, refusal(topology, setpoints, bounds, t)) for t in sizes if t < total
    )


def refusal(topology: Topology, setpoints: Setpoints, bounds: Bounds, gpus_trainer: int) -> str | None:
    """Why the trainer cannot have that many GPUs, by the first rule that it breaks; None: it can."""
    total = total_gpus(topology, setpoints) or gpus_trainer
    return (
        _off_lattice(topology, total, gpus_trainer)
        or _out_of_bounds(topology, setpoints, bounds, gpus_trainer)
        or _too_few_decode(topology, setpoints, total - gpus_trainer)
    )


def _too_few_decode(topology: Topology, now: Setpoints, generator: int) -> str | None:
    """Of two pools the decoders take what a split gives or takes."""
    if now.gpus_decode is None or now.gpus_generator is None:
        return None
    decode = now.gpus_decode + generator - now.gpus_generator
    return refused_pools(topology, now, replace(now, gpus_generator=generator, gpus_decode=decode))


def _off_lattice(topology: Topology, total: int, gpus_trainer: int) -> str | None:
    engine, step = steps(topology, total)
    generator = total - gpus_trainer
    if topology.trainer_sizes and gpus_trainer not in topology.trainer_sizes:
        return f"{gpus_trainer} is not among the trainer's sizes {topology.trainer_sizes}"
    if not topology.trainer_sizes and gpus_trainer % step:
        return f"{gpus_trainer} is not a multiple of the trainer's step of {step} GPUs"
    if generator < engine:
        return f"{generator} GPUs are left to the generator, and one engine takes {engine}"
    if generator % engine:
        return f"{generator} GPUs are left to the generator: not a multiple of {engine} per engine"
    return None


def _out_of_bounds(topology: Topology, setpoints: Setpoints, bounds: Bounds, gpus_trainer: int) -> str | None:
    floor, low, high = topology.trainer_gpus_min, bounds.gpus_trainer_min, bounds.gpus_trainer_max
    if floor is not None and gpus_trainer < floor:
        return f"{gpus_trainer} is below the trainer's memory floor of {floor} GPUs"
    if low is not None and gpus_trainer < low:
        return f"{gpus_trainer} is below the bound gpus_trainer_min={low}"
    if high is not None and gpus_trainer > high:
        return f"{gpus_trainer} is above the bound gpus_trainer_max={high}"
    if topology.batch_must_divide and divides(topology, setpoints, gpus_trainer) is False:
        return f"{gpus_trainer} does not divide {setpoints.batch_rollouts} rollouts"
    moved = gpus_trainer != setpoints.gpus_trainer and setpoints.gpus_trainer is not None
    if moved and topology.trainer_resize is TrainerResize.IMPOSSIBLE:
        return f"the checkpoint of {setpoints.gpus_trainer} GPUs cannot be resumed on {gpus_trainer}"
    return None
