"""A program: kills a controller with SIGKILL at every write of its journal during one move, restarts it, and reports.

    python -m tests.stories.kill_points FOLDER CASE     one JSON line for each point

Each life is a process of its own; plant and journal are files and outlive it.
"""

import json
import os
import shutil
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from policies.commands import ControlMode
from policies.control import Capability
from policies.laws.rate_balance import RateBalance
from policies.rules import Rules
from policies.settings import SPLIT
from policies.state import State
from simulators.clock import VirtualClock
from simulators.plant import Receipt
from tests.plants import TOPOLOGY, FluidPlant, SavedPlant
from tuner.journal import Entry, Journal
from tuner.loop import NoInbox, Parts, run

PERIOD_S = 90.0
BEFORE_S, END_S = 600.0, 2400.0
RULES = Rules(
    RateBalance(),
    TOPOLOGY,
    capabilities=(Capability(SPLIT, actuation_s=60.0, cost_s=60.0), Capability("max_in_flight")),
    gate=None,
    earn_auto=False,
    probation=False,
)
CASES = {
    "succeeds": FluidPlant(actuation_s=90.0),
    "never-serves": FluidPlant(actuation_s=90.0, never_serves=True),
}


@dataclass
class Deadly:
    """A ledger that kills its process at the n-th of its points: before and after each write."""

    journal: Journal
    deadly_point: int | None
    point: int = 0

    def commit(self, entry: Entry) -> int:
        self._pass()
        number = self.journal.commit(entry)
        self._pass()
        return number

    def answer(self, tick_id: int, receipt: Receipt) -> None:
        self._pass()
        self.journal.answer(tick_id, receipt)
        self._pass()

    def _pass(self) -> None:
        self.point += 1
        if self.point == self.deadly_point:
            os.kill(os.getpid(), signal.SIGKILL)


def life(folder: Path, until_s: float, deadly_point: int | None = None) -> int:
    """One life of a controller, in a process of its own; the points it passed, or minus the signal that ended it."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        os.write(write, str(_lived(folder, until_s, deadly_point)).encode())
        os._exit(0)
    os.close(write)
    told = os.read(read, 100)
    os.close(read)
    _, status = os.waitpid(child, 0)
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else int(told)


def _lived(folder: Path, until_s: float, deadly_point: int | None) -> int:
    journal = Journal(folder / "journal.db")
    state = journal.last() or State(mode=ControlMode.AUTO)
    ledger = Deadly(journal, deadly_point)
    clock = VirtualClock(0.0 if state.at_s is None else state.at_s + PERIOD_S)
    run(Parts(SavedPlant(folder / "plant"), RULES, clock, ledger, NoInbox(), PERIOD_S), state, until_s)
    return ledger.point


def report(folder: Path, before: Path, point: int | None) -> dict[str, object]:
    """What became of the job after a kill at this point and a restart."""
    shutil.copytree(before, folder)
    killed = life(folder, END_S, point) if point is not None else 0
    life(folder, END_S)
    plant, journal = SavedPlant(folder / "plant").load(), Journal(folder / "journal.db")
    state = journal.last()
    journal.close()
    assert state is not None
    return {
        "point": point,
        "killed": killed == -signal.SIGKILL,
        "split": [plant.setpoints.gpus_trainer, plant.setpoints.gpus_generator, plant.setpoints.max_in_flight],
        "most": max(plant.totals),
        "moving": state.move is not None,
        "accepted": state.accepted is not None and state.accepted.gpus_trainer == plant.setpoints.gpus_trainer,
        "reasons": sorted({f.reason for f in state.freezes}),
    }


def main(folder: Path, case: str) -> None:
    before = folder / "before"
    before.mkdir()
    SavedPlant(before / "plant").save(CASES[case])
    life(before, BEFORE_S)
    whole = folder / "whole"
    shutil.copytree(before, whole)
    points = life(whole, END_S)
    sys.stdout.write(json.dumps(report(folder / "unharmed", before, None)) + "\n")
    for point in range(1, points + 1):
        sys.stdout.write(json.dumps(report(folder / f"at-{point}", before, point)) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
