"""A child process that measures points: one that raises or hangs costs its trial only, and never a heartbeat.

The compiled engine cannot be interrupted from inside, so that a deadline is kept by ending the child.
"""

import multiprocessing
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self

from tuner.studies.objectives import Measured
from tuner.studies.space import Point
from tuner.studies.trials import Mark, Problem, measure

TIMEOUT_S = 600.0
"""Of one level of one trial, without a stated one."""


class TrialFailed(Exception):  # noqa: N818
    """The trial came to nothing; the message says why."""


class Apart:
    """Starts its child when it is first needed, and anew after every deadline."""

    def __init__(self, problem: Problem, marks: Sequence[Mark], timeout_s: float = TIMEOUT_S) -> None:
        self._problem, self._marks, self._timeout_s = problem, tuple(marks), timeout_s
        self._child: multiprocessing.process.BaseProcess | None = None
        self._pipe: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def measured(self, point: Point, cases: Sequence[int]) -> dict[int, Measured]:
        """What these cases make of the point. TrialFailed where they do not answer."""
        pipe = self._running()
        try:
            pipe.send((dict(point), tuple(cases)))
            if not pipe.poll(self._timeout_s):
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
        if self._pipe is None or self._child is None or not self._child.is_alive():
            self.stop()
            spawning = multiprocessing.get_context("spawn")
            ours, theirs = spawning.Pipe()
            self._child = spawning.Process(target=_serve, args=(theirs, self._problem, self._marks), daemon=True)
            self._child.start()
            theirs.close()
            self._pipe = ours
        return self._pipe

    def stop(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.join()
        if self._pipe is not None:
            self._pipe.close()
        self._child = self._pipe = None


def _serve(pipe: Connection, problem: Problem, marks: Sequence[Mark]) -> None:
    """Answers until the other end is closed: also when its worker was killed."""
    with suppress(EOFError, BrokenPipeError, KeyboardInterrupt):
        while True:
            point, cases = pipe.recv()
            try:
                pipe.send({i: measure(problem.space, problem.cases[i], marks[i], point) for i in cases})
            except (EOFError, BrokenPipeError):
                raise
            except Exception as error:  # whatever a policy of a stranger's raises is that trial's end, not the study's
                pipe.send(f"{type(error).__name__}: {str(error)[:200]}")
