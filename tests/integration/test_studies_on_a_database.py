"""A study in a real PostgreSQL server: two machines on one study, and a database that is gone for a while."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from optuna.trial import TrialState

from tests.stories.study_run import search, where
from tuner.studies.finding import prepared, run
from tuner.studies.opening import opened
from tuner.studies.samplers import quiet
from tuner.studies.storage import DONE, Chooser, Ledger
from tuner.studies.workers import work

ROOT = Path(__file__).parents[2]
TRIALS = 16
PLACES = [*sorted(Path("/usr/lib/postgresql").glob("*/bin")), *map(Path, os.environ.get("PATH", "").split(":"))]
BIN = next((folder for folder in PLACES if (folder / "initdb").exists() and (folder / "pg_ctl").exists()), None)
pytestmark = pytest.mark.skipif(BIN is None, reason="no PostgreSQL server here (apt-get install postgresql)")


@dataclass(frozen=True)
class Server:
    """A database server of its own in a folder; run by another user where we are root, as it demands."""

    folder: Path
    port: int

    @property
    def url(self) -> str:
        return f"postgresql://tuner@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        self._call("pg_ctl", "-D", str(self.folder / "data"), "-l", str(self.folder / "log"), "-w", "start")

    def stop(self) -> None:
        self._call("pg_ctl", "-D", str(self.folder / "data"), "-m", "immediate", "-w", "stop")

    def make(self) -> None:
        self._call("initdb", "-D", str(self.folder / "data"), "-U", "tuner", "-A", "trust")
        with (self.folder / "data" / "postgresql.conf").open("a") as file:
            file.write(
                f"port = {self.port}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = ''\nfsync = off\n"
            )

    def _call(self, program: str, *arguments: str) -> None:
        assert BIN is not None
        command = [str(BIN / program), *arguments]
        user = "postgres" if os.geteuid() == 0 else None
        with (self.folder / "said").open("a") as said:
            done = subprocess.run(
                command, user=user, cwd=self.folder, stdout=said, stderr=said, timeout=120, check=False
            )
        assert done.returncode == 0, (self.folder / "said").read_text()[-2000:]


@pytest.fixture
def server() -> Iterator[Server]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # Not below pytest's own folder, which only its user may enter.
    with tempfile.TemporaryDirectory(prefix="equipoise-postgres-") as name:
        if os.geteuid() == 0:
            shutil.chown(name, "postgres")
        made = Server(Path(name), port)
        made.make()
        made.start()
        try:
            yield made
        finally:
            made.stop()


def ledger_of(url: str) -> Ledger:
    quiet()
    return Ledger(opened(where(url)), "s", Chooser("tpe", search(TRIALS).space, 0, 3, by_model=True))


def test_two_machines_work_on_one_study(server: Server) -> None:
    command = [sys.executable, "-m", "tests.stories.study_run", server.url, str(TRIALS), "1"]
    both = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    printed = [program.communicate(timeout=500)[0] for program in both]
    assert [program.returncode for program in both] == [0, 0]
    assert all(text.startswith("ready") for text in printed)
    trials = ledger_of(server.url).trials()
    assert TRIALS <= len(trials) <= TRIALS + 1
    assert all(t.state in DONE for t in trials)


def test_a_database_that_is_gone_for_a_while_costs_nothing(server: Server) -> None:
    job = prepared(search(TRIALS), where(server.url))
    away = threading.Event()

    def tell(ledger: Ledger) -> None:
        if len(ledger.trials(*DONE)) >= 3 and not away.is_set():
            away.set()
            server.stop()
            threading.Timer(8.0, server.start).start()

    ledger = run(job, work, tell)
    assert away.is_set()
    time.sleep(0.1)
    counts = ledger.counts()
    assert counts[TrialState.COMPLETE] + counts[TrialState.PRUNED] == TRIALS
    assert counts[TrialState.WAITING] == counts[TrialState.RUNNING] == 0
