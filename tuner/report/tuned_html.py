"""A study's outcome as one self-contained HTML file."""

from tuner.report import words
from tuner.report.html import page
from tuner.report.tuned import (
    COMPARED,
    HEAD,
    Tuned,
    cells,
    comparisons,
    fragment,
    front_head,
    front_rows,
    headline,
    notes,
)
from tuner.report.tuned_pictures import pictures_of
from tuner.studies.space import LIMITED
from tuner.version import VERSION


def render_tuned(told: Tuned) -> str:
    """The report of `equipoise tune`."""
    o = told.outcome
    return page(
        "tuned.html.jinja",
        {"figure": words.figure, "percent": words.percent},
        told=told,
        version=VERSION,
        headline=headline(told),
        head=HEAD,
        settings=[cells(s) for s in o.settings if s.name != LIMITED],
        compared_head=COMPARED,
        compared=comparisons(o),
        front_head=front_head(o),
        front=front_rows(o),
        fragment=fragment(told),
        notes=notes(told),
        pictures=pictures_of(o),
    )
