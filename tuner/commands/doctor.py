"""`equipoise doctor`: before a run, is all there that the job file names, and may we do what it asks?

Nothing is changed and no journal is opened to write. One look is taken at every source and every actuator.
"""

import json
import shutil
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from statistics import fmean

from policies.control import ControlMode
from policies.guardrails.seeing import EVIDENCE
from policies.readings import rate_series
from policies.settings import SPLIT
from simulators.legality import Split, legal_settings
from simulators.plant import Bounds, Mode, Observation, Setpoints, TrainerResize
from tuner.config import load
from tuner.errors import TunerError
from tuner.ingest.reading import frameworks_named
from tuner.journal import viewed
from tuner.lease import remote_kind, taken
from tuner.live import DEADLINE_S, LivePlant
from tuner.server.commanding import token_of
from tuner.server.serving import is_loopback, listening
from tuner.soundness import damage_of
from tuner.wallclock import WallClock
from tuner.wiring import (
    HOST,
    PORT,
    Setup,
    World,
    charter_of,
    framework_of,
    live,
    refuse_another_job,
    setup_of,
    source_behind,
)

DISK_LEAST_BYTES = 512 << 20
"""Free space under which a week of ticks may not fit."""
SKEW_S = 30.0
"""Evidence this far in the future: two clocks disagree."""
MARKS = {"ok": "ok  ", "warn": "WARN", "fail": "FAIL"}


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


def run(job: Path, *, as_json: bool) -> int:
    """0 where nothing fails, else 2."""
    found = list(checked(job))
    if as_json:
        answer = {"schema_version": 1, "checks": [asdict(check) for check in found]}
        sys.stdout.write(json.dumps(answer, indent=2) + "\n")
    else:
        sys.stdout.write("\n".join(f"{MARKS[c.level]}  {c.about}: {c.said}" for c in found) + "\n")
    return 2 if any(check.level is Level.FAIL for check in found) else 0


def checked(path: Path) -> Checks:
    """All checks, in the order in which a start would meet them."""
    setup = setup_of(load(path))
    yield Check("job file", Level.OK, f"{path} is valid")
    yield from _guarded("journal", lambda: _journal(setup))
    yield from _guarded("server", lambda: _server(setup))
    with ExitStack() as stack:
        clock = WallClock()
        stack.callback(clock.close)
        try:
            world = live(setup.job, clock, stack)
        except TunerError as error:
            yield Check("job", Level.FAIL, str(error))
            return
        seen = world.plant.observe(clock.now_s())
        if isinstance(world.plant, LivePlant):
            yield from _sources(world.plant)
        yield from _contracts(setup)
        yield from _evidence(seen)
        yield from _guarded("policy", lambda: _policy(setup, world))
        yield from _knobs(world, seen, setup.job.to_bounds())
        yield from _sandboxes(seen, setup.job.bounds.sandbox_starts_per_s_max)


def _guarded(about: str, checks: Callable[[], Iterable[Check]]) -> Checks:
    """A refusal is a failed check, not an end."""
    try:
        yield from checks()
    except TunerError as error:
        yield Check(about, Level.FAIL, str(error))


def _journal(setup: Setup) -> Checks:
    path = setup.journal
    damage = damage_of(path) if path.exists() else ""
    if damage:
        yield Check("journal", Level.FAIL, f"{path} is damaged ({damage}); put a backup in its place or move it away")
        return
    if path.exists() and path.stat().st_size:
        with closing(viewed(path)) as journal:
            refuse_another_job(setup, journal)
    with closing(taken(path)):
        yield Check("journal", Level.OK, f"{path}: no other daemon writes it")
    kind = remote_kind(path)
    if kind is not None:
        level = Level.FAIL if setup.mode is ControlMode.AUTO else Level.WARN
        yield Check(
            "journal", level, f"{path} is on {kind}: locks do not hold there, and auto is refused; take a local disk"
        )
    free = shutil.disk_usage(path.resolve().parent).free
    if free < DISK_LEAST_BYTES:
        yield Check("journal", Level.WARN, f"only {free >> 20} MB are free on its disk; a full one holds every move")


