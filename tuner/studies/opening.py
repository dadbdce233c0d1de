"""Opening a study's storage: SQLite or PostgreSQL by URL, every call patient, every complaint one sentence."""

import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import getmembers, ismethod
from pathlib import Path
from typing import Any

from optuna.exceptions import OptunaError, StorageInternalError
from optuna.storages import BaseStorage, RDBStorage, RetryHeartbeatStaleTrialCallback
from sqlalchemy import event
from sqlalchemy.exc import SQLAlchemyError
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_exponential

from tuner.errors import ConfigError, SourceError
from tuner.studies.drafts import IN_MEMORY, Drafts

HEARTBEAT_S, GRACE_S = 5, 30
"""A running trial says so this often; one that has not for so long is given to another worker."""
PATIENCE_S = 120.0
"""A database may be gone for so long; then the worker gives up, and the study can be gone on with later."""
OPENINGS = 5
"""Of two that make the tables of a new database at the same moment, one is told that they exist, and looks again."""


@dataclass(frozen=True, slots=True)
class Where:
    """A study's place."""

    url: str
    study: str
    heartbeat_s: int = HEARTBEAT_S
    grace_s: int = GRACE_S
    patience_s: float = PATIENCE_S


class UnreachableError(ConfigError):
    """No database answers there, or not now."""


def _patient(storage: Drafts, patience_s: float) -> Drafts:
    """The same storage, every call of which waits for a database that is gone for a while."""
    again = retry(
        retry=retry_if_exception_type((StorageInternalError, SQLAlchemyError)),
        stop=stop_after_delay(patience_s),
        wait=wait_exponential(multiplier=0.1, max=5.0),
        reraise=True,
    )
    for name, method in getmembers(storage, ismethod):
        if name in CALLS:
            setattr(storage, name, again(method))
    return storage


CALLS = {name for name in vars(BaseStorage) if not name.startswith("_")} | {"record_heartbeat", "_get_stale_trial_ids"}
CALLS -= set(IN_MEMORY)
"""What studies ask of a database."""


def opened(where: Where) -> Drafts:
    """The storage behind a URL, or a ConfigError saying what is wrong with it."""
    _check(where.url)
    url = where.url.replace("postgresql://", "postgresql+psycopg://", 1).replace(
        "postgres://", "postgresql+psycopg://", 1
    )
    sqlite = url.startswith("sqlite")
    try:
        backend = _made(where, url, {"connect_args": {"timeout": 60}} if sqlite else {"pool_pre_ping": True})
    except ImportError as error:
        raise ConfigError(f"--storage {shown(where.url)}: {error}; pip install 'equipoise[postgres]'") from None
    except (OptunaError, SQLAlchemyError, OSError) as error:
        raise UnreachableError(f"--storage {shown(where.url)}: cannot be opened: {first_line(error)}") from None
    if sqlite:
        event.listen(backend.engine, "connect", _swift)
        backend.engine.dispose()
    return _patient(Drafts(backend), where.patience_s)


def joined(where: Where) -> Drafts:
    """The storage of a study that was there a moment ago: a database that is gone for a while is waited for."""
    again = retry(
        retry=retry_if_exception_type(UnreachableError),
        stop=stop_after_delay(where.patience_s),
        wait=wait_exponential(multiplier=0.1, max=5.0),
        reraise=True,
    )
    found: Drafts = again(opened)(where)
    return found


def _check(url: str) -> None:
    """Says before any library does what is wrong with a URL, or with the place that it names."""
    if not url.startswith(("sqlite:///", "postgresql://", "postgres://")):
        raise ConfigError(f"--storage {shown(url)}: write sqlite:///FILE or postgresql://USER@HOST/NAME")
    if url.startswith("sqlite:///"):
        file = Path(url.removeprefix("sqlite:///"))
        if not file.parent.is_dir():
            raise ConfigError(
                f"--storage {url}: there is no folder {file.parent}; make it first: mkdir -p {file.parent}"
            )
        closed = next((p for p in (file.parent, file) if p.exists() and not os.access(p, os.W_OK)), None)
        if closed is not None:
            raise ConfigError(f"--storage {url}: {closed} may not be written; name a file in a folder that may")


def _made(where: Where, url: str, kwargs: dict[str, Any]) -> RDBStorage:
    for opening in range(OPENINGS):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return RDBStorage(
                    url,
                    engine_kwargs=kwargs,
                    heartbeat_interval=where.heartbeat_s,
                    grace_period=where.grace_s,
                    heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(max_retry=1),
                )
        except (StorageInternalError, SQLAlchemyError) as error:
            said = f"{error} {error.__cause__}"
            if opening == OPENINGS - 1 or not any(word in said for word in ("exist", "duplicate", "UNIQUE")):
                raise
            time.sleep(0.2 * 2.0**opening)
    raise AssertionError("unreachable: the last opening returns or raises")


def _swift(connection: Any, _: Any) -> None:
    """A write-ahead log: a commit then costs a tenth, and survives a kill; readers never wait for writers."""
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")


@contextmanager
def speaking(where: Where) -> Iterator[None]:
    """Turns a database's own complaints into one sentence."""
    try:
        yield
    except (StorageInternalError, SQLAlchemyError) as error:
        raise SourceError(
            f"--storage {shown(where.url)}: {first_line(error)}; nothing that is finished is lost, and the same "
            "command goes on with the study"
        ) from None


def shown(url: str) -> str:
    """Without the password that it may hold.

    >>> shown("postgresql://ann:secret@db/studies")
    'postgresql://ann@db/studies'
    """
    scheme, found, rest = url.partition("://")
    user, at, host = rest.rpartition("@")
    return f"{scheme}{found}{user.partition(':')[0]}{at}{host}"


def first_line(error: BaseException) -> str:
    cause = error.__cause__ or error
    return (str(cause).strip().splitlines() or [type(cause).__name__])[0].removeprefix("(")
