"""The journal: every tick in one SQLite file, written before the controller acts. Restart = last row, replay = fold.

One row a tick: what was seen (deflated), commands, what a simulator answered, the state after, the decision with
proposal, trail and verdict, and once the plant has answered, the receipt. WAL mode: readers never block the writer.
A local disk is needed.
"""

import csv
import io
import json
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pydantic import TypeAdapter

from policies.commands import Command
from policies.conduct import noted
from policies.control import Decision
from policies.state import STATE_VERSION, State
from simulators.plant import Observation, Receipt
from tuner import pages
from tuner.errors import ConfigError, ContractError, DamageError, LedgerError
from tuner.hearing import Heard, packed, readable, unpacked
from tuner.journal_file import CHARTERED, HEARING, SIGNED, identity, opened, opened_to_read, version_of

NEVER = 2**62
"""More ticks than there will be."""
EXPORTED = ("id", "at_s", "action", "code", "decision_id", "reason", "order", "gain_frac", "verdict", "receipt")
"""Columns of the CSV export; JSONL has everything."""

_SEEN = TypeAdapter(Observation)
_COMMANDS = TypeAdapter(tuple[Command, ...])
_STATE = TypeAdapter(State)
_DECISION = TypeAdapter(Decision)
_RECEIPT = TypeAdapter(Receipt)


@dataclass(frozen=True, slots=True)
class Entry:
    """One tick."""

    at_s: float
    seen: Observation
    commands: tuple[Command, ...]
    state: State
    """After the tick, before the receipt."""
    decision: Decision
    receipt: Receipt | None = None
    heard: tuple[Heard, ...] = ()
    """What a simulator answered; nothing where none was asked, or in a journal of before that was kept."""


class Ledger(Protocol):
    """Where a loop writes its ticks, before it acts and after the plant has answered."""

    def commit(self, entry: Entry) -> int: ...

    def answer(self, tick_id: int, receipt: Receipt) -> None: ...


class Journal:
    """A ledger on disk. Each method is one transaction: after a kill, a row is whole or not there."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self._path = path
        self._file = opened_to_read(path) if read_only else opened(path)
        self.identity, self._token = identity(path), 0

    def close(self) -> None:
        self._file.close()

    def commit(self, entry: Entry) -> int:
        row = (
            entry.at_s,
            zlib.compress(_SEEN.dump_json(entry.seen)),
            _COMMANDS.dump_json(entry.commands).decode(),
            zlib.compress(encoded_state(entry.state)),
            _DECISION.dump_json(entry.decision).decode(),
            entry.decision.action.value,
            entry.decision.decision_id,
            packed(entry.heard),
        )
        with self._writing():
            written = self._file.execute(
                "INSERT INTO tick (at_s, seen, commands, state, decision, action, decision_id, heard) "
                "VALUES (?,?,?,?,?,?,?,?)",
                row,
            )
        if written.lastrowid is None:
            raise ContractError("the journal gave a tick no number")
        return written.lastrowid

    def answer(self, tick_id: int, receipt: Receipt) -> None:
        with self._writing():
            text = _RECEIPT.dump_json(receipt).decode()
            self._file.execute("UPDATE tick SET receipt = ? WHERE id = ?", (text, tick_id))

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One transaction; what the disk or a lock refuses is a LedgerError."""
        try:
            with self._file:
                yield
                self._refuse_strangers()
        except sqlite3.Error as error:
            raise LedgerError(f"the journal cannot be written ({error})") from error

    def _refuse_strangers(self) -> None:
        """Under the write lock: nobody began after us, and what we write is what a restart will find."""
        if identity(self._path) != self.identity:
            raise LedgerError(
                f"the journal cannot be written ({self._path} was moved, removed or replaced); "
                "put it back, or start again"
            )
        newest = self._file.execute("SELECT COALESCE(MAX(token), 0) FROM writer").fetchone()[0]
        if self._token and newest > self._token:
            raise LedgerError(
                f"the journal cannot be written (a newer daemon, token {newest}, writes {self._path}; "
                f"ours is {self._token}); stop one of the two"
            )

    @contextmanager
    def _reading(self, what: str) -> Iterator[None]:
        """What was written is read back; bytes that changed since are a DamageError."""
        try:
            yield
        except (sqlite3.Error, zlib.error, ValueError) as error:
            why = str(error).splitlines()[0].partition(" with text ")[0]
            if "locked" in why:
                raise ConfigError(
                    f"{self._path} cannot be read now ({why}); close what holds it, and try again"
                ) from None
            raise DamageError(self._path, f"{what} cannot be read ({why})") from None

    def begin(self, at_s: float, who: Mapping[str, str | int]) -> int:
        """A new writer's fencing token: larger than that of every writer before."""
        with self._writing():
            row = self._file.execute("INSERT INTO writer (at_s, who) VALUES (?, ?)", (at_s, json.dumps(dict(who))))
        self._token = int(row.lastrowid or 0)
        return self._token

    def writer(self) -> dict[str, str | int]:
        """Who wrote last, as it named itself; empty in a journal that no daemon wrote."""
        with self._reading("who wrote it"):
            if version_of(self._file) < SIGNED:
                return {}
            row = self._file.execute("SELECT who FROM writer ORDER BY token DESC LIMIT 1").fetchone()
            return {} if row is None else dict(json.loads(row[0]))

    def first_begun_s(self) -> float | None:
        """When the first writer began."""
        at_s: float | None = self._file.execute("SELECT MIN(at_s) FROM writer").fetchone()[0]
        return at_s

    def charters(self) -> list[tuple[int, str]]:
        """What the controller went by, each with the tick after which it did; empty in a journal of before charters."""
        with self._reading("what its controller went by"):
            if version_of(self._file) < CHARTERED:
                return []
            rows = self._file.execute("SELECT since_tick, text FROM charter ORDER BY since_tick")
            return [(int(since), str(text)) for since, text in rows]

    def charter(self, tick_id: int | None = None) -> str | None:
        """What it went by at a tick, or since its last start; None in a journal that does not say."""
        texts = [text for since, text in self.charters() if tick_id is None or since < tick_id]
        return texts[-1] if texts else None

    def govern(self, text: str) -> None:
        """From the next tick on the controller goes by this; an unchanged one is not written again."""
        if self.charter() == text:
            return
        with self._writing():
            self._file.execute("INSERT OR REPLACE INTO charter VALUES (?, ?)", (self.size(), text))

    def last(self, until_id: int = NEVER) -> State | None:
        """The state to go on from: after the last tick (up to that one) and its receipt. None where there is none."""
        with self._reading("the state"):
            row = self._file.execute(
                "SELECT state, receipt FROM tick WHERE id <= ? ORDER BY id DESC LIMIT 1", (until_id,)
            ).fetchone()
            return None if row is None else _resumed(*row)

    def last_seen(self) -> Observation | None:
        """What the last tick saw."""
        with self._reading("what was seen last"):
            row = self._file.execute("SELECT seen FROM tick ORDER BY id DESC LIMIT 1").fetchone()
            return None if row is None else _SEEN.validate_json(zlib.decompress(row[0]))

    def size(self) -> int:
        """The number of the last tick; 0 in a new journal."""
        with self._reading("the number of its ticks"):
            return int(self._file.execute("SELECT COALESCE(MAX(id), 0) FROM tick").fetchone()[0])

    def entries(self, since_id: int = 0, until_id: int = NEVER) -> Iterator[Entry]:
        """All ticks in order, one at a time."""
        told = "at_s, seen, commands, state, decision, receipt, heard"
        for tick_id, row in self._rows(told, since_id, until_id):
            with self._reading(f"tick {tick_id}"):
                entry = _entry(*row)
            yield entry

    def _rows(self, told: str, since_id: int = 0, until_id: int = NEVER) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """These columns of the ticks in order, each with its number."""
        known, wanted = since_id, "SELECT id, {} FROM tick WHERE id > ? AND id <= ? ORDER BY id"
        with self._reading(f"a tick after {known}"):
            told = told if version_of(self._file) >= HEARING else told.replace("heard", "NULL")
            rows = self._file.execute(wanted.format(told), (since_id, until_id))
        while True:
            with self._reading(f"the tick after {known}"):
                row = rows.fetchone()
            if row is None:
                return
            known = int(row[0])
            yield known, row[1:]

    def keep(self, ticks: int) -> int:
        """Forget all but the last `ticks`; how many went. What is forgotten cannot be replayed."""
        with self._writing():
            gone = self._file.execute(
                "DELETE FROM tick WHERE id <= (SELECT COALESCE(MAX(id), 0) FROM tick) - ?", (ticks,)
            )
        return gone.rowcount

    def export(self, kind: str) -> Iterator[str]:
        """Lines of `jsonl` (all but the raw observations and states) or `csv`."""
        records = self._records()
        if kind == "jsonl":
            yield from (json.dumps(record, ensure_ascii=False) for record in records)
        elif kind == "csv":
            yield from _csv_lines(records)
        else:
            raise ConfigError(f"no export of kind {kind!r}; there are jsonl and csv")

    def _records(self) -> Iterator[dict[str, Any]]:
        for tick_id, row in self._rows("at_s, commands, decision, receipt, heard"):
            with self._reading(f"tick {tick_id}"):
                record = pages.record(tick_id, *row[:-1]) | {"heard": readable(row[-1])}
            yield record


