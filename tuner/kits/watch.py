"""Watches a function call: who looks at a clock, the environment, a file or the network is stopped where it does.

Two nets, since neither sees all: a profile hook is told of every call from Python, also of reads that no audit event
tells (clocks, the environment, the working directory); audit events tell of what is opened from C. What only an import
does is nobody's business here.
"""

import gc
import random
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from types import FrameType, ModuleType
from typing import Any, TypeVar

T = TypeVar("T")

CLOCK = "a law knows no time but view.now_s, and no date but one of it: datetime.fromtimestamp(view.now_s, UTC)"
CHANCE = "a law that draws does so from random.Random(seed), the seed a field of it or made of the view"
WORLD = "what a law needs of the world is a field of it or in the view, and what it has to say is its answer"

DOORS = {
    "time": CLOCK,
    **dict.fromkeys(("os", "posix", "nt", "socket", "_socket", "subprocess", "select", "_thread", "_sqlite3"), WORLD),
}
"""Modules of which no function may be called, each with what to do instead."""
HARMLESS = ("fspath", "get_ident", "allocate_lock", "_path_splitroot", "_path_splitroot_ex", "_path_normpath")
"""Of those modules, what touches nothing."""
NOW = ("now", "today", "utcnow")
"""The methods of a date and a datetime that look at the clock."""
EVENTS = ("open", "os.", "socket.", "subprocess.", "shutil.", "_thread.start_", "sqlite3.", "ctypes.dlopen")
"""How the names of audit events begin that no law may cause."""
IMPORTING = "<frozen importlib"


class Broken(BaseException):
    """A rule is broken. No `except Exception` of a law swallows it."""


class Watch:
    """Makes calls and stops those that touch the world. One for a process: an audit hook cannot be taken out again."""

    def __init__(self) -> None:
        self._found: list[str] = []
        self._on = False
        sys.addaudithook(self._audited)

    def call(self, made: Callable[[], T]) -> T:
        """What it returns. Raises Broken with what was touched, where, and what to do instead."""
        collects = gc.isenabled()
        gc.disable()  # what is called when garbage is collected (hypothesis looks at the clock) is not the law's doing
        self._found, self._on = [], True
        sys.setprofile(self._profiled)
        try:
            return made()
        finally:
            sys.setprofile(None)
            self._on = False
            if collects:
                gc.enable()
            if self._found:  # it may have swallowed what was raised
                raise Broken(self._found[0])

    def _profiled(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            module = frame.f_globals.get("__name__")
            if module in DOORS and frame.f_code.co_name not in HARMLESS:
                self._touched(f"{module}.{frame.f_code.co_name}", DOORS[module], frame)
        elif event == "c_call":
            owner = getattr(arg, "__self__", None)
            if isinstance(owner, ModuleType):
                if owner.__name__ in DOORS and arg.__name__ not in HARMLESS:
                    self._touched(f"{owner.__name__}.{arg.__name__}", DOORS[owner.__name__], frame)
            elif isinstance(owner, type) and issubclass(owner, date) and arg.__name__ in NOW:
                self._touched(f"{owner.__name__}.{arg.__name__}", CLOCK, frame)
            elif owner is random.random.__self__:  # type: ignore[attr-defined]
                self._touched(f"random.{arg.__name__}", CHANCE, frame)

    def _audited(self, event: str, args: tuple[object, ...]) -> None:
        if self._on and event.startswith(EVENTS):
            self._touched(f"{event}({', '.join(map(repr, args[:1]))})", WORLD, sys._getframe(1))

    def _touched(self, what: str, instead: str, frame: FrameType) -> None:
        if not any(f.f_code.co_filename.startswith(IMPORTING) for f in _up(frame)):
            self._found.append(f"decide calls {what}{place_of(frame)}: {instead}")
            raise Broken(self._found[0])


@contextmanager
def within_cpu(seconds: float) -> Iterator[None]:
    """Raises Broken where the body takes more of the processor; what others take of it does not count."""

    def late(_: int, frame: FrameType | None) -> None:
        raise Broken(f"decide takes more than {seconds:g} s of a processor: it was{place_of(frame)}")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def place_of(frame: FrameType | None) -> str:
    """The innermost line that is not the standard library's."""
    for at in _up(frame):
        if at.f_globals.get("__name__", "").partition(".")[0] not in sys.stdlib_module_names:
            return f" at {at.f_code.co_filename}:{at.f_lineno}"
    return ""


def _up(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
