"""The lease: one writer per job. A lock beside the journal, and a fencing token inside it.

The lock is the kernel's (flock) and goes with its process, however that ends. The token rises with each writer and
goes out with each order: an actuator that has seen a larger one refuses a straggler.
"""

from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from tuner.errors import ConfigError

REMOTE = frozenset(
    (
        *("nfs", "nfs3", "nfs4", "lustre", "cifs", "smb3", "smbfs", "afs", "ceph", "gpfs", "beegfs", "beegfs_nodev"),
        *("glusterfs", "9p", "wekafs", "pvfs2", "orangefs", "panfs", "ocfs2", "gfs2"),
        *("fuse.ceph", "fuse.glusterfs", "fuse.sshfs", "fuse.s3fs", "fuse.gcsfuse", "fuse.juicefs", "fuse.rclone"),
    )
)
"""File systems of several machines: SQLite's WAL and file locks are not to be trusted there."""
MOUNTS = Path("/proc/self/mounts")


@dataclass(frozen=True, slots=True)
class Lease:
    """Held until `close`, or until the process ends."""

    lock: FileLock

    def close(self) -> None:
        self.lock.release()


def taken(journal: Path) -> Lease:
    """The lease of this journal. Raises ConfigError where another process has it, or no lock can be made.

    Beside the file itself, not beside a link to it: by whatever path, one journal has one lock.
    """
    real = journal.resolve()
    path = real.with_name(f"{real.name}.lock")
    lock = FileLock(path, timeout=0, mode=0o600)
    try:
        lock.acquire()
    except Timeout:
        raise ConfigError(
            f"{journal}: another daemon writes this journal; one job has one writer. "
            "`equipoise status` asks it; stop it first, or name another [journal] path for another job"
        ) from None
    except OSError as error:
        raise ConfigError(
            f"{path}: no lock can be made ({error.strerror}); name a [journal] path on a local disk that we may write"
        ) from None
    return Lease(lock)


def remote_kind(path: Path, mounts: str | None = None) -> str | None:
    """The kind of the file system a path is on, where that is one of several machines; else None.

    `mounts`: the text of /proc/self/mounts; the longest mount point above the path tells.
    """
    text = _mounts() if mounts is None else mounts
    place, best, found = path.resolve(), -1, None
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 3:
            continue
        point = Path(fields[1].replace("\\040", " ").replace("\\011", "\t"))
        if place.is_relative_to(point) and len(point.parts) >= best:
            best, found = len(point.parts), fields[2]
    return found if found in REMOTE else None


def _mounts() -> str:
    try:
        return MOUNTS.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
