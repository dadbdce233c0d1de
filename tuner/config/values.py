"""What the values of a job file are made of: numbers with their bounds, and a section that refuses unknown keys."""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, FiniteFloat


def not_bool(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("must be a number, not true or false")
    return value


Count = Annotated[int, BeforeValidator(not_bool), Field(ge=1, le=10**12)]
Seconds = Annotated[FiniteFloat, BeforeValidator(not_bool), Field(gt=0)]
Number = Annotated[FiniteFloat, BeforeValidator(not_bool), Field(ge=0)]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)
