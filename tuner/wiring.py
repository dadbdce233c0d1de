"""Wiring: from a job file to the parts of a loop. Nothing is decided here; every part is made once, in one place."""

import os
import socket
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from policies.commands import Command, CommandKind, ControlMode
from policies.control import Capability
from policies.gate import GateLimits
from policies.guardrails.case import Limits
from policies.objective import Objective
from policies.rules import DRIFT_S
from policies.state import State
from simulators.clock import Clock
from simulators.event_state import Job
from simulators.plant import Plant, Receipt, Topology
from simulators.scenario import job_at
from tuner import scenario_files
from tuner.actuators.registry import make
from tuner.actuators.site import Site
from tuner.charter import MODELLED, Charter, decoded, encoded, policy_named
from tuner.config import JobFile, stated
from tuner.config.sections import SourceSection
from tuner.errors import ConfigError
from tuner.feeds.base import Source
from tuner.feeds.http import Access
from tuner.frameworks.registry import by_name
from tuner.inbox import People
from tuner.ingest.reading import frameworks_named
from tuner.journal import Entry, Journal, viewed
from tuner.lease import remote_kind
from tuner.live import DEADLINE_S, Before, LivePlant, Stated, source_at
from tuner.loop import PERIOD_S
from tuner.soundness import damage_of, soundly_opened
from tuner.version import VERSION

HOST, PORT = "127.0.0.1", 9464
JOURNAL = "equipoise.journal"
KEEP_TICKS = 20160
PRUNE_EVERY = 500
"""Ticks between two prunings of the journal."""


class Wakeable(Clock, Protocol):
    """A clock whose wait others may cut short."""

    def wake(self) -> None: ...


@dataclass(frozen=True, slots=True)
class World:
    """What a daemon runs against."""

    plant: Plant
    topology: Topology
    """As stated, else as the job said at the first look."""
    capabilities: tuple[Capability, ...]
    clock: Wakeable


@dataclass(frozen=True, slots=True)
class Setup:
    """What a job file asks of a daemon, with its defaults."""

    job: JobFile
    journal: Path
    period_s: float
    mode: ControlMode | None
    """As asked for: on the command line, else in the file; None: nobody asked."""
    keep_ticks: int
    kill_file: Path | None


@dataclass(frozen=True, slots=True)
class Start:
    """How a daemon begins."""

    charter: Charter
    state: State
    journal: Journal
    inbox: People
    token: int
    notes: tuple[str, ...] = ()
    """What a person should know of it."""


def live(job: JobFile, clock: Wakeable, stack: ExitStack, before: Before | None = None) -> World:
    """The running job behind a job file, looked at once. What was opened is closed with the stack.

    `before`: what the daemon before this one wrote last; its sources are read on.
    """
    if not job.source:
        raise ConfigError(
            "[[source]] is missing: name the logs, servers or engines to watch; `equipoise init` writes some"
        )
    if any(told.path == "-" for told in job.source):
        raise ConfigError("source.path='-': a daemon cannot follow standard input; name the file or the server instead")
    framework = framework_of(job)
    deadline_s = min(DEADLINE_S, (job.policy.period_s or PERIOD_S) / 2.0)
    sources = [source_behind(told, framework) for told in job.source]
    own = frameworks_named(framework)[0] if framework != "auto" else None
    said = Stated(replace(job.to_topology(), framework=None if own is None else own.name), job.to_setpoints())
    plant = LivePlant(sources, stated=said, framework=framework, deadline_s=deadline_s, before=before)
    stack.callback(plant.close)
    first = plant.observe(clock.now_s())
    known = own or (by_name(plant.topology.framework) if plant.topology.framework else None)
    site = Site(plant.topology, first.in_force, job.to_bounds(), known)
    plant.hand_over([make(told.kind, told.options(), site) for told in job.actuator])
    capabilities = tuple(c for actuator in plant.actuators for c in actuator.capabilities())
    return World(plant, plant.topology, capabilities, clock)


def source_behind(told: SourceSection, framework: str) -> Source:
    """The live source that a section of the job file names."""
    files = (None if name is None else Path(name) for name in (told.token_file, told.password_file, told.ca_file))
    token_file, password_file, ca_file = files
    access = Access(token_file, told.user, password_file, ca_file)
    return source_at(told.path, framework, access=access, kind=told.kind, match=dict(told.match))


def framework_of(job: JobFile) -> str:
    return job.topology.framework or job.job.framework or "auto"


def setup_of(job: JobFile, mode: ControlMode | None = None) -> Setup:
    """Raises ConfigError where the file asks for what cannot be."""
    known = stated(job.policy)
    kill = known.get("kill_file")
    return Setup(
        job,
        Path(job.journal.path or JOURNAL),
        known.get("period_s", PERIOD_S),
        mode or known.get("mode"),
        job.journal.keep_ticks or KEEP_TICKS,
        None if kill is None else Path(kill),
    )


