"""From a SOURCE as a user writes it to the feed behind it."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tuner.errors import ConfigError
from tuner.feeds.base import Source
from tuner.feeds.http import Access, checked_url
from tuner.feeds.scrape import Scrape
from tuner.feeds.tail import Tail
from tuner.sources.base import Format

SCRAPE = "scrape+"
METRICS_PATH = "/metrics"


@dataclass(frozen=True, slots=True)
class Options:
    """What a job file says beside the SOURCE itself."""

    access: Access = field(default_factory=Access)
    kind: str | None = None
    """Of a file: console, jsonl, csv, prometheus; found where absent."""


def source_of(text: str, formats: Iterable[Format], options: Options | None = None) -> Source:
    """`scrape+http(s)://host:port[/path]` or the path of a file that grows. Raises ConfigError."""
    wanted = options or Options()
    if text.startswith(SCRAPE):
        url = with_path(checked_url(text.removeprefix(SCRAPE)))
        return Source(Scrape(text, lambda: (url,), wanted.access), "prometheus", sampled=True)
    if "://" in text:
        raise ConfigError(
            f"{text.split('@')[-1][:200]}: unknown kind of source; write scrape+http://host:port or a path"
        )
    return Source(Tail(text, formats, wanted.kind), wanted.kind or "file")


def with_path(url: str) -> str:
    """The URL with /metrics where it names a server only."""
    return url if "/" in url.split("://", 1)[1] else url + METRICS_PATH
