"""Small files that others read while we write: whole or not at all, safe on the disk, never through a link."""

import os
import stat
from contextlib import suppress
from pathlib import Path

from tuner.errors import ActuationError

BYTES_MAX = 1 << 20
"""A larger file is none of ours."""
USUAL_MODE = 0o644


def read(path: Path, bytes_max: int = BYTES_MAX) -> bytes | None:
    """The bytes of a plain file; None where there is none. A link, a device, a folder or too much is refused."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ActuationError(f"{path} cannot be read: {_why(path, error)}") from None
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ActuationError(f"{path} is no plain file")
        try:
            data = file.read(bytes_max + 1)
        except OSError as error:
            raise ActuationError(f"{path} cannot be read: {_why(path, error)}") from None
    if len(data) > bytes_max:
        raise ActuationError(f"{path} is over {bytes_max} bytes long")
    return data


def write(path: Path, data: bytes) -> None:
    """Replaces a file as a whole: a reader sees the old or the new one, and after a power cut so does everybody."""
    try:
        kind = os.lstat(path).st_mode
        if not stat.S_ISREG(kind):
            raise ActuationError(f"{path} is {'a link' if stat.S_ISLNK(kind) else 'no plain file'}: it is not written")
    except FileNotFoundError:
        pass
    except OSError as error:
        raise ActuationError(f"{path} cannot be written: {_why(path, error)}") from None
    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise ActuationError(f"{path.parent} cannot be opened: {_why(path.parent, error)}") from None
    try:
        _replace(folder, path, data)
    except OSError as error:
        raise ActuationError(f"{path} cannot be written: {_why(path, error)}") from None
    finally:
        os.close(folder)


def demand_room(path: Path) -> None:
    """Raises ActuationError where no file of this name can be written, as far as can be seen without writing."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise ActuationError(f"{folder} is no folder: make it, or name another path")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ActuationError(
            f"{folder} cannot be written by user {os.geteuid()}: give it the right, or name another path"
        )


def _replace(folder: int, path: Path, data: bytes) -> None:
    """Written beside under another name, then renamed; what was begun is taken away when it fails."""
    beside = f".{path.name}.{os.getpid()}.new"
    with suppress(FileNotFoundError):
        os.unlink(beside, dir_fd=folder)  # of a former life of this process number
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(beside, flags, 0o600, dir_fd=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), _mode(path))
            os.fsync(file.fileno())
        os.rename(beside, path.name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with suppress(OSError):
            os.unlink(beside, dir_fd=folder)
        raise
    os.fsync(folder)


def _mode(path: Path) -> int:
    """As the file has it: whoever could read it before still can."""
    try:
        return stat.S_IMODE(os.lstat(path).st_mode)
    except FileNotFoundError:
        return USUAL_MODE


def _why(path: Path, error: OSError) -> str:
    return "it is a link" if os.path.islink(path) else (error.strerror or str(error))
