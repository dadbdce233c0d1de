"""A program: the daemon as `equipoise run` makes it, on a fluid job that outlives it and on a clock that runs faster.

    python -m tests.daemons FOLDER [FACTOR]     job.toml, the plant and the journal are in FOLDER

Only the job and the clock are emulated: journal, lease, inbox, server, signals and log are the real ones.
"""

import os
import sys
import time
from pathlib import Path

from policies.control import Capability
from policies.settings import SPLIT
from tests.plants import TOPOLOGY, FluidPlant, SavedPlant
from tuner.commands.run import serve
from tuner.config import load
from tuner.errors import TunerError
from tuner.lease import taken
from tuner.wallclock import WallClock
from tuner.wiring import World, setup_of

CAPABILITIES = (Capability(SPLIT, actuation_s=60.0, cost_s=60.0), Capability("max_in_flight"))
FACTOR = 200.0
"""Seconds of the job in one of ours."""
HEAD_S = 1500.0
"""The job has run for so long when its daemon first starts: enough steps to decide by."""


class Hastened:
    """A wall clock that stood at HEAD_S when its folder was made, and runs so many times faster."""

    def __init__(self, folder: Path, factor: float) -> None:
        self._inner, self._factor = WallClock(), factor
        self._origin_s = float((folder / "origin").read_text())

    def now_s(self) -> float:
        return HEAD_S + (self._inner.now_s() - self._origin_s) * self._factor

    def wait_until(self, at_s: float) -> None:
        self._inner.wait_until((at_s - HEAD_S) / self._factor + self._origin_s)

    def wake(self) -> None:
        self._inner.wake()


def prepared(folder: Path, text: str, plant: FluidPlant | None = None) -> Path:
    """A folder with a job file and a job."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "job.toml").write_text(text)
    plant = plant or FluidPlant()
    plant.observe(HEAD_S)
    SavedPlant(folder / "plant").save(plant)
    (folder / "origin").write_text(str(time.time()))
    return folder


def main(folder: Path, factor: float) -> int:
    os.chdir(folder)
    setup = setup_of(load(Path("job.toml")))
    lease = taken(setup.journal)
    clock = Hastened(Path(), factor)
    try:
        return serve(setup, World(SavedPlant(Path("plant")), TOPOLOGY, CAPABILITIES, clock))
    finally:
        lease.close()


if __name__ == "__main__":
    try:
        sys.exit(main(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else FACTOR))
    except TunerError as error:
        sys.exit(f"error: {error}")
