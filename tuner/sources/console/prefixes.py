"""A physical line -> clean lines: no colour, no progress-bar rewrites, the speaker's name taken off the front."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tuner.records import Line
from tuner.sources.console.clock import Clock

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, cursor moves
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # window titles, links
    r"|\x1b[()][A-Z0-9]|\x1b[@-_=>78]?|\x07"
)
_ORPHANS = re.compile(r"\[(?:0|1|2|22|3\d|39|4\d|9[0-7])(?:;\d{1,3})*m")
"""Colours whose escape character got lost on the way; looked for only beside a lone reset `[0m`."""

_REPEATED = re.compile(r"\s{0,4}\[repeated \d+x across cluster\](?:\s*\(Ray deduplicates.*)?$")

_SPEAKER = re.compile(
    r"""\s{0,40}(?:
    \((?P<ray>(?:[^()]|\([^()]{0,60}\)){0,80}?\bpid=\d+(?:,\s*ip=[^()\s]{1,45})?
      |(?:raylet|autoscaler|gcs_server|scheduler)(?:[\s,][^()]{0,60})?)\)\s?
    |\[(?P<mpi>\d+,\d+)\]<std(?:out|err)>:\s?
    |\[(?P<rank>(?:rank|default|node|worker|trainer)_?\d+)\]:\s?
    |\[pod/(?P<pod>[^\]\s]{1,200})\]\s?
    |(?P<compose>(?!(?:step|epoch|iter|rollout|train|eval)[-_])[a-zA-Z][\w.-]{0,60}[-_]\d+)\s+\|\s
    |(?P<task>\d{1,6}):\s(?=\S)
    |(?P<host>(?!(?:step|epoch|iter|rollout|train|eval|batch)[-.])(?=[\w.-]*\d)[a-z]\w{0,40}[-.][\w.-]{1,100}):\s(?=\S)
    )""",
    re.X,
)
_CRI = re.compile(r"(?P<time>\d{4}-\d\d-\d\dT[\d:.]{8,18}(?:Z|[+-]\d\d:\d\d))\s(?:std(?:out|err)\s[FP]\s)")
_NANO = re.compile(r"(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7,9}(?:Z|[+-]\d\d:\d\d))\s")
_ISO = re.compile(r"(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)\s+(?=[\[(\w])")
_JOURNAL = re.compile(
    r"(?P<time>[A-Z][a-z]{2}\s{1,2}\d{1,2}\s\d\d:\d\d:\d\d)\s\S{1,255}\s(?P<unit>[\w@.:/-]{1,100}\[\d+\]):\s"
)
_STAMP_START = re.compile(r"\d{4}-\d|[A-Z][a-z]{2}\s")
"""How each of these stamps starts: most texts do not, and one look tells."""

_BAR = re.compile(r"(?P<what>[^\r]{0,200}?)\s{0,8}(?:\d{1,3}%\|[^|]{0,400}\||\b\d+(?:/\d+|it)\s\[)")
_BAR_END = re.compile(r"\[\d[\d:]*<[^\]\[]*\]|\[\d[\d:]*,[^\]\[]*\]")

FENCE, FENCED_MIN = "```", 24
"""Markdown's quote of code; on a line of its own, with a language's name, it parts what stands before and after."""

_MID_RECORD = re.compile(r"\s*[-+\d.,;:)\]}'\"|]")


@dataclass(frozen=True, slots=True)
class Edges:
    """Where a physical line may be torn."""

    first: bool = False
    """It is the first of its file that says something."""
    unended: bool = False
    """It has no newline, or was too long."""


WHOLE = Edges()


class Cleaner:
    """Cleans the lines of one file; its clock remembers the day from line to line."""

    def __init__(self) -> None:
        self._clock = Clock()

    def tick(self, text: str) -> None:
        """Only look at the time of a line that nobody reads, so that days passing are noticed."""
        self._clock.read(text)

    def lines(self, text: str, number: int, edges: Edges = WHOLE) -> Iterator[Line]:
        """Mostly one line; several where a progress bar shares the physical line with records; none where all is blank.

        The time that a line starts with stays in its text: formats may look for it.
        """
        if text.startswith('{"log":"'):
            text = _docker_text(text)
        if "\x1b" in text or "\x07" in text:
            text = _ESCAPES.sub("", text)
        if "[0m" in text:
            text = _ORPHANS.sub("", text)
        if FENCE in text and len(text) > FENCED_MIN:
            text = text.replace(FENCE, "")
        pieces = rewrites(text) if "\r" in text or _may_be_bar(text) else [text]
        for i, piece in enumerate(pieces):
            if piece.strip():
                alone = len(pieces) == 1
                here = edges if alone else Edges(edges.first and i == 0, edges.unended and i == len(pieces) - 1)
                yield self._line(piece, number, here)

    def _line(self, text: str, number: int, edges: Edges) -> Line:
        if text.endswith((")", "]")):
            text = text[:-200] + _REPEATED.sub("", text[-200:])
        speaker, time_s, text = self._speaker(text)
        own_s = self._clock.read(text)
        headless = edges.first and own_s is None and speaker is None and _MID_RECORD.match(text) is not None
        return Line(text, number, speaker, time_s if own_s is None else own_s, headless or edges.unended)

    def _speaker(self, text: str) -> tuple[str | None, float | None, str]:
        names: list[str] = []
        time_s: float | None = None
        for _ in range(4):
            transport = _transport(text) if _STAMP_START.match(text) else None
            if transport is not None:
                time_s = self._clock.read(transport["time"])
                names += [transport["unit"]] if "unit" in transport.re.groupindex else []
                text = text[transport.end() :]
                continue
            match = _SPEAKER.match(text)
            if match is None:
                break
            names.append(match[match.lastgroup or 0])
            text = text[match.end() :]
        return " ".join(names) or None, time_s, text


def _transport(text: str) -> re.Match[str] | None:
    """The stamp that a container runtime, the journal or a log shipper sets before the line of another."""
    stamp = _CRI.match(text) or _NANO.match(text) or _JOURNAL.match(text)
    if stamp is not None:
        return stamp
    iso = _ISO.match(text)
    return iso if iso is not None and _SPEAKER.match(text, iso.end()) else None


def _may_be_bar(text: str) -> bool:
    """A progress bar ends in brackets, a single letter, which most long lines lack: it is the cheapest to seek."""
    return "[" in text and ("s/it" in text or "it/s" in text)


def rewrites(text: str) -> list[str]:
    """What a carriage return leaves to read: of each progress bar its last state, and every other part in order."""
    kept: dict[str, str] = {}
    for i, part in enumerate(text.split("\r")):
        if not part.strip():
            continue
        bar = _BAR.match(part)
        if bar is None:
            kept[f"{i}"] = part
            continue
        end = _BAR_END.search(part, bar.end("what"))
        rest = part[end.end() :] if end else ""
        name = f"bar {bar['what']}"
        kept.pop(name, None)
        kept[name] = part[: end.end()] if end and rest.strip() else part
        if rest.strip():
            kept[f"{i}"] = rest.lstrip()
    return list(kept.values())


def _docker_text(text: str) -> str:
    """Docker's json-file driver wraps each line."""
    try:
        wrapped = json.loads(text)
    except (ValueError, RecursionError):
        return text
    log = wrapped.get("log") if isinstance(wrapped, dict) else None
    if not isinstance(log, str):
        return text
    stamp = wrapped.get("time")
    front = f"{stamp} " if isinstance(stamp, str) and _NANO.match(f"{stamp} ") else ""
    return front + log.rstrip("\n")
