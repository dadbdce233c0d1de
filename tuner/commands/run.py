"""`equipoise run`: the controller beside a live job, until it is told to stop."""

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from socket import socket as Socket  # noqa: N812  (a type, beside variables of that name)
from types import FrameType

from policies.commands import Command, CommandKind, ControlMode
from policies.rules import Rules
from simulators.plant import Topology
from tuner import config
from tuner.charter import rules_of
from tuner.daemon_log import Log
from tuner.errors import ConfigError
from tuner.inbox import People
from tuner.lease import taken
from tuner.live import Before, LivePlant, said_since
from tuner.loop import Parts, Ticked, one_tick
from tuner.loop import run as run_loop
from tuner.pages import Pages
from tuner.report.decided import sentence
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
    with closing(taken(setup.journal)), ExitStack() as house:
        before, door = before_us(setup.journal), None
        while True:
            with ExitStack() as stack:
                clock = WallClock()
                stack.callback(clock.close)
                world = live(setup.job, clock, stack, before)
                if wish.once:
                    return once(setup, world, as_json=wish.json)
                door = door or door_of(setup, house)
                ended = serve(setup, world, door)
            if isinstance(ended, int):
                return ended
            before = replace(before_us(setup.journal) or Before(), topology=ended)


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


def door_of(setup: Setup, house: ExitStack) -> Socket | None:
    """Where the server will listen; None where there is none. Callers wait before it while a daemon begins anew."""
    told = setup.job.server
    if told.token_file is not None:
        token_of(Path(told.token_file))
    if told.enabled is False:
        return None
    return house.enter_context(listening(told.host or HOST, PORT if told.port is None else told.port))


def serve(setup: Setup, world: World, door: Socket | None) -> int | Topology:
    """Ticks until a signal or a command says stop: the exit code. The lease must be held.

    A sidecar may begin before its job has said a word. Once it has, all of the job that is known by then comes back:
    rules and actuators are to be made of it.
    """
    told = setup.job.server
    with ExitStack() as stack:
        address = "" if door is None else address_of(door)
        start = started(setup, world, address)
        stack.callback(start.journal.close)
        parts = _parts(setup, world, start, _engine(setup, start, stack))
        board = Board(_about(setup, start, parts.rules, world.clock.now_s()))
        metrics = Metrics(board.about)
        if door is not None:
            pages = Pages(setup.journal)
            token = None if told.token_file is None else Path(told.token_file)
            hosts = LOOPBACK if is_loopback(told.host or HOST) else None
            ground = Ground(board, metrics, pages, start.inbox, token, now_s=world.clock.now_s, hosts=hosts)
            serving = Serving(app_of(ground), door.dup())
            serving.start()
            stack.callback(serving.stop)
        log = Log(sys.stderr)
        log.began(setup, start, address)
        log.missing(setup.job, world)
        learning = Learning(world, start.inbox)
        with stopping(start.inbox, world.clock) as signals:
            run_loop(replace(parts, watchers=(board, metrics, log, learning)), start.state)
        if learning.said and not signals:
            log.say("event=note", f"reason={json.dumps(f'the job has said {learning.said}: begun anew with it')}")
            return learning.topology
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


class Learning:
    """Ends the loop once the job has said what nobody knew at the start."""

    def __init__(self, world: World, inbox: People) -> None:
        self._world, self._inbox, self.said = world, inbox, ""

    @property
    def topology(self) -> Topology:
        return self._world.plant.topology if isinstance(self._world.plant, LivePlant) else self._world.topology

    def ticked(self, ticked: Ticked) -> None:
        found = said_since(self._world.topology, self.topology)
        if found and not self.said:
            self.said = ", ".join(found)
            self._inbox.put(Command(CommandKind.STOP, author=f"the job has said {self.said}"))
            self._world.clock.wake()


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
