"""The inbox: what people say by API, command line, signal or kill file, until the next tick takes it."""

from collections import deque
from pathlib import Path

from policies.commands import Command, CommandKind

ROOM = 64
"""Commands that may wait; nobody types faster than a tick takes them."""
KILL_FILE = "kill file"
"""The author of a pause by file."""


class People:
    """An inbox for several threads and signal handlers: a deque's own operations are atomic, nothing is locked."""

    def __init__(self, kill_file: Path | None = None) -> None:
        self._waiting: deque[Command] = deque()
        self._kill_file = kill_file
        self._killed = False

    def put(self, command: Command) -> bool:
        """False where it is full: then nothing was taken."""
        if len(self._waiting) >= ROOM and command.kind is not CommandKind.STOP:
            return False
        self._waiting.append(command)
        return True

    def drain(self) -> tuple[Command, ...]:
        taken = [self._waiting.popleft() for _ in range(len(self._waiting))]
        if self._kill_file is None:
            return tuple(taken)
        there, resumed = is_there(self._kill_file), any(c.kind is CommandKind.RESUME for c in taken)
        if there and (resumed or not self._killed):
            taken.append(Command(CommandKind.PAUSE, author=KILL_FILE))
        self._killed = there
        return tuple(taken)

    def put_back(self, commands: tuple[Command, ...]) -> None:
        self._killed = False
        self._waiting.extendleft(c for c in reversed(commands) if c.author != KILL_FILE)


def is_there(path: Path) -> bool:
    """True also where we may not look: who cannot tell stands still."""
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True
