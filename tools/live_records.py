"""The records of examples/live_job made small enough for tests/data/live_job, from which its page is told.

usage: python -m tools.live_records CONTEST FAULTS OUT [--round 1]       (the folders of runs that have ended)

contest.jsonl     of every run the end, the length and the rollouts of each step, on one clock a run
moves.jsonl       every move of the controlled runs: when it was in force, its reason, what it promised and gave
controlled.*      of one round's controlled run all steps, and the ticks in which its moves began and were judged
faults.jsonl      of the run in which parts failed every tick: what was decided, ordered, answered, and whether it saw
"""

import argparse
import json
import shutil
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any

from examples.live_job.contest import moves, results
from examples.live_job.report import steps_of
from simulators.plant import Setpoints, Status
from tuner.journal import viewed

BEFORE, AFTER = 3, 2
"""Ticks that are kept before a move and around its verdict."""
SHOWN = "live"
"""Stands for the folder in what is kept: where it was on one machine is nobody's business."""


def runs(folder: Path) -> Iterator[dict[str, Any]]:
    """Round by round in the order in which they were run; `at_s` counts from the end of a run's first step."""
    names = list(results(folder / "results.jsonl"))
    for number in count():
        for i, name in enumerate(names):
            run = folder / f"run-{number}-{i}"
            if not (run / "steps.jsonl").exists():
                return
            steps = steps_of(run)
            zero = steps[0]["timestamp"]
            short = [[round(s["timestamp"] - zero, 6), s["step_s"], s["batch_rollouts"]] for s in steps]
            yield {"run": run.name, "setting": name, "steps": short}


def told(folder: Path) -> Iterator[dict[str, Any]]:
    for number in count():
        run = folder / f"run-{number}-0"
        if not (run / "equipoise.journal").exists():
            return
        zero = steps_of(run)[0]["timestamp"]
        for move in moves(run):
            yield {"run": run.name, **asdict(move), "at_s": round(move.at_s - zero, 3)}


def ticks(run: Path) -> Iterator[dict[str, Any]]:
    """As short as it can be told; `blind`: the source did not answer, `split`: what was in force."""
    with closing(viewed(run / "equipoise.journal")) as book:
        entries = list(book.entries())
    for entry in entries:
        decision, outcomes = entry.decision, {} if entry.receipt is None else entry.receipt.outcomes
        refused = {o.reason for o in outcomes.values() if o.status is Status.REFUSED}
        yield {
            "at_s": round(entry.at_s - entries[0].at_s, 1),
            "id": decision.decision_id,
            "did": decision.action.value if decision.code is None else decision.code.value,
            "reason": decision.reason,
            "split": _split(entry.seen.in_force),
            "ordered": None if decision.order is None else _split(decision.order),
            "refused": sorted(reason.replace(_ran_in(run), SHOWN) for reason in refused),
            "blind": any(note.code == "feed-failed" for note in entry.seen.snapshot.notes),
        }


def _ran_in(run: Path) -> str:
    """The folder of all its runs, wherever it was moved since."""
    return str(Path(json.loads((run / "config.json").read_text())["folder"]).parent)


def _split(there: Setpoints) -> tuple[int | None, int | None]:
    return there.gpus_trainer, there.gpus_generator


def kept_ticks(run: Path) -> set[int]:
    """The ticks of each move from its proposal to its arrival, and those about its verdict."""
    with closing(viewed(run / "equipoise.journal")) as book:
        entries = list(book.entries())
    kept = set[int]()
    for move in moves(run):
        begun = [i for i, e in enumerate(entries, 1) if e.decision.decision_id.split(".")[0] == move.ident]
        judged = [
            i
            for i, e in enumerate(entries, 1)
            if e.decision.outcome is not None and e.decision.outcome.decision_id == move.ident
        ]
        arrived = [i for i, e in enumerate(entries, 1) if e.at_s <= move.at_s]
        kept |= set(range(begun[0] - BEFORE, max(begun[-1], arrived[-1]) + 1))
        for i in judged:
            kept |= set(range(i - AFTER, i + 1))
    return kept


def trimmed(run: Path, out: Path, kept: Iterable[int]) -> None:
    """A copy of a run's journal with these ticks alone, without the machine's name and its folders."""
    out.unlink(missing_ok=True)
    with closing(sqlite3.connect(out)) as copy:
        with closing(sqlite3.connect(f"{(run / 'equipoise.journal').as_uri()}?mode=ro", uri=True)) as whole:
            whole.backup(copy)
        with copy:
            marks = ",".join(str(i) for i in sorted(kept))
            copy.execute(f"DELETE FROM tick WHERE id NOT IN ({marks})")
            copy.execute("UPDATE tick SET receipt = replace(receipt, ?, ?)", (_ran_in(run), SHOWN))
            who = {"host": "recorded", "pid": 1, "url": "", "version": "0.1.0"}
            copy.execute("UPDATE writer SET who = ?", (json.dumps(who),))
        copy.execute("PRAGMA journal_mode = DELETE")
        copy.execute("VACUUM")


def lines(path: Path, records: Iterable[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.live_records", description=__doc__)
    parser.add_argument("contest", type=Path)
    parser.add_argument("faults", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--round", type=int, default=1, help="whose controlled run is kept in full")
    given = parser.parse_args(arguments)
    folder, run = given.contest.absolute(), given.contest.absolute() / f"run-{given.round - 1}-0"
    lines(given.out / "contest.jsonl", runs(folder))
    lines(given.out / "moves.jsonl", told(folder))
    lines(given.out / "faults.jsonl", ticks(given.faults / "job"))
    shutil.copy(run / "steps.jsonl", given.out / "controlled.jsonl")
    trimmed(run, given.out / "controlled.journal", kept_ticks(run))
    return 0


if __name__ == "__main__":
    sys.exit(main())
