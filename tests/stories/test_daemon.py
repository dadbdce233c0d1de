"""The daemon as a process: signals, kills, a second daemon, a full disk, a kill file, and people who talk to it.

Journal, lease, server and signals are the real ones; the job outlives the daemon, and time passes when a test says so.
"""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from policies.control import Action
from policies.moves import Stage
from tests.daemons import FREE, prepared, written
from tests.plants import FluidPlant, SavedPlant
from tuner.charter import decoded, rules_of
from tuner.journal import Entry, viewed
from tuner.loop import replayed
from tuner.pages import Pages

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 300.0
PERIOD_S = 60.0
TOKEN = "0123456789abcdef0123456789abcdef"
AUTO = """\
[job]
name = "fluid"
[policy]
mode = "auto"
earn_auto = false
period_s = 60
kill_file = "halt"
[guardrails]
auto_data_changing = ["max_in_flight"]
[server]
port = 0
token_file = "token"
"""


@dataclass
class Process:
    """A daemon in its folder, between its start and its end."""

    folder: Path
    process: subprocess.Popen[str]
    url: str = ""

    def end(self, number: signal.Signals | None = None) -> int:
        if number is not None:
            self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def get(self, path: str) -> Any:
        return json.loads(self.text(path))

    def text(self, path: str) -> str:
        try:
            with urllib.request.urlopen(f"{self.url}{path}", timeout=PATIENCE_S) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            return error.read().decode()

    def status(self) -> Any:
        return self.get("/api/v1/status")


@dataclass
class House:
    """A job's folder, and every daemon that was started in it."""

    folder: Path
    started: list[Process]

    def start(self) -> Process:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.daemons", str(self.folder)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stderr=subprocess.PIPE,
            text=True,
        )
        daemon = Process(self.folder, process)
        self.started.append(daemon)
        return daemon

    def up(self) -> Process:
        """A daemon that has said where its page is, and has looked once."""
        daemon = self.start()
        assert daemon.process.stderr is not None
        first = daemon.process.stderr.readline()
        daemon.url = (re.search(r"page=(\S+)", first) or pytest.fail(first))[1]
        until(lambda: daemon.status().get("last_tick") is not None)
        return daemon

    def go(self, until_s: str = FREE) -> None:
        """Time passes, a period for each tick, until then."""
        written(self.folder / "limit", until_s)

    def step(self, daemon: Process) -> None:
        """One tick more."""
        ticks = daemon.status()["tick"]
        self.go(str(float((self.folder / "now").read_text()) + PERIOD_S))
        until(lambda: daemon.status()["tick"] > ticks)

    def step_until(self, daemon: Process, true: Callable[[], bool]) -> None:
        """Tick by tick; afterwards time stands still."""
        for _ in range(100):
            if true():
                return
            self.step(daemon)
        pytest.fail("it did not come in 100 ticks")

    @property
    def plant(self) -> FluidPlant:
        return SavedPlant(self.folder / "plant").load()

    def entries(self) -> list[Entry]:
        with closing(viewed(self.folder / "equipoise.journal")) as journal:
            return list(journal.entries())

    def tell(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        url = self.started[-1].url
        return subprocess.run(
            [sys.executable, "-m", "equipoise", *arguments, "--url", url],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )


def until(true: Callable[[], bool]) -> None:
    """Waits for what must come; a machine under load may take its time."""
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.05)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    prepared(tmp_path / "job", AUTO, FluidPlant(actuation_s=90.0))
    (tmp_path / "job" / "token").write_text(TOKEN)
    found = House(tmp_path / "job", [])
    yield found
    for daemon in found.started:
        if daemon.process.poll() is None:
            daemon.process.kill()
        daemon.process.wait()
        if daemon.process.stderr is not None:
            daemon.process.stderr.close()


def moving(daemon: Process) -> bool:
    return daemon.status()["move"] is not None


def moved(house: House) -> bool:
    pages = Pages(house.folder / "equipoise.journal")
    return any("is done:" in record["reason"] for record in pages.newest(200))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_in_a_move_parks_it_and_a_restart_finishes_it(house: House, number: signal.Signals, code: int) -> None:
    first = house.up()
    house.step_until(first, lambda: moving(first))
    assert first.end(number) == code
    last = house.entries()[-1]
    assert last.state.stopped
    assert last.state.move is not None
    assert last.state.move.stage in (Stage.WALK, Stage.VERIFY, Stage.SETTLE)
    second = house.up()
    house.go()
    until(lambda: moved(house))
    assert second.end(signal.SIGTERM) == 0
    assert max(house.plant.totals) == 256
    assert house.plant.setpoints.gpus_trainer == 56


def test_a_kill_in_a_move_loses_nothing_and_the_whole_journal_replays(house: House) -> None:
    first = house.up()
    house.step_until(first, lambda: moving(first))
    assert first.end(signal.SIGKILL) == -signal.SIGKILL
    written = len(house.entries())
    second = house.up()
    assert second.status()["fencing_token"] == 2
    house.go()
    until(lambda: moved(house))
    second.end(signal.SIGTERM)
    entries = house.entries()
    assert [e.state.tick for e in entries] == list(range(1, len(entries) + 1))
    assert len(entries) > written
    assert max(house.plant.totals) == 256
    assert {o.fencing_token for o in house.plant.orders} <= {1, 2}
    with closing(viewed(house.folder / "equipoise.journal")) as journal:
        rules = rules_of(decoded(journal.charter() or ""))
    assert list(replayed(rules, entries)) == []


