"""What clients of sandbox providers log: starts, waits, ends, failures, limits. Counted into our own neutral names.

    started   verifiers `Created sandbox ID`, `prime: sandbox ID up` (modal, e2b alike)
    waits     `Waiting for sandbox ID to ...`, `Waited 12.3s for sandbox ...`; Prime's first use of an image
    ended     `Deleted sandbox ID`, `Bulk deleted ...`, uni-agent `... sandbox ID killed`
    failed    `... sandbox provisioning failed`, `Failed to create sandbox`, uni-agent `sandbox failed to start`
    limits    Modal `Insufficient capacity`, verifiers' creation limiter, HTTP 429 and 402 of Prime

As written by verifiers 0.1.9 to 0.4.0, uni-agent of August 2026, modal 1.6 and prime-sandboxes 0.5.
Where no line ever tells an end (verifiers since 0.4 logs none), nothing is said of how many live: absent, not 0.
"""

import re
from collections.abc import Iterable, Iterator

from tuner.frameworks.base import LineFormat
from tuner.records import Item, Line, Record, Remark

NAME = "neutral"
APART_S = 10.0
"""Totals are told this often; a start storm has a hundred lines a second."""
KNOWN_MAX = 50_000
"""Sandboxes remembered by name; the oldest are forgotten first."""
LINE_CHARS = 2_000
"""These lines are short; what follows is a provider's own text."""

_ID = r"(\w(?:[\w.:-]{0,78}\w)?)"
_STARTED = re.compile(rf"\bCreated (?:replacement )?sandbox {_ID}|\b(?:prime|modal|e2b): sandbox {_ID} up\b")
_WAITING = re.compile(rf"\bWaiting for sandbox {_ID} to\b|\(sandbox {_ID} waits for the build\b")
_WAITED = re.compile(rf"\bWaited ([\d.dhms ]{{2,20}}) for sandbox {_ID}")
_PART = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)(ms|s|m|h|d)")
_UNIT_S = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_ENDED = re.compile(rf"\bDeleted sandbox {_ID}|\bsandbox {_ID} killed\b")
_ENDED_NAMES = re.compile(r"\bBulk deleted sandboxes: \[([^\]]*)")
_ENDED_COUNT = re.compile(r"\bBulk deleted batch of (\d{1,6}) sandboxes")
_KEPT = re.compile(rf"\b[Ff]ailed to (?:delete|terminate|kill) (?:\w+ )?sandbox {_ID}")
_FAILED = re.compile(
    r"\bsandbox provisioning failed: |\bFailed to create sandbox: |\bsandbox failed to start \(attempt "
    rf"|\bSandbox {_ID} failed to become ready: "
)
_LIMIT = re.compile(
    r"Insufficient capacity to create sandbox|creation limiter backlog|HTTP 429\b|Payment required|[Qq]uota\b"
    r"|[Rr]ate limit|RESOURCE_EXHAUSTED"
)
_SOURCE = re.compile(r"\braise \w|\{\w+\}")
"""A traceback shows the line of code that holds the same words."""

MARKERS = (
    *("Created sandbox ", "Created replacement sandbox ", "prime: sandbox ", "modal: sandbox ", "e2b: sandbox "),
    *("for sandbox ", "waits for the build", "Deleted sandbox ", "Bulk deleted ", "sandbox provisioning failed: "),
    *("delete sandbox ", "terminate sandbox ", "openyuanrong sandbox ", "Failed to create sandbox: "),
    *("failed to become ready: ", "sandbox failed to start (", "capacity to create sandbox"),
    "creation limiter backlog",
)


