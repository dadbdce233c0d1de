"""A Prometheus server as a feed: the raw samples since the last look, handed on as if we had scraped them ourselves.

Asking for what was scraped (`name[30s]`) instead of for rates leaves one place that knows of counter resets, ranks,
replicas that are gone and steps that a gauge shows many times: tuner/ingest. It also sees no target that died: such a
series has no new samples, while an instant query would repeat its last one for five minutes.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from time import monotonic

from tuner.feeds.base import Cursor, Poll
from tuner.feeds.contract import Contract, contract_of
from tuner.feeds.http import Access, UnansweredError
from tuner.feeds.prometheus_server import Answer, Series, Server
from tuner.feeds.promql import checked_match, groups, matchers, metric_names, selector, since
from tuner.feeds.scraped import Scrapes
from tuner.frameworks.base import Framework
from tuner.records import Item, Remark

THREADS = 4
"""Questions at the same time; a server answers more one after another anyway."""
OVERLAP_S = 5.0
"""Asked for again: a scrape is stored a moment after the time it bears, and each target has its own."""
BACKLOG_S, ENGINE_BACKLOG_S = 3600.0, 120.0
"""At the first look: a trainer's gauges are few, an engine fleet's are thousands."""
GAP_S_MAX = 600.0
"""Of an outage, read afterwards for engines."""
SILENT_S = 180.0
"""Three of the longest usual scrape intervals: a server without anything new for so long has lost the job."""
SKEW_S_MAX = 5.0
"""Two clocks further apart are told of; ages are by the server's own clock, so nothing else is wrong."""
SKEW_JITTER_S = 0.5
"""A difference of two clocks that changed by less did not change: it is the time on the wire."""
TOLD_MAX = 3


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to read from a server."""

    url: str
    frameworks: tuple[Framework, ...]
    match: Mapping[str, str] = field(default_factory=dict)
    """Labels that select this job's series among those of others."""
    access: Access = field(default_factory=Access)


@dataclass(slots=True)
class _Look:
    """One poll on its way."""

    now_s: float
    deadline_at: float
    server_s: float = 0.0
    skew_s: float = 0.0
    """The server's clock minus ours."""
    troubles: list[str] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)


