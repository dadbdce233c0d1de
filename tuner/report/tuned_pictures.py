"""Pictures of a study: its history, slices through it, the front of several objectives, importances, the hold-out."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from tuner.report.pictures import BOTTOM, HEIGHT, LEFT, RIGHT, Frame, ticks
from tuner.report.story import HALF, NARROW, WIDE, Picture, Table
from tuner.report.tuned import plain, told_value, written
from tuner.report.words import figure, percent
from tuner.studies.objectives import OBJECTIVES
from tuner.studies.outcome import Compared, Outcome, Told
from tuner.studies.space import Dimension

ROW, NAMES = 22, 170
"""Pixels: height of a row of bars or dots, room for its name."""
WHOLE, GIVEN_UP, BEST = 0, 8, 3
"""Colours: measured on all cases, given up early, the front and the one that was chosen."""
MOST_ROWS = 40
"""Cases that the hold-out shows one by one."""
GAINS = ("useful", "worst")


@dataclass(frozen=True, slots=True)
class Dot:
    x: float
    y: float
    tone: int
    tip: str


@dataclass(frozen=True, slots=True)
class Cloud:
    """Dots over two axes, and a line through some."""

    ident: str
    label: str
    x_name: str
    y_name: str
    dots: tuple[Dot, ...]
    line: tuple[tuple[float, float], ...] = ()
    x_percent: bool = False
    y_percent: bool = False


def pictures_of(o: Outcome) -> tuple[Picture, ...]:
    """Every picture that the study carries, in reading order."""
    found = [_history(o), _front(o), *(_slice(o, d) for d in o.space if not d.choices or len(d.choices) > 2)]
    found += [_importances(o), _held_out(o)]
    return tuple(p for p in found if p is not None)


def _shown(o: Outcome) -> list[Told]:
    """Trials that have a value and break nothing."""
    return [t for t in o.trials if t.values and t.feasible and t.state in ("complete", "pruned")]


def _tone(o: Outcome, t: Told) -> int:
    if o.best is not None and t.number == o.best.number:
        return BEST
    return WHOLE if t.state == "complete" else GIVEN_UP


def _tip(o: Outcome, t: Told) -> str:
    values = ", ".join(f"{n} {told_value(n, v)}" for n, v in zip(o.objectives, t.values, strict=True))
    point = ", ".join(f"{plain(n)} {written(v)}" for n, v in t.point.items())
    return f"trial {t.number}: {values}; {point}"


def _history(o: Outcome) -> Picture | None:
    trials, name = _shown(o), o.objectives[0]
    if len(trials) < 2:
        return None
    pick = max if OBJECTIVES[name].better == "maximize" else min
    line: list[tuple[float, float]] = []
    for t in trials:
        if t.state == "complete":
            best = t.values[0] if not line else pick(line[-1][1], t.values[0])
            line += [(float(t.number), line[-1][1]), (float(t.number), best)] if line else [(float(t.number), best)]
    dots = tuple(Dot(t.number, t.values[0], _tone(o, t), _tip(o, t)) for t in trials)
    cloud = Cloud("history", "Value of each trial", "trial", name, dots, tuple(line), y_percent=name in GAINS)
    whole = sum(t.state == "complete" for t in trials)
    rows: tuple[tuple[str, ...], ...] = (
        ("measured on all cases", str(whole)),
        ("given up early", str(len(trials) - whole)),
    )
    broken = sum(not t.feasible for t in o.trials)
    rows += (("illegal, or broke a bound", str(broken)),) if broken else ()
    note = "Grey: given up early, with the value seen last. Orange: the one that was chosen. Line: the best so far."
    return _picture(cloud, "History", note, Table(("trials", ""), rows))


def _front(o: Outcome) -> Picture | None:
    trials = _shown(o)
    if len(o.objectives) < 2 or len(trials) < 2 or not o.front:
        return None
    front = {t.number for t in o.front}
    dots = tuple(
        Dot(t.values[0], t.values[1], BEST if t.number in front else WHOLE, _tip(o, t))
        for t in sorted(trials, key=lambda t: t.number in front)
    )
    first, second = o.objectives[:2]
    line = tuple(sorted((t.values[0], t.values[1]) for t in o.front))
    titles = [
        f"{OBJECTIVES[n].title} ({'more' if OBJECTIVES[n].better == 'maximize' else 'less'} is better)"
        for n in (first, second)
    ]
    cloud = Cloud("front", "Pareto front", first, second, dots, line, first in GAINS, second in GAINS)
    rows = tuple(_end(o, i) for i in (0, 1))
    note = f"{titles[0]} against {titles[1]}; orange: nothing is better in both."
    return _picture(cloud, "Pareto front", note, Table((f"{len(front)} on it", first, second), rows))


def _end(o: Outcome, by: int) -> tuple[str, str, str]:
    """The trial of the front that is best by one of the first two objectives."""
    name = o.objectives[by]
    most = OBJECTIVES[name].better == "maximize"
    best = (max if most else min)(o.front, key=lambda t: t.values[by])
    first, second = (told_value(n, v) for n, v in zip(o.objectives[:2], best.values[:2], strict=True))
    return f"{'most' if most else 'least'} {name}", first, second


def _slice(o: Outcome, d: Dimension) -> Picture | None:
    trials = [t for t in _shown(o) if d.name in t.point]
    if len(trials) < 2:
        return None
    name = o.objectives[0]
    dots = tuple(Dot(float(t.point[d.name]), t.values[0], _tone(o, t), _tip(o, t)) for t in trials)
    cloud = Cloud(f"slice-{plain(d.name)}", plain(d.name), plain(d.name), name, dots, y_percent=name in GAINS)
    found = next((s for s in o.settings if s.name == d.name), None)
    rows = [("now", written(d.now)), ("searched", f"{written(d.low)} to {written(d.high)}")]
    rows += [] if found is None else [("found", written(found.value))]
    return _picture(
        cloud, plain(d.name), "Each trial's value against this coordinate.", Table(("", ""), tuple(rows)), half=True
    )


def _importances(o: Outcome) -> Picture | None:
    if not o.importances:
        return None
    rows = [(plain(name), share, percent(share)) for name, share in o.importances.items()]
    table = Table(("setting", "share"), tuple((name, text) for name, _, text in rows))
    note = "Share of the objective's variance that each coordinate explains among the better trials (PED-ANOVA)."
    wide, narrow = (_bars("importances", rows, width) for width in (HALF, NARROW))
    return Picture("importances", "What decides", note, wide, narrow, (), table, half=True)


def _held_out(o: Outcome) -> Picture | None:
    there = o.against_now
    if there is None or len(there.cases) < 2:
        return None
    kind = "scenarios, draws and seeds" if o.unseen else "seeds"
    note = f"Gain of what was found over today, on {kind} that nothing was chosen on; the band is the 80% interval."
    rows = tuple((name, f"{gain:+.1%}") for name, gain in there.cases)
    wide, narrow = (_gains("hold-out", there, width) for width in (HALF, NARROW))
    summary = Table(("", ""), (("cases", str(len(rows))), ("mean gain", f"{there.gain.mean:+.1%}")))
    return Picture("hold-out", "Hold-out", note, wide, narrow, (), summary, Table(("case", "gain"), rows), half=True)


# ---- drawing ----


def _picture(cloud: Cloud, title: str, note: str, summary: Table, *, half: bool = False) -> Picture:
    wide, narrow = _scatter(cloud, HALF if half else WIDE), _scatter(cloud, NARROW)
    return Picture(cloud.ident, title, note, wide, narrow, (), summary, half=half)


def _scatter(cloud: Cloud, width: int) -> str:
    xs, ys = [d.x for d in cloud.dots], [d.y for d in cloud.dots]
    y_grid = ticks(min(ys), max(max(ys), min(ys) + 1e-6), 5)
    frame = Frame(width, min(xs), max(xs), y_grid[0], y_grid[-1])
    across = [v for v in ticks(min(xs), max(xs), max(2, (width - LEFT - RIGHT) // 80)) if min(xs) <= v <= max(xs)]
    body = [_level(frame, value, cloud.y_percent) for value in y_grid]
    body += [_below(frame.x(value), _number(value, cloud.x_percent)) for value in across]
    middle = (LEFT + width - RIGHT) / 2
    body.append(f'<text class="name" x="{LEFT - 6}" y="11" text-anchor="middle">{escape(cloud.y_name)}</text>')
    body.append(f'<text class="name" x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{escape(cloud.x_name)}</text>')
    if len(cloud.line) > 1:
        points = " ".join(f"{frame.x(x):g},{frame.y(y):g}" for x, y in cloud.line)
        body.append(f'<polyline class="line t{BEST}" points="{points}"/>')
    ordered = sorted(cloud.dots, key=lambda d: d.tone == BEST)
    body += [
        f'<circle class="t{d.tone}" cx="{frame.x(d.x)}" cy="{frame.y(d.y)}" r="{5 if d.tone == BEST else 3}">'
        f"<title>{escape(d.tip)}</title></circle>"
        for d in ordered
    ]
    return _svg(cloud.label, width, HEIGHT, body)


def _level(frame: Frame, value: float, share: bool) -> str:
    y = frame.y(value)
    return (
        f'<line class="grid" x1="{LEFT}" y1="{y}" x2="{frame.width - RIGHT}" y2="{y}"/>'
        f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{_number(value, share)}</text>'
    )


def _below(x: float, text: str) -> str:
    return f'<text x="{x}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{escape(text)}</text>'


def _number(value: float, share: bool) -> str:
    return f"{100 * value:.3g}%" if share else figure(value)


def _bars(ident: str, rows: Sequence[tuple[str, float, str]], width: int) -> str:
    """One bar a row, from 0 to 1."""
    body, room = [], width - NAMES - 60
    for i, (name, share, text) in enumerate(rows):
        y = 6 + ROW * i
        body.append(f'<text x="{NAMES - 8}" y="{y + 14}" text-anchor="end">{escape(_cut(name))}</text>')
        body.append(
            f'<rect class="t{WHOLE}" x="{NAMES}" y="{y + 3}" width="{max(1.0, share * room):.1f}" height="{ROW - 7}"/>'
        )
        body.append(f'<text x="{NAMES + share * room + 6:.1f}" y="{y + 14}">{escape(text)}</text>')
    return _svg(ident, width, 12 + ROW * len(rows), body)


def _gains(ident: str, there: Compared, width: int) -> str:
    """A dot for each case on one axis, and the interval as a band."""
    cases = sorted(there.cases, key=lambda pair: pair[1])[:MOST_ROWS]
    ends = [0.0, *(gain for _, gain in cases)]
    grid = ticks(min(ends), max(ends) if max(ends) > min(ends) else min(ends) + 0.01, 4 if width > NARROW else 2)
    high, room = grid[-1] if len(grid) > 1 else grid[0] + 0.01, width - NAMES - 24

    def at(value: float) -> float:
        part = (min(high, max(grid[0], value)) - grid[0]) / (high - grid[0])
        return round(NAMES + part * room, 1)

    bottom = 26 + ROW * len(cases)
    left, right = at(there.gain.low), at(there.gain.high)
    body = [f'<rect class="band" x="{left}" y="18" width="{max(1.0, right - left):.1f}" height="{bottom - 18}"/>']
    for value in grid:
        body.append(f'<line class="grid" x1="{at(value)}" y1="18" x2="{at(value)}" y2="{bottom}"/>')
        body.append(f'<text x="{at(value)}" y="12" text-anchor="middle">{100 * value:+.3g}%</text>')
    for i, (name, gain) in enumerate(cases):
        y = 34 + ROW * i
        body.append(f'<text x="{NAMES - 8}" y="{y + 4}" text-anchor="end">{escape(_cut(name))}</text>')
        tip = f"<title>{escape(name)}: {gain:+.1%}</title>"
        body.append(f'<circle class="t{WHOLE}" cx="{at(gain)}" cy="{y}" r="4">{tip}</circle>')
    return _svg(ident, width, bottom + 10, body)


def _cut(name: str) -> str:
    return name if len(name) <= 24 else name[:23] + "…"


def _svg(label: str, width: int, height: int, body: Iterable[str]) -> str:
    return (
        f'<svg role="img" aria-label="{escape(label)}" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" xmlns="http://www.w3.org/2000/svg">{"".join(body)}</svg>'
    )
