"""`equipoise validate`: published jobs against the model: what was measured, what it predicts, how naive would do."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from simulators.compiled import is_warm
from simulators.published import Case, Kind, Outcome
from simulators.validation import run as answered
from tuner.answers.validate import to_json
from tuner.case_files import read_folder, shipped
from tuner.commands.base import screen_for
from tuner.errors import ConfigError
from tuner.report.validated import build, render

ORDER = (Kind.PREDICTION, Kind.IDENTITY, Kind.BOUND, Kind.FIT)
"""In which order cases are told."""


@dataclass(frozen=True, slots=True)
class Wish:
    """Which cases, and how they are shown."""

    case: str | None = None
    cases: Path | None = None
    """A folder or a file of one's own, instead of what is shipped."""
    json: bool = False
    html: Path | None = None


def run(wish: Wish) -> None:
    """Prints the comparison, and writes the report where one is asked for."""
    if wish.html is not None:
        from tuner.report import html  # noqa: PLC0415  (jinja2 is loaded only for those who ask for a report)

        html.check_target(wish.html)
    cases = shipped() if wish.cases is None else read_folder(wish.cases)
    chosen = sorted(cases, key=lambda case: ORDER.index(case.kind)) if wish.case is None else [named(cases, wish.case)]
    if sys.stderr.isatty() and any(case.model == "event" for case in chosen) and not is_warm():
        sys.stderr.write("compiling the event engine for the first time: up to a minute\n")
    answer = build([_outcome(case) for case in chosen])
    if wish.html is not None:
        from tuner.report import html  # noqa: PLC0415
        from tuner.report.validated_html import render as page  # noqa: PLC0415

        html.write(wish.html, page(answer))
    if wish.json:
        sys.stdout.write(to_json(answer) + "\n")
    else:
        sys.stdout.write(render(answer, screen_for(sys.stdout, os.environ), at_length=wish.case is not None))


def _outcome(case: Case) -> Outcome:
    try:
        return answered(case)
    except ValueError as error:
        raise ConfigError(f"case {case.ident}: {error}; narrow the parameters' bounds") from None


def named(cases: Sequence[Case], ident: str) -> Case:
    """The case of that id, or a ConfigError with the nearest."""
    by_name = {case.ident: case for case in cases}
    if ident in by_name:
        return by_name[ident]
    near = get_close_matches(ident, by_name, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise ConfigError(f"--case {ident}: unknown; {hint}known: {', '.join(by_name)}")
