"""The report of a simulated job: one self-contained HTML file in the style of all our reports."""

from tuner.answers.simulate import Simulated
from tuner.report import words
from tuner.report.html import page
from tuner.report.simulated import Run, figure_rows, origin, told
from tuner.report.simulated_pictures import pictures_of_run


def render_simulated(answer: Simulated, run: Run) -> str:
    """The report of `equipoise simulate`."""
    return page(
        "simulated.html.jinja",
        {"figure": words.figure, "percent": words.percent},
        answer=answer,
        origin=origin(answer),
        figures=figure_rows(answer.figures),
        levers=[told(lever) for lever in answer.levers],
        pictures=pictures_of_run(run.plant.log),
        outage=any(not entry.seen for entry in run.plant.log),
    )
