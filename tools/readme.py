"""The commands shown in README.md and their real output: `--write` puts it in, the docs test compares.

Every fenced block that starts with ```console holds `$ equipoise ...` lines, each followed by what it prints.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
FENCE = "```"
OPENING = FENCE + "console"
PROMPT = "$ equipoise "
WIDTH = 100
"""Columns of the terminal that the README shows."""

LAUNCH = "import sys; from tuner.cli import main; sys.exit(main())"


def output_of(command: str) -> str:
    """What the command prints on standard output in a plain terminal of WIDTH columns, from the project's folder."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("EQUIPOISE_")}
    environment |= {
        "COLUMNS": str(WIDTH),
        "NO_COLOR": "1",
        "TERM": "dumb",
        "PYTHONPATH": str(ROOT),
        "LC_ALL": "C.UTF-8",
    }
    arguments = shlex.split(command.removeprefix(PROMPT))
    done = subprocess.run(
        [sys.executable, "-c", LAUNCH, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    if done.returncode != 0:
        raise RuntimeError(f"`{command}` ended with exit code {done.returncode}: {done.stderr.strip()[-500:]}")
    return tidy(done.stdout)


def tidy(text: str) -> str:
    """Spaces at line ends and empty lines at the end vary between terminals and are not looked at."""
    return "\n".join(line.rstrip() for line in text.splitlines()).rstrip() + "\n"


def regenerated(text: str) -> str:
    """The same text with every console block's output replaced by the real one."""
    return "".join(_regenerated_lines(text))


def _regenerated_lines(text: str) -> Iterator[str]:
    inside = False
    for line in text.splitlines(keepends=True):
        if line.startswith(FENCE):
            inside = line.startswith(OPENING)
            yield line
        elif not inside:
            yield line
        elif line.startswith(PROMPT):
            yield line
            yield output_of(line.strip())


def main() -> int:
    if sys.argv[1:] != ["--write"]:
        print("usage: python -m tools.readme --write", file=sys.stderr)
        return 2
    README.write_text(regenerated(README.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
