"""The answer on one screen: headline, now / proposed / predicted, why, what not to do, what is missing."""

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

from policies.base import Phase
from tuner.answers.advise import Answer, Finding, Recommendation
from tuner.report import words


@dataclass(frozen=True, slots=True)
class Screen:
    columns: int = 100
    rows: int = 24
    colour: bool = False


@dataclass(frozen=True, slots=True)
class Room:
    """How much is shown of each part; the rest is counted and left to --json and --html."""

    recommendations: int
    why: int
    do_not: int
    missing: int
    lines: int
    """Most lines of one entry."""


LEAST = Room(3, 1, 1, 1, 1)
"""Shown even where it does not fit."""

WISHES = ("lines", "why", "missing", "do_not", "recommendations") * 5
"""What is shown more of while the screen has room, in this order."""

FIRST_MORE = 2
"""Lines by which the first change may be longer than an entry: it is the one that is acted on."""
TOLD_ELSEWHERE = "serial-job"
"""A finding that the part `Do not` repeats with its consequence."""

COLOURS = {"critical": "1;31", "warning": "33", "good": "32", "head": "1", "dim": "2"}
INDENT = 9
"""Columns taken by the label of a part."""
PROPOSED = 3
"""The column that takes what room is left: some proposals are words."""
NARROW = 48
"""Fewest columns we lay out for."""


def render(answer: Answer, screen: Screen, budget: Sequence[Phase] = ()) -> str:
    """The answer in at most `screen.rows` rows where that can be done, wrapped to its columns."""
    room = LEAST
    lines = list(_lines(answer, screen, room, budget))
    for wish in WISHES:
        wider = replace(room, **{wish: asdict(room)[wish] + 1})
        tried = list(_lines(answer, screen, wider, budget))
        if len(tried) <= screen.rows:
            room, lines = wider, tried
    return "\n".join(lines) + "\n"


def _lines(answer: Answer, screen: Screen, room: Room, budget: Sequence[Phase]) -> Iterable[str]:
    width = max(NARROW, screen.columns)
    tone = "good" if answer.verdict == "balanced" else "dim" if answer.verdict == "cannot-tell" else "critical"
    verdict = f"{answer.verdict} (confidence {answer.verdict_confidence:.2f})"
    yield from (_ink(line, "head", screen) for line in _clip(answer.headline, width, 3))
    yield f"{_ink(verdict, tone, screen)}"
    yield from _clip(words.job_line(answer), width, room.lines)
    if any(p.name != "unaccounted" for p in budget):
        yield from _entry("Step", _budget(budget), width, room.lines)
    if answer.cost is not None:
        yield from _entry("Cost", words.cost_line(answer), width, room.lines)
    yield from _table(answer.recommendations, screen, width, room)
    yield from _part(
        "Why",
        [_why(f) for f in words.worst_first(answer.findings) if f.code != TOLD_ELSEWHERE],
        width,
        room.why,
        room.lines,
    )
    do_not = [f"{what}: {why}" for what, why in words.warnings(answer)]
    yield from _part("Do not", do_not, width, room.do_not, room.lines)
    yield from _part("Missing", words.gaps(answer), width, room.missing, room.lines)
    if answer.window.dropped_steps:
        yield from _entry("Note", words.left_out(answer), width, room.lines)


def _budget(budget: Sequence[Phase]) -> str:
    shares = [(p.name.removesuffix("_s").replace("_", " "), p.frac) for p in budget if p.frac >= 0.005]
    return ", ".join(f"{name} {frac:.0%}" for name, frac in shares)


def _why(finding: Finding) -> str:
    detail = finding.detail[:1].upper() + finding.detail[1:]
    return f"{finding.title.rstrip('.')}. {detail}" if detail else finding.title


def _table(recommendations: Sequence[Recommendation], screen: Screen, width: int, room: Room) -> Iterable[str]:
    if not recommendations:
        yield ""
        yield "Nothing to change is recommended from this data."
        return
    shown = recommendations[: room.recommendations]
    head = ("#", "change", "now", "proposed", "takes effect", "predicted gain (80%)")
    rows = [
        (str(r.rank), f"{r.knob} {r.direction}", *words.move(r), words.takes_effect(r), words.gain(r.gain_frac))
        for r in shown
    ]
    widths = [min(28, max(len(row[i]) for row in [head, *rows])) for i in range(len(head))]
    widths[PROPOSED] = min(20, widths[PROPOSED])
    spare = width - sum(widths) - 2 * (len(widths) - 1)
    widths[PROPOSED] = min(max(len(row[PROPOSED]) for row in [head, *rows]), widths[PROPOSED] + max(0, spare))
    tabular = sum(widths) + 2 * (len(widths) - 1) <= width
    yield ""
    if tabular:
        yield _ink(_row(head, widths), "dim", screen)
    for r, row in zip(shown, rows, strict=True):
        lines = [_row(row, widths)] if tabular else textwrap.wrap(_sentence(row), width, subsequent_indent="   ")
        yield from (_ink(line, "head", screen) for line in lines)
        lines_of_it = room.lines + FIRST_MORE * (r is shown[0])
        yield from (f"   {line}" for line in _clip(_because(r), width - 3, lines_of_it))
    if len(recommendations) > len(shown):
        yield f"   and {len(recommendations) - len(shown)} more: --json or --html"


def _sentence(row: Sequence[str]) -> str:
    """A row of the table where the screen is too narrow for columns."""
    rank, change, now, proposed, effect, gain = row
    return f"{rank}  {change}: {now} -> {proposed}, {effect}, {gain}"


def _because(r: Recommendation) -> str:
    key = f"{r.key}: " if r.key else ""
    also = " Changes which samples are trained." if r.data_changing else ""
    return f"{key}{r.reason}{also}"


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    fitted = (_fit(cell, width).ljust(width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join(fitted).rstrip()


def _fit(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def _part(label: str, entries: Sequence[str], width: int, count: int, lines: int) -> Iterable[str]:
    for i, entry in enumerate(entries[:count]):
        more = f" (and {len(entries) - count} more)" if i == count - 1 and len(entries) > count else ""
        yield from _entry(label if i == 0 else "", entry, width, lines, more)


def _entry(label: str, text: str, width: int, lines: int, more: str = "") -> Iterable[str]:
    first = label.ljust(INDENT)
    kept = _clip(text, width - INDENT - len(more), lines)
    for i, line in enumerate(kept):
        tail = more if i == len(kept) - 1 else ""
        yield (first if i == 0 else " " * INDENT) + line + tail


def _clip(text: str, width: int, count: int) -> list[str]:
    """The text in at most `count` lines; a cut is shown by an ellipsis."""
    return textwrap.wrap(" ".join(text.split()), width, max_lines=count, placeholder=" ...")


def _ink(text: str, tone: str, screen: Screen) -> str:
    return f"\x1b[{COLOURS[tone]}m{text}\x1b[0m" if screen.colour and text else text
