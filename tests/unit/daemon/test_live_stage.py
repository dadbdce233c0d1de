"""What the live job starts has ended when it has, however it ends; what it lacks it says, with the remedy."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.live_job.live import main
from examples.live_job.stage import LIBC

ROOT = Path(__file__).parents[3]
PATIENCE_S = 60.0
PROGRAM = """
import signal, sys, time
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
from examples.live_job.stage import staged
with staged(Path(sys.argv[1]), Path("nowhere")) as stage:
    part = stage.start("part", [sys.executable, "-c", "import time; print('there', flush=True); time.sleep(600)"])
    while "there" not in Path(sys.argv[1], "part.log").read_text():
        time.sleep(0.05)
    print(part.pid, flush=True)
    if sys.argv[2] == "crash":
        raise RuntimeError("as any program may")
    time.sleep(600)
"""


@pytest.fixture(params=["crash", "SIGTERM", "SIGINT", "SIGKILL"])
def part(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[int]:
    """The pid of a part whose program ended that way."""
    if request.param == "SIGKILL" and LIBC is None:
        pytest.skip("only Linux tells children that their parent was killed")
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), request.param]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as program:
        assert program.stdout is not None
        pid = int(program.stdout.readline())
        if request.param != "crash":
            program.send_signal(getattr(signal, request.param))
        try:
            program.wait(PATIENCE_S)
        finally:
            program.kill()
        yield pid


def runs(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.slow
def test_no_part_outlives_the_program_that_started_it(part: int) -> None:
    until = time.monotonic() + PATIENCE_S
    while runs(part) and time.monotonic() < until:
        time.sleep(0.05)
    assert not runs(part)


def test_what_is_missing_is_said_with_its_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "run"), "--venv", str(tmp_path / "nowhere")]) == 3
    said = capsys.readouterr().err
    assert f"missing: the environment of the engines, {tmp_path / 'nowhere'}" in said
    assert "remedy:  run `make live`" in said


def test_without_its_python_the_environment_is_not_made_and_the_remedy_is_said(tmp_path: Path) -> None:
    command = ["sh", str(ROOT / "examples" / "live_job" / "setup"), str(tmp_path / "venv")]
    env = {"PATH": "/usr/bin:/bin", "LIVE_PYTHON": str(tmp_path / "python3.11")}
    made = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert made.returncode == 3
    assert "live: missing: a complete Python 3.11" in made.stderr
    assert "live: remedy:  install one" in made.stderr
    assert not (tmp_path / "venv").exists()