class Prometheus:
    """See above. Every method may fail only by what it returns."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._match = checked_match(wanted.match)
        self._server = Server(wanted.url, wanted.access)
        self._threads: ThreadPoolExecutor | None = None
        self._late: set[Future[Answer]] = set()
        """Questions that outlived their poll: nothing new is asked before the server has let go of them."""
        self._heard_s: float | None = None
        """When something new was last read."""
        self._scrapes = Scrapes()

    @property
    def name(self) -> str:
        return f"prometheus+{self._wanted.url}"

    def poll(self, cursor: Cursor, now_s: float, deadline_s: float) -> Poll:
        look = _Look(now_s, monotonic() + deadline_s)
        self._late = {future for future in self._late if not future.done()}
        if self._late:
            return self._failed(cursor, f"{len(self._late)} questions of an earlier look are still unanswered")
        try:
            self._read_clock(look, cursor)
            return self._read_samples(look, cursor)
        except UnansweredError as fault:
            return self._failed(cursor, str(fault))

    def contract(self, frameworks: Sequence[Framework], deadline_s: float) -> Contract:
        """What the server has of ours, before a run."""
        match = "{" + ",".join(matchers(self._match)) + "}" if self._match else None
        try:
            names = self._server.names(match, monotonic() + deadline_s)
        except UnansweredError as fault:
            return Contract(self.name, failure=str(fault))
        return contract_of(self.name, names, frameworks)

    def _failed(self, cursor: Cursor, why: str) -> Poll:
        return Poll((), cursor, 1, 0, why)

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        self._server.close()

    # ---- the server itself ----

    def _read_clock(self, look: _Look, cursor: Cursor) -> None:
        """The server's time: all ages are measured by its clock, and told in ours."""
        began = monotonic()
        answer = self._server.query("vector(time())", look.deadline_at)
        if not answer.series:
            raise UnansweredError("it does not tell its time: not a Prometheus server")
        look.server_s = answer.series[0].latest
        skew_s = look.server_s - (look.now_s + (monotonic() - began) / 2)
        known_s = cursor.get("skew_s")
        steady = isinstance(known_s, float) and abs(known_s - skew_s) < SKEW_JITTER_S
        look.skew_s = float(known_s) if steady and known_s is not None else skew_s
        if abs(look.skew_s) > SKEW_S_MAX and not steady:
            side = "ahead of" if look.skew_s > 0 else "behind"
            detail = f"the server's clock is {abs(look.skew_s):.0f} s {side} ours; ages are by its clock"
            look.remarks.append(Remark("clock-skew", detail, self.name))

    # ---- samples ----

    def _read_samples(self, look: _Look, cursor: Cursor) -> Poll:
        questions = list(self._questions(look, cursor))
        answers = self._ask(look, questions)
        targets = answers.pop(None, None)
        if targets is not None:
            self._scrapes.targets(targets.series)
        items: list[Item] = []
        for framework, series in answers_by(answers, questions):
            items += self._scrapes.items(framework, series, look.skew_s, self.name)
        if items:
            self._heard_s = look.now_s
        elif self._heard_s is None or look.now_s - self._heard_s > SILENT_S:
            return self._failed(cursor, self._nothing())
        items.sort(key=_time_of)
        return self._told(look, items, cursor)

    def _questions(self, look: _Look, cursor: Cursor) -> Iterator["_Question"]:
        """One a framework and portion of its names. A name that the server does not know costs it nothing."""
        until_s = cursor.get("until_s")
        for framework in self._wanted.frameworks:
            back_s = _back_s(look.server_s, until_s if isinstance(until_s, float) else None, framework.engine)
            for portion in groups(metric_names(framework)):
                yield _Question(framework.name, since(selector(portion, self._match), back_s))

    def _ask(self, look: _Look, questions: Sequence["_Question"]) -> "dict[_Question | None, Answer]":
        """The answers that came in time; the others are troubles."""
        self._threads = self._threads or ThreadPoolExecutor(THREADS, thread_name_prefix="prometheus")
        asked: dict[Future[Answer], _Question | None] = {}
        for question in (None, *questions):
            promql = question.promql if question is not None else selector(["up"], self._match)
            asked[self._threads.submit(self._server.query, promql, look.deadline_at, look.server_s)] = question
        done, late = wait(asked, timeout=max(0.0, look.deadline_at - monotonic()))
        self._late = {future for future in late if not future.cancel()}
        look.troubles += ["no answer in time"] * len(late)
        answers: dict[_Question | None, Answer] = {}
        for future in done:
            fault = future.exception()
            if fault is None:
                answers[asked[future]] = future.result()
            elif isinstance(fault, UnansweredError):
                look.troubles.append(str(fault))
            else:
                raise fault
        if not any(question is not None for question in answers):
            raise UnansweredError(look.troubles[0] if look.troubles else "no answer")
        warnings = dict.fromkeys(text for answer in answers.values() for text in answer.warnings)
        look.remarks += [Remark("server-warning", text, self.name) for text in list(warnings)[:TOLD_MAX]]
        return answers

    def _told(self, look: _Look, items: Sequence[Item], cursor: Cursor) -> Poll:
        asked, answered = self._scrapes.coverage()
        if look.troubles:
            told = "; ".join(dict.fromkeys(look.troubles))
            detail = f"{len(look.troubles)} questions were not answered: {told}"
            look.remarks.append(Remark("partial-answer", detail, self.name))
        silent = self._scrapes.silent()
        if silent:
            more = f" and {len(silent) - TOLD_MAX} more" if len(silent) > TOLD_MAX else ""
            detail = f"the server cannot scrape {', '.join(silent[:TOLD_MAX])}{more}"
            look.remarks.append(Remark("silent-targets", detail, self.name))
        # After a partial answer the time stays: what a silent question missed is asked for again.
        until_s = cursor.get("until_s", look.server_s) if look.troubles else look.server_s
        going_on: Cursor = {"until_s": float(until_s), "skew_s": look.skew_s}
        asked += len(look.troubles)
        return Poll((*look.remarks, *items), going_on, max(1, asked), answered if asked else 1)

    def _nothing(self) -> str:
        """The server answers, and has nothing of ours: an empty one after a restart, or another job's."""
        of = f" with {', '.join(f'{k}={v}' for k, v in self._match.items())}" if self._match else ""
        wanted = ", ".join(f.name for f in self._wanted.frameworks if metric_names(f))
        return f"it has no new series{of} of {wanted}; check that it scrapes the job, and the labels of `match`"


@dataclass(frozen=True, slots=True)
class _Question:
    framework: str
    promql: str


def answers_by(
    answers: "Mapping[_Question | None, Answer]", questions: Sequence[_Question]
) -> Iterator[tuple[str, list[Series]]]:
    """The series of each framework, whose names may have been asked for in several portions."""
    for framework in dict.fromkeys(question.framework for question in questions):
        own = [q for q in questions if q.framework == framework and q in answers]
        yield framework, [series for question in own for series in answers[question].series]


def _back_s(server_s: float, until_s: float | None, engine: bool) -> float:
    """How far back to ask: to the last look and a little more, after an outage of engines not for ever."""
    if until_s is None or until_s > server_s:
        return ENGINE_BACKLOG_S if engine else BACKLOG_S
    return min(server_s - until_s + OVERLAP_S, GAP_S_MAX if engine else BACKLOG_S)


def _time_of(item: Item) -> float:
    time_s = getattr(item, "time_s", None)
    return 0.0 if time_s is None else float(time_s)
