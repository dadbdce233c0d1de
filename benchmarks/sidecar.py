"""`python -m benchmarks.sidecar`: what the daemon reaches on a job that drifts, beside its bare law and still settings.

    fleet (a SimulatedPlant by the wall clock) -> Prometheus -> `equipoise run` in auto -> control file -> hook -> fleet

The same scenario, sped up, is also run by the same law on the bare plant and under static splits: useful rollouts
in the same simulated seconds. 13 hours of the job take 10 minutes.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from importlib import util
from pathlib import Path
from threading import Event, Thread
from typing import Any

import tomlkit

from policies.control import Action, ControlMode
from policies.state import State
from simulators.clock import VirtualClock
from simulators.pipeline import SimulatedPlant
from simulators.plant import Setpoints
from simulators.scenario import Scenario
from tests.fleet.fleet import Fleet
from tests.fleet.server import prometheus
from tests.fleet.web import served
from tuner.charter import Charter, decoded, rules_of
from tuner.evaluation.tasks import extended
from tuner.journal import viewed
from tuner.loop import NoInbox, NoLedger, Parts, step
from tuner.scenario_files import load

ROOT = Path(__file__).resolve().parents[1]
STORY = ROOT / "benchmarks" / "data" / "sidecar.toml"
SECONDS = frozenset({"restart_s", "actuation_s", "base_s", "seconds", "gpu_s_per_token", "per_context_token_s"})
SECONDS_ALSO = frozenset({"prefill_s_per_token"})
"""Keys of the story that hold seconds; of the table of engine steps, each second number."""
PERIOD_S, SCRAPE = 1.0, "120ms"
HOOK_S = 0.1
"""Between two looks of the hook at its file: the job's step boundaries are this near."""
DRIFT_S, FREEZE_S = 21600.0, 3600.0
"""The daemon's own usual ones, which are sped up with the job."""
JOB = """\
[topology]
mode = "overlapped"
gpus_total = 256
gpus_per_engine = 8
trainer_gpu_step = 8
trainer_gpus_min = 32
[setpoints]
gpus_trainer = 136
gpus_generator = 120
group_size = 8
batch_rollouts = 512
staleness_bound = 8
sync_interval = 1
filter_zero_adv = true
in_flight_update = true
[bounds]
gpus_trainer_min = 32
staleness_max = 16
[[source]]
path = "prometheus+{prometheus}"
[[actuator]]
kind = "control_file"
path = "control.json"
knobs = ["gpus_trainer"]
actuation_s = {actuation_s}
[policy]
name = "{law}"
{model}mode = "auto"
earn_auto = false
period_s = {period_s}
drift_s = {drift_s}
freeze_s = {freeze_s}
[gate]
simulate = false
[server]
port = 0
"""


@dataclass(frozen=True, slots=True)
class Wish:
    speed: float
    seconds: float
    """Of the wall clock."""
    law: str
    folder: Path
    seed: int


@dataclass(frozen=True, slots=True)
class Lived:
    """What came of the daemon's run."""

    useful: float
    steps: int
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


def useful_by(plant: SimulatedPlant, end_s: float) -> float:
    plant.advance(end_s)
    return sum(log.useful for log in plant.log if (log.row.time_s or 0.0) <= end_s)


