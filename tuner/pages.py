"""A journal in pages, newest first: for readers beside its writer, from any thread. Opened read-only each time."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tuner.errors import SourceError

COLUMNS = "id, at_s, commands, decision, receipt"


@dataclass(frozen=True, slots=True)
class Pages:
    path: Path

    def newest(self, limit: int, before_id: int | None = None) -> list[dict[str, Any]]:
        """At most `limit` ticks with their decisions, newest first, older than `before_id`."""
        with self._file() as file:
            rows = file.execute(
                f"SELECT {COLUMNS} FROM tick WHERE id < ? ORDER BY id DESC LIMIT ?",
                (2**62 if before_id is None else before_id, limit),
            ).fetchall()
        return [record(*row) for row in rows]

    def of_decision(self, ident: str, limit: int = 1000) -> list[dict[str, Any]]:
        """The ticks of one decision in order, the legs of its move (`d80.1`) included."""
        root = ident.split(".", 1)[0]
        with self._file() as file:
            rows = file.execute(
                f"SELECT {COLUMNS} FROM tick WHERE decision_id = ? OR (decision_id > ? AND decision_id < ?) "
                "ORDER BY id LIMIT ?",
                (root, f"{root}.", f"{root}/", limit),
            ).fetchall()
        return [record(*row) for row in rows]

    @contextmanager
    def _file(self) -> Iterator[sqlite3.Connection]:
        """Raises SourceError where the file cannot be read now: locked, or gone."""
        try:
            with closing(sqlite3.connect(f"file:{quote(str(self.path))}?mode=ro", uri=True, timeout=1.0)) as file:
                yield file
        except sqlite3.Error as error:
            raise SourceError(f"the journal cannot be read now ({error})") from None


def record(tick_id: int, at_s: float, commands: str, decision: str, receipt: str | None) -> dict[str, Any]:
    """One tick as data: all but the raw observation and the state."""
    told = None if receipt is None else json.loads(receipt)
    return {"id": tick_id, "at_s": at_s, "commands": json.loads(commands), **json.loads(decision), "receipt": told}
