"""docs/validation.md and its pictures from `equipoise validate`: `--write` puts them there, the docs test compares."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from simulators.validation import run
from tools.case_language import line
from tuner.answers_validate import Validated, ValidatedCase
from tuner.case_files import shipped
from tuner.report import validated, validated_pictures
from tuner.report.validated_html import KINDS, WIDE

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "validation.md"
PICTURES = ROOT / "docs" / "validation"
"""The page and the folder that this tool owns."""


def answer() -> Validated:
    return validated.build([run(case) for case in shipped()])


def rendered(made: Validated) -> Mapping[Path, str]:
    """Every file with its text."""
    drawn = {case.id: validated_pictures.series(made, case, WIDE) for case in made.cases}
    drawn["errors"] = validated_pictures.errors(made, WIDE)
    files = {PICTURES / f"{name}.svg": validated_pictures.standalone(svg) for name, svg in drawn.items() if svg}
    page = "\n".join([*_head(made), *_cases(made, files)]).rstrip() + "\n"
    return {PAGE: page} | files


OPENING = """# Validation: published jobs against the model

Written by `make docs` from `equipoise validate`; edit the cases in `simulators/cases/`. Figures of others are facts
with their sources; no text is quoted.

**{headline}**

- An **identity** recomputes a published figure from others of the same job.
- A **prediction** has fewer free parameters than calibration figures (or none). Parameters are fitted by least squares
  on rows marked *calibration* and on nothing else; the other rows are then predicted. Which formula a case uses was
  chosen by people who had read its table; what its parameters are was not.
- A **bound** is a limit, an order or a verdict that must be true.
- A prediction whose fit has no residual degree of freedom is called a **fit** and counts nowhere.
- The **naive** figure is what somebody without a model would have said; each case states it.

Your own cases need no code: `equipoise validate --cases DIR`; see [case-files.md](case-files.md).

![Error of each prediction and of the naive baseline](validation/errors.svg)

Above: dot, the model's error; ring, the naive one; shaded, what is allowed. Below, rows in order: black, measured;
blue, predicted; orange and dashed, naive.
"""


def _head(made: Validated) -> Iterator[str]:
    yield OPENING.format(headline=made.headline)


def _cases(made: Validated, files: Mapping[Path, str]) -> Iterator[str]:
    for kind, title in KINDS:
        cases = [case for case in made.cases if case.kind is kind]
        if cases:
            yield f"## {title}"
            yield ""
        for case in cases:
            yield from _case(made, case)
            if PICTURES / f"{case.id}.svg" in files:
                yield f"![{case.title}](validation/{case.id}.svg)"
                yield ""


def _case(made: Validated, case: ValidatedCase) -> Iterator[str]:
    yield f"### {case.title}"
    yield ""
    yield f"`{case.id}`"
    yield ""
    rows = [validated.cells(row) for row in made.rows if row.case == case.id]
    shown = [i for i in range(len(validated.HEAD)) if any(row[i] for row in rows)]
    yield line(tuple(validated.HEAD[i] for i in shown))
    yield line(tuple("---" if i < 2 else "---:" for i in shown))
    yield from (line(tuple(row[i] for i in shown)) for row in rows)
    yield ""
    yield from (f"- {part.strip()}" for part in validated.said(case))
    notes = [f"- {row.label}: {row.note}" for row in made.rows if row.case == case.id and row.note]
    yield from notes
    yield ""


def main() -> int:
    if sys.argv[1:] != ["--write"]:
        print("usage: python -m tools.validation --write", file=sys.stderr)
        return 2
    files = rendered(answer())
    PICTURES.mkdir(exist_ok=True)
    for stale in set(PICTURES.glob("*.svg")) - set(files):
        stale.unlink()
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
