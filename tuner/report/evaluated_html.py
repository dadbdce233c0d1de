"""An evaluation as one self-contained HTML file: demands, the table, and the trajectories of every scenario."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from tuner.evaluation.tasks import NOTHING, ORACLE, Point, Run
from tuner.report import pictures, words
from tuner.report.evaluated import DEMANDS, HEAD, Evaluated, body, demand_cells, headline, notes
from tuner.report.html import page
from tuner.report.pictures import Chart, Series
from tuner.report.story import Picture, ends_table, picture
from tuner.version import VERSION

GRID = tuple(i / 60 for i in range(1, 61))
"""Shares of the work at which all runs are drawn."""
DRAWN: Mapping[str, tuple[str, str, Callable[[Point], float | None]]] = {
    "trainer": ("GPUs of the trainer", "GPUs", lambda p: p.gpus_trainer),
    "prefill": ("GPUs of prefill", "GPUs", lambda p: p.gpus_prefill),
    "flight": ("Limit in flight", "rollouts", lambda p: p.in_flight_limit),
    "each": ("Limit in flight of each engine", "rollouts", lambda p: p.in_flight_per_engine_limit),
    "ratio": ("Oversampling ratio", "started over kept", lambda p: p.oversampling_ratio),
    "rate": ("Useful rollouts", "rollouts/s", lambda p: p.rate_per_s),
    "idle": ("Trainer idle", "share", lambda p: p.trainer_idle_frac),
    "unused": ("Generator unused", "share", lambda p: 1.0 - p.generator_util_frac),
    "staleness": ("Staleness", "versions", lambda p: p.staleness),
}
"""What is drawn over progress: title, unit, and where it stands in a point."""
KNOBS = ("prefill", "flight", "each", "ratio")
"""Drawn where somebody turned them."""
TONES = (0, 1, 2, 3, 5, 8)


def render_evaluated(told: Evaluated) -> str:
    """The report of `equipoise evaluate`."""
    names = list(dict.fromkeys(row.scenario for row in told.rows))
    return page(
        "evaluated.html.jinja",
        {"figure": words.figure, "percent": words.percent},
        told=told,
        version=VERSION,
        headline=headline(told),
        demand_head=DEMANDS,
        demands=[demand_cells(f) for f in told.demands],
        outside=[demand_cells(f) for f in told.outside],
        head=HEAD,
        rows=body(told.rows),
        notes=notes(told),
        stories=[(name, _yardstick(told, name), _pictures(told, name)) for name in names],
    )


def _first_runs(told: Evaluated, name: str) -> list[Run]:
    """The runs of the scenario's first seed: the yardstick, then the policies."""
    runs = [run for run in told.runs if run.name == name]
    seed = min(run.seed for run in runs)
    runs = [run for run in runs if run.seed == seed]
    return sorted(runs, key=lambda run: run.policy != ORACLE)


def _yardstick(told: Evaluated, name: str) -> str:
    run = next(run for run in _first_runs(told, name) if run.policy == ORACLE)
    hours = words.figure(run.seconds / 3600.0)
    still = words.figure((run.best_static_s or run.seconds) / 3600.0)
    free = words.figure((run.bound_s or run.seconds) / 3600.0)
    return f"Clairvoyant: {hours} h ({run.how}). Best static: {still} h ({run.best_static}). With free moves: {free} h."


def _pictures(told: Evaluated, name: str) -> tuple[Picture, ...]:
    runs = [run for run in _first_runs(told, name) if len(run.points) > 1]
    shown = [i for i, (_, _, of) in DRAWN.items() if i not in KNOBS or len({of(p) for r in runs for p in r.points}) > 1]
    drawn = (_picture(f"{name}-{ident}", runs, *DRAWN[ident]) for ident in shown)
    return tuple(found for found in drawn if found is not None)


def _picture(
    ident: str, runs: Sequence[Run], title: str, unit: str, of: Callable[[Point], float | None]
) -> Picture | None:
    lines = [(run.policy, _on_grid(run.points, of)) for run in runs]
    series = tuple(
        Series("doing nothing" if policy == NOTHING else policy, values, TONES[i % len(TONES)], policy == ORACLE)
        for i, (policy, values) in enumerate(lines)
        if any(value is not None for value in values)
    )
    if not series:
        return None
    share = unit == "share"
    chart = Chart(ident, title, tuple(GRID), "share of the work done", unit, series, share=share)
    how: Callable[[float], str] = words.percent if share else words.figure
    note = "Dashed: the clairvoyant." if any(s.dashed for s in series) else ""
    return picture(chart, title, note, pictures.lines, ends_table(series, unit, how), half=True)


def _on_grid(points: Sequence[Point], of: Callable[[Point], float | None]) -> tuple[float | None, ...]:
    """The value in force at each share of the work."""
    found: list[float | None] = []
    for share in GRID:
        after = next((late for early, late in pairwise(points) if early.useful < share <= late.useful), None)
        found.append(of(after if after is not None else points[0 if share <= points[0].useful else -1]))
    return tuple(found)
