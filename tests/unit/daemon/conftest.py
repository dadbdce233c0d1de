"""One served daemon for tests that only read, a fresh one for those that disturb it; a job that writes a log."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.daemon.faces import Face, served
from tests.unit.daemon.logged_job import JOB, Command, Done, row
from tuner.cli import main


@pytest.fixture(scope="module")
def face(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Face]:
    with served(tmp_path_factory.mktemp("face")) as found:
        yield found


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Face]:
    with served(tmp_path) as found:
        yield found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    now_s = time.time()
    (tmp_path / "metrics.jsonl").write_text("".join(row(i, now_s - 100.0 * (20 - i)) for i in range(20)))
    (tmp_path / "job.toml").write_text(JOB)
    return tmp_path


@pytest.fixture
def equipoise(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command line in the job's folder, without the second that a process takes to start."""
    monkeypatch.chdir(folder)

    def run(*arguments: str) -> Done:
        capsys.readouterr()
        code = main(arguments)
        told = capsys.readouterr()
        return Done(code, told.out, told.err)

    return run
