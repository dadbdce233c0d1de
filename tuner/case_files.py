"""Published cases from TOML files: shipped ones and a user's own. What is not understood is refused, with its place."""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, FiniteFloat, ValidationError

import simulators
from simulators import published
from simulators.assembling import Tables, meant, merged
from simulators.fitting import Bounded
from simulators.published import Case, Kind, Naive, Relation, Role
from simulators.validation import check, default_output
from tuner.errors import ConfigError
from tuner.parsing.configuration import DEEPEST_KEY, has_deep_key

SHIPPED = Path(simulators.__file__).parent / "cases"
"""The published cases that come with the package."""

LARGEST_BYTES = 1 << 20
"""A case file holds some hundred lines."""


def _not_bool(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("must be a number, not true or false")
    return value


Number = Annotated[FiniteFloat, BeforeValidator(_not_bool)]
Share = Annotated[Number, Field(ge=0)]
Word = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]
Text = Annotated[str, Field(min_length=1)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class SourceEntry(_Part):
    what: Text
    """What was taken from it."""
    where: Text
    """Title, repository and path, or address."""
    read: Annotated[str, Field(pattern="^(primary|third-party|chart|computed)$")]
    """How the figures reached the file: primary, third-party, chart or computed."""


class ParameterEntry(_Part):
    name: Name
    """Inputs refer to it as "$name"."""
    low: Number
    """Least value that the fit may try."""
    high: Number
    unit: str
    about: Text
    """What it is, for a reader."""


class BaselineEntry(_Part):
    kind: Naive = Naive.SAME
    """same (as the last calibration row above, else the mean of the other rows), proportional, or an input."""
    input: str | None = None
    """Dotted path of the input that proportional and input look at."""
    power: Number = 1.0
    """Of the ratio: 1 proportional, -1 inversely."""
    about: str = ""
    """The baseline in words."""


class RowEntry(_Part):
    label: Text
    role: Role = Role.PREDICTED
    """calibration or predicted (where absent)."""
    measured: Share
    """The published figure, in the case's unit."""
    inputs: dict[str, Any] = {}
    """Laid over the inputs of the case."""
    output: str | None = None
    """Where this row's figure is another answer of the model than the case's."""
    tolerance_frac: Share | None = None
    tolerance_abs: Share | None = None
    relation: Relation | None = None
    pivot: Number = 1.0
    """What same-side compares with."""
    naive: Share | None = None
    """The naive figure, where the case's baseline finds none of this output to go by; `note` says whose it is."""
    note: str = ""
    """What is odd about this figure; where the model misses, why."""


class CaseFile(_Part):
    """One case file, as written."""

    id: Word
    """The name for --case; small letters, digits, . _ -"""
    title: Text
    kind: Annotated[Kind, Field(alias="class")]
    """identity, prediction or bound."""
    model: Text
    """A closed form, or a model of whole jobs."""
    quantity: Text
    """What is measured, in words."""
    unit: str
    output: str | None = None
    """Which answer of the model; the first one of a closed form where absent."""
    tolerance_frac: Share | None = None
    """Allowed distance as a share of the measured figure."""
    tolerance_abs: Share | None = None
    """Allowed distance in the case's unit."""
    relation: Relation = Relation.EQUAL
    """How measured must stand to predicted."""
    note: str = ""
    """What a reader must know: assumptions, what is left out, why it misses."""
    inputs: dict[str, Any] = {}
    """Of the model, for every row."""
    source: Annotated[tuple[SourceEntry, ...], Field(min_length=1)]
    parameter: tuple[ParameterEntry, ...] = ()
    baseline: BaselineEntry = BaselineEntry()
    row: Annotated[tuple[RowEntry, ...], Field(min_length=1)]


def shipped() -> tuple[Case, ...]:
    return read_folder(SHIPPED)


def read_folder(path: Path) -> tuple[Case, ...]:
    """All cases of a folder (or the one of a file), by file name. ConfigError where there is none or one is wrong."""
    try:
        files = [path] if path.is_file() else sorted(each for each in path.iterdir() if each.suffix == ".toml")
    except OSError as error:
        raise ConfigError(f"--cases {path}: {error.strerror}; name a folder of .toml case files") from None
    if not files:
        raise ConfigError(f"--cases {path}: holds no .toml file; {SHIPPED.name}/ of the package has examples")
    cases = [read(file) for file in files]
    seen: dict[str, Path] = {}
    for case, file in zip(cases, files, strict=True):
        if case.ident in seen:
            raise ConfigError(f"{file}: id={case.ident!r} is taken by {seen[case.ident].name}; each case needs its own")
        seen[case.ident] = file
    return tuple(cases)


def read(path: Path) -> Case:
    """One case, checked so that only its numbers can still disagree. ConfigError names file, key and remedy."""
    data = _toml(path)
    try:
        entry = CaseFile.model_validate(data)
    except ValidationError as error:
        # a misspelt key is also a missing one: what is there comes first
        found = sorted(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
        raise ConfigError(f"{path}: {_explain(cast(Mapping[str, Any], found[0]))}") from None
    try:
        case = _case(entry)
        check(case)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: {error}") from None
    return case


def _toml(path: Path) -> dict[str, Any]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the case file ({error.strerror}); check the path") from None
    if len(content) > LARGEST_BYTES:
        raise ConfigError(f"{path}: over {LARGEST_BYTES >> 20} MiB; a case file holds some hundred lines")
    try:
        text = content.decode("utf-8").replace("\r\n", "\n")
        if has_deep_key(text):
            raise ConfigError(f"{path}: no case file: a key of over {DEEPEST_KEY} parts")
        return tomllib.loads(text)
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not UTF-8 text; a case file is TOML") from None
    except RecursionError:
        raise ConfigError(f"{path}: tables are nested too deeply; a case needs five levels at most") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(
            f"{path}: not valid TOML: {error}. Strings need quotes, tables stand in [brackets]."
        ) from None


def _case(entry: CaseFile) -> Case:
    output = entry.output or default_output(entry.model)
    return Case(
        ident=entry.id,
        title=entry.title,
        stated=_stated(entry),
        model=entry.model,
        quantity=entry.quantity,
        unit=entry.unit,
        sources=tuple(published.Source(s.what, s.where, s.read) for s in entry.source),
        rows=tuple(_row(entry, row, row.output or output) for row in entry.row),
        parameters=tuple(published.Parameter(p.name, _bounded(p), p.unit, p.about) for p in entry.parameter),
        baseline=published.Baseline(
            entry.baseline.kind, entry.baseline.input, entry.baseline.power, entry.baseline.about
        ),
        note=" ".join(entry.note.split()),
    )


def _stated(entry: CaseFile) -> Kind:
    if entry.kind is Kind.FIT:
        raise ValueError(
            "class='fit' is not stated but found: write 'prediction'; without residual degrees of freedom "
            "it is called a fit"
        )
    return entry.kind


def _bounded(entry: ParameterEntry) -> Bounded:
    if entry.low >= entry.high:
        raise ValueError(f"parameter {entry.name!r}: low={entry.low:g} must be < high={entry.high:g}")
    return Bounded(entry.low, entry.high)


def _row(entry: CaseFile, row: RowEntry, output: str) -> published.Row:
    relation = row.relation or entry.relation
    own = row.tolerance_frac is not None or row.tolerance_abs is not None
    stated = row if own else entry
    tolerance = published.Tolerance(stated.tolerance_frac, stated.tolerance_abs)
    if relation is Relation.EQUAL and tolerance == published.Tolerance():
        raise ValueError(f"row {row.label!r}: tolerance_frac or tolerance_abs is missing; state it for row or case")
    return published.Row(
        label=row.label,
        role=row.role,
        measured=row.measured,
        inputs=merged(cast(Tables, entry.inputs), cast(Tables, row.inputs)),
        output=output,
        tolerance=tolerance,
        relation=relation,
        pivot=row.pivot,
        naive=row.naive,
        note=" ".join(row.note.split()),
    )


LISTS: Mapping[str, type[BaseModel]] = {
    "source": SourceEntry,
    "parameter": ParameterEntry,
    "row": RowEntry,
    "baseline": BaselineEntry,
}
"""The tables inside a case file."""


def _explain(error: Mapping[str, Any]) -> str:
    """One sentence: the key, what is wrong with it, what to write."""
    loc = tuple(error["loc"])
    owner = LISTS.get(str(loc[0]), CaseFile) if len(loc) > 1 else CaseFile
    key = ".".join(str(part) for part in loc)
    known = [field.alias or name for name, field in owner.model_fields.items()]
    match error["type"]:
        case "extra_forbidden":
            return f"{key}: unknown key; {meant(str(loc[-1]), known)}"
        case "missing":
            return f"{key}: is missing{_about(owner, str(loc[-1]))}"
    reason = str(error["msg"]).removeprefix("Value error, ")
    return f"{key}={error['input']!r}: {reason[0].lower()}{reason[1:]}{_about(owner, str(loc[-1]))}"


def _about(owner: type[BaseModel], key: str) -> str:
    described: Iterable[str | None] = (
        field.description for name, field in owner.model_fields.items() if key in (name, field.alias)
    )
    return "".join(f"; it is: {' '.join(text.split())}" for text in described if text)
