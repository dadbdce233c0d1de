"""A journal before it is opened: is it sound, and where not, a copy of it."""

import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from tuner.errors import ConfigError, DamageError
from tuner.journal import Journal, viewed


def soundly_opened(path: Path) -> Journal:
    """The journal, or a ConfigError; a damaged one is copied first, and never written."""
    if path.exists():
        damage = damage_of(path)
        if "not a database" in damage:
            raise ConfigError(f"journal.path={path}: is no journal ({damage}); name another file, nothing was changed")
        if damage:
            copy = _copied(path)
            raise ConfigError(
                f"{path}: the journal is damaged ({damage}); a copy is kept at {copy}. "
                "Put a backup in its place, or move it away to begin anew: what was learnt is then lost"
            )
    return Journal(path)


def damage_of(path: Path) -> str:
    """What SQLite says of the file; empty: it is sound. Raises ConfigError for what can be no journal."""
    if not path.is_file():
        raise ConfigError(f"journal.path={path}: is no plain file; name one, it is made where it is not there")
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=5.0)) as file:
            found = str(file.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.OperationalError as error:
        if "locked" in str(error) or "busy" in str(error):
            raise ConfigError(
                f"{path}: another program has the journal locked; close what reads or copies it, and start again"
            ) from None
        return str(error)
    except sqlite3.DatabaseError as error:
        return str(error)
    return _unreadable(path) if found == "ok" else found.splitlines()[-1]


def _unreadable(path: Path) -> str:
    """What of a sound database a start could not go on from."""
    if path.stat().st_size == 0:
        return ""
    try:
        with closing(viewed(path)) as journal:
            for read in (journal.last, journal.last_seen, journal.charter):
                read()
    except DamageError as error:
        return error.what
    return ""


def _copied(path: Path) -> Path:
    """A copy beside the file, of the same name for the same content's time."""
    changed = datetime.fromtimestamp(path.stat().st_mtime, UTC).strftime("%Y%m%dT%H%M%SZ")
    copy = path.with_name(f"{path.name}.damaged-{changed}")
    if not copy.exists():
        shutil.copy2(path, copy)
        ahead = path.with_name(f"{path.name}-wal")  # the newest ticks, after a kill
        if ahead.exists() and ahead.stat().st_size:
            shutil.copy2(ahead, copy.with_name(f"{copy.name}-wal"))
    return copy
