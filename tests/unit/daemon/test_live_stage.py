"""What the live job starts has ended when it has, however it ends; what it lacks it says, with the remedy."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.live_job.live import exit_code, job_file, main, stay
from examples.live_job.slices import sharing
from examples.live_job.stage import LIBC, Stage, await_url, fresh, staged
from tuner.config import load

ROOT = Path(__file__).parents[3]
PATIENCE_S = 60.0
PROGRAM = """
import signal, sys, time
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it,
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and those of nohup this
from examples.live_job.stage import staged
with staged(Path(sys.argv[1]), Path("nowhere")) as stage:
    stage.stack.callback(Path(sys.argv[1], "left in order").touch)
    part = stage.start("part", [sys.executable, "-c", "import time; print('there', flush=True); time.sleep(600)"])
    while "there" not in Path(sys.argv[1], "part.log").read_text():
        time.sleep(0.05)
    print(part.pid, flush=True)
    if sys.argv[2] == "crash":
        raise RuntimeError("as any program may")
    time.sleep(600)
"""


@pytest.fixture
def part(ending: str, tmp_path: Path) -> Iterator[int]:
    """The pid of a part whose program ended that way."""
    if ending == "SIGKILL" and LIBC is None:
        pytest.skip("only Linux tells children that their parent was killed")
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), ending]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as program:
        assert program.stdout is not None
        pid = int(program.stdout.readline())
        if ending != "crash":
            program.send_signal(getattr(signal, ending))
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
@pytest.mark.parametrize("ending", ["crash", "SIGTERM", "SIGINT", "SIGHUP", "SIGKILL"])
def test_no_part_outlives_the_program_that_started_it(ending: str, part: int, tmp_path: Path) -> None:
    until = time.monotonic() + PATIENCE_S
    while runs(part) and time.monotonic() < until:
        time.sleep(0.05)
    assert not runs(part)
    assert (tmp_path / "left in order").exists() is (ending != "SIGKILL")


def test_a_part_that_ends_at_its_start_is_named_with_its_log_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def play() -> int:
        with staged(tmp_path, tmp_path / "nowhere") as stage:
            await_url("http://127.0.0.1:1/health", PATIENCE_S, stage.start("engine-0", ["false"]), stage.folder)
        return 0

    began = time.monotonic()
    assert exit_code(play) == 1
    assert time.monotonic() - began < PATIENCE_S / 2.0
    assert f"did not come up before its program ended with 1; see the logs in {tmp_path}" in capsys.readouterr().err


def test_what_a_part_left_that_died_in_a_run_is_no_measurement(tmp_path: Path) -> None:
    with (
        staged(tmp_path, tmp_path / "nowhere") as stage,
        pytest.raises(RuntimeError, match=r"the controller ended with 1; see the logs in"),
    ):
        stay({"the controller": stage.start("equipoise", ["false"])}, PATIENCE_S, stage.folder)


@pytest.mark.parametrize(("stopped", "code"), [(RuntimeError("no"), 1), (OSError("no"), 1), (KeyboardInterrupt(), 130)])
def test_each_way_to_stop_has_its_exit_code_and_no_traceback(stopped: BaseException, code: int) -> None:
    def play() -> int:
        raise stopped

    assert exit_code(play) == code


def test_a_run_begins_without_the_steps_and_orders_of_an_earlier_one(tmp_path: Path) -> None:
    """A contest went on in the folder of a run that was interrupted: its steps were counted, its orders obeyed."""
    earlier, other = tmp_path / "run-0-0", tmp_path / "photographs"
    for folder, names in ((earlier, ("config.json", "steps.jsonl", "control.json")), (other, ("one.jpg",))):
        folder.mkdir()
        for name in names:
            (folder / name).touch()
    assert list(fresh(earlier).iterdir()) == []
    assert [path.name for path in fresh(other).iterdir()] == ["one.jpg"]
    assert fresh(tmp_path / "new").is_dir()


@pytest.mark.parametrize(("most", "turned"), [(None, ()), (32, ("max_in_flight",))])
def test_of_several_limits_in_flight_the_controller_may_choose_too(
    most: int | None, turned: tuple[str, ...], tmp_path: Path
) -> None:
    stage = Stage(tmp_path, tmp_path, in_flight_most=most)
    file = load(job_file(stage, tmp_path, "http://127.0.0.1:9090", 9464, 300.0))
    assert file.guardrails.auto_data_changing == turned
    assert file.bounds.max_in_flight_max == (most and most * (stage.gpus - 1))


def test_what_is_missing_is_said_with_its_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "run"), "--venv", str(tmp_path / "nowhere")]) == 3
    said = capsys.readouterr().err
    assert f"missing: the environment of the engines, {tmp_path / 'nowhere'}" in said
    assert "remedy:  run `make live`" in said


def test_an_environment_whose_python_is_gone_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / ".live-ready").touch()
    (tmp_path / "venv" / "bin" / "python").symlink_to(tmp_path / "uninstalled")
    assert main([str(tmp_path / "run"), "--venv", str(tmp_path / "venv")]) == 3
    assert "missing: the environment of the engines" in capsys.readouterr().err


def test_a_folder_that_is_no_environment_is_not_cleared_for_one(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    (tmp_path / "python3.11").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "python3.11").chmod(0o755)
    command = ["sh", str(ROOT / "examples" / "live_job" / "setup"), str(tmp_path)]
    env = {"PATH": "/usr/bin:/bin", "LIVE_PYTHON": str(tmp_path / "python3.11")}
    made = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert made.returncode == 3
    assert f"live: missing: a place for the environment: {tmp_path} holds something else" in made.stderr
    assert (tmp_path / "thesis.tex").exists()


def test_without_its_python_the_environment_is_not_made_and_the_remedy_is_said(tmp_path: Path) -> None:
    command = ["sh", str(ROOT / "examples" / "live_job" / "setup"), str(tmp_path / "venv")]
    env = {"PATH": "/usr/bin:/bin", "LIVE_PYTHON": str(tmp_path / "python3.11")}
    made = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert made.returncode == 3
    assert "live: missing: a complete Python 3.11" in made.stderr
    assert "live: remedy:  install one" in made.stderr
    assert not (tmp_path / "venv").exists()


def test_cpu_time_is_shared_out_where_the_kernel_allows_it(tmp_path: Path) -> None:
    """A shell's own group hands no controller on; of those above it the nearest that does is taken."""
    own = "user.slice/session.scope"
    (tmp_path / own).mkdir(parents=True)
    (tmp_path / own / "cgroup.subtree_control").write_text("")
    assert sharing(tmp_path, own) == tmp_path / own
    (tmp_path / "cgroup.subtree_control").write_text("cpuset cpu memory\n")
    (tmp_path / "user.slice/cgroup.subtree_control").write_text("cpuset memory\n")
    assert sharing(tmp_path, own) == tmp_path
    (tmp_path / "user.slice/cgroup.subtree_control").write_text("cpu\n")
    assert sharing(tmp_path, own) == tmp_path / "user.slice"
