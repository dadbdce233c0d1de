"""All kinds of sources. A new kind is one file and one line here."""

from collections.abc import Iterable, Iterator
from typing import BinaryIO

from tuner.records import Remark
from tuner.sources import (
    configuration,
    console,
    detection,
    jsonl,
    opening,
    prometheus_text,
    table,
    tensorboard,
    trainer_state,
    wandb,
)
from tuner.sources.base import Kind, Opened

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
    return detection.best_kind(KINDS, name, head)[0]


def kind_of(opened: Opened, forced: str | None = None) -> Kind:
    """The kind to read an opened file with; raises SourceError when none fits or `forced` is unknown."""
    return detection.kind_of(KINDS, opened, forced)


def open_sources(paths: Iterable[str], stdin: BinaryIO) -> Iterator[Opened | Remark]:
    """Files, folders and `-` as opened streams in order; what is skipped as remarks."""
    return opening.open_sources(paths, stdin, _may_hold_metrics)


def _may_hold_metrics(name: str, head: bytes) -> bool:
    return detection.best_kind(KINDS, name, head)[1] >= detection.IN_FOLDER_MIN
