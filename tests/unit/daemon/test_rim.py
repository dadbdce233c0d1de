"""The daemon's small parts at the rim: clock, inbox, a journal that cannot be written, the log."""

import io
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from policies.commands import Command, CommandKind, ControlMode
from policies.state import State
from simulators.clock import VirtualClock
from simulators.plant import Receipt
from tests.plants import FluidPlant
from tests.unit.daemon.faces import RULES
from tuner.commands.run import stopping
from tuner.daemon_log import Log
from tuner.errors import LedgerError
from tuner.inbox import KILL_FILE, ROOM, People
from tuner.journal import Entry, Journal
from tuner.loop import Parts, Ticked, replayed, run
from tuner.wallclock import WallClock

PAUSE, RESUME = Command(CommandKind.PAUSE), Command(CommandKind.RESUME)


def test_the_wall_clock_goes_on_when_the_system_s_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(WallClock()) as clock:
        before = clock.now_s()
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() - 3600.0)
        assert clock.now_s() >= before
        monkeypatch.setattr(time, "time", lambda: real() + 3600.0)
        assert clock.now_s() >= before + 3599.0


def test_a_wait_ends_when_somebody_wakes_the_clock() -> None:
    with closing(WallClock()) as clock:
        threading.Timer(0.05, clock.wake).start()
        clock.wait_until(clock.now_s() + 3600.0)


def test_waking_a_clock_that_does_not_wait_ends_the_next_wait_only() -> None:
    with closing(WallClock()) as clock:
        for _ in range(100_000):
            clock.wake()
        clock.wait_until(clock.now_s() + 3600.0)


def test_an_inbox_hands_out_in_order_and_once() -> None:
    inbox = People()
    inbox.put(PAUSE)
    inbox.put(RESUME)
    assert inbox.drain() == (PAUSE, RESUME)
    assert inbox.drain() == ()


def test_a_full_inbox_takes_nothing_but_a_stop() -> None:
    inbox = People()
    assert all(inbox.put(PAUSE) for _ in range(ROOM))
    assert not inbox.put(RESUME)
    assert inbox.put(Command(CommandKind.STOP))
    assert len(inbox.drain()) == ROOM + 1


def test_a_kill_file_pauses_once_and_again_after_each_resume(tmp_path: Path) -> None:
    inbox = People(tmp_path / "halt")
    assert inbox.drain() == ()
    (tmp_path / "halt").touch()
    killed = Command(CommandKind.PAUSE, author=KILL_FILE)
    assert inbox.drain() == (killed,)
    assert inbox.drain() == ()
    inbox.put(RESUME)
    assert inbox.drain() == (RESUME, killed)
    (tmp_path / "halt").unlink()
    assert inbox.drain() == ()


def test_a_kill_file_that_is_a_dangling_link_counts(tmp_path: Path) -> None:
    (tmp_path / "halt").symlink_to(tmp_path / "nowhere")
    assert len(People(tmp_path / "halt").drain()) == 1


@dataclass
class Failing:
    """A journal whose disk is full at some of its writes."""

    journal: Journal
    full: set[int]
    writes: int = 0

    def commit(self, entry: Entry) -> int:
        self._write()
        return self.journal.commit(entry)

    def answer(self, tick_id: int, receipt: Receipt) -> None:
        self._write()
        self.journal.answer(tick_id, receipt)

    def _write(self) -> None:
        self.writes += 1
        if self.writes in self.full:
            raise LedgerError("the journal cannot be written (database or disk is full)")


@dataclass
class Kept:
    ticked_: list[Ticked] = field(default_factory=list)

    def ticked(self, ticked: Ticked) -> None:
        self.ticked_.append(ticked)


@pytest.mark.parametrize("first", range(1, 30, 2))
def test_wherever_the_disk_is_full_nothing_unwritten_is_done_and_the_journal_replays(
    tmp_path: Path, first: int
) -> None:
    journal, plant, kept, inbox = Journal(tmp_path / "journal.db"), FluidPlant(), Kept(), People()
    inbox.put(Command(CommandKind.MODE, mode=ControlMode.AUTO, author="ann"))
    ledger = Failing(journal, set(range(first, first + 5)))
    parts = Parts(plant, RULES, VirtualClock(), ledger, inbox, 60.0, watchers=(kept,))
    state = run(parts, State(), 3600.0)
    entries = list(journal.entries())
    journal.close()
    unwritten = [t for t in kept.ticked_ if t.tick_id is None]
    assert all(t.receipt is None and t.failure for t in unwritten)
    assert {o.decision_id for o in plant.orders} <= {e.decision.decision_id for e in entries if e.decision.order}
    assert [e.state.tick for e in entries] == list(range(1, len(entries) + 1))
    assert list(replayed(RULES, entries, State())) == []
    assert state.mode is ControlMode.AUTO, "what a person said waits until it can be written"
    assert plant.setpoints.gpus_trainer == 56


class Full(io.StringIO):
    """A stream on a full disk."""

    def flush(self) -> None:
        raise OSError(28, "No space left on device")


def test_a_log_that_cannot_be_written_does_not_end_the_loop(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.db")
    log = Log(Full())
    parts = Parts(FluidPlant(), RULES, VirtualClock(), journal, People(), 60.0, watchers=(log,))
    assert run(parts, State(), 600.0).tick == 10
    journal.close()


def test_a_log_tells_a_hold_that_goes_on_once_and_every_order_once(tmp_path: Path) -> None:
    stream = io.StringIO()
    journal = Journal(tmp_path / "journal.db")
    inbox = People()
    parts = Parts(FluidPlant(), RULES, VirtualClock(), journal, inbox, 60.0, watchers=(Log(stream),))
    run(parts, State(mode=ControlMode.AUTO), 3600.0)
    entries = list(journal.entries())
    journal.close()
    lines = stream.getvalue().splitlines()
    assert all(line.startswith("at=") for line in lines)
    ordered = [re.search(r"id=(\S+)", line)[1] for line in lines if "action=apply" in line]  # type: ignore[index]
    assert ordered == list(dict.fromkeys(e.decision.decision_id for e in entries if e.decision.order is not None))
    assert len(lines) < len(entries) / 2


@contextmanager
def handled(number: signal.Signals, how: signal.Handlers) -> Iterator[None]:
    """With a signal handled so, whatever the tests were started under (nohup turns one off)."""
    before = signal.signal(number, how)
    try:
        yield
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_asks_for_one_last_tick(number: signal.Signals) -> None:
    """A terminal that closes, or a reload by kill -HUP, parks a move under way as any end does."""
    inbox = People()
    with handled(number, signal.SIG_DFL), stopping(inbox, WallClock()) as seen:
        os.kill(os.getpid(), number)
    assert seen == [number]
    assert [command.kind for command in inbox.drain()] == [CommandKind.STOP]


def test_what_nohup_turned_off_stays_off() -> None:
    inbox = People()
    with handled(signal.SIGHUP, signal.SIG_IGN), stopping(inbox, WallClock()):
        os.kill(os.getpid(), signal.SIGHUP)
    assert inbox.drain() == ()
