"""From the samples that a Prometheus server stored back to the scrapes that they came from."""

from collections.abc import Iterable, Iterator, Mapping

from tuner.feeds.http import UnansweredError
from tuner.feeds.prometheus_server import ODD_FORM, Series
from tuner.records import Configuration, Item, Record
from tuner.sources import prometheus_text
from tuner.sources.prometheus_text import SPEAKERS, parted

SERIES_MAX = 30_000
"""Series whose labels are remembered, parted; beyond it they are learnt anew."""
TARGETS_MAX = 20_000
GONE_S = 3600.0
"""Farther back than this nothing is asked for."""
SERVER_COPIES = frozenset({"prometheus_replica", "__replica__"})
"""Of two servers that scrape the same, one counts."""

_Moments = dict[tuple[float, object], dict[prometheus_text.Series, float]]
"""(time, who speaks) -> what was said then."""
Labels = tuple[tuple[str, str], ...]
Target = tuple[str, str]
"""Its labels job and instance."""


class Scrapes:
    """Remembers of each target what was handed on, so that what is asked for twice counts once."""

    def __init__(self) -> None:
        self._known: dict[Labels, prometheus_text.Series] = {}
        self._until: dict[tuple[str, object], float] = {}
        """Newest time handed on, by framework and target; by series where it has none (recording rules)."""
        self._up: dict[Target, bool] = {}
        self._labels: dict[Target, frozenset[str]] = {}
        self._jobs: set[str] = set()

    def targets(self, up: Iterable[Series]) -> None:
        """From the series `up`: which targets there are, whether they answer, and the labels that belong to them."""
        before, self._up, self._labels = self._labels, {}, {}
        for series in up:
            target = _target(series.labels)
            self._up[target] = series.latest == 1.0
            self._labels[target] = frozenset(series.labels) - {"__name__"}
        if any(before.get(target) != labels for target, labels in self._labels.items() if target[0] in self._jobs):
            self._known.clear()

    def coverage(self) -> tuple[int, int]:
        """Targets of the jobs that speak of ours, and those of them that the server reaches."""
        ours = [alive for (job, _), alive in self._up.items() if job in self._jobs]
        return len(ours), sum(ours)

    def silent(self) -> list[str]:
        return sorted(instance for (job, instance), alive in self._up.items() if job in self._jobs and not alive)

    def items(self, framework: str, found: Iterable[Series], skew_s: float, origin: str) -> Iterator[Item]:
        """What is new, moment by moment, in our own time. Raises UnansweredError for samples that are none."""
        try:
            scrapes = self._new(framework, found)
        except (AttributeError, TypeError, ValueError):
            raise UnansweredError(ODD_FORM) from None
        for at_s, who in sorted(scrapes, key=lambda moment: moment[0]):
            self._note(framework, who, at_s)
            for item in prometheus_text.items_of(scrapes[at_s, who], (None, at_s - skew_s), origin):
                yield _owned(item, framework)

    def _new(self, framework: str, found: Iterable[Series]) -> "_Moments":
        scrapes: _Moments = {}
        for series in found:
            key = tuple(series.labels.items())
            known = self._known.get(key) or self._learn(key, series.labels)
            who: object = _target(series.labels) if "instance" in series.labels else known
            after_s = self._until.get((framework, who), 0.0)
            for at_s, value in series.samples:
                if at_s > after_s:
                    scrapes.setdefault((at_s, who), {}).setdefault(known, float(value))
        return scrapes

    def _note(self, framework: str, who: object, at_s: float) -> None:
        """What was handed on; of targets that are long gone nothing is asked again."""
        if len(self._until) >= TARGETS_MAX:
            self._until = {key: until_s for key, until_s in self._until.items() if until_s > at_s - GONE_S}
        self._until[framework, who] = at_s

    def _learn(self, key: Labels, labels: Mapping[str, str]) -> prometheus_text.Series:
        target = _target(labels)
        self._jobs.add(target[0])
        speakers = SPEAKERS | self._labels.get(target, frozenset())
        own = {k: v for k, v in labels.items() if k != "__name__" and k not in SERVER_COPIES}
        series = parted(labels.get("__name__", ""), own, speakers)
        if len(self._known) >= SERIES_MAX:
            self._known.clear()
        self._known[key] = series
        return series


def _owned(item: Record | Configuration, framework: str) -> Item:
    if isinstance(item, Record):
        return Record(item.values, None, item.time_s, item.labels, framework, item.origin)
    return Configuration(item.values, framework, item.origin)


def _target(labels: Mapping[str, str]) -> Target:
    return str(labels.get("job", "")), str(labels.get("instance", ""))
