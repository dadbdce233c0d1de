"""A program: the daemon as `equipoise run` makes it, on a fluid job that outlives it and on a clock that is led.

    python -m tests.daemons FOLDER     job.toml, the plant, the clock and the journal are in FOLDER

Only the job and the clock are emulated: journal, lease, inbox, server, signals and log are the real ones.
"""

import os
import sys
from contextlib import ExitStack, closing
from pathlib import Path

from policies.control import Capability
from policies.settings import SPLIT
from tests.plants import TOPOLOGY, FluidPlant, SavedPlant
from tuner.commands.run import door_of, serve
from tuner.config import load
from tuner.errors import TunerError
from tuner.lease import taken
from tuner.wallclock import WallClock
from tuner.wiring import World, setup_of

CAPABILITIES = (Capability(SPLIT, actuation_s=60.0, cost_s=60.0), Capability("max_in_flight"))
HEAD_S = 1500.0
"""The job has run for so long when its daemon first starts: enough steps to decide by."""
PAUSE_S = 0.05
"""Of ours, for each wait of the daemon."""
FREE = "inf"


class LedClock:
    """Time passes only while the daemon waits, and only up to the second in the file `limit`: no test is timed."""

    def __init__(self, folder: Path) -> None:
        self._inner, self._folder = WallClock(), folder
        self._now_s = float((folder / "now").read_text())

    def now_s(self) -> float:
        return self._now_s

    def wait_until(self, at_s: float) -> None:
        """Ends early, and no time has passed, when somebody wakes it."""
        while True:
            end_s = self._inner.now_s() + PAUSE_S
            self._inner.wait_until(end_s)
            if self._inner.now_s() < end_s:
                return
            if at_s <= float((self._folder / "limit").read_text() or self._now_s):
                self._now_s = max(self._now_s, at_s)
                written(self._folder / "now", str(self._now_s))
                return

    def wake(self) -> None:
        self._inner.wake()


def written(path: Path, text: str) -> None:
    """In one go: a reader sees the old text or the new one."""
    beside = path.with_name(f"{path.name}.new")
    beside.write_text(text)
    beside.replace(path)


def prepared(folder: Path, text: str, plant: FluidPlant | None = None) -> Path:
    """A folder with a job file and a job."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "job.toml").write_text(text)
    plant = plant or FluidPlant()
    plant.observe(HEAD_S)
    SavedPlant(folder / "plant").save(plant)
    (folder / "now").write_text(str(HEAD_S))
    (folder / "limit").write_text(str(HEAD_S))
    return folder


def main(folder: Path) -> int:
    os.chdir(folder)
    setup = setup_of(load(Path("job.toml")))
    world = World(SavedPlant(Path("plant")), TOPOLOGY, CAPABILITIES, LedClock(Path()))
    with closing(taken(setup.journal)), ExitStack() as house:
        ended = serve(setup, world, door_of(setup, house))
    assert isinstance(ended, int), "this job says all of itself at once"
    return ended


if __name__ == "__main__":
    try:
        sys.exit(main(Path(sys.argv[1])))
    except TunerError as error:
        sys.exit(f"error: {error}")
