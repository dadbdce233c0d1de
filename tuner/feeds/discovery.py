"""From a SOURCE as a user writes it to the feed behind it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tuner.errors import ConfigError
from tuner.feeds.base import Feed, Source
from tuner.feeds.http import Access, checked_url
from tuner.feeds.scrape import Scrape
from tuner.feeds.tail import Tail
from tuner.frameworks.base import Framework
from tuner.sources.base import Format

PROMETHEUS, SCRAPE = "prometheus+", "scrape+"
METRICS_PATH = "/metrics"


@dataclass(frozen=True, slots=True)
class Options:
    """What is known beside the SOURCE itself."""

    frameworks: tuple[Framework, ...]
    """Whose metrics a Prometheus server is asked for."""
    formats: tuple[Format, ...]
    """Of the lines of a console log."""
    access: Access = field(default_factory=Access)
    kind: str | None = None
    """Of a file: console, jsonl, csv, prometheus; found where absent."""
    match: Mapping[str, str] = field(default_factory=dict)
    """Of a Prometheus server: the labels of this job's series."""


def source_of(text: str, wanted: Options) -> Source:
    """A Prometheus server, one engine's own /metrics, or the path of a file that grows. Raises ConfigError."""
    if text.startswith(PROMETHEUS):
        return Source(_prometheus(text, wanted), "prometheus", sampled=True)
    if text.startswith(SCRAPE):
        url = with_path(checked_url(text.removeprefix(SCRAPE)))
        return Source(Scrape(text, lambda: (url,), wanted.access), "prometheus", sampled=True)
    if "://" in text:
        raise ConfigError(
            f"{text.split('@')[-1][:200]}: unknown kind of source; write scrape+http://host:port or a path"
        )
    return Source(Tail(text, wanted.formats, wanted.kind), wanted.kind or "file")


def _prometheus(text: str, options: Options) -> Feed:
    from tuner.feeds.prometheus import Prometheus, Wanted  # noqa: PLC0415  (its client takes a quarter of a second)

    url = checked_url(text.removeprefix(PROMETHEUS))
    return Prometheus(Wanted(url, options.frameworks, options.match, options.access))


def with_path(url: str) -> str:
    """The URL with /metrics where it names a server only."""
    return url if "/" in url.split("://", 1)[1] else url + METRICS_PATH
