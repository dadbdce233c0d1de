"""`python -m benchmarks.sidecar`: what the daemon reaches on a job that drifts, beside its bare law and still settings.

    fleet (a SimulatedPlant by the wall clock) -> Prometheus -> `equipoise run` in auto -> control file -> hook -> fleet

The same scenario, sped up, is also run by the same law on the bare plant and under static splits, each until as many
useful rollouts are trained: a drift by step comes sooner to whoever is faster, so what is trained in equal time says
less (it is printed beside). The 15 hours of the job take 23 minutes.
"""

import argparse
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from importlib import util
from pathlib import Path
from threading import Event, Thread
from typing import Any

import tomlkit

from policies.commands import ControlMode
from policies.control import Action
from policies.state import State
from simulators.clock import VirtualClock
from simulators.pipeline import SimulatedPlant
from simulators.plant import Setpoints
from simulators.scenario import Scenario
from simulators.step_log import StepLog
from tests.fleet.fleet import Fleet
from tests.fleet.server import prometheus
from tests.fleet.web import served
from tuner.charter import Charter, decoded, rules_of
from tuner.evaluation.measuring import reached_s
from tuner.evaluation.tasks import extended
from tuner.journal import viewed
from tuner.loop import NoInbox, NoLedger, Parts, step
from tuner.scenario_files import load

ROOT = Path(__file__).resolve().parents[1]
STORY = ROOT / "benchmarks" / "data" / "sidecar.toml"
SECONDS = frozenset({"restart_s", "actuation_s", "base_s", "seconds", "gpu_s_per_token", "per_context_token_s"})
SECONDS_ALSO = frozenset({"prefill_s_per_token"})
"""Keys of the story that hold seconds; of the table of engine steps, each second number."""
PERIOD_S, SCRAPE_S = 1.0, 0.2
HOOK_S = 0.1
"""Between two looks of the hook at its file: the job's step boundaries are this near."""
DRIFT_S, FREEZE_S, REVIEW_S = 21600.0, 3600.0, 300.0
"""The daemon's own usual ones, which are sped up with the job."""
REVIEW_LEAST_S = 10.0
"""The law's own bound: at 40 times the speed its reviews are 400 seconds of the job apart, not 300."""
JOB = """\
[[source]]
path = "prometheus+{prometheus}"
[[actuator]]
kind = "control_file"
path = "control.json"
knobs = ["gpus_trainer"]
actuation_s = {actuation_s}
[policy]
name = "{law}"
{modelled}mode = "auto"
earn_auto = false
period_s = {period_s}
drift_s = {drift_s}
freeze_s = {freeze_s}
[gate]
simulate = false
[server]
port = 0
"""
STATED = ("topology", "setpoints", "bounds")
"""Tables of the story that its job file says in the same words."""
PATIENCE = 2.0
"""A daemon that takes so much longer than no daemon has lost its way."""


@dataclass(frozen=True, slots=True)
class Wish:
    speed: float
    law: str
    folder: Path
    seed: int


@dataclass(frozen=True, slots=True)
class Lived:
    """What came of the daemon's run."""

    log: Sequence[StepLog]
    moves: int
    confirmed: int
    charter: Charter


def sped_up(text: str, speed: float) -> str:
    """The story with all of its seconds divided."""
    document = tomlkit.parse(text)
    _divide(document, speed)
    return tomlkit.dumps(document)


def _divide(table: Any, speed: float) -> None:
    for key, value in list(table.items()):
        if key in SECONDS | SECONDS_ALSO:
            table[key] = float(value) / speed
        elif key == "table":
            table[key] = [[batch, seconds / speed] for batch, seconds in value]
        elif isinstance(value, dict):
            _divide(value, speed)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for part in value:
                _divide(part, speed)


def goal_of(scenario: Scenario) -> float:
    """All of the story: its steps, each with a whole batch."""
    return float((scenario.horizon.steps or 0) * (scenario.setpoints.batch_rollouts or 0))


def useful_by(log: Sequence[StepLog], end_s: float) -> float:
    return sum(entry.useful for entry in log if (entry.row.time_s or 0.0) <= end_s)


def statics(scenario: Scenario, seed: int) -> dict[int, Sequence[StepLog]]:
    """What becomes of the story under each legal split, kept all along."""
    topology = scenario.topology
    low, grain = topology.trainer_gpus_min or 1, topology.trainer_gpu_step or 1
    total = topology.gpus_total or 0
    found: dict[int, Sequence[StepLog]] = {}
    for trainer in range(low, total - low + 1, grain):
        split = replace(scenario.setpoints, gpus_trainer=trainer, gpus_generator=total - trainer)
        plant = SimulatedPlant(replace(scenario, setpoints=split), seed)
        plant.advance()
        found[trainer] = plant.log
    return found


def bare(scenario: Scenario, charter: Charter, seed: int) -> Sequence[StepLog]:
    """The same law under the same rules, on the plant itself, by the same period."""
    plant, clock, state = SimulatedPlant(scenario, seed), VirtualClock(), State(mode=ControlMode.AUTO)
    parts = Parts(plant, rules_of(replace(charter, ends_s=None)), clock, NoLedger(), NoInbox(), PERIOD_S)
    while reached_s(plant.log, goal_of(scenario)) is None:
        state = step(parts, state, clock.now_s())
        clock.wait_until(clock.now_s() + PERIOD_S)
    return plant.log


