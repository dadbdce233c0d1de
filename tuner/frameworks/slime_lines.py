"""slime's console: dict lines of one rollout, notices of the fully asynchronous worker, the printed arguments."""

import re
from collections.abc import Iterable, Iterator

from tuner.parsing.configuration import parse_dotted_lines, parse_overrides
from tuner.parsing.lines import dict_numbers
from tuner.records import Configuration, Item, Line, Record

_DICT_LINE = re.compile(r"(?<![\w/])(perf|rollout|multi_turn|passrate|eval) (\d{1,12}): \{")
_ASYNC_LINE = re.compile(r"fully-async rollout (\d{1,12}): ")
_ASYNC_PAIR = re.compile(r"\b(target|queue_warm|queue|queue_left|elapsed)=(\d+(?:\.\d+)?)")
_ASYNC_DONE = re.compile(r"done in (\d+(?:\.\d+)?)s")
_BAR = re.compile(r"Rollout generation:\s+100%\|[^|]*\|\s*(\d{1,9})/(\d{1,9})\s*\[")

PERF = ("perf/", "rollout/", "multi_turn/", "passrate/", "eval/")
"""How the keys of these dicts start: the same words before a number occur in other logs."""
TIMING = "timing/"
"""How some forks write `perf/`."""


class SlimeLines:
    """Each dict is one record of its rollout; what the rollout manager said before its `perf N` joins that record."""

    def __init__(self) -> None:
        self._said: dict[str, float] = {}
        self._said_of: int | None = None

    def feed(self, line: Line) -> Iterator[Item]:
        text = line.text
        if (found := _DICT_LINE.search(text)) is not None:
            yield from self._dict(line, int(found.group(2)), text[found.end() - 1 :])
        elif (notice := _ASYNC_LINE.search(text)) is not None:
            yield from self._notice(line, int(notice.group(1)), text[notice.end() :])
        elif (bar := _BAR.search(text)) is not None and bar.group(1) == bar.group(2):
            self._said["progress/rollouts"] = float(bar.group(2))

    def _dict(self, line: Line, step: int, text: str) -> Iterator[Item]:
        pairs = dict_numbers(text)
        named = ((key.replace(TIMING, "perf/", key.startswith(TIMING)), n) for key, n in pairs.values.items())
        values = {key: number for key, number in named if key.startswith(PERF)}
        if not values:
            return
        if "perf/rollout_time" in values and self._said_of in (None, step):
            values |= self._said
            self._said, self._said_of = {}, None
        yield Record(values, step, line.time_s, _labels(line), "slime", cut=pairs.cut)

    def _notice(self, line: Line, step: int, text: str) -> Iterator[Item]:
        if self._said_of not in (None, step):
            yield from self.flush()
        self._said_of = step
        self._said |= {f"fully_async/{key}": float(number) for key, number in _ASYNC_PAIR.findall(text)}
        if (done := _ASYNC_DONE.search(text)) is not None:
            self._said["fully_async/done_s"] = float(done.group(1))

    def flush(self) -> Iterable[Item]:
        said, step = self._said, self._said_of
        self._said, self._said_of = {}, None
        return (Record(said, step, framework="slime"),) if step is not None and said else ()


def _labels(line: Line) -> dict[str, str]:
    return {"writer": line.speaker} if line.speaker else {}


OWN = frozenset(("rollout_batch_size", "rollout_function_path", "n_samples_per_prompt", "rollout_num_gpus"))
"""Arguments that slime adds to Megatron's, which prints the same kind of list."""

ARGUMENTS_MAX = 5_000
"""Lines of a list of arguments; a longer one is no such list."""


class Arguments:
    """Megatron's list `--- arguments ---`, `  name ....... value`, `--- end of arguments ---`, if it is slime's."""

    def __init__(self) -> None:
        self._lines: list[str] | None = None
        self._first = 0

    def feed(self, line: Line) -> Iterable[Item]:
        if "end of arguments" in line.text:
            return self.flush()
        if "arguments ---" in line.text:
            self._lines, self._first = [], line.number
        elif self._lines is not None and len(self._lines) < ARGUMENTS_MAX:
            self._lines.append(line.text)
        return ()

    def flush(self) -> Iterable[Item]:
        lines, self._lines = self._lines, None
        flat = parse_dotted_lines(lines or ())
        return (Configuration(flat, "slime", str(self._first)),) if OWN & flat.keys() else ()


class StartCommand:
    """The echo of the start, `python3 train_async.py --rollout-batch-size 32 ...`, states arguments and script."""

    _script = re.compile(r"\b(train(?:_async)?\.py)\s")

    def feed(self, line: Line) -> Iterable[Item]:
        found = self._script.search(line.text)
        flat = parse_overrides(line.text[found.end() :]) if found else {}
        if found is None or not OWN & flat.keys():
            return ()
        return (Configuration({**flat, "train_script": found.group(1)}, "slime", str(line.number)),)

    def flush(self) -> Iterable[Item]:
        return ()
