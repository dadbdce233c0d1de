"""`files/wandb-summary.json`: the last value of each metric, as one record."""

import re
from collections.abc import Iterable, Iterator

from tuner.parsing.configuration import parse_json
from tuner.records import Item, Record
from tuner.sources.base import Format, Opened
from tuner.sources.wandb.small import text_of, unreadable
from tuner.sources.wandb.values import numbers, split_clock

_OWN_KEY = re.compile(rb'"(?:_step|_runtime|_wandb|_timestamp)"\s*:')


def claims(name: str, head: bytes) -> float:
    if not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return 0.0
    if name.endswith("wandb-summary.json"):
        return 0.98
    # One object over several lines or one line with nothing after it: JSONL of such rows belongs to another source.
    return 0.7 if _OWN_KEY.search(head) and not re.search(rb"}\s*{", head) and name.endswith(".json") else 0.0


def read(opened: Opened, formats: Iterable[Format]) -> Iterator[Item]:
    text = text_of(opened)
    if not isinstance(text, str):
        yield text
        return
    summary, why = parse_json(text)
    if not isinstance(summary, dict):
        yield unreadable(opened, why or "no JSON object")
        return
    values, step, time_s = split_clock(numbers((str(key), value) for key, value in summary.items()), None)
    if values:
        yield Record(values, step, time_s, origin=f"{opened.origin}:1")
