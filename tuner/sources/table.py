"""Neutral tables: CSV or TSV whose columns are our signal names, a framework's raw names, or facts of the job."""

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import islice

from simulators.signals import SIGNALS
from tuner.errors import SourceError
from tuner.records import Configuration, Item, Record, Remark
from tuner.sources.base import Format, Kind, Opened
from tuner.sources.columns import DELIMITERS, STEP_COLUMNS, TIME_COLUMNS, bare, delimiter_of, head_of, is_frame
from tuner.sources.flatten import NUMBER, number_of, printable, step_of, time_of
from tuner.sources.jobfacts import FACT_COLUMNS, fact_value
from tuner.sources.lines import Block, head_text, lines_of, looks_binary, raw_lines

LABEL_CHARS_MAX = 200
HEAD_LINES = 20
"""Lines looked at when the kind of a file is found."""
ABSENT = frozenset(("", "-", "--", "n/a", "na", "none", "null", "nil", "?"))

SIGNAL_COLUMNS = {name: spec.name for spec in SIGNALS.values() for name in (*spec.also, spec.name)}
"""Every column name that is one of our signals, also under its other names."""

_COLUMN_NAME = re.compile(r"[A-Za-z_#][^\t;\"{}\\]{0,200}")
_DECIMAL_COMMA = re.compile(r"\s*-?\d+,\d+\s*")


@dataclass(slots=True)
class _Sheet:
    """What is remembered of a table while its rows pass by."""

    origin: str
    delimiter: str = ","
    columns: list[str] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    varying: set[str] = field(default_factory=set)
    words: Counter[str] = field(default_factory=Counter)
    numeric: set[str] = field(default_factory=set)
    rows: int = 0
    ragged: int = 0
    """Line of the first row that has not the header's cells."""
    ragged_rows: int = 0
    number: int = 0
    cut: bool = False
    truncated: bool = False
    fault: str = ""


def read(opened: Opened, formats: Iterable[Format]) -> Iterator[Item]:
    """One record a row, then the facts of the job that no row changes, then what could not be understood."""
    del formats
    remarks: list[Remark] = []
    sheet = _Sheet(opened.origin)
    for row in _rows(_data_lines(opened, sheet, remarks), sheet):
        yield from _record(sheet, row)
    if not sheet.rows:
        raise SourceError(f"{opened.origin}: no row with a number in it; a table's first line names its columns")
    yield from remarks
    yield from _configuration(sheet)
    yield from _closing_remarks(sheet)


class Follow:
    """Rows as they are appended, below the header that the first line is. A fact of the job is told once."""

    def __init__(self, origin: str, formats: Iterable[Format]) -> None:
        del formats
        self._sheet = _Sheet(origin)
        self._told: dict[str, object] = {}

    def feed(self, data: bytes, number: int) -> Iterator[Item]:
        sheet = self._sheet
        for raw in lines_of(Block(data, number)):
            if not raw.text.strip() or raw.text.lstrip().startswith("#") or is_frame(raw.text):
                continue
            sheet.number = raw.number
            try:
                yield from self._row(bare(raw.text))
            except csv.Error:
                continue
        yield from self._facts()

    def _row(self, text: str) -> Iterator[Item]:
        sheet = self._sheet
        if not sheet.columns:
            sheet.delimiter = delimiter_of(text)
            sheet.columns = _header(next(csv.reader([text], delimiter=sheet.delimiter)), sheet)
            return
        yield from _record(sheet, next(csv.reader([text], delimiter=sheet.delimiter)))

    def _facts(self) -> Iterator[Item]:
        for item in _configuration(self._sheet):
            if isinstance(item, Configuration) and item.values != self._told:
                self._told = dict(item.values)
                yield item


def _data_lines(opened: Opened, sheet: _Sheet, remarks: list[Remark]) -> Iterator[str]:
    """Lines that are no comment; the sheet remembers where we are."""
    for raw in raw_lines(opened):
        if isinstance(raw, Remark):
            remarks.append(raw)
        elif raw.text.strip() and not raw.text.lstrip().startswith("#") and not is_frame(raw.text):
            sheet.number, sheet.cut = raw.number, raw.cut
            yield bare(raw.text) + "\n"


