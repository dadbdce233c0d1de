"""A child process that measures points: one that raises or hangs costs its trial only, and never a heartbeat.

The compiled engine cannot be interrupted from inside, so that a deadline is kept by ending the child.

    python -m tuner.studies.apart FD     the child itself: answers what comes through this file descriptor
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self

from simulators.compiled import warm_up
from tuner.studies.objectives import Measured
from tuner.studies.space import Point
from tuner.studies.trials import Mark, Problem, measure

TIMEOUT_S = 600.0
"""Of one level of one trial, without a stated one."""
START_S = 600.0
"""Within which a child must be there, the engine compiled where it was not: its start is not the trial's time."""
ORPHAN_S = 1.0
"""How soon a child notices that its worker is gone."""


class TrialFailed(Exception):  # noqa: N818
    """The trial came to nothing; the message says why."""


class Apart:
    """Starts its child when it is first needed, and anew after every deadline."""

    def __init__(self, problem: Problem, marks: Sequence[Mark], timeout_s: float = TIMEOUT_S) -> None:
        self._problem, self._marks, self._timeout_s = problem, tuple(marks), timeout_s
        self._child: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def measured(self, point: Point, cases: Sequence[int]) -> dict[int, Measured]:
        """What these cases make of the point. TrialFailed where they do not answer."""
        try:
            pipe = self._running()
            asked_s = time.monotonic()
            pipe.send((dict(point), tuple(cases)))
            # On a busy machine the answer may be there when we look, and be late all the same.
            if not pipe.poll(self._timeout_s) or time.monotonic() - asked_s > self._timeout_s:
                self.stop()
                raise TrialFailed(f"no answer within {self._timeout_s:g} s (--trial-timeout)")
            answer = pipe.recv()
        except (EOFError, OSError):
            self.stop()
            raise TrialFailed("its process died: out of memory?") from None
        if isinstance(answer, str):
            raise TrialFailed(answer)
        found: dict[int, Measured] = answer
        return found

    def _running(self) -> Connection:
        if self._pipe is None or self._child is None or self._child.poll() is not None:
            self.stop()
            self._pipe, theirs = Pipe()
            end = theirs.fileno()
            # A fresh interpreter, not `multiprocessing`: that would run the main module of whoever calls us again.
            self._child = subprocess.Popen(
                [sys.executable, "-m", "tuner.studies.apart", str(end)],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
                pass_fds=(end,),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )
            theirs.close()
            self._pipe.send((self._problem, self._marks))
            if not self._pipe.poll(START_S):
                self.stop()
                raise TrialFailed(f"its process did not start within {START_S:g} s")
            self._pipe.recv()
        return self._pipe

    def stop(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.wait()
        if self._pipe is not None:
            self._pipe.close()
        self._child = self._pipe = None


def serve(pipe: Connection) -> None:
    """Answers until the other end is closed: also when its worker was killed."""
    threading.Thread(target=_watch, args=(os.getppid(),), daemon=True).start()
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        problem, marks = pipe.recv()
        warm_up()
        pipe.send("ready")
        while True:
            point, cases = pipe.recv()
            pipe.send(_answer(problem, marks, point, cases))


def _answer(problem: Problem, marks: Sequence[Mark], point: Point, cases: Sequence[int]) -> dict[int, Measured] | str:
    """Whatever a law of a stranger's raises is that trial's end, not the study's."""
    try:
        return {i: measure(problem.space, problem.cases[i], marks[i], point) for i in cases}
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"


def _watch(worker: int) -> None:
    while os.getppid() == worker:
        time.sleep(ORPHAN_S)
    os._exit(1)


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
