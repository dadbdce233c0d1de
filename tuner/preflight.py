"""Before a run: will the sources tell what is needed, may the actuators do what they are asked, is there any choice?"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean

from policies.readings import rate_series
from policies.settings import SPLIT, gpus, is_self_tuned
from simulators.legality import Split, legal_settings
from simulators.plant import Bounds, Mode, Observation, Setpoints, TrainerResize
from tuner.actuators.base import Actuator
from tuner.actuators.guarded import Guarded
from tuner.config import JobFile
from tuner.ingest.reading import frameworks_named
from tuner.live import DEADLINE_S
from tuner.wiring import World, framework_of, source_behind


class Level(StrEnum):
    OK = "ok"
    WARN = "warn"
    """It runs, but not as one would wish."""
    FAIL = "fail"
    """It does not run, or does nothing."""


@dataclass(frozen=True, slots=True)
class Check:
    about: str
    level: Level
    said: str


Checks = Iterator[Check]


def names(job: JobFile, seen: frozenset[str]) -> Checks:
    """Every name that we look for, held against the names that a server or its engines have.

    `seen`: signals that some source tells; a gap of one that another fills is none.
    """
    frameworks = frameworks_named(framework_of(job))
    for source in (source_behind(told, framework_of(job)) for told in job.source):
        with closing(source.feed):
            contract = source.contracting.contract(frameworks, DEADLINE_S) if source.contracting is not None else None
        if contract is None or contract.failure is not None:
            continue
        found = ", ".join(f"{len(names)} of {name}" for name, names in contract.found.items()) or "none that we know"
        yield Check("names", Level.OK if contract.found else Level.FAIL, f"{contract.source}: metrics: {found}")
        for gap in contract.missing:
            if not seen.isdisjoint(gap.signals):
                continue
            near = f"; is it one of {', '.join(gap.alike)}?" if gap.alike else ""
            yield Check("names", Level.WARN, f"{gap.what} is not told{near}; {gap.remedy}")


def reach(actuators: Iterable[Actuator]) -> Checks:
    """Can each actuator do what it will be told, as far as that can be seen without telling it?"""
    for actuator in actuators:
        for trouble in actuator.troubles() if isinstance(actuator, Guarded) else ():
            yield Check("actuators", Level.FAIL if trouble.blocks else Level.WARN, f"{actuator.name}: {trouble.said}")


def knobs(world: World, seen: Observation, bounds: Bounds) -> Checks:
    if not world.capabilities:
        yield Check("actuators", Level.WARN, "none: whatever the mode, nothing can be turned")
    for able in world.capabilities:
        if is_self_tuned(able.knob, world.topology):
            said = f"{able.knob}: {world.topology.framework or 'the framework'} moves it itself; it is left alone"
            yield Check("actuators", Level.WARN, said)
            continue
        seconds = f"{able.actuation_s:.0f} s, costs {able.cost_s:.0f} s of the job"
        yield Check("actuators", Level.OK, f"{able.knob}: {able.change}, takes {seconds}")
    topology, now = world.topology, seen.in_force
    if world.capabilities:
        yield from _over(now, bounds)
    if topology.mode is Mode.UNKNOWN:
        yield Check("topology", Level.WARN, "[topology] mode is not known: state whether both sides run at once")
    if not any(able.knob == SPLIT for able in world.capabilities):
        return
    if topology.mode is Mode.SERIAL:
        yield Check("actuators", Level.FAIL, f"{SPLIT}: in a serial job both sides share their GPUs, there is no split")
    if topology.trainer_resize is TrainerResize.IMPOSSIBLE:
        yield Check(
            "actuators", Level.FAIL, f"{SPLIT}: checkpoints of this job open on one number of trainer GPUs only"
        )
    if None in (now.gpus_trainer, now.gpus_generator):
        yield Check("actuators", Level.FAIL, f"{SPLIT}: the split in force is not known; state it under [setpoints]")
    else:
        yield _legal(legal_settings(topology, now, bounds), now)


def _over(now: Setpoints, bounds: Bounds) -> Checks:
    """Bounds that are broken as things stand: what is over one holds every move that stays over it.

    # 64 GPUs in force, gpus_total_max=32: a split moves GPUs and gives none back, so nothing moves
    """
    told = (
        ("gpus_total_max", bounds.gpus_total_max, gpus(now), "GPUs"),
        ("max_in_flight_max", bounds.max_in_flight_max, now.max_in_flight, "rollouts in flight"),
        ("staleness_max", bounds.staleness_max, now.staleness_bound, "versions of staleness"),
    )
    for key, most, there, what in told:
        if most is not None and there is not None and there > most:
            said = f"{key}={most:g} is below the {there:g} {what} in force: every move that stays above it is held"
            yield Check("bounds", Level.WARN, f"{said}; raise the bound, or set the job right first")


def _legal(splits: Sequence[Split], now: Setpoints) -> Check:
    """How many splits there are to choose from, and what is wrong with the one in force."""
    legal, refused = [s for s in splits if s.refused is None], [s for s in splits if s.refused is not None]
    said = f"{len(legal)} legal splits of {(now.gpus_trainer or 0) + (now.gpus_generator or 0)} GPUs"
    wrong = next((s.refused for s in refused if s.gpus_trainer == now.gpus_trainer), None)
    remedy = "check gpus_per_engine, trainer_gpu_step and trainer sizes under [topology], and [bounds]"
    if wrong is not None:
        return Check("topology", Level.WARN, f"{said}; the one in force is none of them: {wrong}; {remedy}")
    if len(legal) > 1:
        return Check("topology", Level.OK, said)
    why = f"; not so: {refused[0].refused}" if refused else ""
    return Check("topology", Level.WARN, f"{said}: no GPU can change sides{why}; {remedy}")


def sandboxes(seen: Observation, starts_per_s: float | None) -> Checks:
    """Live sandboxes and starts against what the provider allows, where the job states or shows any."""
    quota, busy, rates = seen.in_force.sandbox_quota, _in_flight(seen), rate_series(seen.snapshot)
    if (quota, starts_per_s) == (None, None) and not any(name.startswith("sandbox") for name in seen.snapshot.signals):
        return
    if quota is not None and busy is not None:
        level = Level.FAIL if busy > quota else Level.OK
        yield Check("sandboxes", level, f"{busy:.0f} rollouts in flight at most, the provider allows {quota} live ones")
    elif quota is not None:
        yield Check("sandboxes", Level.WARN, f"{quota} may live at once; state [setpoints] max_in_flight to compare")
    if rates:
        yield _starts(fmean(rates), starts_per_s)
    elif starts_per_s is not None:
        yield Check("sandboxes", Level.WARN, f"{starts_per_s:g} starts/s are allowed; no rate of rollouts is seen yet")


def _in_flight(seen: Observation) -> float | None:
    """The cap in force, else what is in flight now."""
    return seen.in_force.max_in_flight or seen.snapshot.get("inflight_rollouts")


def _starts(rate_per_s: float, allowed_per_s: float | None) -> Check:
    """An hour of the job's rollouts with one sandbox each, by the clock of the provider's limit.

    # 5.12/s: 18,432 starts; allowed 4/s -> 1.28 h: the job is slowed | allowed 8/s -> 0.64 h
    """
    starts = 3600.0 * rate_per_s
    said = f"{rate_per_s:.3g} rollouts/s: with one each, {starts:,.0f} starts an hour"
    if allowed_per_s is None:
        return Check("sandboxes", Level.OK, f"{said}; state [bounds] sandbox_starts_per_s_max to compare")
    takes_h = rate_per_s / allowed_per_s
    told = f"{said}; at the {allowed_per_s:g}/s allowed they take {takes_h:.2f} h"
    return Check("sandboxes", Level.FAIL if takes_h > 1.0 else Level.OK, told)
