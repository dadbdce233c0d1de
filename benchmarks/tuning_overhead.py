"""What Optuna, the storage, the child process and Ray take of a trial, as a share of one that works for 50 ms.

    python -m benchmarks.tuning_overhead [TRIALS] [URL]

Two studies of a few and of many trials, every point of which is illegal, so that nothing is computed: what the second
takes more in processor time, its child included, is the trials'. Beside it stands the floor: a bare loop that asks the
same points of the same function. A crowded machine makes both longer alike; processor time leaves its waiting out.

Then two studies of trials that work for about as long, by one worker of this machine and by one of a Ray cluster of one
node: what all processes but the measuring child take, Ray's own and whoever watches included. What the second takes
more is Ray's.
"""

import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tuner.scenario_files import load
from tuner.studies.cases import of_stories
from tuner.studies.finding import Crew, Search, prepared, run
from tuner.studies.knobs import JobFacts, space_of
from tuner.studies.opening import Where
from tuner.studies.storage import DONE, Ledger
from tuner.studies.trials import measure
from tuner.studies.workers import Job, crew

FEW, MANY = 10, 210
TRIAL_S, SHARE_MAX = 0.05, 0.2
"""Of a trial that works for so long, no more than this share shall go into keeping it."""
SCENARIO = Path(__file__).parents[1] / "tests" / "data" / "tuning" / "lopsided.toml"


def cpu_s() -> float:
    """Of this process and of its children that have ended."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def taken(url: str, trials: int) -> tuple[Job, float, float]:
    """(the study, seconds, processor seconds) of so many trials."""
    scenario = load(str(SCENARIO)).scenario
    space = space_of(JobFacts(scenario.topology, scenario.setpoints, scenario.bounds, scenario.stations))
    illegal = replace(scenario, bounds=replace(scenario.bounds, gpus_trainer_min=99))
    search = Search(of_stories([("illegal", illegal)], 1), space, trials=trials, sampler="tpe")
    job = prepared(search, Where(url, f"overhead of {trials}, {time.time():.0f}"))
    began, busy = time.monotonic(), cpu_s()
    run(job)
    return job, time.monotonic() - began, cpu_s() - busy


def floor_s(job: Job) -> float:
    """Processor time of a bare call."""
    case, mark = job.problem.cases[0], job.basis.marks[0]
    points = list(job.problem.space.points())
    began = time.process_time()
    for point in points:
        measure(job.problem.space, case, mark, point)
    return (time.process_time() - began) / len(points)


# ---- Ray ----

WORKING, MARGIN, SEEDS = 240, 40, 8
"""Trials, how many before the end it is looked at for the last time, and runs of each: about TRIAL_S of simulation."""
MEASURES = b"tuner.studies.apart"
"""In the command line of a child that measures."""


def around_s() -> float:
    """Processor time of this process and all below it but the children that measure; Linux tells it."""
    tick_s, total = 1.0 / os.sysconf("SC_CLK_TCK"), 0.0
    below = {os.getpid()}
    for pid, parent, ticks in sorted(_processes()):  # a child's number is larger, but for one that wraps around
        if pid in below or parent in below:
            below.add(pid)
            total += ticks * tick_s
    return total


def _processes() -> Iterator[tuple[int, int, int]]:
    """(pid, parent, processor ticks) of all that run and do not measure."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if MEASURES not in (folder / "cmdline").read_bytes():
                yield int(folder.name), int(fields[1]), int(fields[11]) + int(fields[12])
        except OSError:
            continue  # it has ended


def working_s(crew: Crew) -> tuple[float, float]:
    """(processor seconds around a trial, seconds of a trial) while a study is under way, its start left out."""
    scenario = load(str(SCENARIO)).scenario
    space = space_of(JobFacts(scenario.topology, scenario.setpoints, scenario.bounds, scenario.stations))
    cohorts = of_stories([("lopsided", scenario)], SEEDS)
    search = Search(cohorts, space, trials=WORKING, sampler="tpe")
    seen: list[tuple[int, float, float]] = []

    def tell(ledger: Ledger) -> None:
        done = len(ledger.trials(*DONE))
        if (FEW if not seen else WORKING - MARGIN) <= done < WORKING and len(seen) < 2:
            seen.append((done, around_s(), time.monotonic()))  # twice only: looking at all processes takes some, too

    with tempfile.TemporaryDirectory() as folder:
        job = prepared(search, Where(f"sqlite:///{folder}/s.db", "s"))
        whole = replace(job.problem, levels=job.problem.levels[-1:])  # all cases at once: none is given up
        run(replace(job, problem=whole), crew, tell)
    (first, busy_first, at_first), (last, busy_last, at_last) = seen
    return (busy_last - busy_first) / (last - first), (at_last - at_first) / (last - first)


@contextmanager
def cluster() -> Iterator[str]:
    """The address of a Ray cluster of one node and one processor, on this machine."""
    from ray.cluster_utils import Cluster  # noqa: PLC0415  (an extra)

    made: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        yield made.address
    finally:
        made.shutdown()


def rays_share() -> str:
    if find_spec("ray") is None or not Path("/proc/self/stat").exists():
        return "Ray's share is not measured: that needs Ray (pip install 'equipoise[tune]') and Linux"
    from tuner.studies import ray  # noqa: PLC0415  (an extra)

    alone, _ = working_s(crew(1))
    with cluster() as address:
        with_ray, lasts = working_s(ray.crew(address))
    share = with_ray / TRIAL_S
    said = "kept" if share <= SHARE_MAX else "NOT kept"
    return (
        f"around a trial of {1e3 * lasts:.0f} ms go {1e3 * alone:.1f} ms of processor time with a local worker, "
        f"{1e3 * with_ray:.1f} ms with a Ray cluster's: Ray takes {1e3 * (with_ray - alone):.1f} ms\n"
        f"overhead with Ray {share:.0%} of a trial of {1e3 * TRIAL_S:g} ms; at most {SHARE_MAX:.0%}: {said}"
    )


def main(trials: int, url: str | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = url or f"sqlite:///{folder}/s.db"
        taken(place, FEW)  # everything is loaded and compiled
        _, wall_few, busy_few = taken(place, FEW)
        job, wall_many, busy_many = taken(place, FEW + trials)
    floor, wall, busy = floor_s(job), (wall_many - wall_few) / trials, (busy_many - busy_few) / trials
    share = (busy - floor) / TRIAL_S
    print(
        f"a bare call {1e3 * floor:.2f} ms; a trial {1e3 * busy:.1f} ms of processor time, {1e3 * wall:.0f} ms in all"
    )
    said = "kept" if share <= SHARE_MAX else "NOT kept"
    print(f"overhead {share:.0%} of a trial of {1e3 * TRIAL_S:g} ms; at most {SHARE_MAX:.0%}: {said}", flush=True)
    print(rays_share())


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else MANY - FEW, sys.argv[2] if len(sys.argv) > 2 else None)
