"""Charts as SVG text: pure functions from numbers to markup, no script, no network, colours by style sheet.

Every chart is drawn for a given width in pixels, so that its letters keep their size on a narrow screen.
Colour is never the only carrier: each mark has a tooltip, and the report sets a legend and a table beside each chart.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, isfinite, log10

from policies.base import SplitCurve, SplitPoint
from tuner.report.words import figure

HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 220, 58, 14, 24, 38
"""Pixels of a chart and of its margins."""
TINY_SPAN = 1e-9
"""A range narrower than this, relative to its ends, is one value."""
MARKS = 60
"""With more points than this a line has no marks."""


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    values: tuple[float | None, ...]
    tone: int
    """Index of a colour in the style sheet."""
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """Several series over one axis. `excluded` are positions that rates and trends leave out: drawn hatched."""

    ident: str
    """Unique in the document."""
    label: str
    """What a screen reader says."""
    x: tuple[float, ...]
    x_name: str
    y_name: str
    series: tuple[Series, ...]
    excluded: frozenset[int] = frozenset()
    share: bool = False
    """Axis from 0 to 1, written as percent."""


@dataclass(frozen=True, slots=True)
class Frame:
    """The rectangle of a chart and its two scales."""

    width: int
    x_low: float
    x_high: float
    y_low: float
    y_high: float

    def x(self, value: float) -> float:
        span = self.x_high - self.x_low
        part = 0.5 if span <= 0 else (value - self.x_low) / span
        return round(LEFT + part * (self.width - LEFT - RIGHT), 1)

    def y(self, value: float) -> float:
        span = self.y_high - self.y_low
        part = 0.0 if span <= 0 else (value - self.y_low) / span
        return round(HEIGHT - BOTTOM - min(1.0, max(0.0, part)) * (HEIGHT - TOP - BOTTOM), 1)


def ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers that cover [low, high], at most about `most` of them.

    >>> ticks(0, 263, 5)
    [0.0, 100.0, 200.0, 300.0]
    """
    span = high - low
    if not isfinite(span) or span <= TINY_SPAN * max(1.0, abs(low), abs(high)):
        return [low]
    raw = span / max(1, most)
    power = 10.0 ** floor(log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * 0.999)
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def lines(chart: Chart, width: int) -> str:
    """Each series as a line, broken where a value is unknown."""
    values = [v for s in chart.series for v in s.values if v is not None]
    low, high = (0.0, 1.0) if chart.share else (min([0.0, *values]), max([0.0, *values]))
    grid = ticks(low, high if high - low > TINY_SPAN else low + 1.0, 5)
    frame = Frame(width, min(chart.x), max(chart.x), grid[0], grid[-1])
    body = [
        _grid(frame, grid, chart.share),
        _y_name(chart.y_name),
        _x_axis(frame, chart),
        _excluded_bands(frame, chart),
    ]
    body += [_line(frame, chart, s) for s in chart.series]
    return _svg(chart.ident, chart.label, width, body)


def stacked(chart: Chart, width: int) -> str:
    """Each position as a bar of its series on top of one another; excluded ones hatched."""
    count = len(chart.x)
    totals = [sum(max(0.0, s.values[i] or 0.0) for s in chart.series) for i in range(count)]
    grid = ticks(0.0, max([*totals, 1e-6]), 5)
    frame = Frame(width, -0.5, count - 0.5, 0.0, grid[-1])
    room = (width - LEFT - RIGHT) / count
    bar = max(1.0, min(48.0, room * (0.82 if room > 4 else 1.0)))
    body = [_grid(frame, grid, False), _y_name(chart.y_name), _bar_axis(frame, chart)]
    for i in range(count):
        left, base = round(frame.x(i) - bar / 2, 1), 0.0
        for s in chart.series:
            value = max(0.0, s.values[i] or 0.0)
            if value > 0.0:
                top, bottom = frame.y(base + value), frame.y(base)
                tip = f"{chart.x_name} {figure(chart.x[i])}: {s.name} {figure(value)} {chart.y_name}"
                body.append(_rect((left, top, bar, bottom - top), f"t{s.tone}", tip))
            base += value
        if i in chart.excluded:
            tip = f"{chart.x_name} {figure(chart.x[i])}: left out of rates and trends"
            box = (left, frame.y(base), bar, frame.y(0.0) - frame.y(base))
            body.append(_rect(box, "hatched", tip, f' fill="url(#{chart.ident}-hatch)"'))
    return _svg(chart.ident, chart.label, width, body)


