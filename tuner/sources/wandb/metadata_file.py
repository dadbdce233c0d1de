"""`files/wandb-metadata.json`: the command's arguments and the GPUs of the machine that logged."""

import re
from collections.abc import Iterable, Iterator

from tuner.parsing.configuration import parse_json, parse_tokens
from tuner.records import Configuration, Item
from tuner.sources.base import Format, Opened
from tuner.sources.wandb.small import text_of, unreadable

_STARTED = re.compile(rb'"startedAt"\s*:')
_PROGRAM = re.compile(rb'"(?:program|codePath|executable|host)"\s*:')


def claims(name: str, head: bytes) -> float:
    if not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return 0.0
    if name.endswith("wandb-metadata.json"):
        return 0.98
    return 0.9 if _STARTED.search(head) and _PROGRAM.search(head) else 0.0


def read(opened: Opened, formats: Iterable[Format]) -> Iterator[Item]:
    text = text_of(opened)
    if not isinstance(text, str):
        yield text
        return
    metadata, why = parse_json(text)
    if not isinstance(metadata, dict):
        yield unreadable(opened, why or "no JSON object")
        return
    arguments = metadata.get("args")
    words = [word for word in arguments if isinstance(word, str)] if isinstance(arguments, list) else []
    settings = parse_tokens(words)
    count, gpu = metadata.get("gpu_count"), metadata.get("gpu")
    if isinstance(count, int) and 0 < count < 1 << 20:
        settings["environment.gpu_count"] = count
    if isinstance(gpu, str):
        settings["environment.gpu_type"] = gpu
    if settings:
        yield Configuration(settings, origin=opened.origin)
