"""One line on a terminal while something long is read or simulated; silent everywhere else."""

from collections.abc import Callable
from typing import TextIO

SILENT_S = 1.0
"""Shorter work shows nothing."""
EVERY_S = 0.2
"""Seconds between two redraws."""


Say = Callable[[int, int | None, float], str]
"""From what is done, what there is in all (None where unknown) and the seconds so far to a sentence."""


def sentence(done_bytes: int, total_bytes: int | None, elapsed_s: float) -> str:
    """`reading: 12 of 50 MB, about 3 s left`.

    >>> sentence(12_000_000, 48_000_000, 1.5)
    'reading: 12 of 48 MB, about 5 s left'
    """
    done = f"{done_bytes / 1e6:.0f}"
    if not total_bytes or done_bytes <= 0 or done_bytes > total_bytes:
        return f"reading: {done} MB"
    return f"reading: {done} of {total_bytes / 1e6:.0f} MB, about {_left(done_bytes, total_bytes, elapsed_s)} left"


def simulated(done: int, total: int | None, elapsed_s: float) -> str:
    """`simulating: 30%, about 8 s left`, from parts of the horizon.

    >>> simulated(300, 1000, 3.0)
    'simulating: 30%, about 8 s left'
    """
    if not total or done <= 0 or done > total:
        return "simulating"
    return f"simulating: {done / total:.0%}, about {_left(done, total, elapsed_s)} left"


def evaluating(done: int, total: int | None, elapsed_s: float) -> str:
    """`evaluating: 12 of 138 runs, about 90 s left`.

    >>> evaluating(10, 40, 20.0)
    'evaluating: 10 of 40 runs, about 60 s left'
    """
    if not total or done <= 0 or done > total:
        return "evaluating"
    return f"evaluating: {done} of {total} runs, about {_left(done, total, elapsed_s)} left"


def _left(done: int, total: int, elapsed_s: float) -> str:
    left_s = elapsed_s * (total - done) / done
    return f"{left_s / 60:.0f} min" if left_s >= 90 else f"{left_s + 0.5:.0f} s"


class Progress:
    """Called with what is done and what there is in all (None where unknown, as on a pipe); guesses the time left."""

    def __init__(self, stream: TextIO, clock: Callable[[], float], say: Say = sentence) -> None:
        self._say = say
        self._stream = stream
        self._clock = clock
        self._began = clock()
        self._drawn_at = self._began
        self._shown = False
        self._quiet = not stream.isatty()

    def __call__(self, done: int, total: int | None) -> None:
        if self._quiet:
            return
        now = self._clock()
        if now - self._began < SILENT_S or now - self._drawn_at < EVERY_S:
            return
        self._drawn_at, self._shown = now, True
        self._stream.write(f"\r\x1b[K{self._say(done, total, now - self._began)}")
        self._stream.flush()

    def clear(self) -> None:
        """Takes the line away, so that the answer stands alone."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._shown = False
