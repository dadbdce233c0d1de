"""The glossary holds the words that the code uses."""

from pathlib import Path

CONCEPTS = (Path(__file__).resolve().parents[2] / "docs" / "concepts.md").read_text(encoding="utf-8")


def test_the_first_line_says_whose_policy_is_meant() -> None:
    first = CONCEPTS.splitlines()[0]
    assert "`policy` alone always means our control policy" in first
