"""docs/extending.md is followed literally, outside the tree: its files written, its commands run, its output seen."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
FILE = re.compile(r"^`([\w/.]+)`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^```sh\n(.*?)^```$(?:\n^```output\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)


def tools(place: Path) -> Path:
    """`equipoise` and `python` as an installation of this tree has them: on the path, our packages importable."""
    folder = place / "bin"
    folder.mkdir()
    ours = f'PYTHONPATH="$PYTHONPATH:{ROOT}" exec {sys.executable}'
    for name, what in (("python", ours), ("equipoise", f"{ours} {ROOT / 'equipoise.py'}")):
        (folder / name).write_text(f'#!/bin/sh\n{what} "$@"\n')
        (folder / name).chmod(0o755)
    return folder


def sections() -> Iterator[str]:
    return (part for part in re.split(r"^## ", PAGE, flags=re.MULTILINE) if part)


@pytest.mark.slow
def test_the_page_works_as_it_is_printed(tmp_path: Path) -> None:
    path, before = f"{tools(tmp_path)}:{os.environ['PATH']}", ""
    place = tmp_path / "outside"
    place.mkdir()
    for section in sections():
        for name, text in FILE.findall(section):
            (place / name).write_text(text)
        for commands, shown in COMMANDS.findall(section):
            script = f"set -e\n{before if 'export' not in commands else ''}{commands}"
            done = subprocess.run(
                ["sh", "-c", script], cwd=place, env={"PATH": path}, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stdout + done.stderr
            for line in shown.splitlines():
                assert line in done.stdout, f"{line!r} is not printed:\n{done.stdout}"
            before = before or re.sub(r"^mkdir.*\n", "", commands, flags=re.MULTILINE)


def test_every_shown_output_has_its_command_and_every_file_is_used() -> None:
    assert PAGE.count("```output") == sum(bool(shown) for _, shown in COMMANDS.findall(PAGE)) >= 4
    assert {name for name, _ in FILE.findall(PAGE)} >= {"ours/tidepool.py", "ours/dial.py", "ours/nudge.py", "job.toml"}
