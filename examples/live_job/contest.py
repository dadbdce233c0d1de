"""Does control pay on a real job? The same drift under every static setting of a lattice, and under the controller.

Each is a run of its own, with fresh weights, on the same engines. Useful: trained rollouts (all of groups whose
rewards differ) per second over the whole run, its first step left out. Results are kept; a second call goes on.
What a move gave is told beside the static run that stayed: the same minute of the same drift, of the same round.

usage: python -m examples.live_job.contest FOLDER [--venv VENV] [--minutes 4] [--rounds 1] [--in-flight 16]
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from statistics import fmean
from typing import Any

from examples.live_job.live import await_steps, controller, drift_of, job_file, say
from examples.live_job.report import rate, steps_of, told
from examples.live_job.stage import HERE, MissingError, Settings, Stage, free_ports, staged, stop
from tuner.journal import viewed

CONTROLLED = "controlled"
WARM_UP_STEPS = 1
SETTLED_S, JUDGED_S = 5.0, 60.0
"""After a move: until what it left behind is trained, and for how long it is looked at then."""


def names(in_flight: list[int], gpus: int) -> Iterator[tuple[str, Settings]]:
    """The controller's run, which starts where the first static one stays, then every static setting."""
    first = Settings(gpus - 1, 1, in_flight[0])
    yield CONTROLLED, first
    for each in in_flight:
        for trainer in range(gpus - 1, 0, -1):
            yield f"{trainer}:{gpus - trainer} x {each}", Settings(trainer, gpus - trainer, each)


def once(stage: Stage, name: str, settings: Settings, seconds: float, run: str) -> float:
    """One run; useful rollouts per second."""
    job, folder, metrics_port = stage.start_job(run, settings, **drift_of(seconds))
    await_steps(folder, job, WARM_UP_STEPS)
    prometheus, url = stage.start_prometheus(folder, metrics_port)
    parts = [job, prometheus]
    if name == CONTROLLED:
        parts.insert(0, controller(stage, job_file(stage, folder, url, free_ports(1)[0], seconds)))
    time.sleep(seconds)
    for part in parts:
        stop(part)
    if name == CONTROLLED:
        print(told(folder), flush=True)
    return rate(steps_of(folder)[WARM_UP_STEPS:])


def moved(folder: Path, gpus: int) -> Iterator[tuple[float, int, int]]:
    """(when it was in force, trainer's slices before, and after) of each move of a controlled run."""
    before: int | None = None
    with closing(viewed(folder / "equipoise.journal")) as book:
        for entry in book.entries():
            there = entry.seen.in_force
            if there.gpus_trainer is None or there.gpus_trainer + (there.gpus_generator or 0) != gpus:
                continue  # between its two legs
            if before not in (None, there.gpus_trainer):
                yield entry.at_s, before or 0, there.gpus_trainer
            before = there.gpus_trainer


def within(steps: Sequence[dict[str, Any]], begin_s: float) -> list[dict[str, Any]]:
    """The steps of the judged minute, which begins so many seconds after the first step."""
    zero = steps[0]["timestamp"]
    ends = [(step["timestamp"] - zero, step) for step in steps]
    return [step for end, step in ends if begin_s <= end - step["step_s"] and end <= begin_s + JUDGED_S]


def gains(folder: Path, number: int, settings: Sequence[Settings]) -> Iterator[str]:
    """What each move of one round gave beside the run that stayed."""
    controlled, gpus = folder / f"run-{number}-0", settings[0].gpus_trainer + settings[0].gpus_generator
    ours = steps_of(controlled)
    for at_s, before, after in moved(controlled, gpus):
        stayed = next(i for i, s in enumerate(settings) if i and s.gpus_trainer == before)
        begin_s = at_s - ours[0]["timestamp"] + SETTLED_S
        there, theirs = within(ours, begin_s), within(steps_of(folder / f"run-{number}-{stayed}"), begin_s)
        said = f"round {number + 1}, {begin_s:.0f} s, {before}:{gpus - before} -> {after}:{gpus - after}"
        if len(there) > WARM_UP_STEPS and len(theirs) > WARM_UP_STEPS:
            yield f"{said}: {rate(there):.2f} beside {rate(theirs):.2f} ({rate(there) / rate(theirs) - 1.0:+.0%})"


def results(path: Path) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        row = json.loads(line)
        found.setdefault(row["name"], []).append(row["useful_per_s"])
    return found


def table(found: dict[str, list[float]], first: str) -> str:
    lines = [
        f"{name:14} {fmean(rates):5.2f} useful rollouts/s  ({' '.join(f'{r:.2f}' for r in rates)})"
        for name, rates in sorted(found.items(), key=lambda pair: -fmean(pair[1]))
    ]
    static = {name: fmean(rates) for name, rates in found.items() if name != CONTROLLED}
    if CONTROLLED in found and static:
        ours, best = fmean(found[CONTROLLED]), max(static, key=lambda name: static[name])
        lines.append(f"controlled over the best static setting in hindsight ({best}): {ours / static[best]:.2f}")
        if first in static:
            lines.append(f"controlled over the setting it began with ({first}): {ours / static[first] - 1.0:+.0%}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.live_job.contest", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--venv", type=Path, default=HERE / ".venv")
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--in-flight", type=int, nargs="+", default=[16])
    given = parser.parse_args()
    book = given.folder / "results.jsonl"
    try:
        with staged(given.folder, given.venv) as stage:
            stage.demand()
            runs = list(names(given.in_flight, stage.gpus))
            stage.start_engines()
            for number in range(given.rounds):
                for i, (name, settings) in enumerate(runs):
                    if len(results(book).get(name, ())) > number:
                        continue
                    useful = once(stage, name, settings, 60.0 * given.minutes, f"run-{number}-{i}")
                    with book.open("a") as file:
                        file.write(json.dumps({"name": name, "useful_per_s": useful}) + "\n")
                    say(f"{name}: {useful:.2f} useful rollouts/s")
    except MissingError as missing:
        say(f"missing: {missing.what}")
        say(f"remedy:  {missing.remedy}")
        return 3
    print(table(results(book), runs[1][0]))
    for number in range(given.rounds):
        print("\n".join(gains(given.folder, number, [settings for _, settings in runs])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
