"""A daemon that was killed goes on where its journal ends: no line of a log is read twice, none is skipped."""

import json
import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from simulators.snapshot import Row, Snapshot
from simulators.window import assemble
from tests.unit.daemon.logged_job import JOB, row
from tuner.ingest.continuing import continued
from tuner.journal import Entry, viewed

ROOT = Path(__file__).resolve().parents[3]
RUN = [sys.executable, "-m", "equipoise", "run", "--job", "job.toml"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
WAIT = "trainer_wait_s"


def last_entry(folder: Path) -> Entry:
    with closing(viewed(folder / "equipoise.journal")) as journal:
        return list(journal.entries())[-1]


def killed_after_a_tick(folder: Path) -> None:
    process = subprocess.Popen(RUN, cwd=folder, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    said = [process.stderr.readline() for _ in range(2)]
    process.kill()
    process.communicate()
    assert "event=decision" in said[1], said


@pytest.mark.slow
def test_after_kill_9_a_rotated_log_is_read_on_and_nothing_twice(tmp_path: Path) -> None:
    log, now_s = tmp_path / "metrics.jsonl", time.time()
    lines = [row(step, now_s - 100.0 * (30 - step)) for step in range(16)]
    log.write_text("".join(lines[:10]) + lines[10][:30])
    (tmp_path / "job.toml").write_text(JOB)
    killed_after_a_tick(tmp_path)
    assert json.loads(last_entry(tmp_path).state.cursors["metrics.jsonl"])["line"] == 11

    told_again = log.read_text().replace('"time/wait_for_batch": 40.0', '"time/wait_for_batch": 77.0', 1)
    with log.open("r+") as file:
        file.write(told_again[: len(lines[0])])
    with log.open("a") as file:
        file.write(lines[10][30:] + "".join(lines[11:13]))
    log.rename(tmp_path / "metrics.jsonl.1")
    log.write_text("".join(lines[13:]))
    done = subprocess.run([*RUN, "--once"], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

    rows = last_entry(tmp_path).seen.snapshot.rows
    assert [r.step for r in rows] == list(range(16))
    assert rows[0].values[WAIT] == 40.0, "what was read before the kill is not read again"


def picture(*rows: Row) -> Snapshot:
    return assemble(rows)


def test_a_half_told_step_is_completed_and_a_job_that_went_back_is_followed() -> None:
    before = picture(*(Row({"step_s": 100.0 + step}, step, 1e3 * step) for step in range(3, 8)))
    rest = continued(before, picture(Row({WAIT: 9.0}, 7, 7e3), Row({"step_s": 1.0}, 8, 8e3)), 9e3)
    assert [row.step for row in rest.rows] == [3, 4, 5, 6, 7, 8]
    assert rest.rows[4].values == {"step_s": 107.0, WAIT: 9.0}
    back = continued(before, picture(Row({"step_s": 50.0}, 5, 9e3)), 9e3)
    assert [(row.step, row.values["step_s"]) for row in back.rows] == [(3, 103.0), (4, 104.0), (5, 50.0)]
    assert back.signals["step_s"].age_s == 0.0
