"""Are the defaults of `predictive` fitted to the scenarios that come with it? Values are chosen on one half of them and
scored on the other.

    score of a law on a scenario = ln(T of doing nothing / T of the law), at equal progress

A default that had been fitted to all scenarios has seen the second half too, so values chosen honestly on the first
would do worse there: their mean difference to the default would be below zero beyond its spread. Around zero says that
the default knows no more of these scenarios than of others.

`python -m benchmarks.leave_out [SCENARIO...]`; runs that are done are kept in evaluation/leave-out.jsonl.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from math import log
from pathlib import Path
from random import Random
from statistics import fmean, pstdev

from policies.laws.predictive import Predictive
from tuner.evaluation.controlled import controlled, nothing
from tuner.evaluation.tasks import NOTHING, QUICK, Task, sized
from tuner.scenario_files import load, shipped

GRID: Mapping[str, tuple[float, ...]] = {
    "gain_min_frac": (0.01, 0.04),
    "payback_ratio": (1.0, 4.0),
    "misfit_frac": (0.005, 0.02),
    "trend_share": (0.0, 1.0),
    "review_s": (120.0, 900.0),
}
"""Half and double of each default, and both ends of what is a share."""
HALVES = 2000
RECORD = Path("evaluation/leave-out.jsonl")
DEFAULT = "default"

Scores = Mapping[str, Mapping[str, float]]
"""By law, by scenario."""


def laws() -> Iterator[tuple[str, Predictive]]:
    yield DEFAULT, Predictive()
    for name, values in GRID.items():
        for value in values:
            yield f"{name} {value:g}", replace(Predictive(), **{name: value})


def scores(names: Sequence[str]) -> Scores:
    known = read()
    found: dict[str, dict[str, float]] = {}
    for scenario in names:
        named = load(scenario)
        task = Task(named.name, sized(named.scenario, QUICK), NOTHING, 0, QUICK)
        base = None
        for label, law in laws():
            key = f"{named.name} {asdict(law)}"
            if key not in known:
                base = base or nothing(task)
                run = controlled(replace(task, policy="predictive", goal=base.goal, ends_s=base.seconds), law)
                known[key] = log(base.seconds / run.seconds)
                keep(key, known[key])
                print(f"{named.name:28} {label:20} {known[key]:+.4f}", file=sys.stderr, flush=True)
            found.setdefault(label, {})[named.name] = known[key]
    return found


def read() -> dict[str, float]:
    if not RECORD.exists():
        return {}
    return {entry["key"]: entry["score"] for entry in map(json.loads, RECORD.read_text("utf-8").splitlines())}


def keep(key: str, score: float) -> None:
    RECORD.parent.mkdir(exist_ok=True)
    with RECORD.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"key": key, "score": score}) + "\n")


def left_out(found: Scores, names: Sequence[str]) -> list[float]:
    """By halving: the score on the second half of what was best on the first, over that of the default there."""
    draw, gaps = Random(0), []
    for _ in range(HALVES):
        order = draw.sample(list(names), len(names))
        first, second = order[: len(order) // 2], order[len(order) // 2 :]
        chosen = max(found, key=lambda law: fmean(found[law][n] for n in first))
        gaps.append(fmean(found[chosen][n] - found[DEFAULT][n] for n in second))
    return gaps


def main() -> int:
    names = sys.argv[1:] or sorted(path.stem for path in shipped())
    found = scores(names)
    print(f"{'law':22} {'mean score':>10} {'worst':>8}")
    for law, by_scenario in sorted(found.items(), key=lambda pair: -fmean(pair[1].values())):
        print(f"{law:22} {fmean(by_scenario.values()):+10.4f} {min(by_scenario.values()):+8.4f}")
    gaps = left_out(found, names)
    print(f"chosen on one half, scored on the other, over the default there: {fmean(gaps):+.4f} +- {pstdev(gaps):.4f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
