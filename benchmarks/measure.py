"""Runs the command as a user would and takes its seconds and its own peak memory; memory of this process."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

COMMAND = Path(sys.executable).with_name("equipoise")


@dataclass(frozen=True)
class Run:
    seconds: float
    cpu_s: float
    """Its own processor time: what remains of `seconds` when the machine does other things as well."""
    peak_bytes: int
    """Largest resident size of that process alone."""
    exit_code: int
    stderr: str


def run(arguments: list[str], chunks: Iterable[bytes] | None = None) -> Run:
    """`chunks` go to its standard input as fast as it reads them.

    Our own process must stay small: Linux counts a child's peak from the size of the process that started it.
    """
    started_s = time.monotonic()
    given = subprocess.DEVNULL if chunks is None else subprocess.PIPE
    with tempfile.TemporaryFile() as stderr:
        child = subprocess.Popen([COMMAND, *arguments], stdin=given, stdout=subprocess.DEVNULL, stderr=stderr)
        if child.stdin is not None and chunks is not None:
            _feed(child.stdin, chunks)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - started_s
        stderr.seek(0)
        said = stderr.read().decode(errors="replace")
    return Run(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, child.returncode, said)


def _feed(stdin: IO[bytes], chunks: Iterable[bytes]) -> None:
    try:
        for chunk in chunks:
            stdin.write(chunk)
        stdin.close()
    except BrokenPipeError:
        return  # it ended early; its exit code and words tell why


def resident_mb() -> float:
    """Resident memory of this process (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
