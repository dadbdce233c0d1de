"""What a simulator answered is part of the tick: a replay finds what was decided, also where the simulator was late.

The late ones are real: a child without time, one that is stopped, one that is killed.
"""

import json
import os
import signal
import sqlite3
import time
import zlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from math import inf
from multiprocessing import get_context
from pathlib import Path

import pytest

from policies.commands import ControlMode
from policies.control import Action, HoldCode
from policies.modelling import NominalModeller
from policies.state import State
from simulators.clock import VirtualClock
from simulators.event_model import EventModel
from simulators.model import Prediction
from simulators.pipeline import SimulatedPlant
from simulators.plant import Setpoints
from simulators.scenario import Scenario, job_at
from tests.laws.test_prefill_decode_split import outgrowing, split
from tuner.charter import Charter, encoded, rules_of
from tuner.cli import main
from tuner.evaluation.controlled import charter_of
from tuner.evaluation.tasks import Task
from tuner.hearing import Heard, Hearing, packed, unpacked
from tuner.journal import Entry, Journal, viewed
from tuner.journal_file import HEARING, MIGRATIONS
from tuner.loop import NoInbox, Parts, replayed, run
from tuner.scenario_files import load
from tuner.worker import LAW, Child, Question

pytestmark = pytest.mark.slow

Captured = pytest.CaptureFixture[str]
NOW_S, PERIOD_S, TICKS = 9000.0, 60.0, 3
END_S = NOW_S + TICKS * PERIOD_S
PATIENCE_S = 120.0
LONG_S = 120.0
BEGUN = State(mode=ControlMode.AUTO)


@dataclass(frozen=True)
class Slow:
    """How a child comes not to answer."""

    deadline_s: float
    blow: signal.Signals | None
    why: str


SLOW = {
    "no time": Slow(0.0, None, "the simulator gave no answer within 0 s"),
    "stopped": Slow(0.5, signal.SIGSTOP, "the simulator gave no answer within 0.5 s"),
    "killed": Slow(LONG_S, signal.SIGKILL, "the simulator's process ended"),
}


@dataclass(frozen=True)
class Watched:
    """A job under the law that looks ahead, in a journal of its own."""

    scenario: Scenario
    charter: Charter
    path: Path

    def live(self, child: Child) -> list[Entry]:
        """To the end, from where its journal ends."""
        plant = SimulatedPlant(self.scenario, 1)
        plant.observe(NOW_S)
        with closing(Journal(self.path)) as journal:
            journal.govern(encoded(self.charter))
            state = journal.last() or BEGUN
            clock = VirtualClock(NOW_S if state.at_s is None else state.at_s + PERIOD_S)
            run(Parts(plant, rules_of(self.charter, child), clock, journal, NoInbox(), PERIOD_S), state, END_S)
            return list(journal.entries())

    def under(self, slow: Slow) -> list[Entry]:
        with closing(Child(slow.deadline_s)) as child:
            if slow.blow is not None and child.pid is not None:
                os.kill(child.pid, slow.blow)
            return self.live(child)

    def change(self, statement: str, *values: object) -> None:
        with closing(sqlite3.connect(self.path)) as file, file:
            file.execute(statement, values)


def stated(scenario: Scenario, *knobs: str) -> Charter:
    found = charter_of(Task(scenario.title, scenario, "predictive", 1, ends_s=1e5))
    able = tuple(c for c in found.capabilities if not knobs or c.knob in knobs)
    return replace(found, capabilities=able)


@pytest.fixture
def at_the_gate(tmp_path: Path) -> Watched:
    """Its trainer is too large: the law wants another split, and the gate asks three jobs of it."""
    scenario = load("length-x3-in-25-steps").scenario
    return Watched(scenario, stated(scenario), tmp_path / "gate.journal")


@pytest.fixture
def in_the_law(tmp_path: Path) -> Watched:
    """Contexts outgrow its decoders' KV, and its prefill pool is too large: the law asks the simulator itself."""
    job = outgrowing(1)
    told = {"topology": job.topology, "workload": job.workload, "stations": job.stations}
    scenario = replace(load("tool-calls-20-to-51").scenario, drift=(), setpoints=split(job, 80), **told)
    return Watched(scenario, stated(scenario, "prefill_decode_split"), tmp_path / "law.journal")


