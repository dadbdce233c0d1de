"""What many workers ask of one study's storage, by simulation: how busy it is, and how much of their time they work.

    python -m benchmarks.tuning_load [--cores 8] [--transaction-ms 2]

A worker's trial is TRANSACTIONS short transactions around the work; the database carries out as many at once as it has
cores, first come first served. Beside the simulation stands its asymptote: never more than cores / (TRANSACTIONS x
service) trials a second, never fewer seconds a trial than the work and its own transactions take.
"""

import argparse
import sys
from collections.abc import Generator
from dataclasses import dataclass
from random import Random
from typing import Any

import simpy

TRANSACTIONS = 6
"""Of a trial of three levels, counted on SQLite where others end between any two looks (docs/tuning.md)."""
WORKERS = (10, 100, 1000)
TRIAL_S = (1.0, 10.0, 30.0)
WARM_UP = 3.0
"""Trials of each worker before it is looked at."""
SPREAD = 0.5
"""Of a trial's time: sigma of its logarithm."""


@dataclass(slots=True)
class Study:
    """Workers that never run out of trials, and how many of these were done."""

    world: simpy.Environment
    database: simpy.Resource
    trial_s: float
    service_s: float
    random: Random
    done: int = 0

    def worker(self) -> Generator[Any, Any, None]:
        yield self.world.timeout(self.random.uniform(0.0, self.trial_s))
        while True:
            work_s = self.trial_s * self.random.lognormvariate(-SPREAD * SPREAD / 2.0, SPREAD)
            for _ in range(TRANSACTIONS):
                yield self.world.timeout(work_s / TRANSACTIONS)
                with self.database.request() as turn:
                    yield turn
                    yield self.world.timeout(self.random.expovariate(1.0 / self.service_s))
            self.done += 1


def trials_per_s(workers: int, trial_s: float, cores: int, service_s: float) -> float:
    """In the long run: the first trials of all are not counted."""
    world = simpy.Environment()
    study = Study(world, simpy.Resource(world, cores), trial_s, service_s, Random(workers))
    for _ in range(workers):
        world.process(study.worker())
    begun_s = WARM_UP * max(trial_s, workers * TRANSACTIONS * service_s / cores)
    world.run(until=begun_s)
    before = study.done
    world.run(until=3.0 * begun_s)
    return (study.done - before) / (2.0 * begun_s)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.tuning_load")
    parser.add_argument("--cores", type=int, default=8)
    parser.add_argument("--transaction-ms", type=float, default=2.0)
    asked = parser.parse_args(arguments)
    service_s = asked.transaction_ms / 1e3
    most = asked.cores / (TRANSACTIONS * service_s)
    print(f"{asked.cores} cores, {asked.transaction_ms:g} ms a transaction: at most {most:.0f} trials a second")
    print(f"{'workers':>8} {'s a trial':>10} {'trials/s':>9} {'database busy':>14} {'workers at work':>16}")
    for workers in WORKERS:
        for trial_s in TRIAL_S:
            rate = trials_per_s(workers, trial_s, asked.cores, service_s)
            print(
                f"{workers:8} {trial_s:10g} {rate:9.1f} {rate / most:14.0%} {rate * trial_s / workers:16.0%}",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:])
