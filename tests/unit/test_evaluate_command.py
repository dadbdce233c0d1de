"""`equipoise evaluate`: its answer keeps its schema, its record is gone on from, and its tiers exclude each other."""

import json
from pathlib import Path

import jsonschema
import pytest

from tuner.answers.evaluate import SCHEMA_FILE, schema_json
from tuner.cli import main

Captured = pytest.CaptureFixture[str]
SHORT = ["evaluate", "--quick", "--scenarios", "sandbox-wall", "--policies", "threshold"]


def test_the_schema_that_is_shipped_is_that_of_the_answer() -> None:
    """When it is not: `python -m tuner.answers.evaluate > tuner/answers/schema/evaluate.schema.json`."""
    assert SCHEMA_FILE.read_text(encoding="utf-8") == schema_json()


def test_the_json_answer_keeps_its_schema_and_a_record_is_not_run_again_however_damaged(
    capsys: Captured, tmp_path: Path
) -> None:
    record = tmp_path / "runs.jsonl"
    answers = []
    for damage in ("", '[1]\n5\n{"mark": "another"}\n{"mark": "cut'):
        if damage:
            record.write_text(record.read_text(encoding="utf-8") + damage, encoding="utf-8")
        assert main([*SHORT, "--json", "--record", str(record)]) == 0
        answers.append(json.loads(capsys.readouterr().out))
    jsonschema.validate(answers[0], json.loads(schema_json()))
    assert {run["policy"] for run in answers[0]["runs"]} == {"static", "threshold", "oracle"}
    assert len(record.read_text(encoding="utf-8").splitlines()) == 3 + 4
    assert answers[0]["runs"] == answers[1]["runs"]


def test_two_tiers_at_once_are_refused(capsys: Captured) -> None:
    assert main(["evaluate", "--quick", "--full"]) == 2
    assert "--quick and --full" in capsys.readouterr().err


LAW = """from dataclasses import dataclass
from policies.control import Hold

@dataclass(frozen=True)
class Mine:
    def decide(self, view):
        return Hold("{}")
"""


def test_a_law_that_was_edited_is_run_anew(capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing else is: what it is compared with was made by the same code."""
    monkeypatch.syspath_prepend(str(tmp_path))
    record, law = tmp_path / "runs.jsonl", tmp_path / "law_of_mine.py"
    lines = []
    for word in ("nothing", "nothing", "nothing yet"):
        law.write_text(LAW.format(word), encoding="utf-8")
        assert main([*SHORT[:-1], "law_of_mine:Mine", "--record", str(record)]) == 0
        lines.append(len(record.read_text(encoding="utf-8").splitlines()))
    assert lines == [3, 3, 4]
    assert capsys.readouterr().err.count("1 runs taken anew") == 1
