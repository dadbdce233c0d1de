"""The currency between sources, frameworks and ingest: raw records under the framework's own names."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(slots=True)
class Record:
    """One row that some writer logged: raw keys and finite-or-not floats as written (NaN and Inf still inside).

    Never changed once its reader has noted its place, and yet not frozen: a log has hundreds of thousands, and
    freezing makes each cost four.
    """

    values: Mapping[str, float]
    step: int | None = None
    time_s: float | None = None
    """Unix seconds; for a console line with a time of day only, seconds of that day plus whole days passed."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Who speaks: `engine`, `tp_rank`, `writer`, ... Ranks and replicas are told apart by these."""
    framework: str | None = None
    """Set by a framework's own line format; None: found by its keys."""
    origin: str = ""
    """`file:line` for messages."""
    cut: bool = False
    """True when the record's line starts or ends in the middle."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """A resolved configuration: flat dotted keys (`trainer.nnodes`, `rollout_batch_size`) and plain values."""

    values: Mapping[str, object]
    framework: str | None = None
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Remark:
    """Something a reader should know of the bytes: an odd line skipped, a section cut. Code as in simulators.Note."""

    code: str
    detail: str
    origin: str = ""


Item = Record | Configuration | Remark
"""What a source yields, in file order."""


@dataclass(slots=True)
class Line:
    """One cleaned console line: no colour, no progress-bar rewrites, no process prefix. Not frozen, as a Record."""

    text: str
    number: int
    speaker: str | None = None
    """What a Ray prefix said: `TaskRunner pid=16292`."""
    time_s: float | None = None
    """Where the line itself starts with a time."""
    cut: bool = False


class LineParser(Protocol):
    """Turns the lines of one speaker into records; keeps what it must remember between lines of a block."""

    def feed(self, line: Line) -> Iterable[Item | None]:
        """None: the line is taken, and what it says is told with a later one."""
        ...

    def flush(self) -> Iterable[Item]:
        """The block that was still open when the file ended."""
        ...
