"""The report of a simulated job: one self-contained HTML file in the style of all our reports."""

from tuner.report.html import environment, style
from tuner.report.simulated import Run, figure_rows, origin, told
from tuner.report.simulated_pictures import pictures_of_run
from tuner.simulation_answer import Simulated


def render_simulated(answer: Simulated, run: Run) -> str:
    """The page. All text is escaped; only the charts, which we draw ourselves, are markup."""
    return (
        environment()
        .get_template("simulated.html.jinja")
        .render(
            answer=answer,
            style=style(),
            origin=origin(answer),
            figures=figure_rows(answer.figures),
            levers=[told(lever) for lever in answer.levers],
            pictures=pictures_of_run(run.plant.log),
            outage=any(not entry.seen for entry in run.plant.log),
        )
    )