def charter_of(setup: Setup, world: World, begun_s: float) -> Charter:
    """What the controller goes by. `begun_s`: when the job was first watched; its horizon runs from there."""
    job, policy = setup.job, stated(setup.job.policy)
    model = _stated_job(policy.get("model"))
    law = policy.get("name") or ("predictive" if model is not None else "rate_balance")
    parameters = tuple(sorted((policy.get("parameters") or {}).items()))
    policy_named(law, parameters)
    if law in MODELLED and model is None:
        raise ConfigError(
            f"policy.name={law!r} looks ahead with a model and [policy] model is missing: name a scenario file "
            "that states the job (docs/scenarios.md), or take rate_balance"
        )
    horizon_s = job.job.horizon_s
    kept = {n: policy[n] for n in ("earn_auto", "foreign", "approval_s", "freeze_s") if n in policy}
    return Charter(
        law,
        world.topology,
        job.to_bounds(),
        Objective(**stated(job.objective), usd_per_gpu_hour=job.cost.usd_per_gpu_hour),
        world.capabilities,
        Limits(**stated(job.guardrails)),
        stated=model,
        parameters=parameters,
        ends_s=None if horizon_s is None else begun_s + horizon_s,
        gate=GateLimits(**{n: v for n, v in stated(job.gate).items() if n not in ("simulate", "deadline_s")}),
        simulated=law in MODELLED and job.gate.simulate is not False,
        horizon_s=policy.get("drift_s", DRIFT_S),
        mode=setup.mode,
        **kept,
    )


def _stated_job(model: str | None) -> Job | None:
    return None if model is None else job_at(scenario_files.load(model).scenario, 0, 0.0)


def started(setup: Setup, world: World, address: str) -> Start:
    """The journal with a new writer, and the state to go on from. The lease must be held already.

    What cannot be is refused before anything is written.
    """
    now_s = world.clock.now_s()
    charter_of(setup, world, now_s)
    refuse_auto_on_remote(setup.journal, setup.mode or ControlMode.ADVISE)
    journal = soundly_opened(setup.journal)
    try:
        refuse_another_job(setup, journal)
    except ConfigError:
        journal.close()
        raise
    before, state = journal.charter(), journal.last()
    who: dict[str, str | int] = {"host": socket.gethostname(), "pid": os.getpid(), "url": address, "version": VERSION}
    token = journal.begin(now_s, {**who, "job": setup.job.job.name or ""})
    charter = charter_of(setup, world, journal.first_begun_s() or now_s)
    journal.govern(encoded(charter))
    inbox, notes = People(setup.kill_file), list[str]()
    asked_before = None if before is None else decoded(before).mode
    state = state or State()
    if charter.mode is not None and charter.mode != asked_before and charter.mode != state.mode:
        inbox.put(Command(CommandKind.MODE, mode=charter.mode, author="start"))
    elif charter.mode is not None and charter.mode != state.mode:
        notes.append(
            f"mode stays {state.mode}, as it was set since {charter.mode} was first asked for; "
            "`equipoise mode` sets it, or a start with another --mode and one with this again"
        )
    if state.at_s is not None and state.at_s > now_s + setup.period_s:
        notes.append(f"the last tick is {state.at_s - now_s:.0f} s in the future: this machine's clock was set back")
    if state.mode is ControlMode.AUTO:
        refuse_auto_on_remote(setup.journal, charter.mode or state.mode)
    return Start(charter, state, journal, inbox, token, tuple(notes))


def before_us(journal: Path) -> Before | None:
    """What a journal ends with; None where there is nothing, or nothing that can be read: the start then says so."""
    if not journal.is_file() or journal.stat().st_size == 0 or damage_of(journal):
        return None
    with closing(viewed(journal)) as pages:
        seen, charter = pages.last_seen(), pages.charter()
    return None if seen is None or charter is None else Before(seen, decoded(charter).topology)


def refuse_another_job(setup: Setup, journal: Journal) -> None:
    """Raises ConfigError where another job's daemon wrote it: its beliefs and its open moves are not this job's."""
    was, now = journal.writer().get("job"), setup.job.job.name
    if was and now and was != now:
        raise ConfigError(
            f"job.name={now!r}: {setup.journal} is the journal of the job {was!r}; name another [journal] path, "
            "or keep the name where it is the same job"
        )


def refuse_auto_on_remote(journal: Path, mode: ControlMode, mounts: str | None = None) -> None:
    """Raises ConfigError for `auto` where locks are not to be trusted. `mounts`: as /proc/self/mounts has them."""
    kind = remote_kind(journal, mounts)
    if kind is not None and mode is ControlMode.AUTO:
        raise ConfigError(
            f"journal.path={journal} is on {kind}, where locks of several machines do not hold: mode auto is refused; "
            "name a path on a local disk, or take mode approve"
        )


class Pruned:
    """A ledger whose journal forgets its oldest ticks now and then."""

    def __init__(self, journal: Journal, keep_ticks: int) -> None:
        self._journal, self._keep_ticks, self._since = journal, keep_ticks, 0

    def commit(self, entry: Entry) -> int:
        self._since += 1
        if self._since >= PRUNE_EVERY:
            self._journal.keep(self._keep_ticks)
            self._since = 0
        return self._journal.commit(entry)

    def answer(self, tick_id: int, receipt: Receipt) -> None:
        self._journal.answer(tick_id, receipt)
