"""Prints file by file what was expected and what came out: `python -m tests.stories.table` (Markdown)."""

import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from math import isclose
from pathlib import Path
from typing import Any

from policies.recommendations import advise
from tests.stories.answers import (
    CASES,
    Answer,
    case_text,
    codes,
    figure,
    moves,
    rank_of,
    without_comments,
    wrong_moves,
)
from tests.stories.command import ask
from tests.stories.field_cases import field_cases, not_carried
from tests.stories.test_published_cases import case1, case2
from tests.stories.test_table_rows import advice_on

EXPECTED: Mapping[str, Any] = json.loads((CASES / "expected.json").read_text(encoding="utf-8"))


def main() -> None:
    for line in (*files(), "", *rows(), "", *reported(), "", *published()):
        sys.stdout.write(line + "\n")


def files() -> Iterator[str]:
    yield from heading("file", "expected", "got", "figures", "first three moves", "not as expected")
    with tempfile.TemporaryDirectory() as folder:
        for name, case in EXPECTED["files"].items():
            neutral = Path(folder) / f"job{Path(name).suffix}"
            neutral.write_bytes(without_comments(case_text(name)).encode())
            yield row(name.split("_")[0], *judged(case, ask(neutral)))


def judged(case: Mapping[str, Any], answer: Answer) -> list[str]:
    wrong_figures = [name for name, (value, tol) in case["figures"].items() if not agrees(answer, name, value, tol)]
    faults = [f"figure {name} = {figure(answer, name)}" for name in wrong_figures]
    faults += [f"no finding {code}" for code in case["findings"] if code not in codes(answer)]
    faults += [f"wrong move {move}" for move in wrong_moves(answer, case["forbidden"])]
    if case["first"] and rank_of(answer, [case["first"]]) != 1:
        faults.append(f"{case['first']} not first")
    if answer["verdict"] not in case["verdicts"]:
        faults.append("verdict")
    if answer["job"]["mode"] != case["mode"]:
        faults.append(f"mode {answer['job']['mode']}")
    right = len(case["figures"]) - len(wrong_figures)
    return [
        " or ".join(case["verdicts"]),
        f"{answer['verdict']} ({answer['verdict_confidence']:.2f})",
        f"{right} of {len(case['figures'])}",
        first_three(answer),
        "; ".join(faults) or "-",
    ]


def agrees(answer: Answer, name: str, value: float, tolerance: float) -> bool:
    got = figure(answer, name)
    return got is not None and isclose(got, value, rel_tol=tolerance)


def rows() -> Iterator[str]:
    yield from heading("table row", "expected", "got", "first three moves", "not as expected")
    for table, content in EXPECTED["tables"].items():
        for name, case in content["rows"].items():
            advice = advice_on(table, name)
            faults = [f"wrong move {move}" for move in wrong_moves(advice, case["forbidden"])]
            faults += ["verdict"] if advice.diagnosis.verdict.value not in case["verdicts"] else []
            faults += ["first"] if "first" in case and rank_of(advice, [case["first"]]) != 1 else []
            got = f"{advice.diagnosis.verdict.value} ({advice.diagnosis.confidence:.2f})"
            yield row(
                f"{table.split('_')[0]} {name}",
                " or ".join(case["verdicts"]),
                got,
                first_three(advice),
                "; ".join(faults) or "-",
            )


def reported() -> Iterator[str]:
    yield from heading("reported", "expected", "got", "fix", "first three moves", "not as expected")
    led, clear = 0, 0
    for case in field_cases():
        advice = advise(case.topology, case.setpoints, case.snapshot)
        faults = [f"wrong move {move}" for move in wrong_moves(advice, case.forbidden)]
        faults += ["verdict"] if advice.diagnosis.verdict.value not in case.verdicts else []
        if case.fix:
            leads = rank_of(advice, case.fix) in (1, 2)
            clear, led = clear + 1, led + leads
            faults += [] if leads else ["fix does not lead"]
        got = f"{advice.diagnosis.verdict.value} ({advice.diagnosis.confidence:.2f})"
        wanted = " or ".join(sorted(case.verdicts))
        yield row(case.id, wanted, got, " or ".join(case.fix) or "-", first_three(advice), "; ".join(faults) or "-")
    for name, why in not_carried().items():
        yield row(name, "not told in numbers", why, "-", "-", "-")
    yield ""
    yield f"The clear fix is first or second in {led} of {clear} reported cases that have one."


def published() -> Iterator[str]:
    yield from heading("published", "got", "trainer idle", "moves, with mean gain")
    for name, answer in (
        ("case 1, rates", case1("rates.csv")),
        ("case 1, times", case1("times.csv")),
        ("case 2", case2()),
    ):
        idle = answer["rates"]["trainer_idle_frac"]
        yield row(name, answer["verdict"], "unknown" if idle is None else f"{idle:.3f}", ", ".join(promises(answer)))


def promises(answer: Answer) -> Iterator[str]:
    for r in answer["recommendations"]:
        gain = "" if r["gain_frac"] is None else f" {r['gain_frac']['mean']:+.2f}"
        yield f"{r['knob']}:{r['direction']}{gain}"


def first_three(answer: Any) -> str:
    return ", ".join(":".join(move) for move in moves(answer)[:3]) or "-"


def heading(*titles: str) -> Iterator[str]:
    yield row(*titles)
    yield row(*("---" for _ in titles))


def row(*cells: str) -> str:
    return "| " + " | ".join(clean(cells)) + " |"


def clean(cells: Iterable[str]) -> Iterator[str]:
    return (cell.replace("|", "/") for cell in cells)


if __name__ == "__main__":
    main()
