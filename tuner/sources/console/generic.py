"""Metrics on console lines of frameworks that nobody taught us: dicts, lists of pairs, one pair a line, W&B's summary.

Used only for lines that no framework's own format takes; what the keys mean is found later, by their names.
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice

from tuner.records import Line, Record
from tuner.sources.console.printed import PrintedDict
from tuner.sources.flatten import KEYS_MAX, flatten, number_of

DICT_PAIRS_MIN = 2
LIST_PAIRS_MIN = 3
BLOCK_PAIRS_MIN = 2

_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?|nan|NaN|-?inf|-?Infinity"
_DICT_PAIR = re.compile(
    r"""(?P<quote>['"])(?P<key>[^'"\n]{1,200})(?P=quote)\s*:\s*(?:(?:np|numpy|torch|jnp)?\.?[a-z]+\d*\(\s*)?"""
    rf"(?P<text>['\"]?)(?P<value>{_NUMBER}|True|False|true|false)(?P=text)(?=\s*[,}})]|$)"
)
"""A number may stand in quotes: some loggers round to text before they print."""
_LIST_PAIR = re.compile(
    rf"(?<![\w./@=:-])(?P<key>[A-Za-z_][\w./@-]{{0,120}})\s?[:=]\s?(?P<value>{_NUMBER})s?(?=$|[\s,;|)\]}}`\uff0c\uff1b\u3001\u3002])"
)
"""Wide commas, semicolons and stops end a value as narrow ones do; so does the quote of Markdown."""
_RAW_VALUE = re.compile(rb"[:=]\s?(?:[-+]?[\d.]|nan|NaN|-?inf|-?Inf)")
_RAW_PAIR = re.compile(rb"(?<![\w./@-])[A-Za-z_][\w./@-]*+\s?+" + _RAW_VALUE.pattern)
"""The start of a pair of a list, before the line is cleaned. Most lines lack the values, which are sooner sought."""
_UNIT = r"(?:\s?(?:s|sec|seconds|tok(?:en)?s?/s|GB|GiB))?"
"""Units that need no conversion: those that a metric without one is in."""
_BORDER = "|\u2502\u2503"
_FRAME = "\u2500\u2501\u2502\u2503\u250c\u250f\u2514\u2517\u251c\u2521\u256d\u2570"
_LONE_PAIR = re.compile(
    rf"\s*(?:[-*\u2022]\s{{1,4}}|[{_BORDER}]\s{{0,40}})?\{{?"
    r"[`'\"]?(?P<key>[A-Za-z_][\w.@-]{0,80}(?:/[\w.@()-]{1,80}){1,8})[`'\"]?"
    rf"\s*(?:[:={_BORDER}]\s*|\s)[`'\"]?(?P<value>{_NUMBER}){_UNIT}[`'\"]?\s?,?\s*[{_BORDER}]?\}}?\s*"
)
"""Bare, an item of a list, a row of a table of two columns, or a line of a dict printed over several."""
_WANDB_PAIR = re.compile(rf"\s*wandb:\s+(?P<key>[A-Za-z_][\w./@()-]{{0,200}})\s+(?P<value>{_NUMBER}|True|False)\s*")
_STEP_BEFORE = re.compile(
    r"(?<![\w/.-])(?:global[_ ]?)?(?:step|iteration|iter)\b\s?[:=#]?\s?(?P<step>\d{1,12})\b(?!\.\d)", re.I
)
"""Not the end of a longer name (`timing_s/step`), nor the whole part of a measure."""
_WORDS = {"True": 1.0, "true": 1.0, "False": 0.0, "false": 0.0}

_LONE_PAIR_END = re.compile(
    rb"/[\w./@()-]+[`'\"]?(?: *:? +| *(?:[=|]|\xe2\x94[\x82\x83]) *|:(?=-?\d*\.\d))[`'\"]?-?[\d.nNi]"
)
LONE_PAIR_START = re.compile(rb"(?:\s*\xe2\x94[\x82\x83])?[^\x80-\xff]{0,80}?[A-Za-z][\w.@-]*" + _LONE_PAIR_END.pattern)
"""What a line with one pair looks like before it is cleaned; only short lines are asked, and for their end first."""


def likely(raw: bytes) -> bool:
    """A cheap first look at a raw line: False for nearly all that hold no metrics."""
    if b"/" not in raw and b"_" not in raw:
        return b"{" in raw and raw.count(b"': ") + raw.count(b'": ') >= DICT_PAIRS_MIN
    if raw.count(b":") + raw.count(b"=") >= LIST_PAIRS_MIN and _may_list_pairs(raw):
        return True
    return (b"{" in raw and b":" in raw) or (len(raw) < 300 and _may_be_lone_pair(raw))


def _may_be_lone_pair(raw: bytes) -> bool:
    return _LONE_PAIR_END.search(raw) is not None and LONE_PAIR_START.match(raw) is not None


def _may_list_pairs(raw: bytes) -> bool:
    """False only where the cleaned line cannot hold enough pairs: colours and other letters hide them from bytes."""
    if not raw.isascii() or b"\x1b" in raw or b"\a" in raw or b"[0m" in raw:
        return True
    return _often(_RAW_VALUE, raw) and _often(_RAW_PAIR, raw)


def _often(pattern: re.Pattern[bytes], raw: bytes) -> bool:
    return len(list(islice(pattern.finditer(raw), LIST_PAIRS_MIN))) == LIST_PAIRS_MIN


def numbers_in_dict(text: str) -> tuple[Mapping[str, float], bool] | None:
    """Numbers of the first dict or JSON object on a line and whether it is cut; None when there is none worth it."""
    start = text.find("{")
    if start < 0:
        return None
    end = text.rfind("}")
    body = text[start : end + 1] if end > start else text[start:]
    values: Mapping[str, float] = {}
    if end > start and '"' in body:
        try:
            parsed = json.loads(body)
        except (ValueError, RecursionError):
            parsed = None
        values = flatten(parsed).values if isinstance(parsed, dict) else {}
    if not values:
        values = _pairs(_DICT_PAIR, body)
    return (values, end < start) if len(values) >= DICT_PAIRS_MIN else None


def numbers_in_list(text: str) -> Mapping[str, float] | None:
    """Numbers of a list of `key:value` or `key=value`; None unless three, one of them under a metric-like name."""
    values = _pairs(_LIST_PAIR, text)
    telling = any("/" in key or "_" in key for key in values)
    return values if len(values) >= LIST_PAIRS_MIN and telling else None


class LonePairs:
    """Consecutive lines of one `key: number` each, of one speaker, form one record; a key that returns starts anew."""

    def __init__(self) -> None:
        self._values: dict[str, float] = {}
        self._first: Line | None = None
        self._wandb = False
        self._cut = False

    @property
    def open(self) -> bool:
        return self._first is not None

    def feed(self, line: Line) -> tuple[bool, list[Record]]:
        """(did the line belong here, records that it closed)."""
        wandb = line.text.lstrip().startswith("wandb:")
        match = (_WANDB_PAIR if wandb else _LONE_PAIR).fullmatch(line.text) if len(line.text) < 500 else None
        if match is None:
            bare = line.text.strip()
            stays = not bare or bare[0] in _FRAME or (wandb and self._wandb and "history" not in line.text)
            return False, [] if stays else self.flush()
        key, value = match["key"], _value(match["value"])
        restarts = key in self._values or self._wandb != wandb or len(self._values) >= KEYS_MAX
        closed = self.flush() if restarts else []
        if self._first is None:
            self._first, self._wandb = line, wandb
        if value is not None:
            self._values[key] = value
        self._cut = self._cut or line.cut
        return True, closed

    def flush(self) -> list[Record]:
        values, first, cut = self._values, self._first, self._cut
        self._values, self._first, self._cut = {}, None, False
        if first is None or len(values) < BLOCK_PAIRS_MIN:
            return []
        return [_record(values, first, cut=cut)]


class Blocks:
    """What one speaker prints over several lines: pairs, one a line, or a dict that was broken anywhere."""

    def __init__(self) -> None:
        self._lone = LonePairs()
        self._dict = PrintedDict()
        self._first: Line | None = None

    @property
    def open(self) -> bool:
        return self._dict.open or self._lone.open

    def expects(self, line: Line) -> bool:
        """True for the next line of an open dict, whatever else it may look like by itself."""
        return self._dict.expects(line.text)

    def feed(self, line: Line) -> tuple[bool, list[Record]]:
        """(did the line belong here, records that it closed)."""
        if self._dict.open:
            if self.expects(line):
                self._dict.take(line.text)
                return True, self._end_dict() if self._dict.closed else []
            ended = self._end_dict()
            belongs, closed = self.feed(line)
            return belongs, [*ended, *closed]
        if self._dict.opens(line.text):
            self._first = line
            return True, self._lone.flush()
        return self._lone.feed(line)

    def flush(self) -> list[Record]:
        return [*self._end_dict(), *self._lone.flush()]

    def _end_dict(self) -> list[Record]:
        first, self._first = self._first, None
        if first is None:
            return []
        closed = self._dict.closed
        values = _pairs(_DICT_PAIR, self._dict.text())
        if len(values) < DICT_PAIRS_MIN:
            return []
        before, brace, _ = first.text.partition("{")
        return [_record(values, first, before if brace else "", cut=bool(brace) and not closed)]


def records_on(line: Line) -> Iterator[Record]:
    """The record of a dict or of a list of pairs on one line."""
    found = numbers_in_dict(line.text)
    if found is not None:
        values, cut = found
        yield _record(values, line, line.text[: line.text.find("{")], cut)
        return
    listed = numbers_in_list(line.text)
    if listed is not None:
        yield _record(listed, line, line.text[:200], line.cut)


def _record(values: Mapping[str, float], line: Line, before: str = "", cut: bool = False) -> Record:
    step = flatten(values).step
    if step is None and before:
        stated = _STEP_BEFORE.search(before[-200:])
        step = int(stated["step"]) if stated else None
    labels = {"writer": line.speaker} if line.speaker else {}
    return Record(values, step, line.time_s, labels, cut=cut)


def _pairs(pattern: re.Pattern[str], text: str) -> dict[str, float]:
    values: dict[str, float] = {}
    for match in pattern.finditer(text):
        value = _value(match["value"])
        if value is not None and len(values) < KEYS_MAX:
            values[match["key"]] = value
    return values


def _value(text: str) -> float | None:
    return _WORDS[text] if text in _WORDS else number_of(text)