def _entry(at_s: float, *written: Any) -> Entry:
    seen, commands, state, decision, receipt, heard = written
    return Entry(
        at_s,
        _SEEN.validate_json(zlib.decompress(seen)),
        _COMMANDS.validate_json(commands),
        decoded_state(zlib.decompress(state)),
        _DECISION.validate_json(decision),
        None if receipt is None else _RECEIPT.validate_json(receipt),
        unpacked(heard),
    )


def viewed(path: Path) -> Journal:
    """A journal that is there, to read only: beside a daemon that writes it, nothing of it is touched."""
    if not path.is_file() or path.stat().st_size == 0:
        kind = "is empty" if path.is_file() else "there is no such journal"
        raise ConfigError(
            f"{path}: {kind}; name the file of [journal] path, equipoise.journal where a job file has none"
        )
    return Journal(path, read_only=True)


def encoded_state(state: State) -> bytes:
    """The state as JSON, the same bytes for the same state."""
    return _STATE.dump_json(state)


def decoded_state(text: bytes) -> State:
    """The state of its JSON; one of a newer product is refused, not guessed at."""
    version = json.loads(text).get("version")
    if not isinstance(version, int) or version > STATE_VERSION:
        raise ConfigError(
            f"the journal's state has version {version}, this product reads up to {STATE_VERSION}: "
            "use the product that wrote it, or start with a new journal"
        )
    return _STATE.validate_json(text)


def encoded_decision(decision: Decision) -> bytes:
    return _DECISION.dump_json(decision)


def _resumed(state: bytes, receipt: str | None) -> State:
    last = decoded_state(zlib.decompress(state))
    return last if receipt is None else noted(last, _RECEIPT.validate_json(receipt))


def _csv_lines(records: Iterator[dict[str, Any]]) -> Iterator[str]:
    yield ",".join(EXPORTED)
    for record in records:
        line = io.StringIO()
        cells = (record.get(name) for name in EXPORTED)
        csv.writer(line, lineterminator="").writerow([json.dumps(c) if isinstance(c, dict) else c for c in cells])
        yield line.getvalue()
