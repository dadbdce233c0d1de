"""The file of a journal: which one has a path, and opening it, to write in the newest schema or only to read."""

import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from tuner.errors import ConfigError

MIGRATIONS = (
    """
    CREATE TABLE tick (
        id INTEGER PRIMARY KEY,
        at_s REAL NOT NULL,
        seen BLOB NOT NULL,
        commands TEXT NOT NULL,
        state BLOB NOT NULL,
        decision TEXT NOT NULL,
        action TEXT NOT NULL,
        decision_id TEXT NOT NULL,
        receipt TEXT
    );
    CREATE INDEX tick_by_decision ON tick (decision_id);
    """,
    """
    CREATE TABLE charter (since_tick INTEGER PRIMARY KEY, text TEXT NOT NULL);
    """,
    """
    CREATE TABLE writer (token INTEGER PRIMARY KEY AUTOINCREMENT, at_s REAL NOT NULL, who TEXT NOT NULL);
    """,
    """
    ALTER TABLE tick ADD COLUMN heard BLOB;
    """,
)
"""Statements that lead from one schema version to the next; the version counts them. Added to, never changed."""
CHARTERED, SIGNED, HEARING = 2, 3, 4
"""The schema versions since which a journal says what its controller went by, who wrote it, what a simulator said."""
APPLICATION_ID = 0x45515550
"""Marks a file as a journal of ours."""
BUSY_S = 10.0
"""Another process may hold the file for so long."""


def identity(path: Path) -> tuple[int, int] | None:
    """Which file has this path now."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def version_of(file: sqlite3.Connection) -> int:
    """The schema that it has."""
    with closing(file.execute("PRAGMA user_version")) as cursor:
        return int(cursor.fetchone()[0])


def opened(path: Path) -> sqlite3.Connection:
    try:
        file = sqlite3.connect(path, timeout=BUSY_S)
        file.execute("PRAGMA journal_mode = WAL")
        file.execute("PRAGMA synchronous = FULL")
        _migrated(file, path)
    except sqlite3.Error as error:
        raise ConfigError(f"{path} cannot be used as a journal ({error}); name another file on a local disk") from error
    return file


def opened_to_read(path: Path) -> sqlite3.Connection:
    try:
        file = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=BUSY_S)
        owner = int(file.execute("PRAGMA application_id").fetchone()[0])
        version = version_of(file)
    except sqlite3.Error as error:
        raise ConfigError(f"{path} cannot be read as a journal ({error}); check the path") from error
    if owner != APPLICATION_ID:
        raise ConfigError(f"{path} is a database of another program; name the file of a journal")
    _refuse_newer(version, path)
    return file


def _migrated(file: sqlite3.Connection, path: Path) -> None:
    """Bring the file to the newest schema, each step in one transaction."""
    version = version_of(file)
    owner = int(file.execute("PRAGMA application_id").fetchone()[0])
    tables = int(file.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0])
    if tables and owner != APPLICATION_ID:
        raise ConfigError(f"{path} is a database of another program; name another file for the journal")
    _refuse_newer(version, path)
    for number, statements in enumerate(MIGRATIONS[version:], start=version + 1):
        file.executescript(
            f"BEGIN; {statements} PRAGMA user_version = {number}; PRAGMA application_id = {APPLICATION_ID}; COMMIT;"
        )


def _refuse_newer(version: int, path: Path) -> None:
    if version > len(MIGRATIONS):
        raise ConfigError(
            f"{path} has journal schema {version}, this product knows up to {len(MIGRATIONS)}: use the newer product"
        )
