"""JSON rows: one object a line, an array of objects, or a single object that sums a run up.

Facts of the job that stand alike in every line are its configuration, as in a table's columns.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tuner.errors import SourceError
from tuner.records import Configuration, Item, Record, Remark
from tuner.sources.base import Format, Kind, Opened
from tuner.sources.flatten import flatten
from tuner.sources.jobfacts import FACT_COLUMNS, fact_value
from tuner.sources.lines import DOCUMENT_CAP_BYTES, Block, RawLine, head_text, lines_of, looks_binary, raw_lines
from tuner.sources.packed import rows_in

SAMPLE_LINES = 20
"""Lines looked at when the kind of a file is found."""

COLUMNS_MIN = 2
"""Columns of a table that is printed column by column."""

_DECODER = json.JSONDecoder()
_FAULTS = (ValueError, RecursionError)


@dataclass(slots=True)
class _Tally:
    """What a file of rows held."""

    rows: int = 0
    broken: int = 0
    first_broken: int = 0
    excerpt: str = ""
    last_broken: int = 0
    facts: dict[str, str] = field(default_factory=dict)
    varying: set[str] = field(default_factory=set)

    def states(self, row: Mapping[str, object]) -> None:
        """Remembers what the row says of the job itself."""
        for key in FACT_COLUMNS.keys() & row.keys():
            told = str(row[key])
            if self.facts.setdefault(key, told) != told:
                self.varying.add(key)

    def breaks(self, number: int, text: str) -> None:
        self.broken += 1
        self.last_broken = number
        if not self.first_broken:
            self.first_broken, self.excerpt = number, text.strip()[:60]


def read(opened: Opened, formats: Iterable[Format]) -> Iterator[Item]:
    """One record an object; broken lines are counted and told; raises SourceError when most lines are no objects."""
    del formats
    tally = _Tally()
    lines = raw_lines(opened)
    last = 0
    for raw in lines:
        if isinstance(raw, Remark):
            yield raw
            continue
        bare = raw.text.strip()
        if not bare or bare.startswith("#"):
            continue
        last = raw.number
        row = _object(bare)
        if row is not None:
            tally.rows += 1
            tally.states(row)
            place = f"{opened.origin}:{raw.number}"
            yield from record_of(row, place) if tally.rows > 1 else records_of(row, place)
        elif not tally.rows and bare[0] in "[{" and not raw.cut and _opens_document(bare):
            yield from _document(opened, raw, lines)
            return
        elif bare[0] == "[":
            yield from _array_on_line(bare, f"{opened.origin}:{raw.number}", tally, raw)
        else:
            tally.breaks(raw.number, bare)
    yield from _configuration(opened, tally)
    yield from _verdict(opened, tally, last)


def _configuration(opened: Opened, tally: _Tally) -> Iterator[Configuration]:
    """What every line says alike; what changes from line to line describes no one job."""
    told = {FACT_COLUMNS[key]: text for key, text in tally.facts.items() if key not in tally.varying}
    known = {f"job.{name}": value for name, text in told.items() if (value := fact_value(name, text)) is not None}
    if known:
        yield Configuration(known, origin=opened.origin)


class Follow:
    """Rows as they are appended; a line that is no object is passed over."""

    def __init__(self, origin: str, formats: Iterable[Format]) -> None:
        del formats
        self._origin = origin

    def feed(self, data: bytes, number: int) -> Iterator[Item]:
        for raw in lines_of(Block(data, number)):
            row = _object(raw.text.strip())
            if row is not None:
                yield from record_of(row, f"{self._origin}:{raw.number}")


def record_of(row: Mapping[str, object], origin: str) -> Iterator[Record]:
    """The row as a record; nothing for a row without a single number."""
    flat = flatten(row)
    if flat.values:
        yield Record(flat.values, flat.step, flat.time_s, flat.labels, origin=origin)


def records_of(row: Mapping[str, object], origin: str) -> Iterator[Record]:
    """The same of an object that may be a whole run: column by column, or as a tracker's API answers."""
    columns = _columns(row)
    if columns is None:
        packed = list(rows_in(row)) or [row]
        for inner in packed:
            yield from record_of(inner, origin)
        return
    steps = sorted({step for column in columns.values() for step in column})
    for step in steps:
        held = {key: column[step] for key, column in columns.items() if step in column}
        for record in record_of(held, origin):
            yield Record(record.values, step, record.time_s, record.labels, origin=origin)


def _columns(row: Mapping[str, object]) -> Mapping[str, Mapping[int, object]] | None:
    """`{"time": {"1": 9.5, "2": 9.1}, ...}`, as a table writes itself, by column and step; None for others."""
    if len(row) < COLUMNS_MIN or not all(isinstance(column, Mapping) and column for column in row.values()):
        return None
    tables = {key: column for key, column in row.items() if isinstance(column, Mapping)}
    if not all(isinstance(step, str) and step.isascii() and step.isdigit() for c in tables.values() for step in c):
        return None
    return {key: {int(step[:18]): value for step, value in column.items()} for key, column in tables.items()}


