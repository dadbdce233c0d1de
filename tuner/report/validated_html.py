"""A validation as one self-contained HTML file, in the style of the advisor's report."""

from simulators.published import Kind
from tuner.answers.validate import Validated
from tuner.report import validated, validated_pictures
from tuner.report.html import page

WIDE = 860
"""Pixels of a picture."""

KINDS = (
    (Kind.PREDICTION, "Predictions: figures that the model did not see"),
    (Kind.IDENTITY, "Identities: published figures that must agree among themselves"),
    (Kind.BOUND, "Bounds, orders and verdicts"),
    (Kind.FIT, "Fits: no residual degree of freedom, not counted"),
)


def render(answer: Validated) -> str:
    """The page."""
    return page(
        "validated.html.jinja",
        {"cells": validated.cells, "said": validated.said},
        answer=answer,
        errors=validated_pictures.errors(answer, WIDE),
        series={case.id: validated_pictures.series(answer, case, WIDE) for case in answer.cases},
        legend=validated_pictures.legend(),
        head=validated.HEAD,
        kinds=KINDS,
    )
