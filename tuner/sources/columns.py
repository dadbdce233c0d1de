"""The head of a table: what parts its columns and what each one is, as spreadsheets, trackers and Markdown write it."""

import re
from dataclasses import dataclass

from tuner.sources.flatten import printable

COLUMNS_MAX = 5_000
DELIMITERS = (",", ";", "\t", "|")
STEP_COLUMNS = ("step", "global_step", "_step")
TIME_COLUMNS = ("time", "timestamp", "_timestamp", "wall time")

_SPACED_PATH = re.compile(r"(?<=\S) / (?=\S)")
"""Notebooks write `completions / mean_length`."""
_CHARTED = re.compile(r"(?P<run>.{1,200}?) - (?P<key>[\w./@:-]{1,200}?)(?P<bound>__MIN|__MAX)?")
"""A column of a chart that W&B exports: the run, the metric, and its bounds where points were thinned out."""
_RULE = re.compile(r"[\s|:+-]*-{2,}[\s|:+-]*")


@dataclass(frozen=True, slots=True)
class Head:
    columns: list[str]
    runs: list[str]
    """Of a chart, whose column each is; empty: of the table's one run."""


def delimiter_of(line: str) -> str:
    """The delimiter that parts most columns."""
    return max(DELIMITERS, key=line.count)


def bare(line: str) -> str:
    """A row of a Markdown table without the bars around it; other lines as they are."""
    stripped = line.strip()
    return stripped[1:].removesuffix("|") if stripped.startswith("|") else line


def is_frame(line: str) -> bool:
    """True for what stands around a table's rows: a quote of code, and the rule below a Markdown head."""
    stripped = line.strip()
    return stripped.startswith("```") or ("|" in stripped and _RULE.fullmatch(stripped) is not None)


def head_of(cells: list[str]) -> Head:
    """The columns as they are named, a chart's under the metrics' own names with the bounds left unnamed."""
    columns = [printable(_SPACED_PATH.sub("/", cell.strip().lstrip("\ufeff"))) for cell in cells[:COLUMNS_MAX]]
    found = [_CHARTED.fullmatch(column) for column in columns[1:]]
    told = [match for match in found if match is not None]
    if not told or len(told) < len(found) or columns[0].lower() not in (*STEP_COLUMNS, *TIME_COLUMNS):
        return Head(columns, [])
    named = ["" if match["bound"] else match["key"] for match in told]
    return Head([columns[0], *named], ["", *(match["run"] for match in told)])
