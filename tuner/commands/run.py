"""`equipoise run`: the controller beside a live job, until it is told to stop."""

import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import TextIO

from policies.control import Action, Command, CommandKind, ControlMode
from policies.rules import Rules
from tuner import config
from tuner.charter import rules_of
from tuner.config import JobFile
from tuner.errors import ConfigError
from tuner.inbox import People
from tuner.lease import taken
from tuner.live import LivePlant
from tuner.loop import Parts, Ticked, one_tick
from tuner.loop import run as run_loop
from tuner.pages import Pages
from tuner.preflight import Level, names
from tuner.report.decided import changes, sentence, when
from tuner.server.app import Ground, app_of
from tuner.server.board import About, Board
from tuner.server.commanding import token_of
from tuner.server.metrics import Metrics
from tuner.server.serving import Serving, address_of, is_loopback, listening
from tuner.server.shield import LOOPBACK
from tuner.server.telling import decision_told
from tuner.version import VERSION
from tuner.wallclock import WallClock
from tuner.wiring import (
    HOST,
    PORT,
    Pruned,
    Setup,
    Start,
    Wakeable,
    World,
    before_us,
    live,
    refuse_auto_on_remote,
    setup_of,
    started,
)
from tuner.worker import DEADLINE_S, Child, Engine

LIMIT_MB, SIMULATOR_LIMIT_MB = 200, 350
"""What a daemon and its simulator may take; its unit and its pod are told so."""
INTERRUPTED = 130
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Wish:
    job: Path
    mode: str | None = None
    once: bool = False
    json: bool = False


def run(wish: Wish) -> int:
    """The exit code: 0 when it was told to stop, 130 when interrupted."""
    setup = setup_of(config.load(wish.job), mode_named(wish.mode))
    with ExitStack() as stack:
        stack.callback(taken(setup.journal).close)
        clock = WallClock()
        stack.callback(clock.close)
        world = live(setup.job, clock, stack, before_us(setup.journal))
        return once(setup, world, as_json=wish.json) if wish.once else serve(setup, world)


def mode_named(name: str | None) -> ControlMode | None:
    if name is None:
        return None
    try:
        return ControlMode(name)
    except ValueError:
        raise ConfigError(f"--mode {name}: there are {', '.join(ControlMode)}") from None


def once(setup: Setup, world: World, *, as_json: bool) -> int:
    """One tick, and what was decided on stdout."""
    with ExitStack() as stack:
        start = started(setup, world, "")
        stack.callback(start.journal.close)
        parts = _parts(setup, world, start, _engine(setup, start, stack))
        ticked = one_tick(parts, start.state, world.clock.now_s())
    if ticked.failure:
        raise ConfigError(f"{ticked.failure}; nothing was done")
    sys.stdout.write(_as_json(ticked) if as_json else _as_text(ticked))
    return 0


def serve(setup: Setup, world: World) -> int:
    """Ticks until a signal or a command says stop. The lease must be held."""
    told = setup.job.server
    if told.token_file is not None:
        token_of(Path(told.token_file))
    socket = None if told.enabled is False else listening(told.host or HOST, PORT if told.port is None else told.port)
    with ExitStack() as stack:
        address = "" if socket is None else address_of(socket)
        start = started(setup, world, address)
        stack.callback(start.journal.close)
        parts = _parts(setup, world, start, _engine(setup, start, stack))
        board = Board(_about(setup, start, parts.rules, world.clock.now_s()))
        metrics = Metrics(board.about)
        if socket is not None:
            pages = Pages(setup.journal)
            token = None if told.token_file is None else Path(told.token_file)
            hosts = LOOPBACK if is_loopback(told.host or HOST) else None
            ground = Ground(board, metrics, pages, start.inbox, token, now_s=world.clock.now_s, hosts=hosts)
            serving = Serving(app_of(ground), socket)
            serving.start()
            stack.callback(serving.stop)
        log = Log(sys.stderr)
        log.began(setup, start, address)
        log.missing(setup.job, world)
        with stopping(start.inbox, world.clock) as signals:
            run_loop(replace(parts, watchers=(board, metrics, log)), start.state)
        log.say("event=stopped", f"signal={signals[-1].name if signals else 'none'}")
        return INTERRUPTED if signal.SIGINT in signals else 0


def _engine(setup: Setup, start: Start, stack: ExitStack) -> Child | None:
    """The gate's simulator, which warms up while the loop begins; None where the gate does without."""
    if not start.charter.simulated:
        return None
    child = Child(setup.job.gate.deadline_s or DEADLINE_S)
    stack.callback(child.close)
    return child


def _about(setup: Setup, start: Start, rules: Rules, now_s: float) -> About:
    try:
        refuse_auto_on_remote(setup.journal, ControlMode.AUTO)
        refused = ""
    except ConfigError as error:
        refused = str(error)
    acts = setup.job.server.token_file is not None
    name = setup.job.job.name or setup.journal.stem
    return About(name, setup.journal.name, rules, setup.period_s, start.token, now_s, acts, refused)