def as_json(capsys: Captured, *arguments: str) -> list[dict[str, object]]:
    assert main(["replay", *arguments, "--json"]) == 0
    found: list[dict[str, object]] = json.loads(capsys.readouterr().out)["differences"]
    return found


@pytest.mark.parametrize("slow", SLOW.values(), ids=SLOW)
def test_a_move_that_was_held_for_a_late_simulator_is_held_in_a_replay(
    at_the_gate: Watched, slow: Slow, capsys: Captured
) -> None:
    held = next(e for e in at_the_gate.under(slow) if e.decision.code is HoldCode.GATE)
    assert slow.why in held.decision.reason
    assert slow.why in {told.why for told in held.heard}
    assert main(["replay", str(at_the_gate.path)]) == 0
    assert f"all {TICKS} ticks as they were decided under predictive, byte for byte" in capsys.readouterr().out


def test_a_law_that_moved_nothing_for_a_late_simulator_moves_nothing_in_a_replay(
    in_the_law: Watched, capsys: Captured
) -> None:
    entries = in_the_law.under(SLOW["no time"])
    assert {e.decision.action for e in entries} == {Action.HOLD}
    assert all(told.asker == LAW and told.why for e in entries for told in e.heard)
    assert as_json(capsys, str(in_the_law.path)) == []
    anew = replayed(rules_of(in_the_law.charter), [replace(e, heard=()) for e in entries], BEGUN)
    assert any(found.now.proposed is not None for found in anew), "in time it would have been another decision"


def test_a_move_that_was_confirmed_in_time_needs_no_simulator_again(at_the_gate: Watched, capsys: Captured) -> None:
    with closing(Child(LONG_S)) as child:
        entries = at_the_gate.live(child)
    assert any(e.decision.action is Action.APPLY and len(e.heard) == 6 for e in entries)
    rules = rules_of(at_the_gate.charter, Silent())
    assert list(replayed(rules, entries, BEGUN)) == []
    assert as_json(capsys, str(at_the_gate.path)) == []


def waiting(watched: Watched, pid: Path) -> None:
    """A life that ends while it waits for an answer."""
    with closing(Child(10.0 * PATIENCE_S)) as child:
        assert child.pid is not None
        os.kill(child.pid, signal.SIGSTOP)
        pid.write_text(str(child.pid))
        watched.live(child)


def test_killed_while_it_waits_for_an_answer_a_controller_decides_that_tick_anew(
    at_the_gate: Watched, tmp_path: Path, capsys: Captured
) -> None:
    Journal(at_the_gate.path).close()
    life = get_context("spawn").Process(target=waiting, args=(at_the_gate, tmp_path / "pid"))
    life.start()
    end_s = time.monotonic() + PATIENCE_S
    while not entries_of(at_the_gate):
        assert life.is_alive()
        assert time.monotonic() < end_s
        time.sleep(0.05)
    life.join(1.0)
    life.kill()
    life.join()
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert [e.heard for e in entries_of(at_the_gate)] == [()], "of the tick that it died in nothing is written"
    assert len(at_the_gate.under(SLOW["no time"])) == TICKS
    assert as_json(capsys, str(at_the_gate.path)) == []


class Silent:
    """An engine that nobody may ask."""

    def begin(self) -> None:
        return None

    def ask(self, question: Question) -> Prediction:
        raise AssertionError(f"asked of {question.setpoints}")


