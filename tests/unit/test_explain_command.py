"""`equipoise explain`: a decision as a person would tell it, from the journal of a simulated run."""

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from policies.commands import ControlMode
from policies.control import Action
from policies.rules import Rules
from policies.state import State
from simulators.clock import VirtualClock
from tests.plants import FluidPlant
from tests.stories.driving import HOUR, WantsThree, rules
from tests.stories.test_bad_moves import OddSize, RefusesGrowth
from tests.stories.test_unfinished_moves import Broken
from tuner.cli import main
from tuner.evaluation.controlled import controlled, nothing
from tuner.evaluation.tasks import NOTHING, Size, Task, sized
from tuner.journal import Journal, viewed
from tuner.loop import NoInbox, Parts, run
from tuner.scenario_files import load

Captured = pytest.CaptureFixture[str]
SHORT = Size(steps_max=150)


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a small job whose trainer waits: `predictive` moves a GPU."""
    path = tmp_path_factory.mktemp("journals") / "small.journal"
    named = load("correlated-lengths")
    task = Task(named.name, sized(named.scenario, SHORT), NOTHING, 0, SHORT)
    base = nothing(task)
    made = controlled(replace(task, policy="predictive", goal=base.goal, ends_s=base.seconds, journal=path))
    assert made.moves >= 1
    return path


@pytest.mark.slow
def test_a_move_is_told_with_what_was_considered_and_what_came_of_it(journal: Path, capsys: Captured) -> None:
    assert main(["explain", "--journal", str(journal)]) == 0
    told = capsys.readouterr().out
    for title in ("Seen", "What limits", "Considered", "The law", "Guardrails", "The models", "After"):
        assert f"\n{title}" in told
    assert "(wanted)" in told
    assert "had nothing against it" in told
    assert "ordered gpus_trainer" in told


def test_json_has_the_whole_trail(journal: Path, capsys: Captured) -> None:
    assert main(["explain", "--journal", str(journal), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["decision"]["trail"]) > len(told["guards"])


def test_a_hold_is_told_too(journal: Path, capsys: Captured) -> None:
    assert main(["explain", "d1", "--journal", str(journal)]) == 0
    assert "hold" in capsys.readouterr().out


@pytest.mark.slow
def test_whatever_was_considered_and_not_wanted_has_its_why_not(journal: Path, capsys: Captured) -> None:
    with closing(viewed(journal)) as kept:
        names = [entry.decision.decision_id.split(".")[0] for entry in kept.entries()]
    rows = []
    for name in list(dict.fromkeys(names))[::6]:
        assert main(["explain", name, "--journal", str(journal)]) == 0
        considered = capsys.readouterr().out.partition("\nConsidered, ")[2].partition("\n\n")[0]
        rows += considered.splitlines()[1:]
    assert rows
    assert all(row.endswith(")") for row in rows)


def story_of(plant: FluidPlant, by: Rules, tmp_path: Path, capsys: Captured) -> str:
    """What is told of the last move after three hours of automatic control."""
    journal = Journal(tmp_path / "driven.journal")
    run(Parts(plant, by, VirtualClock(), journal, NoInbox(), 60.0), State(mode=ControlMode.AUTO), 3 * HOUR)
    journal.close()
    assert main(["explain", "--journal", str(tmp_path / "driven.journal")]) == 0
    return capsys.readouterr().out.partition("\nAfter\n")[2]


def test_a_bad_move_is_told_to_its_undoing(tmp_path: Path, capsys: Captured) -> None:
    told = story_of(OddSize(), rules(WantsThree(), freeze_s=6 * HOUR), tmp_path, capsys)
    assert "judged: bad" in told
    assert "taken back, ordered gpus_trainer 64, gpus_generator 192" in told
    assert told.splitlines()[-1].strip().partition(": ")[2].startswith("d10 is undone: realised gain -4")


def test_a_move_that_walked_back_says_what_stood_in_its_way(tmp_path: Path, capsys: Captured) -> None:
    told = story_of(FluidPlant(never_serves=True), rules(freeze_s=6 * HOUR), tmp_path, capsys)
    assert "taken back, ordered gpus_trainer 64" in told
    assert "24 of 25 engines serve the current version" in told.splitlines()[-1]


def test_what_the_plant_refused_is_told_once_with_its_reason(tmp_path: Path, capsys: Captured) -> None:
    told = story_of(RefusesGrowth(), rules(), tmp_path, capsys)
    assert told.count("refused: gpus_trainer, gpus_generator, max_in_flight: told to refuse") == 1
    assert "is undone: leg 2 was refused 3 times" in told.splitlines()[-1]


@pytest.mark.slow
def test_a_tick_that_is_a_leg_is_told_as_its_move(journal: Path, capsys: Captured) -> None:
    with closing(viewed(journal)) as kept:
        names = [entry.decision.decision_id for entry in kept.entries()]
    place = next(i for i, name in enumerate(names) if name.split(".")[0] != f"d{i + 1}")
    assert main(["explain", f"d{place + 1}", "--journal", str(journal)]) == 0
    told, root = capsys.readouterr(), names[place].split(".")[0]
    assert told.err == f"d{place + 1} is a tick of the move {root}, which is told\n"
    assert told.out.startswith(f"{root} at ")


def test_a_wish_that_was_held_is_told_to_the_tick_that_did_it(journal: Path, capsys: Captured) -> None:
    with closing(viewed(journal)) as kept:
        entries = list(kept.entries())
    done = next(e.decision for e in entries if e.decision.action is Action.APPLY)
    first = next(e.decision for e in entries if e.decision.proposed == done.proposed)
    assert first.action is Action.HOLD
    assert main(["explain", first.decision_id, "--journal", str(journal)]) == 0
    after = capsys.readouterr().out.partition("\nAfter\n")[2].splitlines()
    assert after[-1].endswith(f"the same as {done.decision_id.partition('.')[0]}: apply")


def test_a_stranded_move_is_told(tmp_path: Path, capsys: Captured) -> None:
    assert "could be neither finished nor undone" in story_of(Broken(), rules(freeze_s=6 * HOUR), tmp_path, capsys)
