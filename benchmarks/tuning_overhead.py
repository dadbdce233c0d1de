"""What Optuna, the storage and the child process take of a trial: a study whose every point is illegal, so that nothing
is computed.

    python -m benchmarks.tuning_overhead [TRIALS] [URL]
"""

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

WARM_UP = 5
"""Trials until everything is loaded."""
SCENARIO = Path(__file__).parents[1] / "tests" / "data" / "tuning" / "lopsided.toml"


def main(trials: int, url: str | None) -> None:
    scenario = load(str(SCENARIO)).scenario
    space = space_of(JobFacts(scenario.topology, scenario.setpoints, scenario.bounds, scenario.stations))
    illegal = replace(scenario, bounds=replace(scenario.bounds, gpus_trainer_min=99))
    search = Search(of_stories([("illegal", illegal)], 1), space, trials=trials, sampler="tpe")
    with tempfile.TemporaryDirectory() as folder:
        where = Where(url or f"sqlite:///{folder}/s.db", f"overhead-{time.time():.0f}")
        began = time.monotonic()
        job = prepared(search, where)
        run(replace(job, trials=WARM_UP))
        filled, cpu = time.monotonic(), time.process_time()
        run(job)
        wall, busy = (time.monotonic() - filled) / (trials - WARM_UP), (time.process_time() - cpu) / (trials - WARM_UP)
    told = f"{1e3 * wall:.1f} ms a trial, {1e3 * busy:.1f} ms of it our own CPU"
    print(f"{trials} trials: prepared in {filled - began:.1f} s, then {told}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100, sys.argv[2] if len(sys.argv) > 2 else None)
