"""The command in a process of its own, forked from one that has imported it already: a start costs a tenth.

Streams are real files, limits and exit codes real ones. Tests of the start itself (closed streams, pipes, whose
packages are run) start an interpreter instead.
"""

import io
import multiprocessing
import os
import resource
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

LOADED = ("equipoise", "tuner.cli", "tuner.commands.advise", "tuner.report.html", "tests.forked")
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(list(LOADED))
TIMEOUT_S = 60.0
NAMES = ("stdin", "stdout", "stderr")


@dataclass(frozen=True)
class Call:
    """How the command is called."""

    arguments: tuple[str, ...]
    streams: Path
    """Where stdin is read from, and stdout and stderr are written to."""
    folder: str | None = None
    environment: Mapping[str, str] | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True)
class Done:
    returncode: int | None
    stdout: bytes
    stderr: bytes


def equipoise(
    *arguments: str | Path,
    cwd: str | Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    memory_bytes: int | None = None,
) -> Done:
    """What it prints and how it ends; one that takes longer than a minute is ended, and has no exit code."""
    with tempfile.TemporaryDirectory() as name:
        streams = Path(name)
        (streams / "stdin").write_bytes(stdin)
        folder = None if cwd is None else str(cwd)
        call = Call(tuple(map(str, arguments)), streams, folder, env or dict(os.environ), memory_bytes)
        child = FORKS.Process(target=_called, args=(call,))
        child.start()
        child.join(TIMEOUT_S)
        if child.exitcode is None:
            child.kill()
            return Done(None, b"", b"")
        return Done(child.exitcode, *((streams / name).read_bytes() for name in NAMES[1:]))


def _called(call: Call) -> None:
    for place, name in enumerate(NAMES):
        flags = os.O_RDONLY if name == "stdin" else os.O_WRONLY | os.O_CREAT | os.O_APPEND
        os.dup2(os.open(call.streams / name, flags), place)
        stream = io.TextIOWrapper(io.FileIO(place, "r" if place == 0 else "w", closefd=False), "utf-8")
        setattr(sys, name, stream)
    if call.folder is not None:
        os.chdir(call.folder)
    os.environ.clear()
    os.environ.update(call.environment or {})
    if call.memory_bytes is not None:
        resource.setrlimit(resource.RLIMIT_AS, (call.memory_bytes, call.memory_bytes))
    sys.argv = ["equipoise", *call.arguments]
    from equipoise import main  # noqa: PLC0415  (the command itself: loaded already, and only here)

    code = main()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)
