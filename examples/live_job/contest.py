"""Does control pay on a real job? The same drift under every static setting of a lattice, and under the controller.

Each is a run of its own, with fresh weights, on the same engines. Useful: trained rollouts (all of groups whose
rewards differ) per second over the whole run, its first step left out. Results are kept; a second call goes on.
What a move gave is told beside the static run that stayed: the same minute of the same drift, of the same round.

Of several limits in flight the controller may choose too; of one it only proposes others.

usage: python -m examples.live_job.contest FOLDER [--venv VENV] [--minutes 4] [--rounds 1] [--in-flight 16 [32 ...]]
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from examples.live_job.live import await_steps, controller, drift_of, exit_code, job_file, say, stay
from examples.live_job.report import in_words, rate, steps_of, told
from examples.live_job.stage import HERE, Settings, Stage, free_ports, staged, stop
from policies.base import Interval
from policies.control import Action
from tuner.journal import Entry, viewed

Step = dict[str, Any]
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
    parts = {"the job": job, "Prometheus": prometheus}
    if name == CONTROLLED:
        daemon = controller(stage, job_file(stage, folder, url, free_ports(1)[0], seconds))
        parts = {"the controller": daemon, **parts}
    stay(parts, seconds, stage.folder)
    for part in parts.values():
        stop(part)
    if name == CONTROLLED:
        print(told(folder), flush=True)
    return rate(steps_of(folder)[WARM_UP_STEPS:])


@dataclass(frozen=True)
class Move:
    """One move of a controlled run."""

    ident: str
    at_s: float
    """When it was in force."""
    before: int
    """The trainer's slices."""
    after: int
    reason: str
    predicted: Interval | None
    realised: Interval | None
    """By the journal's own verdict; None where the run ended before it."""


def moves(folder: Path) -> list[Move]:
    """Of a run, from its journal: what was begun and is in force."""
    with closing(viewed(folder / "equipoise.journal")) as book:
        entries = list(book.entries())
    applied = [e.decision for e in entries if e.decision.action is Action.APPLY]
    gave = {e.decision.outcome.decision_id: e.decision.outcome.realised for e in entries if e.decision.outcome}
    found = []
    for at_s, before, after in _arrivals(entries):
        ident = next(d for d in reversed(applied) if d.at_s <= at_s).decision_id.split(".")[0]
        first = next(d for d in applied if d.decision_id.split(".")[0] == ident)
        found.append(Move(ident, at_s, before, after, first.reason, first.gain_frac, gave.get(ident)))
    return found


def _arrivals(entries: Sequence[Entry]) -> Iterator[tuple[float, int, int]]:
    """(when, trainer's slices before, and after), wherever all slices are held again and shared out anew."""
    there = [(e.at_s, e.seen.in_force.gpus_trainer or 0, e.seen.in_force.gpus_generator or 0) for e in entries]
    all_held = max((trainer + generator for _, trainer, generator in there), default=0)
    whole = [(at_s, trainer) for at_s, trainer, generator in there if trainer + generator == all_held]
    for (_, before), (at_s, after) in pairwise(whole):
        if before != after:
            yield at_s, before, after


def within(steps: Sequence[Step], begin_s: float) -> list[Step]:
    """The steps of the judged minute, which begins so many seconds after the first step."""
    zero = steps[0]["timestamp"]
    ends = [(step["timestamp"] - zero, step) for step in steps]
    return [step for end, step in ends if begin_s <= end - step["step_s"] and end <= begin_s + JUDGED_S]


def gain(ours: Sequence[Step], theirs: Sequence[Step], begin_s: float) -> tuple[float, float] | None:
    """Useful rollouts per second of both in the same minute; None where one has too few steps in it."""
    minutes = [within(ours, begin_s), within(theirs, begin_s)]
    return (rate(minutes[0]), rate(minutes[1])) if all(len(m) > WARM_UP_STEPS for m in minutes) else None


def gains(folder: Path, number: int, settings: Sequence[Settings]) -> Iterator[str]:
    """What each move of one round promised, and gave: by the journal, and beside the run that stayed."""
    controlled, gpus = folder / f"run-{number}-0", settings[0].gpus_trainer + settings[0].gpus_generator
    ours = steps_of(controlled)
    for move in moves(controlled):
        stayed = next(i for i, s in enumerate(settings) if i and s.gpus_trainer == move.before)
        begin_s = move.at_s - ours[0]["timestamp"] + SETTLED_S
        both = gain(ours, steps_of(folder / f"run-{number}-{stayed}"), begin_s)
        yield (
            f"round {number + 1}, {begin_s:.0f} s, {move.before}:{gpus - move.before} -> {move.after}:"
            f"{gpus - move.after}: predicted {in_words(move.predicted)}, realised {in_words(move.realised)}; "
            + ("too few steps to compare" if both is None else "{:.2f} beside {:.2f}".format(*both))
            + ("" if both is None else f" ({both[0] / both[1] - 1.0:+.0%})")
        )


def by_minute(runs: Sequence[Sequence[Step]]) -> list[float]:
    """Useful rollouts per second in each whole minute of the shortest run, the mean of all of them."""
    last = min(steps[-1]["timestamp"] - steps[0]["timestamp"] for steps in runs)
    return [fmean(rate(within(steps, m * JUDGED_S)) for steps in runs) for m in range(round(last / JUDGED_S))]


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


def played(given: argparse.Namespace) -> int:
    book = given.folder / "results.jsonl"
    most = max(given.in_flight) if len(given.in_flight) > 1 else None
    with staged(given.folder, given.venv, in_flight_most=most) as stage:
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
    print(table(results(book), runs[1][0]))
    for i, (name, _) in enumerate(runs):
        minutes = by_minute([steps_of(given.folder / f"run-{number}-{i}") for number in range(given.rounds)])
        print(f"{name:14} minute by minute: {' '.join(f'{rate:.1f}' for rate in minutes)}")
    for number in range(given.rounds):
        print("\n".join(gains(given.folder, number, [settings for _, settings in runs])))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.live_job.contest", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--venv", type=Path, default=HERE / ".venv")
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--in-flight", type=int, nargs="+", default=[16])
    given = parser.parse_args()
    return exit_code(lambda: played(given))


if __name__ == "__main__":
    sys.exit(main())
