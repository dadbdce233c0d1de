"""How much sooner two workers are done with a study than one, beside what two bare busy loops make of two cores.

    python -m benchmarks.tuning_scaling [TRIALS]

One study does the same trials with one worker and with two: points drawn at random by their number, all measured on
the same cases. From the first trial's beginning to the last one's end, as the storage has it. The bare loops share as
much work between two processes as one does alone; both are run before and after the studies, since machines have moods.
"""

import multiprocessing
import sys
import tempfile
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path
from statistics import mean

from tuner.scenario_files import load
from tuner.studies.cases import of_stories
from tuner.studies.finding import Search, prepared, run
from tuner.studies.knobs import JobFacts, space_of
from tuner.studies.opening import Where
from tuner.studies.workers import crew

SCENARIO = Path(__file__).parents[1] / "tests" / "data" / "tuning" / "lopsided.toml"
TRIALS, SEEDS = 60, 4
ROUNDS = 60_000_000
"""Of the bare loops, together: some seconds."""
SHARE_MIN = 0.9


def _busy(rounds: int, ready: Barrier) -> None:
    ready.wait()
    total = 0
    for i in range(rounds):
        total += i & 3


def bare_s(processes: int) -> float:
    """Seconds for all rounds, shared by so many processes that start together."""
    ready = multiprocessing.Barrier(processes + 1)
    members = [multiprocessing.Process(target=_busy, args=(ROUNDS // processes, ready)) for _ in range(processes)]
    for member in members:
        member.start()
    ready.wait()
    began = time.monotonic()
    for member in members:
        member.join()
    return time.monotonic() - began


def study_s(workers: int, trials: int) -> float:
    """Seconds for the trials of a study, without its preparation and the start of its workers."""
    scenario = load(str(SCENARIO)).scenario
    space = space_of(JobFacts(scenario.topology, scenario.setpoints, scenario.bounds, scenario.stations))
    cohorts = of_stories([("lopsided", scenario)], SEEDS)
    search = Search(cohorts, space, ("useful", "staleness"), trials, sampler="random")
    with tempfile.TemporaryDirectory() as folder:
        done = run(prepared(search, Where(f"sqlite:///{folder}/s.db", "s")), crew(workers)).trials()
    begun = sorted(trial.datetime_start for trial in done if trial.datetime_start)
    ended = max(trial.datetime_complete for trial in done if trial.datetime_complete)
    return (
        (ended - begun[workers]).total_seconds() * trials / (trials - workers)
    )  # the first ones warm their children up


def main(trials: int) -> None:
    bare: list[float] = []
    study: list[float] = []
    for _ in range(2):
        bare.append(bare_s(1) / bare_s(2))
        one, two = study_s(1, trials), study_s(2, trials)
        study.append(one / two)
        print(
            f"{trials} trials: {one:.1f} s with one worker, {two:.1f} s with two: {one / two:.2f} times as fast",
            flush=True,
        )
        bare.append(bare_s(1) / bare_s(2))
    share = mean(study) / mean(bare)
    print(f"two bare busy loops: {', '.join(f'{x:.2f}' for x in bare)} times as fast as one")
    said = "kept" if share >= SHARE_MIN else "NOT kept"
    print(f"a study's speed-up is {share:.2f} of theirs; at least {SHARE_MIN:g}: {said}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else TRIALS)