def _rows(lines: Iterator[str], sheet: _Sheet) -> Iterator[list[str]]:
    """The rows below the header."""
    head = next(lines, None)
    if head is None:
        raise SourceError(f"{sheet.origin}: an empty table; its first line must name the columns")
    sheet.delimiter = delimiter_of(head)
    try:
        sheet.columns = _header(next(csv.reader([head], delimiter=sheet.delimiter)), sheet)
        yield from csv.reader(lines, delimiter=sheet.delimiter)
    except csv.Error as fault:
        if not sheet.rows:
            raise SourceError(f"{sheet.origin}:{sheet.number}: not a table: {fault}") from None
        sheet.fault = f"{fault}; the rows below are skipped"


def _header(cells: list[str], sheet: _Sheet) -> list[str]:
    head = head_of(cells)
    columns, sheet.runs = head.columns, head.runs
    if not any(_COLUMN_NAME.fullmatch(name) for name in columns):
        found = f"found {', '.join(columns)[:60]!r}"
        if all(map(NUMBER.fullmatch, columns)):
            found = (
                f"the first row is numbers ({', '.join(columns)[:60]}); put a line such as step,step_s,rollout_s above"
            )
        raise SourceError(
            f"{sheet.origin}:{sheet.number}: the first line must name the columns: {found}. Names: docs/signals.md"
        )
    return columns


_Parts = tuple[dict[str, float], dict[str, str], dict[str, object]]
"""Values, labels and times of one row."""


def _record(sheet: _Sheet, row: list[str]) -> Iterator[Record]:
    if len(row) != len(sheet.columns):
        sheet.ragged = sheet.ragged or sheet.number
        sheet.ragged_rows += 1
        if len(row) < len(sheet.columns) and sheet.cut:
            sheet.truncated = True
            row = row[:-1]
    for run in dict.fromkeys(filter(None, sheet.runs)) or ("",):
        yield from _of_run(sheet, row, run)


def _of_run(sheet: _Sheet, row: list[str], run: str) -> Iterator[Record]:
    """What a row says of one run: of a table, everything; of a chart with several, its own columns."""
    values: dict[str, float] = {}
    labels = {"run": run} if run else {}
    stamps: dict[str, object] = {}
    owners = sheet.runs or [""] * len(row)
    for column, cell, owner in zip(sheet.columns, row, owners, strict=False):
        if owner in ("", run):
            _cell(sheet, column, cell.strip(), (values, labels, stamps))
    if not values or (run and values.keys() == {"step"}):
        return
    sheet.rows += 1
    time_s = next((time_of(v) for v in stamps.values() if time_of(v) is not None), None)
    yield Record(
        values, step_of(values, values), time_s, labels, origin=f"{sheet.origin}:{sheet.number}", cut=sheet.truncated
    )


def _cell(sheet: _Sheet, column: str, cell: str, parts: _Parts) -> None:
    values, labels, stamps = parts
    if cell.lower() in ABSENT or not column:
        return
    fact = FACT_COLUMNS.get(column.lower())
    if fact is not None:
        if sheet.facts.setdefault(column, cell) != cell:
            sheet.varying.add(column)
        if column not in SIGNAL_COLUMNS and fact_value(fact, cell) is not None:
            return
    number = _number(cell, sheet.delimiter)
    name = SIGNAL_COLUMNS.get(column, column)
    if column.lower() in TIME_COLUMNS:
        stamps[column] = cell if number is None else number
    elif number is not None:
        sheet.numeric.add(column)
        values.setdefault("step" if column.lower() in STEP_COLUMNS else name, number)
    else:
        sheet.words[column] += 1
        labels[column] = printable(cell[:LABEL_CHARS_MAX])


def _number(cell: str, delimiter: str) -> float | None:
    if delimiter == ";" and _DECIMAL_COMMA.fullmatch(cell):
        cell = cell.replace(",", ".")
    return number_of(cell)


