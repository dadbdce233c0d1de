"""Static settings: does a study find what exhaustive search finds, in a tenth of its evaluations?

    python -m benchmarks.tuning [SCENARIO] [--seeds N]

Every point of the lattice is simulated on the cases of the search; then studies, each with another seed, look for the
best. Their trials are a tenth of the points, those that end at the model's word counted; the runs that they simulate
are fewer still. Regret: how much worse than the optimum their choice is, by the same table.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from policies.base import Interval
from simulators.scenario import Scenario
from tuner.scenario_files import load
from tuner.studies.cases import Cohorts, of_stories
from tuner.studies.finding import Search, basis_of, measured, prepared, run
from tuner.studies.knobs import JobFacts, space_of
from tuner.studies.objectives import central, excess_of, ratios
from tuner.studies.opening import Where
from tuner.studies.outcome import outcome_of
from tuner.studies.space import Point, Space, Value

SCENARIO = Path(__file__).parents[1] / "tests" / "data" / "tuning" / "lopsided.toml"
SHARE, SEEDS = 0.1, 3

Key = tuple[tuple[str, Value], ...]
Table = dict[Key, tuple[float, list[float], bool]]


def exhausted(space: Space, cohorts: Cohorts) -> Table:
    """(gain, logarithms case by case, keeps all bounds) of every point."""
    cases = cohorts.searching
    basis = basis_of(space, cases, 1)
    table: Table = {}
    for point in space.points():
        there = measured(space, cases, basis.marks, point, 1)
        logs = ratios(there, basis.here)
        kept = not any(value > 0.0 for value in excess_of(there, basis.here).values())
        table[key(point)] = (central(logs, [1.0] * len(logs), doubt=False).mean, logs, kept)
    return table


def optimum(space: Space, cohorts: Cohorts, table: Table) -> tuple[Key, tuple[float, list[float], bool]]:
    """The best point that keeps its bounds on other seeds as well: at a bound's edge a third of the points do so by
    luck, and a study does not choose them."""
    basis = basis_of(space, cohorts.choosing, 1)
    for found, told in sorted(table.items(), key=lambda pair: -pair[1][0]):
        there = measured(space, cohorts.choosing, basis.marks, dict(found), 1) if told[2] else []
        if there and not any(value > 0.0 for value in excess_of(there, basis.here).values()):
            return found, told
    raise ValueError("no point keeps its bounds")


def key(point: Point) -> Key:
    return tuple(sorted(point.items()))


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.tuning")
    parser.add_argument("scenario", nargs="?", default=str(SCENARIO))
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args(arguments)
    scenario = load(asked.scenario).scenario
    space = space_of(JobFacts(scenario.topology, scenario.setpoints, scenario.bounds, scenario.stations))
    stories = [(Path(asked.scenario).stem, scenario)]
    began = time.monotonic()
    table = exhausted(space, of_stories(stories, SEEDS))
    print(f"exhaustive: {len(table)} points, {SEEDS * len(table)} runs, {time.monotonic() - began:.0f} s", flush=True)
    for seed in range(asked.seeds):
        print(f"seed {seed}: {searched(stories, space, table, seed)}", flush=True)


@dataclass(frozen=True, slots=True)
class Searched:
    """One study beside exhaustive search."""

    trials: int
    runs_frac: float
    """Of the runs that exhaustive search simulates."""
    point: Point
    gain_frac: float
    best: Point
    best_gain_frac: float
    regret: Interval
    """How much slower what was found is than the optimum, pair by pair; 80 %."""

    def __str__(self) -> str:
        return (
            f"{self.trials} trials, {self.runs_frac:.1%} of the runs: {dict(self.point)} {self.gain_frac:+.1%}, "
            f"the optimum {dict(self.best)} {self.best_gain_frac:+.1%}, regret {self.regret.mean:.1%} "
            f"({self.regret.low:.1%}..{self.regret.high:.1%})"
        )


def searched(stories: Sequence[tuple[str, Scenario]], space: Space, table: Table, seed: int) -> Searched:
    """One study, held against the table."""
    best, (gain, logs, _) = optimum(space, of_stories(stories, SEEDS), table)
    search = Search(of_stories(stories, SEEDS), space, trials=int(SHARE * len(table)), seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        job = prepared(search, Where(f"sqlite:///{folder}/s.db", "s"))
        outcome = outcome_of(search, job, run(job))
    found = table[key({**space.now(), **outcome.point})]
    regret = central([a - b for a, b in zip(logs, found[1], strict=True)], [1.0] * len(logs), doubt=False)
    runs = outcome.simulations / (SEEDS * len(table))
    return Searched(search.trials, runs, outcome.point, found[0], dict(best), gain, regret)


if __name__ == "__main__":
    main(sys.argv[1:])
