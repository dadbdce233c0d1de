"""Every `equipoise ...` that a document shows is a command with options that there are."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from tuner.cli import app

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("deploy/**/*.md")])
INLINE = re.compile(r"`equipoise ([^`]+)`")
FENCED = re.compile(r"^(?:\$ )?equipoise (.+)$", re.MULTILINE)
NOT_OURS = re.compile(r"\s(?:#|>|\|)\s.*", re.DOTALL)
"""A comment, a redirection or the next program."""


def refusal(words: list[str]) -> str:
    """Why the command line does not take these words; empty: it does. What is only cut short is no fault."""
    group = typer.main.get_command(app)
    context = group.make_context("equipoise", [], resilient_parsing=True)
    name, *rest = words
    command = group.get_command(context, name)  # type: ignore[attr-defined]
    if command is None:
        return f"there is no command {name}"
    try:
        command.make_context(name, rest, parent=context)
    except Exception as error:
        wrong = type(error).__name__ in ("NoSuchOption", "UsageError")
        return str(getattr(error, "message", error)) if wrong else ""
    return ""


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_that_is_shown_is_understood(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    shown = [NOT_OURS.sub("", told) for told in (*INLINE.findall(text), *FENCED.findall(text))]
    wrong = {told: why for told in shown if not told.startswith("-") and (why := refusal(shlex.split(told)))}
    assert wrong == {}


def test_a_wrong_option_and_a_wrong_command_would_be_found() -> None:
    assert "--knob" in refusal(["pause", "--knob", "NAME"])
    assert refusal(["paws"]) == "there is no command paws"
    assert refusal(["pause", "NAME"]) == ""