def _configuration(sheet: _Sheet) -> Iterator[Configuration | Remark]:
    """Facts that hold in every row. A column whose value changes describes several jobs, not one."""
    known: dict[str, object] = {}
    for column, cell in sheet.facts.items():
        name = FACT_COLUMNS[column.lower()]
        if column in sheet.varying:
            if column in SIGNAL_COLUMNS:
                continue
            detail = f"column {column} differs from row to row: no fact of one job; give one setup at a time"
            yield Remark("varying-setup", detail, sheet.origin)
            continue
        value = fact_value(name, cell)
        if value is None:
            yield Remark("odd-value", f"column {column}: {cell!r} is no value of {name}; left out", sheet.origin)
        else:
            known[f"job.{name}"] = value
    if known:
        yield Configuration(known, origin=sheet.origin)


def _closing_remarks(sheet: _Sheet) -> Iterator[Remark]:
    if sheet.truncated:
        yield Remark(
            "truncated-record", "the last row is cut; its last cell is left out", f"{sheet.origin}:{sheet.number}"
        )
    elif sheet.ragged:
        detail = f"{sheet.ragged_rows} rows have not the {len(sheet.columns)} cells of the header"
        yield Remark("ragged-rows", detail, f"{sheet.origin}:{sheet.ragged}")
    if sheet.fault:
        yield Remark("broken-lines", sheet.fault, f"{sheet.origin}:{sheet.number}")
    mixed = sorted(sheet.numeric & set(sheet.words))
    if mixed:
        cells = sum(sheet.words[c] for c in mixed)
        yield Remark("not-a-number", f"{cells} cells of {_listed(mixed)} are no numbers; left out", sheet.origin)
    unknown = [c for c in sheet.columns if c in sheet.numeric and _is_strange(c)]
    if unknown:
        hints = "; ".join(filter(None, map(_hint, unknown)))
        detail = f"columns that are no signal of ours: {_listed(unknown)}" + (f" ({hints})" if hints else "")
        yield Remark("unknown-columns", detail, sheet.origin)


def _is_strange(column: str) -> bool:
    """A name with a path in it is a framework's own and may be known there."""
    known = column in SIGNAL_COLUMNS or column.lower() in (*STEP_COLUMNS, *TIME_COLUMNS)
    return not known and column.lower() not in FACT_COLUMNS and not set(column) & set("/.:")


def _hint(column: str) -> str:
    near = get_close_matches(column.lower(), (*SIGNAL_COLUMNS, *FACT_COLUMNS), n=1, cutoff=0.75)
    return f"{column}: did you mean {near[0]}?" if near else ""


def _listed(names: list[str]) -> str:
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def claims(name: str, head: bytes) -> float:
    """Sure when the header has two names of ours; likely when the name says so and the rows fit the header."""
    if looks_binary(head):
        return 0.0
    text = head_text(head)
    said = (line for line in text.split("\n") if line.strip() and not line.lstrip().startswith("#"))
    lines = [bare(line) for line in islice(said, HEAD_LINES) if not is_frame(line)]
    if not lines or not any(lines[0].count(d) for d in DELIMITERS):
        return 0.0
    delimiter = delimiter_of(lines[0])
    columns = [cell.strip().strip('"') for cell in lines[0].split(delimiter)]
    if sum(_COLUMN_NAME.fullmatch(column) is not None for column in columns) < 0.8 * len(columns):
        headless = name.lower().endswith((".csv", ".tsv")) and all(map(NUMBER.fullmatch, columns))
        return 0.6 if headless else 0.0  # read says what is wrong
    body = lines[1:] if len(lines) < 3 else lines[1:-1]
    fits = sum(line.count(delimiter) == lines[0].count(delimiter) for line in body)
    regular = bool(body) and fits > 0.6 * len(body) and any(map(_has_number, body))
    ours = sum(c in SIGNAL_COLUMNS or c.lower() in FACT_COLUMNS or c.lower() in STEP_COLUMNS for c in columns)
    if delimiter == "|" and not ours and "/" not in lines[0]:
        return 0.0  # many a log parts its fields so
    if name.lower().endswith((".csv", ".tsv")):
        return 0.95 if ours >= 2 or regular else 0.6
    return (0.85 if ours >= 2 else 0.5) if regular else 0.0


def _has_number(line: str) -> bool:
    return any(NUMBER.fullmatch(cell) for cell in re.split(r"[,;\t|]", line))


KIND = Kind("csv", claims, read, Follow)
