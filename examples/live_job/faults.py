"""Breaks the parts of a real run one after another, and checks that the job goes on and nothing acts on bad data.

    engine killed in a move | Prometheus stopped for a minute | trainer stopped and continued | controller kill -9

usage: python -m examples.live_job.faults FOLDER [--venv VENV] [--outage-s 60]     (exit 1: a check failed)
"""

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from examples.live_job.live import await_steps, controller, job_file, say
from examples.live_job.report import steps_of
from examples.live_job.stage import HERE, MissingError, Settings, Stage, free_ports, staged, stop
from policies.control import Action
from tuner.journal import Entry, viewed

GRACE_S = 25.0
"""Evidence may be 20 s old (guardrails.stale_s), and a tick takes a moment."""
PATIENCE_S = 90.0


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

    def letter(self) -> dict[str, object]:
        with suppress(FileNotFoundError, ValueError):
            return dict(json.loads((self.folder / "control.json").read_text()))
        return {}


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if holds():
            return True
        time.sleep(0.05)
    return False


def engine_killed(run: Run, checks: Checks) -> None:
    """The engine that a move is about to take into use dies."""
    began = time.time()
    wanted = within(PATIENCE_S, lambda: "2" in str(run.letter().get("setpoints", {}).get("engines", "")))  # type: ignore[attr-defined]
    checks.that("the controller orders a second engine", wanted)
    victim = run.stage.engine_processes[1]
    os.killpg(victim.pid, signal.SIGKILL)
    victim.wait()
    checks.that("engine killed in a move: the job goes on", run.goes_on())
    answer = json.loads((run.folder / "control.json.ack").read_text())
    refused = any(
        entry.receipt is not None and any(o.status.value == "refused" for o in entry.receipt.outcomes.values())
        for entry in run.entries(began)
    )
    there = len(json.loads((run.folder / "engines.json").read_text()))
    checks.that(
        f"what is said to be in force is there: engines {answer['setpoints']['engines']}, {there} serve",
        answer["setpoints"]["engines"] == there,
    )
    checks.that("the order was refused, or taken up and the engine lost later", refused or there >= 1)
    run.stage.start_engine(1, run.folder.parent / "model")
    run.stage.await_engine(1)
    checks.that("engine started anew: the job goes on", run.goes_on())


def prometheus_stopped(
    run: Run, checks: Checks, prometheus: object, outage_s: float, begin: Callable[[], object]
) -> None:
    stop(prometheus)  # type: ignore[arg-type]
    began = time.time()
    checks.that("Prometheus stopped: the job goes on", run.goes_on())
    time.sleep(max(0.0, outage_s - (time.time() - began)))
    acted = [
        e for e in run.entries(began + GRACE_S) if e.decision.action is Action.APPLY and e.decision.order is not None
    ]
    checks.that(f"nothing was decided on evidence older than {GRACE_S:.0f} s ({len(acted)} orders)", not acted)
    held = {e.decision.code.value for e in run.entries(began + GRACE_S) if e.decision.code is not None}
    checks.that(f"it says so: held as {', '.join(sorted(held))}", "stale" in held)
    begin()
    back = time.time()
    fresh = within(
        PATIENCE_S,
        lambda: any(e.decision.code is None or e.decision.code.value != "stale" for e in run.entries(back)[-1:]),
    )
    checks.that("Prometheus back: evidence is fresh again", fresh)


def trainer_stopped(run: Run, checks: Checks) -> None:
    pid = int((run.folder / "trainer.pid").read_text())
    os.kill(pid, signal.SIGSTOP)
    began = time.time()
    time.sleep(2.0 * GRACE_S)
    acted = [
        e for e in run.entries(began + GRACE_S) if e.decision.action is Action.APPLY and e.decision.order is not None
    ]
    os.kill(pid, signal.SIGCONT)
    checks.that(
        f"trainer stopped for {2 * GRACE_S:.0f} s: no order on steps that do not come ({len(acted)})", not acted
    )
    checks.that("trainer continued: the job goes on", run.goes_on())


def controller_killed(run: Run, checks: Checks, daemon: object, begin: Callable[[], object]) -> None:
    before = json.loads((run.folder / "control.json.ack").read_text())["setpoints"]
    daemon.kill()  # type: ignore[attr-defined]
    daemon.wait()  # type: ignore[attr-defined]
    checks.that("controller killed -9: the job goes on", run.goes_on())
    killed = time.time()
    begin()
    checks.that("a new one goes on from its journal", within(PATIENCE_S, lambda: len(run.entries(killed)) >= 3))
    first = run.entries(killed)[0]
    same = first.seen.in_force.gpus_trainer == before["gpus_trainer"]
    checks.that("it sees the settings in force", same)
    checks.that("the job goes on under it", run.goes_on())


def broken(stage: Stage, outage_s: float) -> list[str]:
    checks = Checks()
    stage.start_engines()
    job, folder, metrics_port = stage.start_job("job", Settings(), drift_s=300.0)
    await_steps(folder, job, 1)
    prometheus, url = stage.start_prometheus(folder, metrics_port)
    run, file = Run(stage, folder), job_file(stage, folder, url, free_ports(1)[0], 3600.0)
    daemon = controller(stage, file)
    engine_killed(run, checks)
    port = int(url.rsplit(":", 1)[1])
    prometheus_stopped(run, checks, prometheus, outage_s, lambda: stage.start_prometheus(folder, metrics_port, port))
    trainer_stopped(run, checks)
    controller_killed(run, checks, daemon, lambda: controller(stage, file))
    checks.that("the job never ended", job.poll() is None)
    return checks.failed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.live_job.faults", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--venv", type=Path, default=HERE / ".venv")
    parser.add_argument("--outage-s", type=float, default=60.0)
    given = parser.parse_args()
    try:
        with staged(given.folder, given.venv) as stage:
            stage.demand()
            failed = broken(stage, given.outage_s)
    except MissingError as missing:
        say(f"missing: {missing.what}")
        say(f"remedy:  {missing.remedy}")
        return 3
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
