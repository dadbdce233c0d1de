"""Asks the command for advice in this process."""

from pathlib import Path

from typer.testing import CliRunner

from tests.stories.answers import Answer, read_answer
from tuner.cli import app


def ask(*arguments: str | Path) -> Answer:
    """The answer of `equipoise advise ... --json`; fails with what the command printed when it does not end well."""
    result = CliRunner().invoke(app, ["advise", *map(str, arguments), "--json"], catch_exceptions=False)
    assert result.exit_code == 0, f"exit {result.exit_code}: {result.stderr}"
    return read_answer(result.stdout)
