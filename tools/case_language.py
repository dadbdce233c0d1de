"""docs/case-files.md from the case language itself: `--write` puts it there, the docs test compares."""

import ast
import inspect
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, fields
from itertools import pairwise
from pathlib import Path

from pydantic import BaseModel

from simulators import model, plant, stations, workload
from simulators.closed_forms import Form
from simulators.forms import FORMS
from simulators.published import Naive, Relation
from simulators.validation import PLANTS
from tuner.case_files import SHIPPED, BaselineEntry, CaseFile, ParameterEntry, RowEntry, SourceEntry

PAGE = Path(__file__).resolve().parents[1] / "docs" / "case-files.md"
"""The page that this tool owns."""
EXAMPLE = SHIPPED / "v07-queue-lag.toml"
"""The case that shows the language."""

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
  `inputs.topology`, `inputs.workload`, `inputs.stations` and `inputs.setpoints` ([below](#tables-of-a-whole-job)), and
  `output` is a field of a [prediction](#prediction), e.g. `step_s` or `staleness.mean`
  (`simulators/cases/v06-simulated.toml` is an example). `inputs.run` says how long `event` simulates:
  `warm_up_batches`, `batches`, `replications`, `seed` (20, 200, 4, 0 where absent).
- `relation` is {relations}. `same-side` compares with `pivot` (1 where absent).
- `[baseline]` is {naives}. `input` is a dotted path into the inputs.
- `tolerance_frac` is a share of the measured figure, `tolerance_abs` is in its unit; a row's own wins over the case's.
- What is not understood is refused, with file, key and remedy.
"""


def rendered() -> str:
    """The whole page."""
    return "\n".join(_language()).rstrip() + "\n"


def _language() -> Iterator[str]:
    yield LANGUAGE.format(
        example=EXAMPLE.read_text(encoding="utf-8"),
        plants=_listed(PLANTS),
        relations=_listed(Relation),
        naives=_listed(Naive),
    )
    for table in (CaseFile, SourceEntry, ParameterEntry, BaselineEntry, RowEntry):
        yield from _keys(table)
    yield "## Tables of a whole job"
    yield ""
    yield "Absent is unknown, or not there. A table inside a table is written `stations.engine.slots`."
    yield ""
    for made in (*JOB, model.Prediction, model.Staleness):
        yield from _fields(made)
    yield "## Closed forms"
    yield ""
    for form in FORMS.values():
        yield from _form(form)


JOB: tuple[type, ...] = (
    plant.Topology,
    plant.Setpoints,
    *(workload.Workload, workload.Lengths, workload.Turns, workload.Duration, workload.SolveRates, workload.SolvePart),
    *(stations.Stations, stations.Engine, stations.StepTime, stations.Trainer, stations.WeightSync, stations.Admission),
    *(stations.PrefillPool, stations.Sandboxes, stations.Verifier, stations.Pruning, stations.Tenant),
)
"""What the tables of a job are made of, from the outside in."""


def _fields(made: type) -> Iterator[str]:
    yield f"### {made.__name__}"
    yield ""
    yield " ".join((inspect.getdoc(made) or "").partition("\n\n")[0].split())
    yield ""
    yield line(("field", "type", "default", "what it is"))
    yield line(("---", "---", "---", "---"))
    said = _sentences(made)
    for field in fields(made):
        yield line((f"`{field.name}`", _kind(field), _default(field), said.get(field.name, "")))
    yield ""


def _sentences(made: type) -> Mapping[str, str]:
    """The string under each field, from the source."""
    body = next(n for n in ast.parse(inspect.getsource(made)).body if isinstance(n, ast.ClassDef)).body
    return {
        field.target.id: " ".join(after.value.value.split())
        for field, after in pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(after, ast.Expr)
        and isinstance(after.value, ast.Constant)
        and isinstance(after.value.value, str)
    }


def _kind(field: "Field[object]") -> str:
    """The annotation without `None`, as a reader of TOML knows it."""
    members = getattr(field.type, "__members__", None)
    if members:
        return " / ".join(str(member) for member in members.values())
    name = re.sub(r"\b(\w+\.)+", "", inspect.formatannotation(field.type)).removesuffix(" | None")
    if name.startswith("tuple[tuple"):
        return "list of pairs"
    return f"list of {name[6:-6]}" if name.startswith("tuple[") else name


def _default(field: "Field[object]") -> str:
    if field.default is None or (field.default is MISSING and field.default_factory is not MISSING):
        return ""
    return "needed" if field.default is MISSING else f"{field.default}"


TITLES = {CaseFile: "the case", SourceEntry: "[[source]]", ParameterEntry: "[[parameter]]", BaselineEntry: "[baseline]"}


def _keys(table: type[BaseModel]) -> Iterator[str]:
    yield f"## Keys of {TITLES.get(table, '[[row]]')}"
    yield ""
    yield line(("key", "needed", "what it is"))
    yield line(("---", "---", "---"))
    for name, field in table.model_fields.items():
        about = " ".join((field.description or "").split())
        yield line((f"`{field.alias or name}`", "yes" if field.is_required() else "", about))
    yield ""


def _form(form: Form) -> Iterator[str]:
    yield f"### `{form.name}`"
    yield ""
    yield f"{form.says} `{form.written}`"
    yield ""
    yield line(("input", "unit", "what it is", "default"))
    yield line(("---", "---", "---", "---"))
    for each in form.inputs:
        about = f"{each.about}{' (or a list, one a step)' if each.series else ''}"
        yield line((f"`{each.name}`", each.unit, about, "" if each.default is None else f"{each.default:g}"))
    yield ""
    outputs = ", ".join(f"`{name}`{f' ({unit})' if unit else ''}" for name, unit in form.outputs.items())
    yield f"Answers {outputs}. Source: {form.source}."
    yield ""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def main() -> int:
    if sys.argv[1:] != ["--write"]:
        print("usage: python -m tools.case_language --write", file=sys.stderr)
        return 2
    PAGE.write_text(rendered(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
