"""What Optuna, the storage and the child process take of a trial, as a share of one that works for 50 ms.

    python -m benchmarks.tuning_overhead [TRIALS] [URL]

Two studies of a few and of many trials, every point of which is illegal, so that nothing is computed: what the second
takes more in processor time, its child included, is the trials'. Beside it stands the floor: a bare loop that asks the
same points of the same function. A crowded machine makes both longer alike; processor time leaves its waiting out.
"""

import resource
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from tuner.scenario_files import load
from tuner.studies.cases import of_stories
from tuner.studies.finding import Search, prepared, run
from tuner.studies.knobs import JobFacts, space_of
from tuner.studies.opening import Where
from tuner.studies.trials import measure
from tuner.studies.workers import Job

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
    print(f"overhead {share:.0%} of a trial of {1e3 * TRIAL_S:g} ms; at most {SHARE_MAX:.0%}: {said}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else MANY - FEW, sys.argv[2] if len(sys.argv) > 2 else None)