class Sandboxes:
    """Totals since the first line read, over all processes that write into one log."""

    def __init__(self) -> None:
        self._alive: dict[str, None] = {}
        self._waiting: dict[str, None] = {}
        self._started = self._ended = self._failed = 0
        self._ends_told = self._waits_told = False
        self._waits_s: list[float] = []
        self._told_s: float | None = None
        self._time_s: float | None = None
        self._new = False

    def feed(self, line: Line) -> Iterator[Item]:
        text = line.text[:LINE_CHARS]
        if line.cut or _SOURCE.search(text):
            return
        self._time_s = line.time_s if line.time_s is not None else self._time_s
        self._count(text)
        yield from _remarks(text)
        due = self._told_s is None or self._time_s is None or not 0.0 <= self._time_s - self._told_s < APART_S
        if due:
            yield from self.flush()

    def flush(self) -> Iterable[Item]:
        if not self._new:
            return ()
        self._new, self._told_s = False, self._time_s
        values = {"sandboxes_started_total": float(self._started), "sandboxes_failed_total": float(self._failed)}
        if self._ends_told:
            values["sandboxes_ended_total"] = float(self._ended)
        if self._waits_told:
            values["sandbox_pending"] = float(len(self._waiting))
        if self._waits_s:
            values["sandbox_start_s"] = sum(self._waits_s) / len(self._waits_s)
            self._waits_s = []
        return (Record(values, None, self._time_s, framework=NAME),)

    def _count(self, text: str) -> None:
        if (found := _STARTED.search(text)) is not None:
            self._start(found[1] or found[2])
        elif (found := _WAITED.search(text)) is not None:
            self._waited(found)
        elif (found := _WAITING.search(text)) is not None:
            self._waits_told = self._new = True
            _remember(self._waiting, found[1] or found[2])
        elif (found := _FAILED.search(text)) is not None:
            self._fail(found[1])
        else:
            self._end(text)

    def _start(self, name: str) -> None:
        self._waiting.pop(name, None)
        if name not in self._alive:
            _remember(self._alive, name)
            self._started += 1
        self._new = True

    def _waited(self, found: re.Match[str]) -> None:
        """`Waited 450ms`, `12.3s`, `1m 5s`; where no name is told, that of whoever waited longest."""
        self._waits_s.append(sum(float(number) * _UNIT_S[unit] for number, unit in _PART.findall(found[1])))
        oldest = next(iter(self._waiting), "")
        self._waiting.pop(found[2] if found[2] in self._waiting else oldest, None)
        self._new = True

    def _fail(self, name: str | None) -> None:
        """A start that failed began and ended, unless its sandbox is known to be there."""
        self._failed += 1
        self._waiting.pop(name or "", None)
        if name not in self._alive:
            self._started, self._ended = self._started + 1, self._ended + 1
        self._new = True

    def _end(self, text: str) -> None:
        """Ends of sandboxes whose start was read; others began before our time."""
        names = [name for found in _ENDED.finditer(text) for name in found.groups() if name]
        if (many := _ENDED_NAMES.search(text)) is not None:
            names += re.findall(r"[\w.:-]+", many[1])
        count = min(int(batch[1]), len(self._alive)) if (batch := _ENDED_COUNT.search(text)) is not None else 0
        names += list(self._alive)[:count]
        if names or batch is not None:
            self._ends_told = self._new = True
        for name in names:
            if name in self._alive:
                del self._alive[name]
                self._ended += 1


def _remember(names: dict[str, None], name: str) -> None:
    if len(names) >= KNOWN_MAX:
        del names[next(iter(names))]
    names[name] = None


def _remarks(text: str) -> Iterator[Remark]:
    if (kept := _KEPT.search(text)) is not None:
        said = text[kept.start() : kept.start() + 200]
        yield Remark("sandbox-undeleted", f"Sandbox {kept[1]} was not ended and counts against the quota: {said}.")
    elif (limit := _LIMIT.search(text)) is not None:
        start = max(0, limit.start() - 60)
        yield Remark("sandbox-limit", f"The provider allows no more sandboxes now: {text[start : start + 200].strip()}")


FORMATS = (LineFormat("sandboxes", MARKERS, Sandboxes, shared=True),)
