"""`files/config.yaml`: the run's configuration, each top key as `{value: ..., desc: ...}`."""

import re
from collections.abc import Iterable, Iterator

from tuner.parsing.configuration import flatten, parse_yaml
from tuner.records import Configuration, Item
from tuner.sources.base import Format, Opened
from tuner.sources.wandb.small import text_of, unreadable

_WRAPPED = re.compile(rb"^[^\s#].*:[ \t]*\n(?:  +desc:.*\n)?(?:  +)value:", re.MULTILINE)
_OWN_KEY = re.compile(rb"^(?:_wandb|wandb_version):", re.MULTILINE)


def claims(name: str, head: bytes) -> float:
    """Above the general configuration source where W&B's own keys or wrapping are seen."""
    if not name.endswith((".yaml", ".yml")) or not _WRAPPED.search(head.replace(b"\r\n", b"\n")):
        return 0.0
    return 0.98 if _OWN_KEY.search(head) else 0.0


def read(opened: Opened, formats: Iterable[Format]) -> Iterator[Item]:
    text = text_of(opened)
    if not isinstance(text, str):
        yield text
        return
    documents, why = parse_yaml(text)
    document = documents[0] if documents else None
    if not isinstance(document, dict):
        yield unreadable(opened, why or "no mapping of keys")
        return
    values = {
        str(key): wrapped["value"]
        for key, wrapped in document.items()
        if isinstance(wrapped, dict) and "value" in wrapped and not str(key).startswith("_wandb")
    }
    settings = flatten(values)
    if settings:
        yield Configuration(settings, origin=opened.origin)
