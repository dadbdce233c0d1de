"""The wall clock: seconds since 1970 that never run backwards, and a wait that can be cut short."""

import os
import select
import time


class WallClock:
    """Follows the system's clock forwards; when that is set back, it goes on from where it was, second by second."""

    def __init__(self) -> None:
        self._offset_s = time.time() - time.monotonic()
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)

    def now_s(self) -> float:
        self._offset_s = max(self._offset_s, time.time() - time.monotonic())
        return time.monotonic() + self._offset_s

    def wait_until(self, at_s: float) -> None:
        """Returns earlier when somebody calls `wake`."""
        ready, _, _ = select.select([self._read], [], [], max(0.0, at_s - self.now_s()))
        if ready:
            os.read(self._read, 4096)

    def wake(self) -> None:
        """Ends the wait, or the next one; from any thread, and from a signal's handler: it takes no lock."""
        try:
            os.write(self._write, b"w")
        except BlockingIOError:
            return

    def close(self) -> None:
        os.close(self._read)
        os.close(self._write)
