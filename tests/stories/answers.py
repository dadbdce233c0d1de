"""How the stories read an answer: its moves, its figures and everything it says; and the case files themselves."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from policies.base import Advice

CASES = Path(__file__).parents[1] / "data" / "cases"
PUBLISHED = CASES.with_name("published")
FIRST = 3
"""Recommendations that a reader acts on: ranks 1 to 3."""
FORMAT_COMMENTS = ("# HELP", "# TYPE", "# EOF", "# UNIT")
"""Lines of a Prometheus dump that belong to the format, unlike what a person wrote above it."""

Answer = dict[str, Any]


class Move(NamedTuple):
    """What a recommendation turns, and which way."""

    knob: str
    direction: str

    def is_(self, pattern: str) -> bool:
        """True for `knob` (any direction) or `knob:direction`."""
        return pattern in (self.knob, f"{self.knob}:{self.direction}")


def read_answer(text: str) -> Answer:
    """One JSON document without NaN or Infinity."""

    def refuse(word: str) -> float:
        raise AssertionError(f"{word} in the answer")

    document: Answer = json.loads(text, parse_constant=refuse)
    return document


def moves(answer: Answer | Advice) -> list[Move]:
    """The recommended moves, best first."""
    if isinstance(answer, Advice):
        return [Move(r.knob, r.direction.value) for r in answer.recommendations]
    ranked = sorted(answer["recommendations"], key=lambda r: int(r["rank"]))
    return [Move(r["knob"], r["direction"]) for r in ranked]


def wrong_moves(answer: Answer | Advice, forbidden: Iterable[str]) -> list[str]:
    """The forbidden moves among the first three, as `knob:direction`."""
    patterns = list(forbidden)
    return [":".join(move) for move in moves(answer)[:FIRST] if any(move.is_(p) for p in patterns)]


def rank_of(answer: Answer | Advice, patterns: Iterable[str]) -> int | None:
    """Rank of the first recommendation that is one of `patterns`; None when there is none."""
    wanted = list(patterns)
    return next((i for i, move in enumerate(moves(answer), start=1) if any(move.is_(p) for p in wanted)), None)


def gains(answer: Answer, pattern: str) -> list[Mapping[str, float]]:
    """The gains that the answer promises for one move."""
    return [
        r["gain_frac"]
        for r in answer["recommendations"]
        if Move(r["knob"], r["direction"]).is_(pattern) and r["gain_frac"] is not None
    ]


def figure(answer: Answer, name: str) -> float | None:
    """A figure by its name: a signal, else a rate, else a number in the evidence of a finding."""
    if name in answer["signals"]:
        return float(answer["signals"][name]["value"])
    if answer["rates"].get(name) is not None:
        return float(answer["rates"][name])
    for finding in answer["findings"]:
        value = finding["evidence"].get(name)
        if isinstance(value, int | float):
            return float(value)
    return None


def codes(answer: Answer) -> set[str]:
    return {finding["code"] for finding in answer["findings"]}


def said(answer: Answer, *codes_or_knobs: str) -> str:
    """Every sentence of the answer, or only those of the findings, moves and warnings with these codes or knobs."""
    wanted = set(codes_or_knobs)
    parts = [] if wanted else [answer["headline"]]
    for finding in answer["findings"]:
        if not wanted or finding["code"] in wanted:
            parts += [finding["title"], finding["detail"], json.dumps(finding["evidence"])]
    for advice in (*answer["recommendations"], *answer["do_not"]):
        if not wanted or advice["knob"] in wanted:
            parts += [advice["reason"], *advice.get("risks", ())]
    for gap in answer["missing"]:
        if not wanted or gap["signal"] in wanted:
            parts += [gap["signal"], gap["why_it_matters"], gap["how_to_get_it"]]
    return "\n".join(parts)


def case_text(name: str) -> str:
    """As stored, carriage returns included: of the handed cases, else of the further published tables."""
    path = CASES / name
    return (path if path.exists() else PUBLISHED / name).read_bytes().decode()


def without_comments(text: str) -> str:
    """The bytes of the job alone: no `#` lines that a person wrote, no `_source` field."""
    kept = [line for line in text.split("\n") if not line.startswith("#") or line.startswith(FORMAT_COMMENTS)]
    return "\n".join(_without_source(line) for line in kept)


def bare(text: str) -> str:
    """Not one `#` line, those of the format included."""
    return "\n".join(line for line in without_comments(text).split("\n") if not line.startswith("#"))


def _without_source(line: str) -> str:
    if not (line.startswith("{") and '"_source"' in line):
        return line
    record = json.loads(line)
    del record["_source"]
    return json.dumps(record)
