"""`equipoise doctor`: before a run, is all there that the job file names, and may we do what it asks?

Nothing is changed and no journal is opened to write. One look is taken at every source and every actuator.
"""

import json
import shutil
import stat
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path

from policies.commands import ControlMode
from policies.guardrails.seeing import EVIDENCE
from simulators.plant import Observation
from tuner.config import load
from tuner.errors import TunerError
from tuner.journal import viewed
from tuner.lease import remote_kind, taken
from tuner.live import LivePlant
from tuner.preflight import Check, Checks, Level, knobs, names, reach, sandboxes
from tuner.server.commanding import token_of
from tuner.server.serving import is_loopback, listening
from tuner.soundness import damage_of
from tuner.wallclock import WallClock
from tuner.wiring import HOST, PORT, Setup, World, charter_of, live, refuse_another_job, setup_of

DISK_LEAST_BYTES = 512 << 20
"""Free space under which a week of ticks may not fit."""
SKEW_S = 30.0
"""Evidence this far in the future: two clocks disagree."""
MARKS = {"ok": "ok  ", "warn": "WARN", "fail": "FAIL"}


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
        yield from names(setup.job, frozenset(seen.snapshot.signals))
        yield from _evidence(seen)
        yield from _guarded("policy", lambda: _policy(setup, world))
        yield from knobs(world, seen, setup.job.to_bounds())
        if isinstance(world.plant, LivePlant):
            yield from reach(world.plant.actuators)
        yield from sandboxes(seen, setup.job.bounds.sandbox_starts_per_s_max)


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
