"""Hugging Face's trainer_state.json: the log history that a Trainer saves with each checkpoint."""

import json
from collections.abc import Iterable, Iterator, Mapping

from tuner.errors import SourceError
from tuner.records import Configuration, Item, Record, Remark
from tuner.sources.base import Format, Kind, Opened
from tuner.sources.flatten import flatten
from tuner.sources.lines import DOCUMENT_CAP_BYTES, head_text, looks_binary, whole_text

_HISTORY = '"log_history"'
_FACTS = ("max_steps", "num_train_epochs", "logging_steps", "eval_steps", "save_steps", "train_batch_size")
"""Top-level keys that state how the job is set, under the names that its own configuration uses."""


def read(opened: Opened, formats: Iterable[Format]) -> Iterator[Item]:
    """The settings, then the rows of the history in order; a file cut in the middle gives the rows before the cut."""
    del formats
    text = whole_text(opened)
    if text is None:
        raise SourceError(
            f"{opened.origin}: over {DOCUMENT_CAP_BYTES >> 20} MiB; give the console log or JSONL instead"
        )
    start = text.find("[", text.find(_HISTORY)) if _HISTORY in text else -1
    if start < 0:
        raise SourceError(f'{opened.origin}:1: no "log_history" in it; trainer_state.json of a Trainer has one')
    yield from _facts(text, opened.origin)
    rows, broken = 0, False
    for value in _elements(text, start):
        if isinstance(value, Remark):
            line = text.count("\n", 0, start) + 1
            yield Remark(value.code, f"after {rows} rows of the history: {value.detail}", f"{opened.origin}:{line}")
            broken = True
            break
        flat = flatten(value)
        rows += 1
        if flat.values:
            yield Record(
                flat.values, flat.step, flat.time_s, flat.labels, origin=f"{opened.origin}:log_history[{rows - 1}]"
            )
    if not rows and broken:
        raise SourceError(f"{opened.origin}: cut before the first whole row of its log history; copy the file again")
    if not rows:
        raise SourceError(f"{opened.origin}: an empty log history; the job had not logged yet (logging_steps)")


def _elements(text: str, start: int) -> Iterator[Mapping[str, object] | Remark]:
    """The objects of the array that opens at `start`; a Remark instead of what cannot be read."""
    decoder = json.JSONDecoder()
    at = start + 1
    while True:
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        if at < len(text) and text[at] == "]":
            return
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            yield Remark("truncated-record", "the file breaks off or is no JSON from there")
            return
        if isinstance(value, dict):
            yield value


def _facts(text: str, origin: str) -> Iterator[Configuration]:
    try:
        state = json.loads(text)
    except (ValueError, RecursionError):
        return
    if not isinstance(state, dict):
        return
    values = {key: state[key] for key in _FACTS if isinstance(state.get(key), (int, float))}
    if values:
        yield Configuration(values, origin=origin)


def claims(name: str, head: bytes) -> float:
    """Sure of an object that has a log history."""
    if looks_binary(head):
        return 0.0
    text = head_text(head).lstrip()
    if not text.startswith("{"):
        return 0.0
    if _HISTORY in text:
        return 0.98
    return 0.9 if name.lower().endswith("trainer_state.json") else 0.0


KIND = Kind("trainer-state", claims, read)