def split(curve: SplitCurve, ident: str, width: int) -> str:
    """Throughput relative to now against the trainer's GPUs, its 80 % band, and the points in force and proposed.

    Splits that are not legal stay on the curve as hollow marks: a reader sees what a framework's rule costs.
    """
    points = sorted(curve.points, key=lambda p: p.gpus_trainer)
    highs, lows = [p.throughput.high for p in points], [p.throughput.low for p in points]
    grid = ticks(min(lows), max(max(highs), min(lows) + 0.05), 5)
    gpus = [p.gpus_trainer for p in points]
    frame = Frame(width, min(gpus), max(gpus), grid[0], grid[-1])
    there = [(frame.x(p.gpus_trainer), frame.y(p.throughput.high)) for p in points]
    back = [(frame.x(p.gpus_trainer), frame.y(p.throughput.low)) for p in reversed(points)]
    mean = [(frame.x(p.gpus_trainer), frame.y(p.throughput.mean)) for p in points]
    axis = Chart(ident, "", tuple(float(g) for g in gpus), "trainer GPUs", "", ())
    body = [
        _grid(frame, grid, True),
        _y_name("of now"),
        _x_axis(frame, axis),
        f'<polygon class="band" points="{_points([*there, *back])}"/>',
        f'<polyline class="line t0" points="{_points(mean)}"/>',
        *(_split_mark(frame, p) for p in points),
    ]
    named = (("now", curve.current_gpus_trainer, 18), ("proposed", curve.proposed_gpus_trainer, -10))
    for p in points:
        body += [_named_point(frame, p, name, lift) for name, at, lift in named if p.gpus_trainer == at]
    return _svg(ident, "Throughput against trainer GPUs", width, body)


def _split_mark(frame: Frame, p: SplitPoint) -> str:
    x, y, look = frame.x(p.gpus_trainer), frame.y(p.throughput.mean), "mark t0" if p.legal else "mark illegal"
    return f'<circle class="{look}" cx="{x}" cy="{y}" r="3"><title>{escape(_split_tip(p))}</title></circle>'


def _named_point(frame: Frame, p: SplitPoint, name: str, lift: int) -> str:
    x, y, tip = frame.x(p.gpus_trainer), frame.y(p.throughput.mean), escape(_split_tip(p))
    anchor = "start" if x < LEFT + 40 else "end" if x > frame.width - RIGHT - 40 else "middle"
    dot = f'<circle class="point {name}" cx="{x}" cy="{y}" r="6"><title>{tip}</title></circle>'
    return f'{dot}<text class="strong" x="{x}" y="{round(y + lift, 1)}" text-anchor="{anchor}">{name}</text>'


def _split_tip(p: SplitPoint) -> str:
    r = p.throughput
    split_up = f"{p.gpus_trainer} trainer + {p.gpus_generator} generator GPUs"
    note = f"; {p.note}" if p.note else "" if p.legal else "; not legal"
    return f"{split_up}: {r.mean:.0%} of now (80%: {r.low:.0%} to {r.high:.0%}){note}"


def _svg(ident: str, label: str, width: int, body: Iterable[str]) -> str:
    hatch = (
        f'<defs><pattern id="{ident}-hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><rect class="veil" width="6" height="6"/>'
        '<line class="hatch" x1="0" y1="0" x2="0" y2="6"/></pattern></defs>'
    )
    return (
        f'<svg role="img" aria-label="{escape(label)}" viewBox="0 0 {width} {HEIGHT}" width="{width}" '
        f'height="{HEIGHT}" xmlns="http://www.w3.org/2000/svg">{hatch}{"".join(body)}</svg>'
    )


