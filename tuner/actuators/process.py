"""Runs a user's program: one document in, one out, never longer than told, and nothing of it left behind."""

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ANSWER_BYTES_MAX = 1 << 20
"""More output than this is no answer."""
ERROR_BYTES_KEPT = 4096
"""Of what a program says on stderr."""
PIPE_BYTES = 1 << 16
"""What a pipe takes at once, without a reader."""
GRACE_S = 0.2
"""A program that has ended may leave its pipes open to a child: after so long a silence its answer is whole."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What a program left."""

    stdout: bytes = b""
    complaint: str = ""
    """The end of its stderr, on one line."""
    failure: str = ""
    """Why there is no answer; empty: it ended well."""


def ask(argv: Sequence[str], document: bytes, timeout_s: float) -> Ended:
    """The program's answer. At the deadline, or over its output, its whole process group is killed."""
    if len(document) > PIPE_BYTES:
        return Ended(failure=f"{len(document)} bytes are too long a question")
    try:
        child = subprocess.Popen(
            list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
    except (OSError, ValueError) as error:
        return Ended(failure=f"{argv[0]} cannot be started: {error}")
    try:
        _tell(child, document)
        return _heard(child, argv[0], time.monotonic() + timeout_s, timeout_s)
    finally:
        end(child.pid)
        child.wait()
        for pipe in (child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()


def end(group: int) -> None:
    """Kills what is left of a process group."""
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _tell(child: subprocess.Popen[bytes], document: bytes) -> None:
    if child.stdin is None:
        return
    try:
        child.stdin.write(document)
        child.stdin.close()
    except OSError:  # it does not want to know: its answer will tell
        return


def _heard(child: subprocess.Popen[bytes], name: str, deadline: float, timeout_s: float) -> Ended:
    said: dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
    with selectors.DefaultSelector() as open_pipes:
        for stream, pipe in (("stdout", child.stdout), ("stderr", child.stderr)):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
                open_pipes.register(pipe, selectors.EVENT_READ, said[stream])
        while open_pipes.get_map():
            ended, left_s = child.poll() is not None, deadline - time.monotonic()
            if left_s <= 0.0 and not ended:
                return _failed(said, f"{name} has not answered in {timeout_s:g} s and was killed")
            ready = open_pipes.select(min(max(0.0, left_s), GRACE_S))
            for key, _ in ready:
                if not _read(key.fd, key.data):
                    open_pipes.unregister(key.fileobj)
            if ended and (not ready or left_s <= 0.0):
                break
            if len(said["stdout"]) > ANSWER_BYTES_MAX:
                return _failed(said, f"{name} printed over {ANSWER_BYTES_MAX} bytes and was killed")
            del said["stderr"][:-ERROR_BYTES_KEPT]
    try:
        code = child.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return _failed(said, f"{name} has not ended in {timeout_s:g} s and was killed")
    how = f"ended with code {code}" if code >= 0 else f"was ended by signal {-code}"
    return _failed(said, "" if code == 0 else f"{name} {how}")


def _read(pipe: int, into: bytearray) -> bool:
    """False at the end of the pipe."""
    chunk = os.read(pipe, PIPE_BYTES)
    into += chunk
    return bool(chunk)


def _failed(said: Mapping[str, bytearray], failure: str) -> Ended:
    complaint = " ".join(said["stderr"].decode(errors="replace").split())[-300:]
    return Ended(bytes(said["stdout"]), complaint, f"{failure}: {complaint}" if failure and complaint else failure)
