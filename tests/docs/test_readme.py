"""README.md shows real output, and every command and link of the documents exists."""

import re
from pathlib import Path

import pytest

from tools.readme import OPENING, PROMPT, README, ROOT, regenerated, tidy

DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")])
LINK = re.compile(r"\[[^\]]+\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)]*)?\)")
MAKE = re.compile(r"`make ([a-z][a-z -]*)")
FENCED_MAKE = re.compile(r"^make ([a-z][a-z -]*?)(?: *#.*)?$", re.MULTILINE)
SHELL = re.compile(r"^```sh$(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_readme_shows_at_least_one_real_answer() -> None:
    text = README.read_text(encoding="utf-8")
    assert OPENING in text
    assert f"{PROMPT}advise examples/" in text


@pytest.mark.slow
def test_every_command_in_the_readme_prints_what_is_shown() -> None:
    """When it does not: `make readme` writes what it prints now; read the difference before you keep it."""
    text = README.read_text(encoding="utf-8")
    assert tidy(text) == tidy(regenerated(text))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    broken = [link for link in LINK.findall(document.read_text()) if not (document.parent / link).exists()]
    assert broken == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_make_target_that_a_document_names_exists(document: Path) -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = document.read_text()
    commands = [*MAKE.findall(text), *(line for block in SHELL.findall(text) for line in FENCED_MAKE.findall(block))]
    assert {word for command in commands for word in command.split()} - targets == set()
