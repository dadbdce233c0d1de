"""The user's checkpoint-restart command, run beside us: it outlives the daemon, and a new daemon learns how it ended.

STATUS  "running PID" while it runs, "ended CODE" afterwards: written by the shell around it, not by us.
"""

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuner.actuators import files
from tuner.actuators.process import end
from tuner.errors import ActuationError

AROUND = 'echo "running $$" > "$0" && "$@"; code=$?; echo "ended $code" > "$0.new" && mv "$0.new" "$0"'
"""The shell script that runs the command and leaves its code in STATUS, its own `$0`."""

FIRST_WORD_S = 2.0
"""So long the start of that shell is waited for: a daemon killed right afterwards finds its process number."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a restart command has come."""

    running: bool = False
    code: int | None = None
    """Its exit code; None while it runs, and where it died without one."""
    died: bool = False
    """It began, and is gone without a code: killed, or taken down with the job and the machine it ran on."""


class Restarter:
    """Starts the command, and tells how it goes."""

    def __init__(self, argv: Sequence[str], status: Path, log: Path) -> None:
        self._argv, self._status, self._log = tuple(argv), status, log
        self._child: subprocess.Popen[bytes] | None = None

    def forget(self) -> None:
        """What is known of an earlier run."""
        files.write(self._status, b"none\n")

    def start(self, environment: Mapping[str, str]) -> None:
        """Starts it in a session of its own."""
        files.write(self._log, b"")
        try:
            with self._log.open("ab") as log:
                self._child = subprocess.Popen(
                    ["/bin/sh", "-c", AROUND, str(self._status), *self._argv],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **environment},
                    start_new_session=True,
                )
        except OSError as error:
            raise ActuationError(f"the restart command cannot be started: {error}") from None
        deadline = time.monotonic() + FIRST_WORD_S
        while self._told()[0] == "none" and self._child.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)

    def progress(self) -> Progress:
        word, number = self._told()
        mine = self._child is not None and self._child.poll() is None
        if word != "ended" and (mine or (word == "running" and self._is_ours(number))):
            return Progress(running=True)
        word, number = self._told()  # again: its last word may have come between the two looks
        return Progress(code=number if word == "ended" else None, died=word == "running")

    def kill(self) -> None:
        """Ends it with its children; what it began on other machines it alone can end."""
        word, number = self._told()
        if word == "running" and self._is_ours(number):
            end(number)

    def _told(self) -> tuple[str, int]:
        word, _, number = (files.read(self._status) or b"").decode(errors="replace").strip().partition(" ")
        return (word, int(number)) if number.isdigit() else ("none", 0)

    def _is_ours(self, pid: int) -> bool:
        """The process lives and is the shell of this status file, not another that was given its number."""
        try:
            return str(self._status).encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
