"""GPUs of a job that serve nothing: paid for, possible, and nearly always a slip of whoever wrote the numbers down."""

from collections.abc import Iterator
from dataclasses import replace

from simulators.drift import By
from simulators.event_state import Job
from simulators.plant import Mode
from simulators.scenario import EventKind, Scenario, turned_by_others


def unused_in(scenario: Scenario) -> list[str]:
    """A sentence for each cause at the start, and for each one that a change of knobs brings; a lost node is no slip.

    Orders are not looked at: a controller keeps to the lattices by itself.
    """
    job = Job(scenario.topology, scenario.stations, scenario.workload, scenario.setpoints)
    found = {sentence: sentence for sentence in unused_gpus(job)}
    for event in scenario.event:
        if event.kind is EventKind.KNOB_CHANGE:
            at = {by: event.at if by is event.by else 0.0 for by in By}
            later = replace(job, setpoints=turned_by_others(scenario, scenario.setpoints, at))
            when = f"from step {event.at:g} on" if event.by is By.STEP else f"from {event.at:g} s on"
            for sentence in unused_gpus(later):
                found.setdefault(sentence, f"{sentence} ({when})")
    return list(found.values())


def unused_gpus(job: Job) -> Iterator[str]:
    """A sentence for each cause; a job that cannot be simulated is none of its business.

    # engines of 2 on 9 GPUs -> "1 of the generator's 9 GPUs is in no engine: 4 engines take 2 each"
    """
    topology, knobs, pool = job.topology, job.setpoints, job.stations.prefill
    serial = topology.mode is Mode.SERIAL
    generator = topology.gpus_total if serial else knobs.gpus_decode or knobs.gpus_generator
    if generator and topology.gpus_per_engine:
        place = "the job's" if serial else "the generator's" if pool is None else "the decoders'"
        yield from _outside_engines(place, generator, topology.gpus_per_engine, knobs.engines)
    if pool is not None and knobs.gpus_prefill:
        yield from _outside_engines("the prefill pool's", knobs.gpus_prefill, pool.gpus_per_engine)
    if not serial and topology.gpus_total and knobs.gpus_trainer and generator:
        both = knobs.gpus_trainer + generator + (knobs.gpus_prefill or 0)
        if both < topology.gpus_total:
            spare = _of(topology.gpus_total - both, "the job's", topology.gpus_total)
            yield f"{spare} on neither side"


def _outside_engines(place: str, gpus: int, size: int, engines: int | None = None) -> Iterator[str]:
    count = gpus // size if engines is None else engines
    if count * size < gpus:
        takes = "1 engine takes" if count == 1 else f"{count} engines take"
        yield f"{_of(gpus - count * size, place, gpus)} in no engine: {takes} {size}{' each' if count > 1 else ''}"


def _of(part: int, place: str, whole: int) -> str:
    return f"{part} of {place} {whole} GPUs {'is' if part == 1 else 'are'}"
