"""An evaluation in words for a terminal, and as data for JSON."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap

from simulators.scenario import Scenario
from tuner.answers.evaluate import Answer, Demand, as_json
from tuner.evaluation.scoring import LOOSE_FRAC, Figure, Row, figures_of, rows_of
from tuner.evaluation.tasks import NOTHING, ORACLE, Run
from tuner.report.words import figure, percent
from tuner.version import VERSION

HEAD = (
    "scenario",
    "policy",
    "h to goal",
    "of oracle",
    "gain",
    "oracle's",
    "captured",
    "vs static",
    "GPU moves",
    "bounds",
)


@dataclass(frozen=True, slots=True)
class Evaluated:
    """All that a report tells."""

    runs: tuple[Run, ...]
    rows: tuple[Row, ...]
    policies: tuple[str, ...]
    judged: str
    """The policy that is held against the demands."""
    demands: tuple[Figure, ...]
    outside: tuple[Figure, ...]
    """The same demands on the plants outside the model's class, apart."""
    seeds: int
    note: str = ""


def evaluated(scenarios: Mapping[str, Scenario], runs: Sequence[Run], seeds: int, note: str) -> Evaluated:
    rows = tuple(rows_of(scenarios, runs))
    policies = tuple(dict.fromkeys(run.policy for run in runs if run.policy != ORACLE))
    judged = "predictive" if "predictive" in policies else policies[-1]
    inside, outside = (_demanded(rows, runs, judged, where) for where in (False, True))
    return Evaluated(tuple(runs), rows, policies, judged, inside, outside, seeds, note)


def _demanded(rows: Sequence[Row], runs: Sequence[Run], judged: str, outside: bool) -> tuple[Figure, ...]:
    """The demands on these plants apart; none where there is no such plant."""
    own = [row for row in rows if row.outside_class is outside]
    names = {row.scenario for row in own}
    gains = [gain for run in runs if run.policy == judged and run.name in names for gain in run.gains]
    return tuple(figures_of(own, judged, gains)) if own else ()


def to_json(told: Evaluated) -> str:
    return as_json(
        Answer(
            1,
            VERSION,
            told.judged,
            told.seeds,
            told.note,
            tuple(map(_demand, told.demands)),
            tuple(map(_demand, told.outside)),
            told.rows,
            told.runs,
        )
    )


def _demand(told: Figure) -> Demand:
    return Demand(
        told.name,
        told.value,
        told.floor,
        told.goal,
        told.at_least,
        told.percent,
        told.where,
        told.holds,
        told.reaches_goal,
        told.distance,
    )


def render(told: Evaluated, columns: int = 130) -> str:
    parts = [headline(told), ""]
    for title, outside in (("Scenarios", False), ("Outside the model's class", True)):
        rows = [row for row in told.rows if row.outside_class is outside]
        if rows:
            parts += [title, *table(HEAD, body(rows)), ""]
    for title, demands in ((f"Demands on {told.judged}", told.demands), ("Outside the model's class", told.outside)):
        if demands:
            parts += [title, *table(DEMANDS, [demand_cells(f) for f in demands]), ""]
    parts += [line for note in notes(told) for line in wrap(note, columns)]
    return "\n".join(line[:columns].rstrip() for line in parts) + "\n"


DEMANDS = ("", "reached", "floor", "goal", "holds", "to the goal", "where")


def headline(told: Evaluated) -> str:
    """One sentence: how many floors hold, and by how much the worst is missed."""
    known = [f for f in told.demands if f.holds is not None]
    held, goals = sum(f.holds is True for f in known), sum(f.reaches_goal is True for f in known)
    first = told.demands[0].value if told.demands else None
    share = "" if first is None else f", {percent(first)} of the clairvoyant's pace at the median"
    names = len({row.scenario for row in told.rows})
    named = f"{names} scenario{'s' if names != 1 else ''}"
    beyond = [f.holds for f in told.outside if f.holds is not None]
    outside = f" Outside the model's class {sum(beyond)} of {len(beyond)} floors hold." if beyond else ""
    return f"{told.judged} on {named}{share}: {held} of {len(known)} floors hold, {goals} goals are reached.{outside}"


def body(rows: Iterable[Row]) -> list[tuple[str, ...]]:
    found, before = [], ""
    for row in rows:
        found.append((row.scenario if row.scenario != before else "", *_cells(row)))
        before = row.scenario
    return found


def _cells(row: Row) -> tuple[str, ...]:
    spread = "" if row.ratio_low is None else f" +-{(row.ratio_high or 0.0) - row.ratio:.1%}"
    return (
        row.policy + (" (do nothing)" if row.policy == NOTHING else ""),
        figure(row.seconds / 3600.0) + ("*" if row.unfinished else ""),
        f"{row.ratio:.1%}{spread}",
        f"{row.gain_frac:+.1%}",
        f"{row.oracle_gain_frac:+.1%}",
        "" if row.captured is None else f"{row.captured:.0%}",
        f"{row.against_static:.1%}",
        f"{row.gpu_moves:g}" + (f" ({row.reverted} back)" if row.reverted else ""),
        str(row.violations) if row.violations else "kept",
    )


def demand_cells(told: Figure) -> tuple[str, ...]:
    how = _percent if told.percent else _plain
    sign = ">=" if told.at_least else "<="
    if told.value is None:
        return (told.name, "unknown", f"{sign} {how(told.floor)}", f"{sign} {how(told.goal)}", "", "", "")
    return (
        told.name,
        how(told.value),
        f"{sign} {how(told.floor)}",
        f"{sign} {how(told.goal)}",
        "too few" if told.holds is None else "yes" if told.holds else "NO",
        "reached" if told.reaches_goal else how(told.distance or 0.0),
        told.where,
    )


def _percent(value: float) -> str:
    return f"{value:.1%}"


def _plain(value: float) -> str:
    return f"{value:g}" if value == round(value) else f"{value:.2f}"


def notes(told: Evaluated) -> list[str]:
    loose = sorted({row.scenario for row in told.rows if row.bound_gap_frac > LOOSE_FRAC})
    above = sorted({row.scenario for row in told.rows if row.ratio > 1.01})
    found = [told.note] if told.note else []
    if loose:
        among = len({row.scenario for row in told.rows})
        found.append(
            f"Loose yardstick in {len(loose)} of {among} scenarios, where free moves are estimated to be over "
            f"{percent(LOOSE_FRAC)} faster: {', '.join(loose)}."
        )
    if above:
        found.append(f"A policy was over 1 % faster than the yardstick, which fails there: {', '.join(above)}.")
    if any(row.unfinished for row in told.rows):
        found.append("* not through in twice the time of doing nothing: extrapolated.")
    return found


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (head, *rows)]
    return [lines[0], "-" * min(130, len(lines[0])), *lines[1:]]
