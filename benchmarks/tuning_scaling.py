"""How much sooner two workers are done with a study than one, beside what two bare busy loops make of two cores.

    python -m benchmarks.tuning_scaling [TRIALS]

One study does the same trials with one worker and with two: points drawn at random by their number, all measured on
the same cases, about 50 ms each. From when all workers are warm to the last trial's end, as the storage has it. The
bare loops share as much work between two processes as one does alone, before and after each pair of studies, since
machines have moods.
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
TRIALS, SEEDS, PAIRS = 200, 8, 3
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
    ended = sorted((t.number, t.datetime_complete) for t in done if t.datetime_complete)
    warm = max(at for _, at in ended[:workers])  # the first trial of each also starts its child
    after = [at for _, at in ended if at > warm]
    return (max(after) - warm).total_seconds() * trials / len(after)


def main(trials: int) -> None:
    bare, study = list[float](), list[float]()
    for _ in range(PAIRS):
        before = bare_s(1) / bare_s(2)
        one, two = study_s(1, trials), study_s(2, trials)
        bare.append(mean((before, bare_s(1) / bare_s(2))))
        study.append(one / two)
        print(
            f"{trials} trials of {1e3 * one / trials:.0f} ms: {one:.1f} s with one worker, {two:.1f} s with two: "
            f"{study[-1]:.2f} times as fast; two bare busy loops {bare[-1]:.2f} times as fast as one",
            flush=True,
        )
    share = mean(study) / mean(bare)
    each = ", ".join(f"{x / y:.2f}" for x, y in zip(study, bare, strict=True))
    said = "kept" if share >= SHARE_MIN else "NOT kept"
    print(f"a study's speed-up is {share:.2f} of theirs ({each}); at least {SHARE_MIN:g}: {said}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else TRIALS)
