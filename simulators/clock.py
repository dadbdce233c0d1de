"""Time as the loop sees it: something to ask and something to wait for. The wall clock lives at the rim."""

from typing import Protocol


class Clock(Protocol):
    """Seconds since an origin of its own; never runs backwards."""

    def now_s(self) -> float: ...

    def wait_until(self, at_s: float) -> None:
        """Returns when `now_s() >= at_s`, at once where that is past."""
        ...


class VirtualClock:
    """A clock that is moved, not waited for: simulated jobs and replays run as fast as they are computed."""

    def __init__(self, start_s: float = 0.0) -> None:
        self._now_s = start_s

    def now_s(self) -> float:
        return self._now_s

    def wait_until(self, at_s: float) -> None:
        self._now_s = max(self._now_s, at_s)
