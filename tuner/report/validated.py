"""Published cases against the model: the answer as typed data, and in words for a terminal."""

import textwrap
from collections.abc import Iterable, Sequence

from simulators.forms import FORMS
from simulators.published import Baseline, Compared, Kind, Naive, Outcome, Relation, Summary, summarise
from tuner.answers import validate as answers
from tuner.report.text import Screen
from tuner.report.words import figure, percent
from tuner.version import VERSION

HEAD = ("", "role", "measured", "predicted", "error", "allowed", "naive", "naive error", "holds")


def build(outcomes: Sequence[Outcome]) -> answers.Validated:
    """The JSON answer."""
    summary = summarise(outcomes)
    return answers.Validated(
        schema_version=1,
        product_version=VERSION,
        headline=headline(summary),
        summary=_summary(summary, outcomes),
        cases=[_case(o) for o in outcomes],
        rows=[_row(o, c) for o in outcomes for c in o.rows],
    )


def headline(summary: Summary) -> str:
    """One sentence a class, with its figures."""
    parts = []
    if summary.median_error_frac is not None:
        naive = ""
        if summary.better_than_baseline_frac is not None:
            naive = f", nearer than the naive baseline in {percent(summary.better_than_baseline_frac)}"
        parts.append(
            f"{_counted(summary, Kind.PREDICTION)}: median error {percent(summary.median_error_frac)}, "
            f"worst {percent(summary.worst_error_frac)}{naive}."
        )
    elif summary.rows[Kind.PREDICTION]:
        held = f"{_counted(summary, Kind.PREDICTION)}: {summary.held[Kind.PREDICTION]} within what is allowed"
        parts.append(f"{held}; a measured 0 has no relative error.")
    for kind, said in ((Kind.IDENTITY, "hold"), (Kind.BOUND, "are true")):
        if summary.rows[kind]:
            parts.append(f"{_counted(summary, kind)}: {summary.held[kind]} {said}.")
    if summary.cases[Kind.FIT]:
        parts.append(f"{_counted(summary, Kind.FIT)} without residual degrees of freedom: not counted.")
    return " ".join(parts) or "No row to judge: every one is a calibration row."


NAMES = {Kind.IDENTITY: "identities", Kind.PREDICTION: "predictions", Kind.BOUND: "bounds", Kind.FIT: "fits"}
ONE = {Kind.IDENTITY: "identity", Kind.PREDICTION: "prediction", Kind.BOUND: "bound", Kind.FIT: "fit"}


def _counted(summary: Summary, kind: Kind) -> str:
    """`12 predictions in 3 cases`."""
    rows, cases = summary.rows[kind], summary.cases[kind]
    return f"{rows} {(ONE if rows == 1 else NAMES)[kind]} in {cases} case{'s' * (cases != 1)}"


def _summary(summary: Summary, outcomes: Sequence[Outcome]) -> answers.ValidationSummary:
    judged = [(o, c) for o in outcomes if o.case.kind is Kind.PREDICTION for c in o.judged if c.error_frac is not None]
    worst = max(judged, key=lambda pair: abs(pair[1].error_frac or 0.0), default=None)
    return answers.ValidationSummary(
        median_error_frac=summary.median_error_frac,
        worst_error_frac=summary.worst_error_frac,
        worst_row=None if worst is None else f"{worst[0].case.ident}: {worst[1].row.label}",
        better_than_baseline_frac=summary.better_than_baseline_frac,
        compared_with_baseline=summary.compared_with_baseline,
        counts={
            kind: answers.Count(cases=summary.cases[kind], rows=summary.rows[kind], held=summary.held[kind])
            for kind in Kind
        },
    )


def _case(outcome: Outcome) -> answers.ValidatedCase:
    case = outcome.case
    compared = case.kind in (Kind.PREDICTION, Kind.FIT)
    return answers.ValidatedCase(
        id=case.ident,
        title=case.title,
        kind=case.kind,
        model=case.model,
        formula=FORMS[case.model].written if case.model in FORMS else None,
        parameters=[
            answers.FittedParameter(
                name=p.name,
                value=outcome.values[p.name],
                unit=p.unit,
                low=p.bounds.low,
                high=p.bounds.high,
                about=p.about,
            )
            for p in case.parameters
        ],
        free_parameters=len(case.parameters),
        calibration_figures=case.calibrated,
        residual_degrees_of_freedom=case.freedom if case.parameters else None,
        baseline=case.baseline.naive if compared else None,
        baseline_says=baseline_says(case.baseline, case.calibrated > 0) if compared else None,
        note=case.note,
        sources=[answers.CaseSource(what=s.what, where=s.where, read=s.read) for s in case.sources],
    )


def baseline_says(baseline: Baseline, calibrated: bool) -> str:
    """The naive baseline in words; the case's own where it has some."""
    if baseline.about:
        return baseline.about
    if baseline.naive is Naive.INPUT:
        return f"the input {baseline.input}"
    anchor = "the last calibration row" if calibrated else "the mean of the other rows"
    if baseline.naive is Naive.SAME:
        return f"the same as {anchor}"
    return f"{anchor}, times the ratio of {baseline.input} to the power {baseline.power:g}"


