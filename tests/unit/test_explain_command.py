"""`equipoise explain`: a decision as a person would tell it, from the journal of a simulated run."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tuner.cli import main
from tuner.evaluation.controlled import controlled, nothing
from tuner.evaluation.tasks import NOTHING, Size, Task, sized
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
    run = controlled(replace(task, policy="predictive", goal=base.goal, ends_s=base.seconds, journal=path))
    assert run.moves >= 1
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
