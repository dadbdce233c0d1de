"""Many cases in several processes: counts what came out, keeps what failed, shows how long it will take."""

import json
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from multiprocessing import get_context
from pathlib import Path

from tests.fuzz import library
from tests.fuzz.cases import Case, Sample, load_samples, make_case
from tests.fuzz.runner import Outcome, run_case, run_paths, write_files

ROOT = Path(__file__).resolve().parents[2]
FAILURES = ROOT / "fuzz-failures"
CHUNK = 25
KEPT_PER_SIGNATURE = 3
MEMORY_BYTES = 8 << 30
"""Address space of one process: an input that makes us ask for more is a failure, not a dead machine."""


@cache
def samples() -> tuple[Sample, ...]:
    found = load_samples(ROOT / "tests" / "data", ROOT / "examples")
    if not found:
        sys.exit("fuzz: no samples under tests/data or examples; run from a complete checkout")
    return found


def case_of(seed: int, index: int) -> Case:
    return make_case(seed, index, samples(), library.framework_names())


def run_chunk(seed: int, indices: Sequence[int]) -> list[Outcome]:
    return [run_case(case_of(seed, index)) for index in indices]


def limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, resource.RLIM_INFINITY))


def outcomes(seed: int, count: int, processes: int) -> Iterator[Outcome]:
    chunks = [range(start, min(start + CHUNK, count)) for start in range(0, count, CHUNK)]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=limit_memory) as pool:
        running = [pool.submit(run_chunk, seed, chunk) for chunk in chunks]
        for done in as_completed(running):
            yield from done.result()


def keep(case: Case, outcome: Outcome) -> Path:
    """The failing files with the command that shows the failure again."""
    folder = FAILURES / f"{case.seed}-{case.index}"
    if not folder.exists():
        folder.mkdir(parents=True)
        write_files(case, folder)
    about = {"framework": case.framework, "trail": case.trail, "error": outcome.failure}
    (folder / "case.json").write_text(json.dumps(about, indent=1))
    return folder


def replay(folder: Path) -> int:
    about = json.loads((folder / "case.json").read_text())
    paths = sorted(path for path in folder.glob("[0-9]*/*") if path.is_file())
    outcome = run_paths(paths, about["framework"], 0)
    print(outcome.failure or outcome.refusal or "an answer, valid")
    return 1 if outcome.failure else 0


def show(seed: int, index: int) -> int:
    """One input, told in full."""
    case = case_of(seed, index)
    outcome = run_case(case)
    print(f"framework: {case.framework or 'to be found'}", *case.trail, sep="\n  ")
    print(outcome.failure or outcome.refusal or "an answer, valid")
    return 1 if outcome.failure else 0


class Progress:
    """One line on a terminal, rewritten; nothing in a pipe."""

    def __init__(self, count: int) -> None:
        self.count, self.started_s, self.done = count, time.monotonic(), 0
        self.shown = sys.stderr.isatty()

    def step(self, failed: int) -> None:
        self.done += 1
        if self.shown and self.done % CHUNK == 0:
            left_s = (time.monotonic() - self.started_s) / self.done * (self.count - self.done)
            print(
                f"\rfuzz: {self.done}/{self.count}, {failed} failed, {left_s:.0f} s left ",
                end="",
                file=sys.stderr,
                flush=True,
            )

    def end(self) -> float:
        if self.shown:
            print("\r\x1b[K", end="", file=sys.stderr)
        return time.monotonic() - self.started_s


def fuzz(seed: int, count: int, processes: int) -> int:
    progress, failures, refused = Progress(count), Counter[str](), 0
    for outcome in outcomes(seed, count, processes):
        refused += outcome.refusal is not None
        if outcome.failure is not None:
            failures[outcome.signature] += 1
            if failures[outcome.signature] <= KEPT_PER_SIGNATURE:
                folder = keep(case_of(seed, outcome.index), outcome)
                print(
                    f"fuzz: {outcome.signature}\n  again: python -m tests.fuzz --replay {folder.relative_to(ROOT)}",
                    file=sys.stderr,
                )
        progress.step(failures.total())
    took_s = progress.end()
    for signature, times in failures.most_common():
        print(f"  {times:6d} x {signature}")
    answered = count - refused - failures.total()
    print(f"fuzz: {count} inputs from {len(samples())} samples in {took_s:.0f} s (seed {seed}): "
          f"{answered} answered, {refused} refused with a message, {failures.total()} failed")  # fmt: skip
    return 1 if failures else 0
