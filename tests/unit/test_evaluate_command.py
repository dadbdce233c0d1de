"""`equipoise evaluate`, `replay` and `explain` as a user meets them, on a job of 16 GPUs and a short horizon."""

import json
from pathlib import Path

import pytest

from tuner.cli import main
from tuner.journal import Journal
from tuner.scenario_files import text_of

pytestmark = pytest.mark.slow
Captured = pytest.CaptureFixture[str]
STEPS = 100
"""Trainer steps: an hour of the job's own time, under a second of ours."""


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small job that starts far from balance, so that there is something to decide."""
    text = text_of("correlated-lengths").replace("steps = 300", f"steps = {STEPS}")
    text = text.replace("gpus_trainer = 7", "gpus_trainer = 11").replace("gpus_generator = 9", "gpus_generator = 5")
    text = text.replace("outside_class = true", "outside_class = false")
    path = tmp_path_factory.mktemp("stories") / "lopsided.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def journals(story: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("journals")
    wish = ["--scenarios", str(story), "--policies", "predictive", "--journals", str(folder), "--quick"]
    assert main(["evaluate", *wish]) == 0
    return folder


def test_every_policy_stands_beside_the_clairvoyant_and_doing_nothing(
    story: Path, tmp_path: Path, capsys: Captured
) -> None:
    page = tmp_path / "evaluated.html"
    wish = ["--scenarios", str(story), "--policies", "predictive,threshold", "--quick", "--json", "--html", str(page)]
    assert main(["evaluate", *wish]) == 0
    answer = json.loads(capsys.readouterr().out)
    rows = {row["policy"]: row for row in answer["rows"]}
    assert rows.keys() == {"static", "predictive", "threshold"}
    assert rows["static"]["gain_frac"] == 0.0
    assert rows["static"]["oracle_gain_frac"] > 0.05
    assert rows["predictive"]["violations"] == 0
    assert rows["predictive"]["gain_frac"] > 0.0
    assert rows["predictive"]["ratio"] <= 1.02
    goals = {run["goal"] for run in answer["runs"]}
    assert len(goals) == 1, "all are compared at equal progress"
    assert {"floor", "goal", "holds", "distance_to_goal"} <= answer["demands"][0].keys()
    text = page.read_text(encoding="utf-8")
    assert "<svg" in text
    assert "<script" not in text


def test_a_record_is_gone_on_from_and_says_the_same(story: Path, tmp_path: Path, capsys: Captured) -> None:
    record = tmp_path / "runs.jsonl"
    wish = [
        "evaluate",
        "--scenarios",
        str(story),
        "--policies",
        "threshold",
        "--quick",
        "--record",
        str(record),
        "--json",
    ]
    assert main(wish) == 0
    first, lines = json.loads(capsys.readouterr().out), record.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 3
    record.write_text("\n".join([*lines[:2], lines[2][: len(lines[2]) // 2]]), encoding="utf-8")
    assert main(wish) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["rows"] == first["rows"]
    assert len([line for line in record.read_text(encoding="utf-8").splitlines() if line.endswith("}")]) == 3
    folder = tmp_path / "journals"
    folder.mkdir()
    assert main([*wish, "--journals", str(folder)]) == 0
    assert len(list(folder.iterdir())) == 1, "a run that is on record is done again where its journal is asked for"


def test_a_journal_replays_to_the_same_bytes(journals: Path, capsys: Captured) -> None:
    journal = next(journals.glob("*.journal"))
    assert main(["replay", str(journal)]) == 0
    assert "byte for byte" in capsys.readouterr().out
    assert main(["replay", str(journal), "--policy", "static", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["journal_policy"] == "predictive"
    assert answer["differences"]


def test_a_move_is_explained_from_what_was_seen_to_what_came_of_it(journals: Path, capsys: Captured) -> None:
    path = next(journals.glob("*.journal"))
    assert main(["explain", "--journal", str(path)]) == 0
    text = capsys.readouterr().out
    for part in ("Seen", "What limits", "The law", "Guardrails", "The models", "After"):
        assert part in text
    journal = Journal(path)
    first = next(iter(journal.entries())).decision.decision_id
    journal.close()
    assert main(["explain", first, "--journal", str(path)]) == 0
    assert "hold" in capsys.readouterr().out


def test_a_journal_without_a_tick_is_refused_and_an_empty_file_left_alone(tmp_path: Path, capsys: Captured) -> None:
    empty, fresh = tmp_path / "empty.journal", tmp_path / "fresh.journal"
    empty.touch()
    Journal(fresh).close()
    for path, said in ((empty, "is empty"), (fresh, "no tick is written")):
        assert main(["explain", "d1", "--journal", str(path)]) == 2
        assert said in capsys.readouterr().err
    assert main(["replay", str(empty)]) == 2
    assert empty.stat().st_size == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["evaluate", "--policies", "genius"], "no policy 'genius'"),
        (["evaluate", "--scenarios", "steady-noise-24h", "--seeds", "0"], "--seeds 0"),
        (["evaluate", "--scenarios", "nowhere"], "no such file"),
        (["evaluate", "--scenarios", ""], "an empty name"),
        (["evaluate", "--scenarios", "sandbox-wall", "--record", __file__], "is no record of an evaluation"),
        (["evaluate", "--scenarios", "sandbox-wall", "--record", "nowhere/runs.jsonl"], "in a folder that is there"),
        (["replay", "nowhere.journal"], "no such journal"),
        (["explain", "--journal", "nowhere.journal"], "no such journal"),
    ],
)
def test_mistakes_are_told_with_a_remedy(words: list[str], said: str, capsys: Captured) -> None:
    assert main(words) != 0
    assert said in capsys.readouterr().err