def decoded(text: str) -> Iterator[object]:
    """The values of a text of JSON documents one after the other (an array counts as its elements), until one breaks.

    Raises ValueError where it breaks, after all that could be read.
    """
    at = 0
    length = len(text)
    while at < length:
        if text[at] in " \t\r\n,[]":
            at += 1
            continue
        value, at = _DECODER.raw_decode(text, at)
        yield value


def _document(opened: Opened, first: RawLine, lines: Iterator[RawLine | Remark]) -> Iterator[Item]:
    """A document over many lines: an array of rows, objects printed with indents, or one summary."""
    pieces, size, cut = [first.text], len(first.text), first.cut
    for raw in lines:
        if isinstance(raw, Remark):
            yield raw
            continue
        pieces.append(raw.text)
        cut = raw.cut
        size += len(raw.text)
        if size > DOCUMENT_CAP_BYTES:
            raise SourceError(
                f"{opened.origin}:{first.number}: a JSON document of over {DOCUMENT_CAP_BYTES >> 20} MiB; "
                "write one object a line (JSONL) and it is read in any length"
            )
    rows = 0
    text = "\n".join(pieces)
    try:
        for value in decoded(text):
            if isinstance(value, Mapping):
                rows += 1
                yield from records_of(value, f"{opened.origin}:{first.number}")
    except _FAULTS as fault:
        if not rows:
            raise SourceError(f"{opened.origin}:{first.number}: not a JSON document: {_short(fault)}") from None
        where = "the last object is cut" if cut else "the rest is skipped"
        yield Remark("truncated-record", f"after {rows} objects {where}: {_short(fault)}", opened.origin)
    if not rows:
        raise SourceError(f"{opened.origin}:{first.number}: JSON, but no object with metrics in it")


def _array_on_line(text: str, origin: str, tally: _Tally, raw: RawLine) -> Iterator[Item]:
    """An array of rows on one line."""
    before = tally.rows
    try:
        for value in decoded(text):
            if isinstance(value, Mapping):
                tally.rows += 1
                yield from record_of(value, origin)
    except _FAULTS:
        tally.breaks(raw.number, text)
        return
    if tally.rows == before:
        tally.breaks(raw.number, text)


def _verdict(opened: Opened, tally: _Tally, last: int) -> Iterator[Remark]:
    if not tally.broken:
        if not tally.rows:
            raise SourceError(f"{opened.origin}: no JSON object in it; one object a line is read")
        return
    place = f"{opened.origin}:{tally.first_broken}"
    if tally.broken > tally.rows:
        raise SourceError(
            f"{place}: not a JSON object: {tally.excerpt!r}; {tally.broken} of {tally.broken + tally.rows} lines "
            "are none. A JSONL file holds one object a line; a log of another form is read as a console log"
        )
    ends = {n for n in (tally.first_broken, tally.last_broken) if n in (1, last)}
    if ends and tally.broken <= 2:
        yield Remark("truncated-record", f"a row is cut and skipped: {tally.excerpt!r}", place)
    else:
        yield Remark("broken-lines", f"{tally.broken} lines are no JSON objects; the first: {tally.excerpt!r}", place)


def _object(text: str) -> Mapping[str, object] | None:
    if not text.startswith("{"):
        return None
    try:
        value = json.loads(text)
    except _FAULTS:
        return None
    return value if isinstance(value, dict) else None


def _opens_document(text: str) -> bool:
    """True for a line that starts a value and ends between its parts: a document printed over many lines."""
    return text[-1] in "{[," or text.endswith(("null", "true", "false")) or (text[0] == "[" and text[-1] == "}")


def _short(fault: BaseException) -> str:
    return "nested too deeply" if isinstance(fault, RecursionError) else str(fault)[:120]


def claims(name: str, head: bytes) -> float:
    """Sure of a file whose lines are objects; half sure of a document over many lines (others know theirs better)."""
    named = name.lower().endswith((".jsonl", ".ndjson", ".jsonlines"))
    if looks_binary(head):
        return 0.0
    text = head_text(head)
    lines = [line.strip() for line in text.split("\n") if line.strip() and not line.lstrip().startswith("#")]
    if not lines or lines[0][0] not in "[{":
        return 0.4 if named else 0.0
    whole = lines[:-1] if len(lines) > 1 and not text.endswith("\n") else lines
    sample = whole[:SAMPLE_LINES]
    objects = [row for row in map(_object, sample) if row is not None]
    if objects and all(row.keys() >= {"log", "stream"} for row in objects):
        return 0.1
    if len(objects) > 0.5 * len(sample):
        return 0.95 if named else 0.8
    if text.lstrip().startswith(('{"', '[{"', "[\n", "{\n", "[ ", "{ ")) or len(lines) == 1:
        return 0.5 if not text.lstrip().startswith("{'") else 0.0
    return 0.4 if named else 0.0


KIND = Kind("jsonl", claims, read, Follow)
