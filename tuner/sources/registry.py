"""All kinds of sources, and which of them a file is. A new kind is one file and one line here."""

from collections.abc import Iterable, Iterator
from typing import BinaryIO

from tuner.errors import SourceError
from tuner.records import Remark
from tuner.sources import (
    configuration,
    console,
    jsonl,
    opening,
    prometheus_text,
    table,
    tensorboard,
    trainer_state,
    wandb,
)
from tuner.sources.base import Kind, Opened
from tuner.sources.lines import looks_binary
from tuner.sources.opening import head_of, name_of

IN_FOLDER_MIN = 0.25
"""A file that nobody named must be likelier than `some text` to be read."""

KINDS: tuple[Kind, ...] = (
    tensorboard.KIND,
    *wandb.KINDS,
    trainer_state.KIND,
    prometheus_text.KIND,
    jsonl.KIND,
    table.KIND,
    configuration.KIND,
    console.KIND,
)
"""Where two kinds are equally sure, the earlier one reads."""


def detect(name: str, head: bytes) -> Kind | None:
    """The kind that is surest of a file's name and first bytes; None when none wants it."""
    return _surest(name, head)[0]


def kind_of(opened: Opened, forced: str | None = None) -> Kind:
    """The kind to read an opened file with; raises SourceError that says what was found and what is read."""
    known = ", ".join(kind.name for kind in KINDS)
    if forced is not None:
        named = next((kind for kind in KINDS if kind.name == forced), None)
        if named is None:
            raise SourceError(f"{opened.origin}: {forced!r} is no kind of source; known are {known}")
        return named
    head = head_of(opened)
    kind = detect(name_of(opened), head)
    if kind is None:
        what = f"binary data ({head[:8].hex(' ')} ...)" if looks_binary(head) else f"{head[:40]!r}"
        raise SourceError(f"{opened.origin}: found {what}; read are {known}: give the job's log or metrics file")
    return kind


def open_sources(paths: Iterable[str], stdin: BinaryIO) -> Iterator[Opened | Remark]:
    """Files, folders and `-` as opened streams in order; what is skipped as remarks."""
    return opening.open_sources(paths, stdin, _may_hold_metrics)


def _may_hold_metrics(name: str, head: bytes) -> bool:
    return _surest(name, head)[1] >= IN_FOLDER_MIN


def _surest(name: str, head: bytes) -> tuple[Kind | None, float]:
    best: Kind | None = None
    surest = 0.0
    for kind in KINDS:
        claim = kind.claims(name, head)
        if claim > surest:
            best, surest = kind, claim
    return best, surest