def _grid(frame: Frame, grid: Sequence[float], share: bool) -> str:
    parts = []
    for value in grid:
        y = frame.y(value)
        label = f"{value:.0%}" if share else figure(value)
        parts.append(f'<line class="grid" x1="{LEFT}" y1="{y}" x2="{frame.width - RIGHT}" y2="{y}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{label}</text>')
    return "".join(parts)


def _y_name(name: str) -> str:
    anchor = "end" if len(name) < 9 else "middle"
    return f'<text class="name" x="{LEFT - 6}" y="11" text-anchor="{anchor}">{escape(name)}</text>'


def _x_axis(frame: Frame, chart: Chart) -> str:
    most = max(2, (frame.width - LEFT - RIGHT) // 70)
    span = ticks(frame.x_low, frame.x_high, most)
    whole = all(float(x).is_integer() for x in chart.x)  # no half steps between steps
    inside = [v for v in span if frame.x_low <= v <= frame.x_high and (v.is_integer() or not whole)]
    return "".join(_x_label(frame.x(v), figure(v)) for v in inside) + _x_name(frame, chart.x_name)


def _bar_axis(frame: Frame, chart: Chart) -> str:
    every = max(1, ceil(len(chart.x) / max(1, (frame.width - LEFT - RIGHT) // 46)))
    shown = range(0, len(chart.x), every)
    return "".join(_x_label(frame.x(i), figure(chart.x[i])) for i in shown) + _x_name(frame, chart.x_name)


def _x_label(x: float, text: str) -> str:
    return f'<text x="{x}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{escape(text)}</text>'


def _x_name(frame: Frame, name: str) -> str:
    middle = (LEFT + frame.width - RIGHT) / 2
    return f'<text class="name" x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{escape(name)}</text>'


def _excluded_bands(frame: Frame, chart: Chart) -> str:
    width = max(4.0, min(24.0, (frame.width - LEFT - RIGHT) / max(1, len(chart.x))))
    boxes = []
    for i in sorted(chart.excluded):
        left = max(float(LEFT), frame.x(chart.x[i]) - width / 2)
        right = min(float(frame.width - RIGHT), frame.x(chart.x[i]) + width / 2)
        tip = f"{chart.x_name} {figure(chart.x[i])}: left out of rates and trends"
        box = (round(left, 1), TOP, round(right - left, 1), HEIGHT - TOP - BOTTOM)
        boxes.append(_rect(box, "hatched", tip, f' fill="url(#{chart.ident}-hatch)"'))
    return "".join(boxes)


def _line(frame: Frame, chart: Chart, series: Series) -> str:
    runs: list[list[tuple[float, float]]] = [[]]
    marks = []
    for x, value in zip(chart.x, series.values, strict=True):
        if value is None:
            runs.append([])
            continue
        at = (frame.x(x), frame.y(value))
        runs[-1].append(at)
        tip = escape(f"{chart.x_name} {figure(x)}: {series.name} {figure(value)}")
        marks.append(
            f'<circle class="mark t{series.tone}" cx="{at[0]}" cy="{at[1]}" r="2.5"><title>{tip}</title></circle>'
        )
    dash = " dashed" if series.dashed else ""
    drawn = "".join(f'<polyline class="line t{series.tone}{dash}" points="{_points(r)}"/>' for r in runs if len(r) > 1)
    return drawn + ("".join(marks) if len(marks) <= MARKS else "")


def _points(at: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in at)


def _rect(box: tuple[float, float, float, float], tone: str, tip: str, more: str = "") -> str:
    x, y, width, height = box
    return (
        f'<rect class="{tone}" x="{x:g}" y="{y:g}" width="{width:g}" height="{round(height, 1):g}"{more}>'
        f"<title>{escape(tip)}</title></rect>"
    )
