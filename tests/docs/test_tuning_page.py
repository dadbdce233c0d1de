"""docs/tuning.md: the program runs as it stands, and the law of one's own is one that can be tuned."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.stories.study_run import LOPSIDED
from tuner.studies.knobs import parameters_of

ROOT = Path(__file__).parents[2]
LAW, PROGRAM = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "tuning.md").read_text(encoding="utf-8"), re.DOTALL)


def test_the_law_on_the_page_declares_what_is_searched() -> None:
    names: dict[str, Any] = {"__name__": "mine"}
    exec(LAW, names)
    (idle,) = parameters_of(names["Mine"]())
    assert (idle.name, idle.low, idle.high, idle.now) == ("policy.idle_frac", 0.05, 0.6, 0.2)


@pytest.mark.slow
def test_the_program_on_the_page_runs_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    shutil.copy(LOPSIDED, tmp_path / "story.toml")
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.match(r"\{'gpus_trainer': \d+", done.stdout), done.stdout
    assert "Interval(low=0." in done.stdout, "a gain, and one that is surely above nothing"
