"""docs/validation.md and its pictures from `equipoise validate`: `--write` puts them there, the docs test compares."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pydantic import BaseModel

from simulators.closed_forms import Form
from simulators.forms import FORMS
from simulators.published import Naive, Relation
from simulators.validation import PLANTS, run
from tuner.answers_validate import Validated, ValidatedCase
from tuner.case_files import SHIPPED, BaselineEntry, CaseFile, ParameterEntry, RowEntry, SourceEntry, shipped
from tuner.report import validated, validated_pictures
from tuner.report.validated_html import KINDS, WIDE

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "validation.md"
LANGUAGE_PAGE = ROOT / "docs" / "case-files.md"
PICTURES = ROOT / "docs" / "validation"
"""The pages and the folder that this tool owns."""
EXAMPLE = SHIPPED / "v07-queue-lag.toml"
"""The case that shows the language."""


def answer() -> Validated:
    return validated.build([run(case) for case in shipped()])


def rendered(made: Validated) -> Mapping[Path, str]:
    """Every file with its text."""
    drawn = {case.id: validated_pictures.series(made, case, WIDE) for case in made.cases}
    drawn["errors"] = validated_pictures.errors(made, WIDE)
    files = {PICTURES / f"{name}.svg": validated_pictures.standalone(svg) for name, svg in drawn.items() if svg}
    page = "\n".join([*_head(made), *_cases(made, files)]).rstrip() + "\n"
    return {PAGE: page, LANGUAGE_PAGE: "\n".join(_language()).rstrip() + "\n"} | files


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
"""

LANGUAGE = """# Case files

Written by `make docs` from `tuner/case_files.py` and `simulators/forms.py`. A case is a TOML file; `equipoise validate
--cases DIR` answers all of a folder (or one file). The shipped ones in `simulators/cases/` are examples.

```toml
{example}```

- Inputs of the case hold for every row; `inputs` of a row are laid over them, table by table.
- A value `"$name"` is a free parameter. It is fitted to the rows of role `calibration` by least squares on relative
  errors, within its bounds (positive ranges by their logarithm). `class = "prediction"` with no residual degree of
  freedom is called a fit.
- `model` is a closed form from the list below, or a model of whole jobs: {plants}. Those take the tables
  `inputs.topology`, `inputs.workload`, `inputs.stations` and `inputs.setpoints`, with the fields of
  `simulators/plant.py`, `workload.py` and `stations.py`; `output` is a field of `Prediction` (`simulators/model.py`),
  e.g. `step_s` or `staleness.mean`. `inputs.run` says how long `event` simulates: `warm_up_batches`, `batches`,
  `replications`, `seed` (20, 200, 4, 0 where absent).
- `relation` is {relations}. `same-side` compares with `pivot` (1 where absent).
- `[baseline]` is {naives}. `input` is a dotted path into the inputs.
- `tolerance_frac` is a share of the measured figure, `tolerance_abs` is in its unit; a row's own wins over the case's.
- What is not understood is refused, with file, key and remedy.
"""


def _head(made: Validated) -> Iterator[str]:
    yield OPENING.format(headline=made.headline)


def _language() -> Iterator[str]:
    yield LANGUAGE.format(
        example=EXAMPLE.read_text(encoding="utf-8"),
        plants=_listed(PLANTS),
        relations=_listed(Relation),
        naives=_listed(Naive),
    )
    for table in (CaseFile, SourceEntry, ParameterEntry, BaselineEntry, RowEntry):
        yield from _keys(table)
    yield "## Closed forms"
    yield ""
    for form in FORMS.values():
        yield from _form(form)


TITLES = {CaseFile: "the case", SourceEntry: "[[source]]", ParameterEntry: "[[parameter]]", BaselineEntry: "[baseline]"}


def _keys(table: type[BaseModel]) -> Iterator[str]:
    yield f"## Keys of {TITLES.get(table, '[[row]]')}"
    yield ""
    yield _line(("key", "needed", "what it is"))
    yield _line(("---", "---", "---"))
    for name, field in table.model_fields.items():
        about = " ".join((field.description or "").split())
        yield _line((f"`{field.alias or name}`", "yes" if field.is_required() else "", about))
    yield ""


def _form(form: Form) -> Iterator[str]:
    yield f"### `{form.name}`"
    yield ""
    yield f"{form.says} `{form.written}`"
    yield ""
    yield _line(("input", "unit", "what it is", "default"))
    yield _line(("---", "---", "---", "---"))
    for each in form.inputs:
        about = f"{each.about}{' (or a list, one a step)' if each.series else ''}"
        yield _line((f"`{each.name}`", each.unit, about, "" if each.default is None else f"{each.default:g}"))
    yield ""
    outputs = ", ".join(f"`{name}`{f' ({unit})' if unit else ''}" for name, unit in form.outputs.items())
    yield f"Answers {outputs}. Source: {form.source}."
    yield ""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


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
    yield _line(tuple(validated.HEAD[i] for i in shown))
    yield _line(tuple("---" if i < 2 else "---:" for i in shown))
    yield from (_line(tuple(row[i] for i in shown)) for row in rows)
    yield ""
    yield from (f"- {part.strip()}" for part in validated.said(case))
    notes = [f"- {row.label}: {row.note}" for row in made.rows if row.case == case.id and row.note]
    yield from notes
    yield ""


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def main() -> None:
    files = rendered(answer())
    PICTURES.mkdir(exist_ok=True)
    for stale in set(PICTURES.glob("*.svg")) - set(files):
        stale.unlink()
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{len(files)} files under {PAGE.parent.relative_to(ROOT)}\n")


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("python -m tools.validation --write: writes docs/validation.md and its pictures")
    main()
