"""The job's "GPUs": slices of CPU time. A process group that holds n of them may compute for n slices of each period.

A laptop has no GPUs to move between two sides, and threads of two processes on the same cores only take time from each
other. A quota of the kernel (CFS bandwidth, in the first or second kind of control groups) gives what a GPU gives: a
share of the machine that is one's own, that one's neighbour cannot have, and that can be handed over within a step.
"""

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PERIOD_US = 20_000
"""Short, so that one decode iteration spans several: a slower device, not one that stutters."""
LEAST_US = 1_000
"""The kernel's least quota; what has no slice keeps this, enough to answer /metrics now and then."""
WEIGHT = 64
"""So many times an ordinary process's claim: a slice is there also where the machine is busy, as a GPU is."""
CLOSING_ROUNDS = 50
"""Tenths of a second in which what was killed has left."""
V1, V2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")


class NoSlicesError(RuntimeError):
    """This machine does not let us share out its time."""


@dataclass(frozen=True)
class Slices:
    """One control group below ours; made when asked for, removed by `close`."""

    folder: Path

    @classmethod
    def named(cls, name: str) -> "Slices":
        root = V1 if (V1 / "cpu.cfs_quota_us").exists() else sharing(V2, _own_v2())
        folder = root / f"equipoise-live-{os.getpid()}-{name}"
        try:
            folder.mkdir()
            if root == V1:
                (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
                (folder / "cpu.shares").write_text(str(1024 * WEIGHT))
            else:
                (folder / "cpu.weight").write_text(str(100 * WEIGHT))
        except OSError as error:
            with suppress(OSError):
                folder.rmdir()
            raise NoSlicesError(f"CPU time cannot be shared out under {root}: {error.strerror}") from None
        return cls(folder)

    def add(self, pid: int) -> None:
        """A process (its threads and later children with it)."""
        (self.folder / "cgroup.procs").write_text(str(pid))

    def give(self, cores: float) -> None:
        quota = max(LEAST_US, round(cores * PERIOD_US))
        if (self.folder / "cpu.max").exists():
            (self.folder / "cpu.max").write_text(f"{quota} {PERIOD_US}")
            return
        (self.folder / "cpu.cfs_quota_us").write_text(str(quota))

    def close(self) -> None:
        """Ends what is left in it, which was started by us or by what we started, and removes it."""
        for _ in range(CLOSING_ROUNDS):
            try:
                self.folder.rmdir()
                return
            except FileNotFoundError:
                return
            except OSError:
                for pid in (self.folder / "cgroup.procs").read_text().split():
                    with suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)
                time.sleep(0.1)


def sharing(top: Path, own: str) -> Path:
    """The nearest group, from our own up, whose children share out CPU time; our own where none is.

    A group that has processes of its own, as a shell's has, hands no controller to its children: one above it does.
    """
    mine = top / own
    for group in (mine, *mine.parents):
        with suppress(OSError):
            if "cpu" in (group / "cgroup.subtree_control").read_text().split():
                return group
        if group == top:
            break
    return mine


def _own_v2() -> str:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        if line.startswith("0::"):
            return line[3:].strip("/")
    return ""