def test_a_second_daemon_is_refused_and_the_first_does_not_notice(house: House) -> None:
    first = house.up()
    second = house.start()
    assert second.end() != 0
    assert second.process.stderr is not None
    assert "another daemon writes this journal" in second.process.stderr.read()
    for _ in range(3):
        house.step(first)
    assert first.status()["ready"]


def test_a_full_disk_holds_everything_and_is_recovered_from(house: House) -> None:
    """The kernel refuses the daemon every byte beyond the present size of its files, as a full disk does."""
    daemon = house.up()
    pid, journal = daemon.process.pid, house.folder / "equipoise.journal"
    most = max(journal.stat().st_size, journal.with_name(f"{journal.name}-wal").stat().st_size)
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, hard))
    house.go()
    until(lambda: daemon.status()["journal_failures"] >= 3)
    orders = len(house.plant.orders)
    told = daemon.get("/readyz")
    assert not told["ready"]
    assert "the journal cannot be written" in " ".join(told["troubles"])
    assert daemon.get("/healthz")["alive"]
    assert "equipoise_journal_failures_total" in daemon.text("/metrics")
    failures = daemon.status()["journal_failures"]
    until(lambda: daemon.status()["journal_failures"] >= failures + 10)
    assert len(house.plant.orders) == orders, "nothing is ordered that is not written"
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
    until(lambda: moved(house))
    assert daemon.status()["ready"]
    daemon.end(signal.SIGTERM)
    entries = house.entries()
    assert [e.state.tick for e in entries] == list(range(1, len(entries) + 1))
    assert max(house.plant.totals) == 256


def test_a_full_disk_does_not_keep_a_daemon_from_stopping(house: House) -> None:
    daemon = house.up()
    _, hard = resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (8192, hard))
    house.go()
    until(lambda: daemon.status()["journal_failures"] >= 1)
    assert daemon.end(signal.SIGTERM) == 0


def test_a_kill_file_pauses_and_resuming_against_it_is_in_vain(house: House) -> None:
    (house.folder / "halt").touch()
    daemon = house.up()
    house.step_until(daemon, lambda: daemon.status()["decision"]["code"] == "paused")
    assert daemon.status()["pauses"] == [{"knob": None, "direction": None, "author": "kill file"}]
    assert house.tell("resume", "--token-file", "token").returncode == 0
    for _ in range(3):
        house.step(daemon)
    ticks = daemon.status()["tick"]
    assert daemon.status()["pauses"], "the file is still there"
    (house.folder / "halt").unlink()
    for _ in range(3):
        house.step(daemon)
    assert daemon.status()["pauses"], "only a person goes on"
    assert house.tell("resume", "--token-file", "token").returncode == 0
    house.step(daemon)
    assert not daemon.status()["pauses"]
    assert not any(e.decision.action is Action.APPLY for e in house.entries()[:ticks])


def test_a_person_approves_by_the_command_line_and_the_move_is_made(house: House) -> None:
    text = AUTO.replace('mode = "auto"', 'mode = "approve"')
    (house.folder / "job.toml").write_text(text)
    daemon = house.up()
    house.step_until(daemon, lambda: daemon.status()["asked"] is not None)
    ident = daemon.status()["asked"]["id"]
    assert f"equipoise approve {ident}" in house.tell("status").stdout
    assert f"equipoise approve {ident}" in daemon.text("/")
    wrong = house.tell("approve", "d999", "--token-file", "token")
    assert wrong.returncode == 4
    assert f"{ident} waits for an approval" in wrong.stderr
    assert house.tell("approve", ident).returncode == 2, "without a token"
    assert house.tell("approve", ident, "--token-file", "token").returncode == 0
    house.step(daemon)
    assert moving(daemon)
    daemon.end(signal.SIGTERM)
    said = [c for e in house.entries() for c in e.commands if c.decision_id == ident]
    assert [c.author for c in said] == ["cli"]


def test_a_changed_job_file_is_taken_by_a_restart_and_the_state_stays(house: House) -> None:
    first = house.up()
    house.step_until(first, lambda: first.status()["tick"] >= 5)
    first.end(signal.SIGTERM)
    before = house.entries()[-1].state
    (house.folder / "job.toml").write_text(AUTO.replace("period_s = 60", "period_s = 120"))
    second = house.up()
    told = second.status()
    assert told["period_s"] == 120
    assert told["tick"] == before.tick + 1
    (house.folder / "job.toml").write_text(AUTO.replace("period_s = 60", "period_s = 0"))
    second.end(signal.SIGTERM)
    third = house.start()
    assert third.end() != 0
    assert third.process.stderr is not None
    refusal = third.process.stderr.read()
    assert "job.toml:6: policy.period_s=0: input should be greater than or equal to 1" in refusal
