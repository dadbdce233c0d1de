"""Reads a job's sources to what is known of it: `read` is the way in for every command."""

import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING, BinaryIO

from tuner.errors import ConfigError, SourceError
from tuner.frameworks.base import Framework
from tuner.frameworks.registry import FRAMEWORKS, by_name
from tuner.ingest.collecting import Collector, Span
from tuner.ingest.joining import Joiner, Reading, SourceRead
from tuner.ingest.lately import duration_s
from tuner.ingest.matching import NEUTRAL, Detector, Matcher
from tuner.ingest.translating import Provenance
from tuner.records import Remark
from tuner.sources.base import Format, Opened
from tuner.sources.registry import kind_of, open_sources

if TYPE_CHECKING:
    from tuner.config import JobFile

DIGITS_MAX = 15
"""Digits of a step number or of a count of steps that a user types."""

Progress = Callable[[int, int | None], None]
"""(bytes read so far, bytes in all where known)."""


def read(
    paths: Sequence[str],
    *,
    framework: str = "auto",
    since: str | None = None,
    last: int | str | None = None,
    config: "JobFile | None" = None,
    stdin: BinaryIO | None = None,
    progress: Progress | None = None,
) -> Reading:
    """Reads files, folders and `-`. Raises SourceError when no record was found, ConfigError for a wrong wish."""
    frameworks = frameworks_named(framework)
    matchers = {f.name: Matcher(f) for f in frameworks}
    detector, formats = Detector(list(matchers.values())), formats_of(frameworks)
    provenance, span = Provenance(), span_of(since, last)
    forced = {s.path: s.kind for s in config.source} if config is not None else {}
    done: list[SourceRead] = []
    remarks: list[Remark] = []
    for opened in _opened(paths, stdin, progress, remarks):
        collector = Collector(matchers, detector, span, provenance)
        try:
            kind = kind_of(opened, forced.get(opened.origin))
            done.append(SourceRead(kind.name, opened.origin, collector.take(kind.read(opened, formats))))
        except SourceError as error:
            remarks.append(Remark("unreadable-source", str(error)))
    asked = f"--framework {framework}" if framework != "auto" else ""
    if since is not None:
        asked = " ".join(filter(None, (asked, f"--since {since}")))
    last_s = duration_s(str(last)) if last is not None else None
    return Joiner(matchers, provenance, config, tuple(remarks), asked, last_s).reading(done)


def span_of(since: str | None, last: int | str | None) -> Span:
    """`--since` is a step or an ISO time; `--last` a number of steps or a duration, which the joiner cuts off."""
    count = _whole(str(last)) if last is not None else None
    if last is not None and not count and duration_s(str(last)) is None:
        raise ConfigError(f"--last {str(last)[:40]}: must be a number of steps (50) or a duration (90s, 10m, 2h, 1d)")
    if since is None:
        return Span(last=count)
    step = _whole(since)
    if step is not None:
        return Span(since_step=step, last=count)
    try:
        moment = datetime.fromisoformat(since)
    except ValueError:
        raise ConfigError(f"--since {since[:40]}: must be a step (120) or an ISO time (2026-03-22T13:50)") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return Span(since_s=moment.timestamp(), last=count)


def _whole(text: str) -> int | None:
    """The number that the whole text is, in plain digits and of a size that counts something; else None."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= DIGITS_MAX else None


def frameworks_named(framework: str) -> tuple[Framework, ...]:
    """The forced framework, first, beside all engines; or everything."""
    if framework == "auto":
        return (*FRAMEWORKS, NEUTRAL)
    chosen = NEUTRAL if framework == NEUTRAL.name else by_name(framework)
    if chosen is None:
        names = [f.name for f in FRAMEWORKS]
        near = get_close_matches(framework.lower(), names, n=1, cutoff=0.6)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ConfigError(f"framework={framework!r}: unknown; {hint}Known: auto, {', '.join(names)}")
    return (chosen, *(f for f in FRAMEWORKS if f.engine and f is not chosen))


def formats_of(frameworks: Sequence[Framework]) -> tuple[Format, ...]:
    """Every line format of these frameworks, as the reader of a console log wants them."""
    owned = ((f.name, x) for f in frameworks for x in f.formats)
    return tuple(Format(name, x.name, x.markers, x.parser, x.block, x.faint, x.shared) for name, x in owned)


def _opened(
    paths: Sequence[str], stdin: BinaryIO | None, progress: Progress | None, remarks: list[Remark]
) -> Iterator[Opened]:
    done = 0
    for item in open_sources(paths, stdin if stdin is not None else sys.stdin.buffer):
        if isinstance(item, Remark):
            remarks.append(item)
            continue
        yield item
        done += item.size_bytes or 0
        if progress is not None:
            progress(done, None)
