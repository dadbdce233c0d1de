"""The JSON answer of `equipoise validate`: people script against these keys, so they are added to, never renamed.

Unknown is null. The JSON Schema in tuner/answers/schema/ is made from it (`python -m tuner.answers.validate`).
"""

import json
import sys
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from simulators.published import Kind, Naive, Relation, Role
from tuner.answers.advise import Frac, Text

SCHEMA_FILE = Path(__file__).parent / "schema" / "validate.schema.json"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, populate_by_name=True)


class FittedParameter(_Part):
    name: Text
    value: FiniteFloat
    unit: Text
    low: FiniteFloat
    high: FiniteFloat
    about: Text


class CaseSource(_Part):
    what: Text
    where: Text
    read: Text
    """How the figures reached us: primary, third-party, chart or computed."""


class ValidatedRow(_Part):
    """One published figure with the model's answer beside it."""

    case: Text
    kind: Annotated[Kind, Field(alias="class")]
    """identity, prediction or bound; fit where a prediction has no residual degree of freedom."""
    role: Role
    label: Text
    quantity: Text
    unit: Text
    output: Text
    measured: FiniteFloat
    predicted: FiniteFloat
    relation: Relation
    """How measured must stand to predicted."""
    error_frac: FiniteFloat | None
    """(predicted - measured) / measured; null where 0 was measured."""
    tolerance_frac: FiniteFloat | None
    tolerance_abs: FiniteFloat | None
    within: bool
    free_parameters: int
    residual_degrees_of_freedom: int | None
    """Null without free parameters."""
    baseline: FiniteFloat | None
    """What the naive baseline says; null where there is none (identities, bounds, calibration rows)."""
    baseline_error_frac: FiniteFloat | None
    better_than_baseline: bool | None
    note: Text


class ValidatedCase(_Part):
    id: Text
    title: Text
    kind: Annotated[Kind, Field(alias="class")]
    model: Text
    formula: Text | None
    """Of a closed form; null for a model of whole jobs."""
    parameters: list[FittedParameter]
    free_parameters: int
    calibration_figures: int
    residual_degrees_of_freedom: int | None
    baseline: Naive | None
    baseline_says: Text | None
    note: Text
    sources: list[CaseSource]


class Count(_Part):
    cases: int
    rows: int
    """Judged rows: those that no parameter was fitted to."""
    held: int
    """Of them, those within their tolerance (or true, of a bound)."""


class ValidationSummary(_Part):
    """Over all judged rows of class prediction."""

    median_error_frac: FiniteFloat | None
    worst_error_frac: FiniteFloat | None
    worst_row: Text | None
    better_than_baseline_frac: Frac | None
    compared_with_baseline: int
    """Rows that have a baseline."""
    counts: dict[Kind, Count]


class Validated(_Part):
    """The whole answer of `equipoise validate --json`."""

    schema_version: Literal[1]
    product_version: Text
    headline: Text
    summary: ValidationSummary
    cases: list[ValidatedCase]
    rows: list[ValidatedRow]


def to_json(answer: Validated) -> str:
    """One document, indented, keys in the order of the model."""
    return json.dumps(answer.model_dump(mode="json", by_alias=True), indent=2, ensure_ascii=False, allow_nan=False)


def schema_json() -> str:
    """The JSON Schema of `Validated` as the package ships it."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return json.dumps(schema | Validated.model_json_schema(mode="serialization"), indent=2) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_json())