def test_an_older_journal_is_asked_anew_and_a_difference_says_so(at_the_gate: Watched, capsys: Captured) -> None:
    at_the_gate.under(SLOW["no time"])
    at_the_gate.change("ALTER TABLE tick DROP COLUMN heard")
    at_the_gate.change(f"PRAGMA user_version = {HEARING - 1}")
    before = at_the_gate.path.read_bytes()
    found = as_json(capsys, str(at_the_gate.path))
    assert [d["asked_anew"] for d in found] == [6]
    assert main(["replay", str(at_the_gate.path)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[-1].startswith("At 1 of them a simulator was asked anew")
    assert at_the_gate.path.read_bytes() == before
    with closing(Journal(at_the_gate.path)) as journal:
        assert [e.heard for e in journal.entries()] == [()] * TICKS
    with closing(sqlite3.connect(at_the_gate.path)) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)


def test_a_person_is_told_what_the_simulator_answered(at_the_gate: Watched, capsys: Captured) -> None:
    held = next(e for e in at_the_gate.under(SLOW["killed"]) if e.heard)
    assert main(["explain", held.decision.decision_id, "--journal", str(at_the_gate.path)]) == 0
    told = capsys.readouterr().out.partition("What the simulator answered\n")[2].partition("\n\n")[0]
    assert "asked by the gate 1, gpus_trainer 80" in told
    assert SLOW["killed"].why in told
    assert "useful rollouts/s" in told
    assert main(["journal", "export", str(at_the_gate.path)]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [len(record["heard"]) for record in records] == [len(e.heard) for e in entries_of(at_the_gate)]


def entries_of(watched: Watched) -> list[Entry]:
    with closing(viewed(watched.path)) as journal:
        return list(journal.entries())


def bent(written: bytes) -> bytes:
    return zlib.compress(zlib.decompress(written).replace(b'"why":"', b'"prediction":"fast","why":"'))


@pytest.mark.parametrize(
    ("damaged", "what"),
    [
        (lambda written: written[:-5], "incomplete or truncated stream"),
        (lambda written: b"\0" + written[1:], "incorrect header check"),
        (lambda written: "late", "str"),
        (bent, "0.prediction='fast': "),
    ],
    ids=["cut", "other bytes", "text", "another type"],
)
@pytest.mark.parametrize("reader", [["replay"], ["explain", "d1", "--journal"], ["journal", "export"]])
def test_damaged_answers_are_named_with_their_tick_and_a_remedy(
    tmp_path: Path, damaged: Callable[[bytes], object], what: str, reader: list[str], capsys: Captured
) -> None:
    scenario = load("steady-noise-24h").scenario
    watched = Watched(scenario, stated(scenario, "none"), tmp_path / "a.journal")
    with closing(Child(LONG_S)) as child:
        watched.live(child)
    written = packed((Heard(LAW, scenario.setpoints, why="late"),))
    assert written is not None
    watched.change("UPDATE tick SET heard = ? WHERE id = 2", damaged(written))
    assert main([*reader, str(watched.path)]) == 2
    told = capsys.readouterr().err
    assert f"{watched.path}: the journal is damaged: tick 2 cannot be read (what the simulator answered there: " in told
    assert what in told
    assert "put a backup in its place" in told
    assert "Traceback" not in told


def test_asked_the_same_twice_in_one_tick_a_simulator_says_the_same(at_the_gate: Watched) -> None:
    """The second time it could not: it is stopped."""
    job = job_at(at_the_gate.scenario, 0, 0.0)
    asked = Question(LAW, EventModel(job.stations, 1, 8, 1, 2), job.topology, job.workload, job.setpoints)
    with closing(Child(LONG_S)) as child:
        hearing = Hearing(child)
        hearing.begin()
        first = hearing.ask(asked)
        assert child.pid is not None
        os.kill(child.pid, signal.SIGSTOP)
        assert hearing.ask(asked) == first
        assert len(hearing.heard) == hearing.asked == 1


def test_answers_are_read_as_they_were_given(at_the_gate: Watched) -> None:
    seen = SimulatedPlant(at_the_gate.scenario, 1).observe(NOW_S)
    central = NominalModeller(job_at(at_the_gate.scenario, 0, 0.0)).central(seen)
    assert central is not None
    own = central.model.predict(at_the_gate.scenario.topology, central.workload, seen.in_force)
    stands = Prediction(0.0, 0.0, 0.0, inf, 1.0, 0.0, stopped="the buffer is too small")
    given = (
        Heard(LAW, seen.in_force, own),
        Heard(LAW, Setpoints(gpus_trainer=8, overlap=False), stands),
        Heard("gate 1", seen.in_force, why=""),
    )
    assert unpacked(packed(given)) == given
    assert packed(()) is None
    assert unpacked(None) == ()


def test_an_answer_is_a_prediction_or_a_reason() -> None:
    for both in ({}, {"prediction": Prediction(1.0, 1.0, 1.0, 1.0, 0.0, 1.0), "why": "late"}):
        with pytest.raises(ValueError, match=LAW):
            Heard(LAW, Setpoints(), **both)
