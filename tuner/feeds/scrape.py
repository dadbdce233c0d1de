"""Direct scraping: the /metrics of engines, routers and trainers, all at once, without a Prometheus server between."""

import io
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import lru_cache
from time import monotonic
from urllib.parse import urlsplit

from tuner.errors import SourceError
from tuner.feeds.base import Cursor, Poll
from tuner.feeds.contract import Contract, contract_of
from tuner.feeds.http import Access, Client, UnansweredError
from tuner.feeds.targets import METRICS_PATH
from tuner.frameworks.base import Framework
from tuner.records import Configuration, Item, Record, Remark
from tuner.sources import prometheus_text
from tuner.sources.base import Opened

BYTES_MAX = 16 << 20
"""Of one target's answer: an engine's is some 100 kB, a router's with all its engines some MB."""
TARGETS_MAX = 4096
THREADS_MAX = 16
"""Targets asked at the same time; each answers in milliseconds."""
LABEL = "instance"
"""Who answered, as Prometheus names it."""
SERIES_MAX = 200_000
"""Series remembered, at most: of 4,096 engines some 50 each."""
STALE_RATIO = 2.0
"""Series remembered for each one that a poll asks for."""
TOLD_MAX = 3
"""Silent targets named in a message."""
SKIPPED = (b"_bucket{", b"_created{", b"_created ")
"""In lines that no signal needs: most of an engine's answer."""

Targets = Callable[[], tuple[str, ...]]
"""The URLs to scrape now; raises SourceError where the list cannot be read."""


@dataclass(frozen=True, slots=True)
class _Answer:
    target: str
    items: tuple[Item, ...] = ()
    trouble: str = ""
    again: bool = False


class _Known:
    """Series that were parsed before: of the engines that serve now, not of all that came and went in a month."""

    def __init__(self) -> None:
        self.parse = lru_cache(maxsize=SERIES_MAX)(prometheus_text.series_in)
        self._asked = 0

    def forget(self) -> None:
        """Once most of what is remembered was not asked for since the last time, all of it is learnt anew."""
        info = self.parse.cache_info()
        asked = info.hits + info.misses
        if info.currsize > STALE_RATIO * (asked - self._asked):
            self.parse.cache_clear()
            asked = 0
        self._asked = asked


class Scrape:
    """Asks every target once a poll; what one does not answer says nothing of the others."""

    def __init__(self, name: str, targets: Targets, access: Access | None = None) -> None:
        self._name = name
        self._targets = targets
        self._client = Client(access or Access(), connections=TARGETS_MAX)
        self._known = _Known()
        self._threads: ThreadPoolExecutor | None = None
        self._waiting: set[str] = set()
        """Targets whose last answer still is awaited: they are not asked again meanwhile."""

    @property
    def name(self) -> str:
        return self._name

    @property
    def remembered(self) -> int:
        """Series whose parsed labels are kept."""
        return self._known.parse.cache_info().currsize

    def poll(self, cursor: Cursor, now_s: float, deadline_s: float) -> Poll:
        del cursor
        try:
            targets = tuple(dict.fromkeys(self._targets()))[:TARGETS_MAX]
        except SourceError as fault:
            return Poll(asked=0, answered=0, failure=str(fault))
        if not targets:
            return Poll(asked=0, answered=0, failure=f"{self._name}: no target is listed; add one")
        answers = self._ask(targets, now_s, monotonic() + deadline_s)
        self._known.forget()
        silent = [answer for answer in answers if answer.trouble]
        told = "; ".join(f"{a.target}: {a.trouble}" for a in silent[:TOLD_MAX])
        more = f"; and {len(silent) - TOLD_MAX} more" if len(silent) > TOLD_MAX else ""
        if len(silent) == len(targets):
            return Poll((), {}, len(targets), 0, told + more)
        remarks = (Remark("silent-targets", told + more, self._name),) if silent else ()
        items = (*remarks, *(item for answer in answers for item in answer.items))
        return Poll(items, {}, len(targets), len(targets) - len(silent))

    def _ask(self, targets: tuple[str, ...], now_s: float, deadline_at: float) -> list[_Answer]:
        self._threads = self._threads or ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="scrape")
        busy = [_Answer(t, trouble="still silent since the last time") for t in targets if t in self._waiting]
        asked: dict[Future[_Answer], str] = {}
        for target in targets:
            if target not in self._waiting:
                self._waiting.add(target)
                asked[self._threads.submit(self._one, target, now_s, deadline_at)] = target
        for future, target in asked.items():
            future.add_done_callback(lambda _, target=target: self._waiting.discard(target))  # type: ignore[misc]
        done, late = wait(asked, timeout=max(0.0, deadline_at - monotonic()))
        slow = [_Answer(asked[future], trouble="no answer in time") for future in late if not future.cancel()]
        slow += [_Answer(asked[future], trouble="no time was left to ask") for future in late if future.cancelled()]
        found = sorted((future.result() for future in done), key=lambda answer: answer.target)
        return [*found, *slow, *busy]

    def _one(self, target: str, now_s: float, deadline_at: float) -> _Answer:
        began = monotonic()
        try:
            body = self._client.get(target, deadline_at, BYTES_MAX, "text/plain")
            moment = now_s + monotonic() - began
            return _Answer(target, tuple(items_of(body, target, moment, self._known.parse)))
        except UnansweredError as fault:
            return _Answer(target, trouble=str(fault), again=fault.again)
        except SourceError as fault:
            return _Answer(target, trouble=str(fault).removeprefix(f"{target}: "))

    def contract(self, frameworks: Sequence[Framework], deadline_s: float) -> Contract:
        """What the targets serve of ours, before a run."""
        try:
            targets = self._targets()
        except SourceError as fault:
            return Contract(self._name, failure=str(fault))
        names: set[str] = set()
        answers = self._ask(targets, 0.0, monotonic() + deadline_s)
        for item in (item for answer in answers for item in answer.items if isinstance(item, Record)):
            names.update(key.split("{")[0].split("/")[0] for key in item.values)
        if not names:
            return Contract(self._name, failure=answers[0].trouble if answers else "no target is listed; add one")
        return contract_of(self._name, names, frameworks)

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        self._client.close()


def items_of(body: bytes, target: str, time_s: float, parse: prometheus_text.Parse) -> Iterator[Item]:
    """The records of one answer, each under the name of who answered. Raises SourceError for what is no metrics text.

    A time that a sample itself carries is older than the scrape, and holds.
    """
    lines = [line for line in body.split(b"\n") if not line.startswith(b"#") and not any(s in line for s in SKIPPED)]
    parts = urlsplit(target)
    host = parts.netloc + ("" if parts.path == METRICS_PATH else parts.path)
    for item in prometheus_text.read(Opened(io.BytesIO(b"\n".join(lines)), target), (), parse):
        match item:
            case Record():
                stamp = item.time_s if item.time_s is not None else time_s
                yield Record(item.values, None, stamp, {LABEL: host, **item.labels}, origin=target)
            case Configuration():
                yield Configuration(item.values, item.framework, target)
            case Remark():
                yield item
