"""Pictures of a validation: one row a prediction with its error beside the naive one, and each series as lines."""

from collections.abc import Sequence
from html import escape

from simulators.published import Kind, Relation, Role
from tuner.answers.validate import Validated, ValidatedCase, ValidatedRow
from tuner.report.pictures import Chart, Series, lines
from tuner.report.words import figure

ROW, NAMES, EDGE, TOP, BOTTOM = 19, 330, 16, 26, 30
"""Pixels: height of a row, room for its name, margins."""
REACH = 0.5
"""Errors beyond this share of the measured are drawn at the edge, with their figure."""
STEPS = (-0.4, -0.2, 0.0, 0.2, 0.4)
ROWS_OF_A_SERIES = 4
"""With fewer rows a line says less than the table."""

STYLE = "".join(
    (
        "svg{background:#fff;color-scheme:light}text{fill:#5c6570;font:12px system-ui,sans-serif}.strong{fill:#1d2126}",
        ".grid{stroke:#dcd8d0}.zero{stroke:#5c6570}.allowed{fill:#2f6fb3;opacity:.09}.line{fill:none;stroke-width:2}",
        ".dashed{stroke-dasharray:6 4}.t0{stroke:#1d2126}.t1{stroke:#2f6fb3}.t3{stroke:#e0912f}.mark.t0{fill:#1d2126}",
        ".mark.t1{fill:#2f6fb3}.mark.t3{fill:#e0912f}.model{fill:#2f6fb3}.naive{fill:none;stroke:#e0912f;stroke-width:1.5}",
        ".veil{fill:#fff;opacity:.35}.hatched{opacity:.25}.hatch{stroke:#5c6570}",
    )
)
"""What the report's style sheet gives a picture inside it; a file of its own carries it along."""


def errors(answer: Validated, width: int) -> str | None:
    """Every predicted row of class prediction: a dot for the model's error, a ring for the naive one."""
    rows = [r for r in answer.rows if _is_judged(r) and r.error_frac is not None]
    if not rows:
        return None
    height = TOP + ROW * len(rows) + BOTTOM
    body = [_axis(step, width, height) for step in STEPS]
    body += [part for i, row in enumerate(rows) for part in _row(row, TOP + ROW * i + ROW / 2, width)]
    label = "Error of each prediction, and of the naive baseline"
    return (
        f'<svg role="img" aria-label="{label}" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'xmlns="http://www.w3.org/2000/svg">{"".join(body)}</svg>'
    )


def _is_judged(row: ValidatedRow) -> bool:
    return row.kind is Kind.PREDICTION and row.role is Role.PREDICTED and row.relation is Relation.EQUAL


def _x(frac: float, width: int) -> float:
    inside = max(-REACH, min(REACH, frac))
    return round(NAMES + (inside + REACH) / (2 * REACH) * (width - NAMES - EDGE), 1)


def _axis(step: float, width: int, height: int) -> str:
    x, look = _x(step, width), "zero" if step == 0 else "grid"
    return (
        f'<line class="{look}" x1="{x}" y1="{TOP - 6}" x2="{x}" y2="{height - BOTTOM + 4}"/>'
        f'<text x="{x}" y="{height - BOTTOM + 18}" text-anchor="middle">{step:+.0%}</text>'
    )


def _row(row: ValidatedRow, y: float, width: int) -> list[str]:
    said = row.error_frac or 0.0
    tip = escape(
        f"{row.case}, {row.label}: measured {figure(row.measured)}, predicted {figure(row.predicted)} {row.unit}"
    )
    parts = [f'<text x="{NAMES - 12}" y="{y + 4}" text-anchor="end">{escape(_short(row))}</text>']
    allowed = max(row.tolerance_frac or 0.0, (row.tolerance_abs or 0.0) / row.measured) if row.measured else 0.0
    if allowed:
        left, right = _x(-allowed, width), _x(allowed, width)
        parts.append(f'<rect class="allowed" x="{left}" y="{y - ROW / 2}" width="{right - left:g}" height="{ROW}"/>')
    naive = row.baseline_error_frac
    if naive is not None:
        parts.append(
            f'<circle class="naive" cx="{_x(naive, width)}" cy="{y}" r="4"><title>{naive:+.0%}</title></circle>'
        )
    if naive is not None and abs(naive) > REACH:
        parts.append(f'<text x="{_x(naive, width) - 8}" y="{y + 4}" text-anchor="end">{naive:+.0%}</text>')
    parts.append(f'<circle class="model" cx="{_x(said, width)}" cy="{y}" r="4"><title>{tip}</title></circle>')
    return parts


def _short(row: ValidatedRow) -> str:
    name = f"{row.case}: {row.label}"
    return name if len(name) <= 52 else name[:49] + "..."


def series(answer: Validated, case: ValidatedCase, width: int) -> str | None:
    """Measured, predicted and naive of one case, row by row; None where there are few, or of several outputs."""
    rows = [r for r in answer.rows if r.case == case.id]
    if case.kind is not Kind.PREDICTION or len(rows) < ROWS_OF_A_SERIES or len({r.output for r in rows}) > 1:
        return None
    drawn = (
        Series("measured", tuple(r.measured for r in rows), 0),
        Series("predicted", tuple(r.predicted for r in rows), 1),
        Series("naive", tuple(r.baseline for r in rows), 3, dashed=True),
    )
    x = tuple(float(i + 1) for i in range(len(rows)))
    return lines(Chart(f"series-{case.id}", f"{case.title}: rows in order", x, "row", rows[0].unit, drawn), width)


def legend() -> Sequence[tuple[str, int, bool]]:
    return (("measured", 0, False), ("predicted", 1, False), ("naive baseline", 3, True))


def standalone(svg: str) -> str:
    """The same picture as a file of its own."""
    return svg.replace(">", f"><style>{STYLE}</style>", 1) + "\n"