@contextmanager
def hooked(fleet: Fleet, path: Path) -> Iterator[None]:
    """The job's side of the control file: the shipped reader, which turns the fleet's knobs and says what is so."""
    spec = util.spec_from_file_location("equipoise_control", ROOT / "deploy" / "hooks" / "equipoise_control.py")
    if spec is None or spec.loader is None:
        raise RuntimeError("deploy/hooks/equipoise_control.py is not there")
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    control, done = module.ControlFile(path), Event()
    thread = Thread(target=_follow, args=(fleet, control, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _follow(fleet: Fleet, control: Any, done: Event) -> None:
    wanted: dict[str, Any] | None = None
    while not done.wait(HOOK_S):
        wanted = control.changed() or wanted
        if wanted is None:
            continue
        fleet.order(Setpoints(**wanted), f"hook-{sorted(wanted.items())}")
        there, _ = fleet.in_force()
        if all(getattr(there, name) == value for name, value in wanted.items()):
            control.acknowledge(wanted)
            wanted = None


def lived(scenario: Scenario, story: Path, wish: Wish, patience_s: float) -> Lived:
    """The daemon beside the fleet, until the story is told."""
    fleet = Fleet(extended(scenario), 1.0, wish.seed)
    with served(fleet) as url, prometheus(wish.folder / "prometheus", url, f"{SCRAPE_S * 1e3:.0f}ms") as server:
        (wish.folder / "job.toml").write_text(job_text(story, server, wish))
        with hooked(fleet, wish.folder / "control.json"):
            _daemon(wish.folder, fleet, goal_of(scenario), patience_s)
    with closing(viewed(wish.folder / "equipoise.journal")) as journal:
        entries = list(journal.entries())
        charter = decoded(journal.charter() or "")
    orders = {e.decision.decision_id.split(".")[0] for e in entries if e.decision.action is Action.APPLY}
    kept = {m[1] for e in entries if (m := re.match(r"(d\d+) is done", e.decision.reason))}
    return Lived(fleet.plant.log, len(orders), len(kept & orders), charter)


def job_text(story: Path, server: str, wish: Wish) -> str:
    review_s = max(REVIEW_LEAST_S, REVIEW_S / wish.speed)
    modelled = f"model = {json.dumps(str(story))}\nparameters = {{ review_s = {review_s} }}\n"
    scaled = {"drift_s": DRIFT_S / wish.speed, "freeze_s": FREEZE_S / wish.speed, "actuation_s": 120.0 / wish.speed}
    told = tomlkit.parse(story.read_text(encoding="utf-8"))
    stated = tomlkit.dumps({name: told[name] for name in STATED})
    asks = modelled if wish.law == "predictive" else ""
    return stated + JOB.format(prometheus=server, law=wish.law, modelled=asks, period_s=PERIOD_S, **scaled)


def _daemon(folder: Path, fleet: Fleet, goal: float, patience_s: float) -> None:
    command = [sys.executable, "-m", "equipoise", "run", "--job", "job.toml"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (folder / "daemon.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stderr=log)
        try:
            while process.poll() is None and fleet.job_s() < patience_s and not _told(fleet, goal):
                time.sleep(0.5)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60.0)
    if process.returncode != 0 or not _told(fleet, goal):
        raise RuntimeError((folder / "daemon.log").read_text()[-500:] or "the daemon took too long")


def _told(fleet: Fleet, goal: float) -> bool:
    with fleet.lock:
        fleet.look()
        return reached_s(fleet.plant.log, goal) is not None


def measured(wish: Wish) -> dict[str, float]:
    """All figures: three ways through the same work of the same job."""
    story = wish.folder / "story.toml"
    story.write_text(sped_up(STORY.read_text(encoding="utf-8"), wish.speed))
    scenario = load(str(story)).scenario
    goal = goal_of(scenario)
    still = statics(scenario, wish.seed)
    taken = {trainer: seconds for trainer, log in still.items() if (seconds := reached_s(log, goal)) is not None}
    best = min(taken, key=lambda trainer: taken[trainer])
    nothing_s = taken[scenario.setpoints.gpus_trainer or 0]
    live = lived(scenario, story, wish, PATIENCE * nothing_s)
    alone = bare(extended(scenario), live.charter, wish.seed)
    live_s, alone_s = (reached_s(log, goal) or math.inf for log in (live.log, alone))
    hours = wish.speed / 3600.0
    return {
        "speed": wish.speed,
        "scrapes_in_the_shortest_step": min(e.row.values["step_s"] for e in live.log) / SCRAPE_S,
        "moves": live.moves,
        "confirmed": live.confirmed,
        "useful_rollouts": goal,
        "daemon_h": live_s * hours,
        "bare_law_h": alone_s * hours,
        "best_static_gpus_trainer": best,
        "best_static_h": taken[best] * hours,
        "start_kept_h": nothing_s * hours,
        "faster_than_static_frac": taken[best] / live_s - 1.0,
        "faster_than_bare_frac": alone_s / live_s - 1.0,
        "more_in_equal_time_frac": goal / max(useful_by(log, live_s) for log in still.values()) - 1.0,
    }


def main() -> int:
    asked = argparse.ArgumentParser(prog="python -m benchmarks.sidecar", description=__doc__)
    asked.add_argument("--speed", type=float, default=40.0, help="simulated seconds in one of the wall")
    asked.add_argument("--law", default="predictive")
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--record", type=Path, help="a JSON file for what was measured")
    asked.add_argument("--keep", type=Path, help="a folder for the journal and all else of the run")
    told = asked.parse_args()
    with tempfile.TemporaryDirectory(prefix="equipoise-sidecar-") as scratch:
        folder = told.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        found = measured(Wish(told.speed, told.law, folder, told.seed))
    for name, value in found.items():
        print(f"{name:30} {value:12.3f}", flush=True)
    if told.record is not None:
        told.record.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
