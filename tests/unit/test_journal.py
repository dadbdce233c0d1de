"""The journal: what is written is what is read, a restart goes on, a replay decides the same byte for byte."""

import csv
import json
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from policies.commands import Command, CommandKind, ControlMode
from policies.laws.rate_balance import RateBalance
from policies.rules import Rules
from policies.state import STATE_VERSION, State
from simulators.clock import VirtualClock
from simulators.plant import Order, Receipt
from tests.plants import TOPOLOGY, FluidPlant
from tests.unit.control.conftest import CAPABILITIES
from tuner.errors import ConfigError
from tuner.journal import Journal, decoded_state, encoded_state
from tuner.journal_file import APPLICATION_ID, MIGRATIONS
from tuner.loop import NoInbox, Parts, replayed, run
from tuner.wiring import Pruned

RULES = Rules(RateBalance(), TOPOLOGY, capabilities=CAPABILITIES, gate=None, earn_auto=False)


class Said:
    """An inbox that speaks once, at its third draining."""

    def __init__(self, *commands: Command) -> None:
        self.commands, self.drained = commands, 0

    def drain(self) -> tuple[Command, ...]:
        self.drained += 1
        return self.commands if self.drained == 3 else ()

    def put_back(self, commands: tuple[Command, ...]) -> None:
        raise AssertionError("every tick of these tests can be written")


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal(tmp_path / "journal.db")
    yield opened
    opened.close()


def live(journal: Journal, until_s: float = 3600.0, inbox: Said | None = None) -> State:
    parts = Parts(FluidPlant(), RULES, VirtualClock(), journal, inbox or NoInbox())
    return run(parts, State(mode=ControlMode.AUTO), until_s)


def test_what_is_written_is_what_is_read(journal: Journal) -> None:
    state = live(journal)
    entries = list(journal.entries())
    assert len(entries) == 120
    assert entries[-1].state == state
    assert sum(e.receipt is not None for e in entries) >= 4
    assert all(isinstance(e.receipt, Receipt) for e in entries if e.decision.order is not None)
    assert all(e.seen.in_force.gpus_trainer in (64, 56) for e in entries)


def test_a_restart_is_the_last_row_with_its_receipt(journal: Journal) -> None:
    plant, clock, state = FluidPlant(), VirtualClock(), State(mode=ControlMode.AUTO)
    while state.move is None:
        state = run(Parts(plant, RULES, clock, journal, NoInbox()), state, clock.now_s() + 30.0)
    assert next(e.receipt for e in journal.entries(journal.size() - 1)) is not None
    assert journal.last() == state


def test_a_new_journal_has_no_state(journal: Journal) -> None:
    assert journal.last() is None


def test_a_replay_decides_the_same_byte_for_byte(journal: Journal) -> None:
    live(journal, inbox=Said(Command(CommandKind.PAUSE, author="a test"), Command(CommandKind.RESUME)))
    entries = list(journal.entries())
    assert any(e.commands for e in entries)
    assert any(e.decision.order for e in entries)
    assert list(replayed(RULES, entries, State(mode=ControlMode.AUTO))) == []
    assert list(replayed(RULES, entries[50:])) == []


def test_a_replay_under_other_rules_shows_where_it_differs(journal: Journal) -> None:
    live(journal)
    other = replace(RULES, policy=RateBalance(deadband_frac=0.5))
    found = list(replayed(other, journal.entries(), State(mode=ControlMode.AUTO)))
    assert found
    assert found[0].was.reason != found[0].now.reason


def test_a_state_survives_its_json() -> None:
    parts = Parts(FluidPlant(), RULES, VirtualClock(), Nowhere(), NoInbox())
    for until_s in (0.0, 400.0, 690.0, 900.0, 3600.0):
        state = run(parts, State(mode=ControlMode.AUTO), until_s)
        assert decoded_state(encoded_state(state)) == state
        assert encoded_state(decoded_state(encoded_state(state))) == encoded_state(state)


