"""The page's own pictures: who waits for whom now, and which settings were in force since the daemon looks."""

from collections.abc import Sequence
from html import escape

from policies.base import Rates
from simulators.plant import Setpoints
from tuner.report import pictures, words
from tuner.report.pictures import Chart, Series
from tuner.report.story import Picture, ends_table, picture

Past = Sequence[tuple[float, Setpoints]]
"""(second, settings in force) at each of the last ticks, oldest first."""
POINTS_MOST = 120
WIDTH, BAR, GAP, LABEL, SAID = 392, 22, 34, 74, 90
"""Pixels of the two bars, and of the words before and behind them."""


def waiting(rates: Rates) -> str:
    """Two bars, trainer and generator, each its share at work and its share waiting; empty where neither is known."""
    sides = [("trainer", rates.trainer_idle_frac, 1), ("generator", rates.generator_idle_frac, 0)]
    known = [(name, idle, tone) for name, idle, tone in sides if idle is not None]
    if not known:
        return ""
    told = "; ".join(f"the {name} waits {words.percent(idle)} of the time" for name, idle, _ in known)
    rows = "".join(_bar(i, name, min(1.0, max(0.0, idle)), tone) for i, (name, idle, tone) in enumerate(known))
    height = GAP * len(known)
    return (
        f'<svg role="img" aria-label="{escape(told)}" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" xmlns="http://www.w3.org/2000/svg">{rows}</svg>'
    )


def _bar(row: int, name: str, idle: float, tone: int) -> str:
    room, top = WIDTH - LABEL - SAID, row * GAP + (GAP - BAR) // 2
    work, middle = round((1.0 - idle) * room, 1), top + BAR / 2 + 4
    return (
        f'<text class="strong" x="0" y="{middle}">{escape(name)}</text>'
        f'<rect class="t{tone}" x="{LABEL}" y="{top}" width="{work}" height="{BAR}"/>'
        f'<rect class="idle" x="{LABEL + work}" y="{top}" width="{round(room - work, 1)}" height="{BAR}"/>'
        f'<text class="strong" x="{WIDTH}" y="{middle}" text-anchor="end">waits {words.percent(idle)}</text>'
    )


def settings_over_time(past: Past) -> tuple[Picture, ...]:
    """Which GPUs served whom, and how much was in flight; none before two looks."""
    found = (
        _over_time(past, "gpus", "GPUs in force", "GPUs", ("gpus_trainer", "gpus_generator")),
        _over_time(past, "cap", "Rollouts in flight, at most", "rollouts", ("max_in_flight",)),
    )
    return tuple(p for p in found if p is not None)


def _over_time(past: Past, ident: str, title: str, unit: str, names: tuple[str, ...]) -> Picture | None:
    shown = thinned(past)
    columns = {name: tuple(_number(settings, name) for _, settings in shown) for name in names}
    known = {name: column for name, column in columns.items() if any(v is not None for v in column)}
    if len(shown) < 2 or not known:
        return None
    last_s = shown[-1][0]
    minutes = tuple((at_s - last_s) / 60.0 for at_s, _ in shown)
    plain = {"gpus_trainer": ("trainer", 1), "gpus_generator": ("generator", 0), "max_in_flight": ("in flight", 0)}
    series = tuple(Series(plain[name][0], column, plain[name][1]) for name, column in known.items())
    chart = Chart(ident, title, minutes, "minutes from now", unit, series)
    note = f"As the job showed them at the last {len(past)} ticks."
    return picture(chart, title, note, pictures.lines, ends_table(series, unit), half=True)


def thinned(past: Past) -> Past:
    """At most about POINTS_MOST of them, the ends included; where a setting changes, both sides of the step."""
    every = max(1, len(past) // POINTS_MOST)
    last = len(past) - 1
    return [
        past[i]
        for i in range(len(past))
        if i in (0, last) or i % every == 0 or past[i][1] != past[i - 1][1] or past[i][1] != past[i + 1][1]
    ]


def _number(settings: Setpoints, name: str) -> float | None:
    value = {"gpus_trainer": settings.gpus_trainer, "gpus_generator": settings.gpus_generator}.get(name)
    if name == "max_in_flight":
        value = settings.max_in_flight
    return None if value is None else float(value)
