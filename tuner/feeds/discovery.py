"""From a SOURCE as a user writes it to the feed behind it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tuner.errors import ConfigError
from tuner.feeds.base import Source
from tuner.feeds.http import Access, checked_url
from tuner.feeds.mlflow_run import MlflowRun
from tuner.feeds.scrape import Scrape, Targets
from tuner.feeds.tail import Tail
from tuner.feeds.targets import TargetList, with_path
from tuner.feeds.wandb_run import WandbRun
from tuner.frameworks.base import Framework
from tuner.sources.base import Format

if TYPE_CHECKING:
    from tuner.feeds.prometheus import Prometheus

PROMETHEUS, SCRAPE, MLFLOW, WANDB = "prometheus+", "scrape+", "mlflow+", "wandb+"
LIST = "file:"
TRACKERS = "mlflow+URI/RUN_ID, wandb+ENTITY/PROJECT/RUN_ID"


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
    """The live source behind a SOURCE. Raises ConfigError.

    `prometheus+http(s)://host:port[/path]`, `scrape+http(s)://host:port[/path]`, `scrape+file:LIST` with a list of what
    to scrape (tuner/feeds/targets.py), `mlflow+TRACKING_URI/RUN_ID`, or the path of a file that grows.
    """
    if text.startswith(PROMETHEUS):
        server = _prometheus(text, wanted)
        return Source(server, "prometheus", True, contracting=server)
    if text.startswith(SCRAPE):
        scrape = Scrape(text, _targets(text.removeprefix(SCRAPE)), wanted.access)
        return Source(scrape, "prometheus", True, SCRAPE, scrape)
    if text.startswith(MLFLOW):
        return Source(MlflowRun(text.removeprefix(MLFLOW)), "mlflow")
    if text.startswith(WANDB):
        return Source(WandbRun(text.removeprefix(WANDB)), "wandb")
    if "://" in text:
        known = f"prometheus+http://host:port, scrape+http://host:port, scrape+file:LIST, {TRACKERS} or a path"
        raise ConfigError(f"{text.split('@')[-1][:200]}: unknown kind of source; write {known}")
    return Source(Tail(text, wanted.formats, wanted.kind), wanted.kind or "file")


def _targets(where: str) -> Targets:
    if where.startswith(LIST):
        return TargetList(where.removeprefix(LIST).removeprefix("//"))
    url = with_path(checked_url(where))
    return lambda: (url,)


def _prometheus(text: str, options: Options) -> "Prometheus":
    from tuner.feeds.prometheus import Prometheus, Wanted  # noqa: PLC0415  (its client takes a quarter of a second)

    url = checked_url(text.removeprefix(PROMETHEUS))
    return Prometheus(Wanted(url, options.frameworks, options.match, options.access))
