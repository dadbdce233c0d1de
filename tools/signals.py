"""docs/signals.md from the code's own tables: `--write` puts it there, the docs test compares."""

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from policies.derivations import DERIVATIONS
from policies.diagnosis.definitions import FINDINGS, VERDICTS, Definition
from policies.diagnosis.headline import SAID
from policies.diagnosis.notes import NOTES
from policies.estimators import FROM_ROWS
from policies.knobs import KNOBS
from simulators.plant import Mode
from simulators.signals import GROUPS, LARGEST, LARGEST_VALUE, Fold, SignalSpec
from tools.markdown import table

ROOT = Path(__file__).resolve().parents[1]
"""The project's folder."""
PAGE = ROOT / "docs" / "signals.md"
"""The page that this tool owns."""
ROOMS = ("policies/diagnosis/*.py", "policies/drift.py")
"""Where the thresholds of verdicts and findings stand."""


class Constant(NamedTuple):
    """A named number of the code, with the sentence under it."""

    name: str
    value: float
    sentence: str
    room: str


def constants() -> Iterator[Constant]:
    """Every public number at the top of a room that diagnoses, as its source states it."""
    for path in sorted(path for pattern in ROOMS for path in ROOT.glob(pattern)):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        for node, after in zip(body, [*body[1:], None], strict=True):
            match node, after:
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=value),
                    ast.Expr(value=ast.Constant(value=str() as sentence)),
                ) if (number := _number(value)) is not None:
                    yield Constant(name, number, sentence, str(path.relative_to(ROOT)))


def _number(node: ast.expr) -> float | None:
    """The number that a literal, or a quotient of two, is."""
    match node:
        case ast.Constant(value=bool() | str() | None):
            return None
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.BinOp(op=ast.Div(), left=ast.Constant(value=float() as above), right=ast.Constant(value=float() as x)):
            return above / x
        case _:
            return None


def rendered() -> str:
    """The whole page."""
    return "\n".join([*_head(), *_signals(), *_derived(), *_verdicts(), *_findings(), *_knobs(), *_thresholds()])


def _head() -> Iterator[str]:
    yield "# Signals, verdicts, findings, knobs"
    yield ""
    yield "Written by `make docs` from the code's own tables; edit those. The words are in [concepts.md](concepts.md)."
    yield ""
    yield "- [Signals](#signals): what is measured. [Derived signals](#derived-signals): what follows from it."
    yield "- [Verdicts](#verdicts), [findings](#findings), [knobs](#knobs), [thresholds](#thresholds)."
    yield ""


def _signals() -> Iterator[str]:
    yield "## Signals"
    yield ""
    yield "Shares are fractions from 0 to 1, times seconds, rates per second. Absent is unknown, never 0. *Fold* is how"
    yield "several values become one: over replicas that report together, then over the steps or scrapes of a window"
    yield f"(`{Fold.LATE}`: the median of the last quarter). A value outside *legal* is a finding and is not used,"
    yield f"nor is one beyond {LARGEST:g} (of *any*: {LARGEST_VALUE:g} either way). The names are the columns of a"
    yield "neutral CSV, which may also use those in the last column."
    yield ""
    for title, specs in GROUPS.items():
        yield f"### {title}"
        yield ""
        yield from table(("signal", "unit", "definition", "fold", "legal", "also"), map(_signal, specs))


def _signal(spec: SignalSpec) -> Sequence[str]:
    also = ", ".join(f"`{name}`" for name in spec.also)
    return f"`{spec.name}`", spec.unit, spec.definition, f"{spec.across}, {spec.over}", _range(spec), also


def _range(spec: SignalSpec) -> str:
    if spec.low <= -LARGEST_VALUE:
        return "any"
    return f">= {spec.low:g}" if spec.high >= LARGEST else f"{spec.low:g}..{spec.high:g}"


def _derived() -> Iterator[str]:
    yield "## Derived signals"
    yield ""
    yield "A derived signal appears only where all its inputs are known and the job does not measure it itself; of two"
    yield "formulas for one name the first that applies wins. Its trust is the least of its inputs' trust. Where the"
    yield "inputs contradict each other (a part larger than its whole, a division by nothing) it stays unknown."
    yield ""
    yield from table(
        ("signal", "unit", "formula", "meaning"),
        (
            (f"`{rule.name}`", rule.unit, f"`{rule.written}`", rule.definition + _only(rule.mode))
            for rule in DERIVATIONS
        ),
    )
    yield "From single steps rather than from the window's values:"
    yield ""
    yield from table(("signal", "meaning"), ((f"`{name}`", words) for name, words in FROM_ROWS.items()))


def _only(mode: Mode | None) -> str:
    return "" if mode is None else f" ({mode} jobs)"


def _verdicts() -> Iterator[str]:
    yield "## Verdicts"
    yield ""
    yield "One for each answer: what voids everything, else what stands still, else the cause with the largest"
    yield "recoverable share of wall time, when its lead over the next exceeds its error; else `cannot-tell`."
    yield ""
    for title, verdicts in VERDICTS.items():
        yield f"### {title}"
        yield ""
        yield from table(
            ("verdict", "in words", "when", "thresholds"),
            ((f"`{v.value}`", SAID[v], d.meaning, _named(d)) for v, d in verdicts.items()),
        )


def _named(definition: Definition) -> str:
    return ", ".join(f"`{name}`" for name in definition.thresholds)


def _findings() -> Iterator[str]:
    yield "## Findings"
    yield ""
    yield "Everything else that matters. About the job:"
    yield ""
    yield from table(
        ("code", "when", "thresholds"), ((f"`{code}`", d.meaning, _named(d)) for code, d in FINDINGS.items())
    )
    yield "About the reading:"
    yield ""
    yield from table(
        ("code", "severity", "title", "meaning"),
        ((f"`{code}`", spec.severity, spec.title, spec.meaning) for code, spec in NOTES.items()),
    )


def _knobs() -> Iterator[str]:
    yield "## Knobs"
    yield ""
    yield "Names in `recommendations` and `do_not`; `key` beside them is the framework's own."
    yield ""
    yield from table(("knob", "what it is"), ((f"`{name}`", words) for name, words in KNOBS.items()))


def _thresholds() -> Iterator[str]:
    yield "## Thresholds"
    yield ""
    yield from table(
        ("constant", "value", "why", "where"),
        ((f"`{c.name}`", f"{c.value:.3g}", c.sentence, f"`{c.room}`") for c in constants()),
    )


def main() -> int:
    if sys.argv[1:] != ["--write"]:
        print("usage: python -m tools.signals --write", file=sys.stderr)
        return 2
    PAGE.write_text(rendered(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
