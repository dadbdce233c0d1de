"""A program: one small study, to be killed and started again.

python -m tests.stories.study_run URL TRIALS WORKERS     prints a line after every look at the study
"""

import sys
from pathlib import Path

from tuner.scenario_files import load
from tuner.studies.cases import of_stories
from tuner.studies.finding import Search, prepared, run
from tuner.studies.knobs import JobFacts, space_of
from tuner.studies.opening import Where
from tuner.studies.storage import DONE, Ledger
from tuner.studies.workers import crew, work

LOPSIDED = Path(__file__).parents[1] / "data" / "tuning" / "lopsided.toml"


def search(trials: int) -> Search:
    scenario = load(str(LOPSIDED)).scenario
    space = space_of(JobFacts(scenario.topology, scenario.setpoints, scenario.bounds, scenario.stations))
    return Search(of_stories([("lopsided", scenario)], 2), space, trials=trials)


def where(url: str) -> Where:
    """With a heart that is given up soon."""
    return Where(url, "s", heartbeat_s=1, grace_s=4)


def main(url: str, trials: int, workers: int) -> None:
    job = prepared(search(trials), where(url))
    print("ready", flush=True)

    def tell(ledger: Ledger) -> None:
        print(len(ledger.trials(*DONE)), flush=True)

    run(job, work if workers == 1 else crew(workers), tell)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