def statics(scenario: Scenario, end_s: float, seed: int) -> dict[int, float]:
    """Useful rollouts under each legal split, kept all along."""
    topology = scenario.topology
    low, grain = topology.trainer_gpus_min or 1, 2 * (topology.trainer_gpu_step or 1)
    total = topology.gpus_total or 0
    found = {}
    for trainer in range(low + grain // 2, total - low + 1, grain):
        split = replace(scenario.setpoints, gpus_trainer=trainer, gpus_generator=total - trainer)
        found[trainer] = useful_by(SimulatedPlant(replace(scenario, setpoints=split), seed), end_s)
    return found


def bare(scenario: Scenario, charter: Charter, end_s: float, seed: int) -> float:
    """The same law under the same rules, on the plant itself, by the same period."""
    plant, clock, state = SimulatedPlant(scenario, seed), VirtualClock(), State(mode=ControlMode.AUTO)
    parts = Parts(plant, rules_of(replace(charter, ends_s=None)), clock, NoLedger(), NoInbox(), PERIOD_S)
    while clock.now_s() < end_s:
        state = step(parts, state, clock.now_s())
        clock.wait_until(clock.now_s() + PERIOD_S)
    return useful_by(plant, end_s)


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


def lived(scenario: Scenario, story: Path, wish: Wish) -> Lived:
    """The daemon beside the fleet, for so long."""
    fleet = Fleet(scenario, 1.0, wish.seed)
    with served(fleet) as url, prometheus(wish.folder / "prometheus", url, SCRAPE) as server:
        model = f"model = {json.dumps(str(story))}\n" if wish.law == "predictive" else ""
        scaled = {"drift_s": DRIFT_S / wish.speed, "freeze_s": FREEZE_S / wish.speed, "actuation_s": 120.0 / wish.speed}
        text = JOB.format(prometheus=server, law=wish.law, model=model, period_s=PERIOD_S, **scaled)
        (wish.folder / "job.toml").write_text(text)
        with hooked(fleet, wish.folder / "control.json"):
            _daemon(wish.folder, fleet, wish.seconds)
        useful = useful_by(fleet.plant, wish.seconds)
    with closing(viewed(wish.folder / "equipoise.journal")) as journal:
        entries = list(journal.entries())
        charter = decoded(journal.charter() or "")
    orders = {e.decision.decision_id.split(".")[0] for e in entries if e.decision.action is Action.APPLY}
    kept = {m[1] for e in entries if (m := re.match(r"(d\d+) is done", e.decision.reason))}
    return Lived(useful, len(fleet.plant.log), len(orders), len(kept & orders), charter)


def _daemon(folder: Path, fleet: Fleet, seconds: float) -> None:
    command = [sys.executable, "-m", "equipoise", "run", "--job", "job.toml"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (folder / "daemon.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stderr=log)
        try:
            while fleet.job_s() < seconds and process.poll() is None:
                time.sleep(0.2)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60.0)
    if process.returncode != 0:
        raise RuntimeError((folder / "daemon.log").read_text()[-500:])


def measured(wish: Wish) -> dict[str, float]:
    """All figures: three ways through the same seconds of the same job."""
    story = wish.folder / "story.toml"
    story.write_text(sped_up(STORY.read_text(encoding="utf-8"), wish.speed))
    scenario = extended(load(str(story)).scenario)
    live = lived(scenario, story, wish)
    still = statics(scenario, wish.seconds, wish.seed)
    best = max(still, key=lambda trainer: still[trainer])
    alone = bare(scenario, live.charter, wish.seconds, wish.seed)
    return {
        "speed": wish.speed,
        "job_hours": wish.seconds * wish.speed / 3600.0,
        "steps": live.steps,
        "scrapes_per_step": wish.seconds / live.steps / (float(SCRAPE.removesuffix("ms")) / 1e3),
        "moves": live.moves,
        "confirmed": live.confirmed,
        "useful_per_h": live.useful / wish.seconds / wish.speed * 3600.0,
        "best_static_gpus_trainer": best,
        "best_static_per_h": still[best] / wish.seconds / wish.speed * 3600.0,
        "bare_law_per_h": alone / wish.seconds / wish.speed * 3600.0,
        "over_static_frac": live.useful / still[best] - 1.0,
        "over_bare_frac": live.useful / alone - 1.0,
    }


def main() -> int:
    asked = argparse.ArgumentParser(prog="python -m benchmarks.sidecar", description=__doc__)
    asked.add_argument("--speed", type=float, default=80.0, help="simulated seconds in one of the wall")
    asked.add_argument("--job-hours", type=float, default=13.0, help="of the job")
    asked.add_argument("--law", default="predictive")
    asked.add_argument("--seed", type=int, default=1)
    told = asked.parse_args()
    with tempfile.TemporaryDirectory(prefix="equipoise-sidecar-") as folder:
        found = measured(Wish(told.speed, told.job_hours * 3600.0 / told.speed, told.law, Path(folder), told.seed))
    for name, value in found.items():
        print(f"{name:26} {value:12.3f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