def _row(outcome: Outcome, compared: Compared) -> answers.ValidatedRow:
    case, row = outcome.case, compared.row
    return answers.ValidatedRow(
        case=case.ident,
        kind=case.kind,
        role=row.role,
        label=row.label,
        quantity=case.quantity,
        unit=case.unit,
        output=row.output,
        measured=row.measured,
        predicted=compared.predicted,
        relation=row.relation,
        error_frac=compared.error_frac,
        tolerance_frac=row.tolerance.frac,
        tolerance_abs=row.tolerance.absolute,
        within=compared.within,
        free_parameters=len(case.parameters),
        residual_degrees_of_freedom=case.freedom if case.parameters else None,
        baseline=compared.baseline,
        baseline_error_frac=compared.baseline_error_frac,
        better_than_baseline=compared.better,
        note=row.note,
    )


def render(answer: answers.Validated, screen: Screen, *, at_length: bool) -> str:
    """Headline, then each case with its rows; `at_length` adds formulas, notes and sources."""
    width = max(60, screen.columns)
    lines = [*textwrap.wrap(answer.headline, width)]
    for case in answer.cases:
        lines += ["", *textwrap.wrap(f"{case.id} ({case.kind}): {case.title}", width)]
        lines += [f"  {line}" for line in table(answer, case, width - 2)]
        for part in said(case) if at_length else fitted(case):
            lines += textwrap.wrap(part, width - 2, initial_indent="  ", subsequent_indent="    ")
    if not at_length:
        lines += ["", "Sources, formulas and notes of one case: --case ID; of all: --html FILE or docs/validation.md"]
    return "\n".join(lines) + "\n"


LEAST_LABEL = 16
"""Columns that a row's name keeps on a narrow screen."""


def table(answer: answers.Validated, case: answers.ValidatedCase, width: int) -> Iterable[str]:
    """The rows of one case in aligned columns; columns that are empty throughout are left out."""
    rows = [HEAD, *(cells(row) for row in answer.rows if row.case == case.id)]
    shown = [i for i in range(len(HEAD)) if any(row[i] for row in rows[1:])]
    widths = [max(len(row[i]) for row in rows) for i in shown]
    widths[0] = min(widths[0], max(LEAST_LABEL, width - sum(widths[1:]) - 2 * (len(widths) - 1)))
    for row in ((clipped(row[0], widths[0]), *row[1:]) for row in rows):
        yield "  ".join(
            row[i].ljust(w) if i < 2 else row[i].rjust(w) for i, w in zip(shown, widths, strict=True)
        ).rstrip()


def clipped(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def cells(row: answers.ValidatedRow) -> tuple[str, ...]:
    """One row in words, in the order of HEAD."""
    judged = row.role == "predicted"
    return (
        row.label,
        "" if judged else "calibration",
        figure(row.measured),
        figure(row.predicted),
        signed(row.error_frac) if row.relation is Relation.EQUAL else "",
        allowed(row),
        "" if row.baseline is None else figure(row.baseline),
        "" if row.baseline_error_frac is None else signed(row.baseline_error_frac),
        ("yes" if row.within else "NO") if judged else "",
    )


def signed(frac: float | None) -> str:
    return "" if frac is None else f"{100 * frac:+.1f}%"


def allowed(row: answers.ValidatedRow) -> str:
    """`20%`, `0.3`, or the relation of a bound."""
    if row.relation is not Relation.EQUAL:
        return row.relation.replace("-", " ")
    frac = None if row.tolerance_frac is None else percent(row.tolerance_frac)
    return " or ".join(
        part for part in (frac, None if row.tolerance_abs is None else figure(row.tolerance_abs)) if part
    )


def fitted(case: answers.ValidatedCase) -> list[str]:
    """What was fitted, to how much, and what is left to fail by."""
    if not case.parameters:
        return []
    values = ", ".join(f"{p.name} = {figure(p.value)} {p.unit}".rstrip() for p in case.parameters)
    left = case.residual_degrees_of_freedom
    return [
        f"Fitted: {values}; {case.calibration_figures} calibration figures, {left} residual degree"
        f"{'s' * (left != 1)} of freedom."
    ]


def said(case: answers.ValidatedCase) -> list[str]:
    """All that is to be said of a case, part by part."""
    formula = f": {case.formula}" if case.formula else ""
    return [
        f"Model: {case.model}{formula}",
        *fitted(case),
        *(
            f"  {p.name} ({p.unit or 'no unit'}): {p.about}; searched from {p.low:g} to {p.high:g}"
            for p in case.parameters
        ),
        *([f"Naive baseline: {case.baseline_says}"] if case.baseline_says else []),
        *([f"Note: {case.note}"] if case.note else []),
        *(f"Source ({s.read}): {s.where}: {s.what}" for s in case.sources),
    ]