def _server(setup: Setup) -> Checks:
    told = setup.job.server
    if told.enabled is False:
        yield Check("server", Level.OK, "off: no page, no API, no metrics")
        return
    host, port = told.host or HOST, PORT if told.port is None else told.port
    with closing(listening(host, port)):
        yield Check("server", Level.OK, f"{host}:{port} is free")
    if not is_loopback(host):
        yield Check("server", Level.WARN, f"{host}: whoever reaches it reads all, and tokens travel unencrypted")
    if told.token_file is None:
        yield Check("server", Level.OK, "no token_file: nobody commands over HTTP")
        return
    token = Path(told.token_file)
    token_of(token)
    open_to_all = token.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH)
    said = (
        f"others on this machine may read {token}: chmod 600 {token}"
        if open_to_all
        else f"the token in {token} is good"
    )
    yield Check("server", Level.WARN if open_to_all else Level.OK, said)


def _sources(plant: LivePlant) -> Checks:
    for feed in plant.feeds:
        if feed.failure is not None:
            yield Check("source", Level.FAIL, f"{feed.name}: {feed.failure}")
        else:
            level = Level.OK if feed.answered == feed.asked else Level.WARN
            yield Check("source", level, f"{feed.name}: {feed.answered} of {feed.asked} answer")


def _contracts(setup: Setup) -> Checks:
    """Every name that we look for, held against the names that a server or its engines have."""
    frameworks = frameworks_named(framework_of(setup.job))
    for source in (source_behind(told, framework_of(setup.job)) for told in setup.job.source):
        with closing(source.feed):
            contract = source.contracting.contract(frameworks, DEADLINE_S) if source.contracting is not None else None
        if contract is None or contract.failure is not None:
            continue
        found = ", ".join(f"{len(names)} of {name}" for name, names in contract.found.items()) or "none that we know"
        yield Check("names", Level.OK if contract.found else Level.FAIL, f"{contract.source}: metrics: {found}")
        for gap in contract.missing:
            near = f"; is it one of {', '.join(gap.alike)}?" if gap.alike else ""
            yield Check("names", Level.WARN, f"{gap.what} is not told{near}; {gap.remedy}")


def _evidence(seen: Observation) -> Checks:
    signals = seen.snapshot.signals
    known = [name for name in EVIDENCE if name in signals]
    if not known:
        yield Check("signals", Level.FAIL, f"none of {', '.join(EVIDENCE)} is seen: nothing could be decided")
    else:
        yield Check("signals", Level.OK, f"{len(signals)} signals, {len(seen.snapshot.rows)} trainer steps")
    stamps = [row.time_s for row in (*seen.snapshot.rows, *seen.snapshot.engine_rows) if row.time_s is not None]
    if stamps and max(stamps) > seen.time_s + SKEW_S:
        yield Check(
            "clock", Level.WARN, f"the newest step is {max(stamps) - seen.time_s:.0f} s in our future: check NTP"
        )
    for note in seen.snapshot.notes:
        yield Check("signals", Level.WARN, note.detail)


def _policy(setup: Setup, world: World) -> Checks:
    charter = charter_of(setup, world, 0.0)
    model = "with a stated model" if charter.stated is not None else "without a model of the job"
    yield Check("policy", Level.OK, f"{charter.policy}, {model}, mode {setup.mode or ControlMode.ADVISE}")


def _knobs(world: World, seen: Observation, bounds: Bounds) -> Checks:
    if not world.capabilities:
        yield Check("actuators", Level.WARN, "none: whatever the mode, nothing can be turned")
    for able in world.capabilities:
        seconds = f"{able.actuation_s:.0f} s, costs {able.cost_s:.0f} s of the job"
        yield Check("actuators", Level.OK, f"{able.knob}: {able.change}, takes {seconds}")
    topology, now = world.topology, seen.in_force
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


def _sandboxes(seen: Observation, starts_per_s: float | None) -> Checks:
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