def _parts(setup: Setup, world: World, start: Start, engine: Engine | None) -> Parts:
    return Parts(
        world.plant,
        rules_of(start.charter, engine),
        world.clock,
        Pruned(start.journal, setup.keep_ticks),
        start.inbox,
        setup.period_s,
        start.token,
    )


@contextmanager
def stopping(inbox: People, clock: Wakeable) -> Iterator[list[signal.Signals]]:
    """SIGTERM, SIGINT and SIGHUP (a terminal that closes, a reload) ask for one last tick, which parks a move under
    way; a second one does not wait for it. A SIGHUP that nohup has turned off stays so."""
    seen: list[signal.Signals] = []

    def handle(number: int, frame: FrameType | None) -> None:
        seen.append(signal.Signals(number))
        if len(seen) > 1:
            raise KeyboardInterrupt
        inbox.put(Command(CommandKind.STOP, author=seen[-1].name))
        clock.wake()

    heard = [s for s in ENDING if signal.getsignal(s) is not signal.SIG_IGN or s is not signal.SIGHUP]
    before = {number: signal.signal(number, handle) for number in heard}
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Log:
    """One line an event on stderr, key=value; a hold that goes on, and an order that is repeated, is told once."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._said = stream, ""

    def say(self, *words: str) -> None:
        """A log that cannot be written (its disk is full, its reader gone) must not end the daemon."""
        with suppress(OSError):
            self._stream.write(" ".join((f"at={when(time.time())}", *words)) + "\n")
            self._stream.flush()

    def began(self, setup: Setup, start: Start, address: str) -> None:
        self.say(
            "event=started",
            f"version={VERSION}",
            f"policy={start.charter.policy}",
            f"mode={start.state.mode}",
            f"tick={start.state.tick}",
            f"token={start.token}",
            f"journal={json.dumps(str(setup.journal))}",
            f"page={address or 'off'}",
            f"limit_mb={LIMIT_MB}",
            f"simulator_limit_mb={SIMULATOR_LIMIT_MB if start.charter.simulated else 0}",
        )
        for note in start.notes:
            self.say("event=note", f"reason={json.dumps(note)}")

    def missing(self, job: JobFile, world: World) -> None:
        """What the sources that can tell their names will not bring, once."""
        reading = world.plant.reading if isinstance(world.plant, LivePlant) else None
        seen = frozenset[str]() if reading is None else frozenset(reading.snapshot.signals)
        for check in names(job, seen):
            if check.level is not Level.OK:
                self.say("event=note", f"reason={json.dumps(check.said)}")

    def ticked(self, ticked: Ticked) -> None:
        decision = ticked.entry.decision
        if ticked.failure:
            return self._once(f"event=journal-failed reason={json.dumps(ticked.failure)}")
        kind = f"action={decision.action} code={decision.code or 'none'}"
        wish = decision.order or decision.changes
        what = "" if wish is None else f" changes={json.dumps(changes_of(ticked))}"
        line = f"event=decision {kind}{what}"
        told = f"{decision.decision_id} {line}" if decision.action is Action.APPLY else line
        if told == self._said and not decision.notes:
            return None
        self._said = told
        more = f" notes={json.dumps('; '.join(decision.notes))}" if decision.notes else ""
        return self.say(f"id={decision.decision_id}", line, f"reason={json.dumps(decision.reason)}{more}")

    def _once(self, line: str) -> None:
        if line != self._said:
            self._said = line
            self.say(line)


def changes_of(ticked: Ticked) -> str:
    told = decision_told(ticked.entry.decision)
    return changes(told["order"] or told["changes"])


def _as_text(ticked: Ticked) -> str:
    decision, state = ticked.entry.decision, ticked.state
    lines = [f"{decision.decision_id} ({state.mode}): {sentence(decision)}"]
    lines += [
        f"  {'passed' if s.passed else 'HELD'}  {s.guard}: {s.reason or 'nothing against it'}" for s in decision.trail
    ]
    lines += [f"  note: {note}" for note in decision.notes]
    lines += [f"  read: {note.detail}" for note in ticked.entry.seen.snapshot.notes]
    if ticked.receipt is not None:
        lines += [f"  {knob}: {o.status}, {o.reason}" for knob, o in ticked.receipt.outcomes.items()]
    return "\n".join(lines) + "\n"


def _as_json(ticked: Ticked) -> str:
    decision = replace(ticked.entry.decision)
    answer = {
        "schema_version": 1,
        "product_version": VERSION,
        "mode": ticked.state.mode.value,
        "tick": ticked.state.tick,
        "decision": decision_told(decision),
        "receipt": None
        if ticked.receipt is None
        else {k: {"status": o.status, "reason": o.reason} for k, o in ticked.receipt.outcomes.items()},
        "notes": [note.detail for note in ticked.entry.seen.snapshot.notes],
    }
    return json.dumps(answer, indent=2, default=str) + "\n"
