"""A comparison of two runs in words and as JSON."""

import textwrap
from collections.abc import Iterable, Sequence

from policies.comparison import Comparison, Contribution, Pair, say
from tuner.answers import advise as answers
from tuner.report.answer import finite
from tuner.report.text import Screen
from tuner.report.words import figure
from tuner.version import VERSION

SHOWN = 5
"""Contributions that a reader can act on; the rest is in --json."""


def build(c: Comparison) -> answers.Compared:
    """The JSON answer; every number finite or null."""
    return answers.Compared(
        schema_version=1,
        product_version=VERSION,
        a=c.a,
        b=c.b,
        basis=c.basis,
        a_s=finite(c.whole.a),
        b_s=finite(c.whole.b),
        headline=c.headline,
        phases=[
            answers.PhaseCompared(
                phase=p.phase,
                a_s_per_step=finite(p.per_step_s.a),
                b_s_per_step=finite(p.per_step_s.b),
                a_s_per_rollout=finite(p.per_rollout_s.a),
                b_s_per_rollout=finite(p.per_rollout_s.b),
                a_s_per_token=finite(p.per_token_s.a),
                b_s_per_token=finite(p.per_token_s.b),
            )
            for p in c.phases
        ],
        workload=[
            answers.WorkloadCompared(
                signal=w.signal, unit=w.unit, a=finite(w.value.a), b=finite(w.value.b), ratio=finite(w.value.ratio)
            )
            for w in c.workload
        ],
        contributions=[
            answers.Contribution(phase=p.phase, because=p.because, seconds=p.seconds, share=finite(p.share))
            for p in c.contributions
            if finite(p.seconds) is not None
        ],
        notes=list(c.notes),
    )


def render(c: answers.Compared, screen: Screen) -> str:
    """Headline, what explains the difference, the phases and the workload side by side, and what to beware of."""
    width = max(60, screen.columns)
    lines = [*textwrap.wrap(c.headline, width), ""]
    if c.contributions:
        unit = "s a rollout" if c.basis == "rollout" else "s a step"
        lines.append("What explains the difference (B - A):")
        rows = [
            (_signed(p.seconds, unit), "" if p.share is None else f"{100 * p.share:+.0f}%", _say(p))
            for p in c.contributions[:SHOWN]
            if p.seconds
        ]
        lines += [f"  {row}" for row in _columns(rows, width, left=(0, 2))] if rows else ["  nothing that was logged"]
        lines.append("")
    if c.phases:
        head = ("phase", "A s/step", "B s/step", "A s/rollout", "B s/rollout", "A ms/token", "B ms/token", "B/A")
        lines += [*_columns([head, *(_phase_row(p) for p in c.phases)], width), ""]
    if c.workload:
        head_w = ("workload", "A", "B", "B/A", "unit")
        work = [(w.signal, figure(w.a), figure(w.b), figure(w.ratio), w.unit) for w in c.workload]
        lines += [*_columns([head_w, *work], width), ""]
    for note in c.notes:
        lines += textwrap.wrap(f"Note: {note}", width, subsequent_indent="      ")
    return "\n".join(lines).rstrip() + "\n"


def _phase_row(p: answers.PhaseCompared) -> tuple[str, ...]:
    per_token = [None if v is None else 1000 * v for v in (p.a_s_per_token, p.b_s_per_token)]
    best = next(
        (
            pair
            for pair in (
                Pair(p.a_s_per_token, p.b_s_per_token),
                Pair(p.a_s_per_rollout, p.b_s_per_rollout),
                Pair(p.a_s_per_step, p.b_s_per_step),
            )
            if pair.known
        ),
        Pair(None, None),
    )
    cells = (p.a_s_per_step, p.b_s_per_step, p.a_s_per_rollout, p.b_s_per_rollout, *per_token, best.ratio)
    return (p.phase, *(figure(v) for v in cells))


def _signed(seconds: float, unit: str) -> str:
    return f"{'+' * (seconds > 0.0)}{figure(seconds)} {unit}"


def _say(part: answers.Contribution) -> str:
    return say(Contribution(part.phase, part.because, part.seconds, part.share))


def _columns(rows: Sequence[Sequence[str]], width: int, left: Sequence[int] = (0,)) -> Iterable[str]:
    """Aligned columns, numbers to the right; the columns in `left` hold words."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = zip(row, widths, strict=True)
        fitted = (cell.ljust(w) if i in left else cell.rjust(w) for i, (cell, w) in enumerate(cells))
        yield "  ".join(fitted).rstrip()[:width]
