"""Console lines of the verl family: `step:N - key:value` records, printed dicts and configurations, start commands."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from tuner.parsing.configuration import parse_block, parse_overrides
from tuner.parsing.lines import dict_numbers, number_in
from tuner.records import Configuration, Item, Line, Record, Remark
from tuner.remembering import Remembered

PAIRS_MIN = 3
"""Pairs that a line without its `step:N` must hold to be read as a piece of a record."""

BLOCK_CHARS_MAX = 1 << 20
"""A printed configuration is far shorter; a longer block is given up."""

_START = re.compile(r"step:(?<![\w/:]step:)(\d{1,12})(?= - )")
"""Starts with plain letters and looks back from behind them: a search skips to those letters."""
_KEY = re.compile(r"[A-Za-z_][\w.@+%-]*(?:/[^\s:/]+)+")
FAMILY = (
    *("actor/", "critic/", "timing_s/", "timing_per_token_ms/", "perf/", "training/", "fully_async/"),
    *("response_length/", "response/", "prompt_length/", "global_seqlen/", "num_turns/", "tool_call_counts/"),
    "separate_async/",
)
"""How the keys of a verl record start; a piece of a line must hold one of them."""

_PHASES = ("gen", "ref", "values", "adv", "update_critic", "update_actor")
_PER_TOKEN = {f"timing_s/{phase}": f"timing_per_token_ms/{phase}" for phase in _PHASES}
"""Phases whose time per token verl prints whenever it prints their time: the key of each."""


class StepLines:
    """One record per `step:N - ` on a line; a line that starts in mid-record still gives its pairs, marked cut."""

    def feed(self, line: Line) -> Iterator[Item]:
        starts = list(_START.finditer(line.text))
        head = line.text[: starts[0].start()] if starts else line.text
        yield from _piece(head, line, None, whole_end=bool(starts))
        for i, start in enumerate(starts):
            end = starts[i + 1].start() if i + 1 < len(starts) else len(line.text)
            yield from _piece(line.text[start.end() : end], line, int(start.group(1)), whole_end=end < len(line.text))

    def flush(self) -> Iterable[Item]:
        return ()


def _piece(text: str, line: Line, step: int | None, whole_end: bool) -> Iterator[Record]:
    values, last_key = _pairs(text)
    if step is None and (len(values) < PAIRS_MIN or not any(key.startswith(FAMILY) for key in values)):
        return
    headless = step is None
    torn = not whole_end and (_breaks_off(values) or (line.cut and not headless))
    if torn:
        values.pop(last_key, None)
    if values:
        yield Record(values, step, line.time_s, _labels(line), "verl", cut=torn or headless)


def _pairs(text: str) -> tuple[dict[str, float], str]:
    """The numbers of a ` - ` list of `key:number` under verl's kind of keys, and the last such key, number or not."""
    values: dict[str, float] = {}
    last_key = ""
    for item in text.split(" - "):
        before, _, after = item.rpartition(":")
        key = _KEYS[before]
        if not key:
            continue
        last_key = key
        number = number_in(after)
        if number is not None:
            values[key] = number
    return values, last_key


def _key_in(text: str) -> str:
    """The key that the text is; empty when it is none."""
    key = text.strip()
    return key if _KEY.fullmatch(key) else ""


_KEYS = Remembered(_key_in)
"""Each step repeats the same keys."""


def _breaks_off(values: dict[str, float]) -> bool:
    """True when the end of a record is missing: the phases of a step are printed after its losses, per-token last."""
    missing = [token for time, token in _PER_TOKEN.items() if time in values and token not in values]
    if missing and not values.keys().isdisjoint(_PER_TOKEN.values()):
        return True
    if "timing_s/step" in values:
        return False
    return any(key.startswith(("actor/", "critic/", "global_seqlen/")) for key in values)


def _labels(line: Line) -> dict[str, str]:
    return {"writer": line.speaker} if line.speaker else {}


@dataclass
class PrintedDict:
    """A dict printed over several lines, from the line that holds one of `opens` to its closing bracket."""

    opens: tuple[str, ...]
    finish: Callable[[str, Line], Iterable[Item]]
    _lines: list[str] = field(default_factory=list)
    _first: Line | None = None
    _depth: int = 0
    _chars: int = 0

    def feed(self, line: Line) -> Iterable[Item]:
        text = line.text
        if self._first is None:
            at = min((i for i in (text.find(mark) for mark in self.opens) if i >= 0), default=-1)
            if at < 0:
                return ()
            text, self._first = text[at:], line
        self._lines.append(text)
        self._chars += len(text)
        self._depth += _net_brackets(text)
        if self._depth > 0 and self._chars <= BLOCK_CHARS_MAX:
            return ()
        return self._close(cut=self._depth > 0)

    def flush(self) -> Iterable[Item]:
        return self._close(cut=True) if self._first is not None else ()

    def _close(self, cut: bool) -> Iterable[Item]:
        first, text = self._first, "\n".join(self._lines)
        self._first, self._lines, self._depth, self._chars = None, [], 0, 0
        if first is None:
            return ()
        if cut:
            return (Remark("config-cut", "a printed block does not end; it is left out", str(first.number)),)
        return self.finish(text, first)


_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")


def _net_brackets(text: str) -> int:
    bare = _QUOTED.sub("", text)
    return sum(bare.count(c) for c in "{[(") - sum(bare.count(c) for c in "}])")


def printed_config(framework: str) -> Callable[[str, Line], Iterable[Item]]:
    def finish(text: str, first: Line) -> Iterable[Item]:
        flat = parse_block(text)
        if not flat:
            return (Remark("config-odd", "a printed configuration does not read as a dict", str(first.number)),)
        return (Configuration(flat, framework, str(first.number)),)

    return finish


def rollouter_statistics(text: str, first: Line) -> Iterable[Item]:
    """The fully asynchronous rollouter's minute report, under the names that its trainer logs later."""
    pairs = dict_numbers(text)
    values = {f"fully_async/{key}": number for key, number in pairs.values.items()}
    if not values:
        return ()
    return (Record(values, None, first.time_s, _labels(first), "verl", str(first.number), pairs.cut),)


class StartCommand:
    """The shell's echo of the start: `python3 -m verl.trainer.main_ppo key=value ...` states the configuration."""

    _module = re.compile(r"-m\s+((?:verl|recipe)[\w.]*)\s")

    def feed(self, line: Line) -> Iterable[Item]:
        found = self._module.search(line.text)
        if found is None:
            return ()
        flat = parse_overrides(line.text[found.end() :])
        if not flat:
            return ()
        return (Configuration({**flat, "entry_point": found.group(1)}, "verl", str(line.number)),)

    def flush(self) -> Iterable[Item]:
        return ()