class Nowhere:
    def commit(self, entry: object) -> int:
        return 0

    def answer(self, tick_id: int, receipt: Receipt) -> None:
        return None


def test_a_state_of_a_newer_product_is_refused() -> None:
    text = encoded_state(replace(State(), version=STATE_VERSION + 1))
    with pytest.raises(ConfigError, match=f"version {STATE_VERSION + 1}"):
        decoded_state(text)


def test_a_journal_of_a_newer_product_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    Journal(path).close()
    with sqlite3.connect(path) as file:
        file.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    with pytest.raises(ConfigError, match="newer product"):
        Journal(path)


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as file:
        file.execute("CREATE TABLE theirs (x)")
    with pytest.raises(ConfigError, match="another program"):
        Journal(path)
    with sqlite3.connect(path) as file:
        assert file.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database at all, " * 50)
    with pytest.raises(ConfigError, match="cannot be used as a journal"):
        Journal(path)


def test_a_folder_that_is_not_there_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="local disk"):
        Journal(tmp_path / "nowhere" / "journal.db")


def test_the_file_is_marked_and_written_ahead(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    Journal(path).close()
    with sqlite3.connect(path) as file:
        assert file.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert file.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_old_ticks_are_forgotten_and_the_state_is_not(journal: Journal) -> None:
    state = live(journal)
    assert journal.keep(10) == 110
    assert len(list(journal.entries())) == 10
    assert journal.last() == state
    assert list(replayed(RULES, journal.entries())) == []


@pytest.mark.slow
def test_a_pruned_journal_stops_growing(tmp_path: Path) -> None:
    path, clock = tmp_path / "journal.db", VirtualClock()
    opened = Journal(path)
    parts = Parts(FluidPlant(), RULES, clock, Pruned(opened, keep_ticks=200), NoInbox())
    state, sizes = State(mode=ControlMode.AUTO), list[int]()
    for until_s in (30_000.0, 60_000.0):
        state = run(parts, state, until_s)
        sizes.append(sum(file.stat().st_size for file in tmp_path.iterdir()))
    opened.close()
    assert state.tick == 2000
    assert sizes[1] <= 1.2 * sizes[0], "what is forgotten makes room for what comes"


def test_the_exports_say_what_was_decided(journal: Journal) -> None:
    live(journal)
    records = [json.loads(line) for line in journal.export("jsonl")]
    rows = list(csv.DictReader(journal.export("csv")))
    assert len(records) == len(rows) == 120
    assert {r["action"] for r in records} == {r["action"] for r in rows} == {"hold", "apply"}
    assert all(r["reason"] for r in records)
    assert next(r for r in records if r["order"])["trail"]
    with pytest.raises(ConfigError, match="jsonl and csv"):
        list(journal.export("xml"))


def test_a_plant_that_fails_is_a_refusal_in_the_journal(journal: Journal) -> None:
    class Breaks(FluidPlant):
        def apply(self, order: Order, now_s: float) -> Receipt:
            raise ConnectionError("no route to the cluster")

    state = run(Parts(Breaks(), RULES, VirtualClock(), journal, NoInbox()), State(mode=ControlMode.AUTO), 5400.0)
    told = [e.receipt for e in journal.entries() if e.receipt is not None]
    assert told
    assert all("no route to the cluster" in o.reason for r in told for o in r.outcomes.values())
    assert state.move is None


def test_stop_ends_the_loop_and_a_restart_goes_on(journal: Journal) -> None:
    stopped = live(journal, inbox=Said(Command(CommandKind.STOP)))
    assert stopped.stopped
    assert len(list(journal.entries())) == 3
    again = journal.last()
    assert again is not None
    parts = Parts(FluidPlant(), RULES, VirtualClock(100.0), journal, NoInbox())
    assert not run(parts, again, 1000.0).stopped
    assert len(list(journal.entries())) == 3 + 30
