"""People script against names: every code, signal and knob that an answer may hold stands in the tables."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from policies.derivations import DERIVATIONS
from policies.diagnosis.definitions import FINDINGS
from policies.diagnosis.notes import NOTES
from policies.estimators import FROM_ROWS
from policies.knobs import KNOBS
from simulators.plant import Bounds
from simulators.signals import SIGNALS
from tuner.answers.advise import Answer
from tuner.commands.base import Ask, material_of, read
from tuner.errors import SourceError
from tuner.report.answer import build

ROOT = Path(__file__).resolve().parents[2]
CODES = FINDINGS.keys() | NOTES.keys()
NAMES = SIGNALS.keys() | {rule.name for rule in DERIVATIONS} | FROM_ROWS.keys()
SAMPLES = sorted(
    path for path in (ROOT / "tests" / "data").rglob("*") if path.is_file() and path.suffix not in (".md", ".py")
)


def said(*makers: str) -> Iterator[tuple[str, str]]:
    """(first argument, place) of every call of these in the code, where it is a plain text."""
    for path in sorted([*ROOT.glob("policies/**/*.py"), *ROOT.glob("tuner/**/*.py")]):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Name(id=maker), args=[ast.Constant(value=str() as text), *_]) if maker in makers:
                    yield text, f"{path.relative_to(ROOT)}:{node.lineno}"


def answer_on(path: Path) -> Answer | None:
    """The answer about one file; None where it holds no record."""
    try:
        reading, _ = read(Ask((str(path),), "auto"))
    except SourceError:
        return None
    return build(material_of(reading, Bounds(), usd_per_gpu_hour=None))


def test_every_finding_code_in_the_code_stands_in_a_table() -> None:
    """A new one belongs into FINDINGS (policies/diagnosis/definitions.py) or NOTES (policies/diagnosis/notes.py)."""
    assert {text: place for text, place in said("Finding", "Note", "Remark") if text not in CODES} == {}


def test_no_table_holds_a_code_that_nothing_says() -> None:
    assert CODES - {text for text, _ in said("Finding", "Note", "Remark")} == set()


def test_every_knob_in_the_code_stands_in_the_table() -> None:
    assert {text: place for text, place in said("Recommendation", "DoNot", "KnobKey") if text not in KNOBS} == {}


def test_what_is_asked_for_is_a_signal_or_a_fact() -> None:
    facts = {"gpus_trainer"}
    assert {text: place for text, place in said("Missing") if text not in NAMES | facts} == {}


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: str(path.relative_to(ROOT / "tests" / "data")))
@pytest.mark.slow
def test_an_answer_on_a_real_file_uses_no_other_name(path: Path) -> None:
    answer = answer_on(path)
    if answer is None:
        return  # a configuration alone, or a table of published results
    assert {finding.code for finding in answer.findings} <= CODES
    assert answer.signals.keys() <= NAMES
    assert {r.knob for r in answer.recommendations} | {d.knob for d in answer.do_not} <= KNOBS.keys()


@pytest.mark.slow
def test_most_real_files_have_an_answer() -> None:
    answered = [path for path in SAMPLES if answer_on(path) is not None]
    assert len(answered) > 0.8 * len(SAMPLES)
