"""A controller that is killed anywhere in a move resumes it or takes it back; no GPU is lost or invented."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def reports(folder: Path, case: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.stories.kill_points", str(folder), case],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize(("case", "split"), [("succeeds", [56, 200, 1600]), ("never-serves", [64, 192, 1536])])
def test_killed_at_any_write_of_its_journal(tmp_path: Path, case: str, split: list[int]) -> None:
    unharmed, *killed = reports(tmp_path, case)
    assert unharmed["split"] == split
    assert len(killed) > 40
    assert all(r["killed"] for r in killed)
    assert [r["point"] for r in killed if r["split"] != split] == []
    assert [r["point"] for r in killed if r["most"] != 256] == []
    assert [r["point"] for r in killed if r["moving"] or not r["accepted"]] == []
    assert all(r["reasons"] == unharmed["reasons"] for r in killed)
