"""Pictures of a recorded run, as one SVG file: what drifted, who waited, what was set, what came out, what was learned.

usage: python -m examples.live_job.plots FOLDER OUT.svg          (FOLDER: of a run, with steps.jsonl and its journal)
"""

import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

from examples.live_job.report import steps_of
from tuner.journal import viewed
from tuner.report.pictures import HEIGHT, Chart, Series, lines

WIDTH = 720
HEAD = 26
"""Pixels above each picture, for its title and legend."""
SMOOTH = 5
"""Steps whose median is drawn: single steps scatter by half."""
TONES = ("#2f6fb3", "#e0912f", "#3f9a5f")
STYLE = "text{font:12px sans-serif;fill:#444}.title{font-weight:bold}.grid{stroke:#ddd}.line{fill:none;stroke-width:2}"

Step = dict[str, Any]


def smoothed(steps: Sequence[Step], value: Callable[[Step], float]) -> tuple[float | None, ...]:
    found = [value(step) for step in steps]
    half = SMOOTH // 2
    return tuple(median(found[max(0, i - half) : i + half + 1]) for i in range(len(found)))


def panels(folder: Path) -> list[tuple[str, Chart]]:
    steps = steps_of(folder)[1:]
    began = steps[0]["timestamp"]
    x = tuple(step["timestamp"] - began for step in steps)

    def of(name: str, title: str, y: str, series: dict[str, Callable[[Step], float]], share: bool = False) -> Any:
        drawn = tuple(Series(label, smoothed(steps, how), tone) for tone, (label, how) in enumerate(series.items()))
        return title, Chart(name, title, x, "seconds", y, drawn, share=share)

    return [
        of(
            "drift",
            "What drifts: tokens of a rollout",
            "tokens",
            {"answers": lambda s: s["resp_len_mean"], "prompt and tools": lambda s: s["prompt_len_mean"]},
        ),
        of(
            "waits",
            "Who waits, as a share of the step",
            "share",
            {
                "trainer": lambda s: s["trainer_wait_s"] / s["step_s"],
                "generator": lambda s: min(1.0, s["generator_wait_s"] / s["step_s"]),
            },
            share=True,
        ),
        _settings(folder, began, x[-1]),
        of(
            "rate",
            "What comes out: useful rollouts per second",
            "1/s",
            {"useful rollouts": lambda s: s["batch_rollouts"] / s["step_s"]},
        ),
        of(
            "learned",
            "What is learned: share of the answers that are good",
            "share",
            {"good answers": lambda s: s["reward_mean"]},
            share=True,
        ),
    ]


def _settings(folder: Path, began: float, end: float) -> tuple[str, Chart]:
    """As the controller saw them in force, tick by tick."""
    with closing(viewed(folder / "equipoise.journal")) as book:
        ticks = [e for e in book.entries() if 0.0 <= e.at_s - began <= end]
    series = (
        Series("slices of the trainer", tuple(e.seen.in_force.gpus_trainer for e in ticks), 0),
        Series("slices of the engines", tuple(e.seen.in_force.gpus_generator for e in ticks), 1),
        Series("rollouts in flight / 10", tuple((e.seen.in_force.max_in_flight or 0) / 10.0 for e in ticks), 2),
    )
    return "What is in force", Chart(
        "settings", "settings", tuple(e.at_s - began for e in ticks), "seconds", "", series
    )


def document(folder: Path) -> str:
    parts = []
    for i, (title, chart) in enumerate(panels(folder)):
        top = i * (HEIGHT + HEAD)
        legend = "".join(
            f'<tspan dx="14" style="fill:{TONES[s.tone]}">&#9632; {s.name}</tspan>' for s in chart.series if s.name
        )
        parts.append(f'<text x="58" y="{top + 16}"><tspan class="title">{title}</tspan>{legend}</text>')
        parts.append(f'<g transform="translate(0 {top + HEAD})">{lines(chart, WIDTH)}</g>')
    tones = "".join(f".line.t{i}{{stroke:{c}}}.mark.t{i}{{fill:{c}}}" for i, c in enumerate(TONES))
    height = len(parts) // 2 * (HEIGHT + HEAD)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">'
        f'<style>{STYLE}{tones}</style><rect width="100%" height="100%" fill="#fff"/>{"".join(parts)}</svg>\n'
    )


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(document(Path(sys.argv[1])))
