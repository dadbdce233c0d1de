"""Breaks the parts of a real run one after another, and checks that the job goes on and nothing acts on bad data.

    engine killed in a move | Prometheus stopped for a minute | trainer stopped and continued | controller kill -9

usage: python -m examples.live_job.faults FOLDER [--venv VENV]     (exit 1: a check failed)
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from examples.live_job.live import await_steps, controller, exit_code, job_file
from examples.live_job.report import steps_of
from examples.live_job.stage import HERE, Settings, Stage, free_ports, staged, stop
from policies.control import Action
from simulators.plant import Status
from tuner.journal import Entry, viewed

GRACE_S = 25.0
"""Evidence may be 20 s old (guardrails.stale_s), and a tick takes a moment."""
PATIENCE_S, OUTAGE_S = 90.0, 60.0
Process = subprocess.Popen[bytes]


@dataclass
class Checks:
    """What was looked at, and what was found."""

    failed: list[str] = field(default_factory=list)

    def that(self, what: str, holds: bool) -> None:
        print(f"{'ok    ' if holds else 'FAILED'}  {what}", flush=True)
        if not holds:
            self.failed.append(what)


@dataclass
class Run:
    stage: Stage
    folder: Path

    def steps(self) -> int:
        return len(steps_of(self.folder))

    def goes_on(self, more: int = 3, patience_s: float = PATIENCE_S) -> bool:
        wanted = self.steps() + more
        return within(patience_s, lambda: self.steps() >= wanted)

    def entries(self, since_s: float) -> list[Entry]:
        with closing(viewed(self.folder / "equipoise.journal")) as book:
            return [entry for entry in book.entries() if entry.at_s >= since_s]

    def told(self, name: str) -> dict[str, Any]:
        """The setpoints of an order, or of its answer."""
        with suppress(FileNotFoundError, ValueError):
            return dict(json.loads((self.folder / name).read_text())["setpoints"])
        return {}

    def blind(self, since_s: float) -> list[bool]:
        """Of each tick: whether its picture notes that the source failed."""
        return [any(n.code == "feed-failed" for n in e.seen.snapshot.notes) for e in self.entries(since_s)]

    def refused(self, since_s: float) -> bool:
        receipts = [entry.receipt for entry in self.entries(since_s) if entry.receipt is not None]
        return any(outcome.status is Status.REFUSED for told in receipts for outcome in told.outcomes.values())

    def begun(self, since_s: float) -> int:
        """Moves that were begun when their evidence was too old; one under way may go on to its end."""
        ids = {True: set[str](), False: set[str]()}
        for entry in self.entries(0.0):
            if entry.decision.action is Action.APPLY:
                ids[entry.at_s > since_s + GRACE_S].add(entry.decision.decision_id.split(".")[0])
        return len(ids[True] - ids[False])


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if holds():
            return True
        time.sleep(0.05)
    return False


def engine_killed(run: Run, checks: Checks) -> None:
    """The engine that a move is about to take into use dies; there is no other."""
    began = time.time()
    ordered = within(PATIENCE_S * 2, lambda: run.told("control.json").get("engines") == 2)
    checks.that("the controller orders a second engine", ordered)
    end(run.stage.engine_processes[1])
    checks.that("engine killed in a move: the job goes on", run.goes_on())
    checks.that("the order is refused with the reason", within(PATIENCE_S, lambda: run.refused(began)))
    serving = [target["targets"] for target in json.loads((run.folder / "engines.json").read_text())]
    said = run.told("control.json.ack").get("engines")
    checks.that(f"what is said to be in force is there: {said} of {len(serving)} engines", said == len(serving) == 1)
    undone = within(PATIENCE_S, lambda: run.told("control.json.ack").get("gpus_trainer") == 3)
    checks.that("the move is undone: the trainer has its slice again", undone)
    run.stage.start_engine(1, run.folder.parent / "model")
    run.stage.await_engine(1)
    run.stage.warm_up(1)
    checks.that("engine started anew: the job goes on", run.goes_on())


def end(process: Process) -> None:
    """Kills it and what it started, as the kernel does when memory runs out."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def prometheus_stopped(run: Run, checks: Checks, prometheus: Process, begin: Callable[[], object]) -> None:
    stop(prometheus)
    began = time.time()
    checks.that("Prometheus stopped: the job goes on", run.goes_on())
    time.sleep(max(0.0, OUTAGE_S - (time.time() - began)))
    checks.that(f"no move was begun on evidence older than {GRACE_S:.0f} s", run.begun(began) == 0)
    checks.that("each tick says that the server does not answer", all(run.blind(began + GRACE_S)))
    begin()
    back = time.time()
    checks.that("Prometheus back: it answers again", within(PATIENCE_S, lambda: run.blind(back)[-1:] == [False]))


def trainer_stopped(run: Run, checks: Checks) -> None:
    pid = int((run.folder / "trainer.pid").read_text())
    os.kill(pid, signal.SIGSTOP)
    began = time.time()
    time.sleep(2.0 * GRACE_S)
    begun = run.begun(began)
    os.kill(pid, signal.SIGCONT)
    checks.that("trainer stopped: no move is begun while no step ends", begun == 0)
    checks.that("trainer continued: the job goes on", run.goes_on())


def controller_killed(run: Run, checks: Checks, daemon: Process, begin: Callable[[], object]) -> None:
    before = run.told("control.json.ack")
    daemon.kill()
    daemon.wait()
    checks.that("controller killed -9: the job goes on", run.goes_on())
    killed = time.time()
    begin()
    checks.that("a new one goes on from its journal", within(PATIENCE_S, lambda: len(run.entries(killed)) >= 3))
    first = run.entries(killed)[0].seen.in_force
    checks.that("it sees the settings in force", first.gpus_trainer == before["gpus_trainer"])
    checks.that("the job goes on under it", run.goes_on())


def broken(stage: Stage) -> list[str]:
    checks = Checks()
    stage.start_engines()
    job, folder, metrics_port = stage.start_job("job", Settings(), quiet_s=0.0, drift_s=300.0)
    await_steps(folder, job, 1)
    prometheus, url = stage.start_prometheus(folder, metrics_port)
    run, file = Run(stage, folder), job_file(stage, folder, url, free_ports(1)[0], 3600.0)
    daemon = controller(stage, file)
    engine_killed(run, checks)
    port = int(url.rsplit(":", 1)[1])
    prometheus_stopped(run, checks, prometheus, lambda: stage.start_prometheus(folder, metrics_port, port))
    trainer_stopped(run, checks)
    controller_killed(run, checks, daemon, lambda: controller(stage, file))
    checks.that("the job never ended", job.poll() is None)
    return checks.failed


def played(folder: Path, venv: Path) -> int:
    with staged(folder, venv, engines=2) as stage:
        stage.demand()
        failed = broken(stage)
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.live_job.faults", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--venv", type=Path, default=HERE / ".venv")
    given = parser.parse_args()
    return exit_code(lambda: played(given.folder, given.venv))


if __name__ == "__main__":
    sys.exit(main())
