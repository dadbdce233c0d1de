"""What the event engine is measured against: the C++ engine of the same algorithm, and SimPy."""

import shutil
import subprocess
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import simpy

from simulators.event_state import Job

SOURCE = Path(__file__).with_name("event_engine.cpp")
FLAGS = ("-O3", "-march=native", "-fno-tree-vectorize", "-fno-split-paths", "-std=c++17")
"""Both `no-` flags make it faster here: path splitting brings back the branches that the source avoids."""


@dataclass(frozen=True, slots=True)
class CppRun:
    cpu_s: float
    now_s: float
    """Its clock after all steps."""


def build_cpp(folder: str) -> Path | None:
    """The C++ engine, or None where no compiler is there."""
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        return None
    target = Path(folder) / "event_engine"
    subprocess.run([compiler, *FLAGS, "-o", str(target), str(SOURCE)], check=True)
    return target


def run_cpp(program: Path, job: Job, seed: int, warm_steps: int, steps: int) -> CppRun:
    knobs, stations, work = job.setpoints, job.stations, job.workload
    (_, base_s), (_, one_s) = stations.engine.step.table
    size, batch = knobs.group_size or 1, knobs.batch_rollouts or 1
    numbers = (
        *(knobs.engines, stations.engine.slots, size, batch // size, stations.admission.limit_groups),
        *(int(work.turns.mean), work.tool.mean_s if work.tool else 0.0, base_s, one_s - base_s),
        *(stations.engine.step.per_context_token_s, work.response.mean_tokens, work.response.sigma),
        *(stations.trainer.base_s, stations.trainer.gpu_s_per_token, stations.sync.seconds),
        *(seed, warm_steps, steps),
    )
    said = subprocess.run([program, *map(repr, numbers)], check=True, capture_output=True, text=True).stdout.split()
    return CppRun(float(said[0]), float(said[2]))


def simpy_events_per_s(customers: int) -> float:
    """M/M/8 at load 0.9 in SimPy: arrivals and departures per second of processor time."""
    env, rng, gone = simpy.Environment(), Random(1), [0]
    servers, enough = simpy.Resource(env, 8), env.event()

    def arrivals() -> Generator[simpy.Event, None, None]:
        while True:
            yield env.timeout(rng.expovariate(7.2))
            env.process(customer())

    def customer() -> Generator[simpy.Event, None, None]:
        with servers.request() as mine:
            yield mine
            yield env.timeout(rng.expovariate(1.0))
        gone[0] += 1
        if gone[0] == customers:
            enough.succeed()

    env.process(arrivals())
    started_s = time.process_time()
    env.run(until=enough)
    return 2.0 * customers / (time.process_time() - started_s)
