"""docs/validation.md and its pictures: what `equipoise validate` answers and the benchmarks recorded. `--write` it."""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.agreement import RECORD, Region
from benchmarks.speed import RESULTS, Row, table
from simulators.validation import run
from tests.stories import pairs
from tools.case_language import line
from tuner.answers.validate import Validated, ValidatedCase
from tuner.case_files import shipped
from tuner.report import validated, validated_pictures
from tuner.report.validated_html import KINDS, WIDE

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "validation.md"
PICTURES = ROOT / "docs" / "validation"
"""The page and the folder that this tool owns."""


def answer() -> Validated:
    return validated.build([run(case) for case in shipped()])


def rendered(made: Validated) -> Mapping[Path, str]:
    """Every file with its text."""
    drawn = {case.id: validated_pictures.series(made, case, WIDE) for case in made.cases}
    drawn["errors"] = validated_pictures.errors(made, WIDE)
    files = {PICTURES / f"{name}.svg": validated_pictures.standalone(svg) for name, svg in drawn.items() if svg}
    page = "\n".join([*_head(made), *_cases(made, files), *_changes(), *_agreement(), *_speed()]).rstrip() + "\n"
    return {PAGE: page} | files


OPENING = """# Validation: published jobs against the model

Written by `make docs` from `equipoise validate` and the records in `benchmarks/results/`; edit the cases in
`simulators/cases/`. Figures of others are facts with their sources; no text is quoted.

**{headline}**

- An **identity** recomputes a published figure from others of the same job.
- A **prediction** has fewer free parameters than calibration figures (or none). Parameters are fitted by least squares
  on rows marked *calibration* and on nothing else; the other rows are then predicted. Which formula a case uses was
  chosen by people who had read its table; what its parameters are was not.
- A **bound** is a limit, an order or a verdict that must be true.
- A prediction whose fit has no residual degree of freedom is called a **fit** and counts nowhere.
- The **naive** figure is what somebody without a model would have said; each case states it.

Your own cases need no code: `equipoise validate --cases DIR`; see [case-files.md](case-files.md).

![Error of each prediction and of the naive baseline](validation/errors.svg)

Above: dot, the model's error; ring, the naive one; shaded, what is allowed. Below, rows in order: black, measured;
blue, predicted; orange and dashed, naive.
"""


CHANGES = """## Changes that were made and measured

A job before and after one change: what `advise` promised of that change from the job before it, and what it brought.
*As set* is the calibrated model's answer for the settings that were chosen, where they are known. Intervals are of
80 %. The pairs are data (`tests/stories/pairs.toml`), with every source; none of the priors behind the intervals
(`simulators/calibration/priors.py`) is fitted to a pair. Those that are held out are further rows of the same tables.
"""

UNTOLD = """
Of the three A21 pairs each draw takes the split that suits it, as the advice does. Asked with the halves and the lag
of one that the recipes have, all three lie inside as well, at 1.11, 2.22 and 1.61 gains: a stated split may be the
wrong one for a job of which no phase is timed; its phases (A21) would narrow the rest most.

How long the generator of A12's run 2 is blocked is not published, but its queue is, and the trainer counts it while it
takes a batch. Full when a batch begins, such a count lacks half a batch on average: in runs 1 and 5 it lacks 0.28 and
0.46 of one, and their generators are blocked for 15 and 5 s a group; in run 2 it lacks 0.61, so the queue was found
with room, which bounds what its generator could do beside (Kingman; `simulators/calibration/headroom.py`); in run 3
less than one batch is there when one is taken, and the trainer waits.

The trainer's work once it overlaps, over its work in turn, is taken to be 0.8 to 1.25, and lower by the share of
log-probability passes where they are timed. Published jobs lie wider: 1.22 (vime), 0.47 to 0.94 (verl 30B, by the
trainer's exponent), 0.34 to 0.59 (verl 7B at 28K, whose lengths drift apart between the runs), 0.5 to 0.71 (verl 7B
at 10K). With 0.5 to 1.25 for all jobs 6 of the 9 held-out pairs would lie inside, and 4 of the 15 intervals be wider
than two gains: so much does one unknown of a job's trainer cost, and its first overlapped steps tell it.
"""


AGREEMENT = """## The analytic model against the discrete-event one

{jobs} random jobs (seeds from {first} on) of the distribution written down in `tests/oracles/configurations.py`, each
simulated for {rollouts:,} rollouts: standard error {error:.2%} in the median. Errors are of trained rollouts a second.
The rule that says where the analytic model should not decide alone (`simulators/analytic/weak.py`) looks at inputs
only, was drawn up on other seeds, and holds {weak:.0%} of these jobs. `python -m benchmarks.agreement --record` writes
this. Machine: {machine}.

Contexts hardly outgrow the prefix caches behind a prefill pool there (a row of that rule). Of 64 jobs where they may
(`tests/laws/test_prefill_decode_split.py`), each simulated for 150 batches at nine splits, the errors are 1.2 % in
the median and 9 % at nine tenths; where one mean share of hits is assumed they are 1.7 % and 36 %.

A law moves where the gain is. Of 100 random jobs under a cap on started groups, at six other ratios and limits in
flight each (`tests/laws/test_gains_by_both_models.py`), gains over the setting in force differ by 0.5 % in the median
and 2.6 % at nine tenths outside the weak rule; with a sandbox quota around what is in flight, and a cliff above it, by
0.6 % and 5.4 %, weak or not. What is left there is where starts take longer than what they start: they come in step
then, and which of two steady states a job is in is decided by how it got there. From which of the two the closed form
starts was chosen on these jobs; on others, which nothing was drawn up on, it is 0.7 % and 5.6 %.
"""
SPEED = """## Speed of the event engine

From the last `make bench`; what is measured, and what a goal that is missed would take: [benchmarks.md](benchmarks.md).
Machine: {machine}.
"""


def _agreement() -> Iterator[str]:
    told = json.loads(RECORD.read_text(encoding="utf-8"))
    facts = {"error": told["standard_error_frac"], "weak": told["weak_frac"], "machine": _machine(told["machine"])}
    yield AGREEMENT.format(jobs=told["jobs"], first=told["first"], rollouts=told["rollouts"], **facts)
    yield line(("jobs", "number", "median", "90 %", "largest", "trainer idle, 90 %", "staleness, 90 %"))
    yield line(("---", *["---:"] * 6))
    for region in (Region(**region) for region in told["regions"]):
        errors = (region.median_frac, region.p90_frac, region.largest_frac, region.idle_p90)
        shares = tuple(f"{error:.2%}" for error in errors)
        yield line((region.name, str(region.jobs), *shares, f"{region.staleness_p90:.2f}"))
    yield ""


def _speed() -> Iterator[str]:
    told = json.loads(RESULTS.read_text(encoding="utf-8"))
    yield SPEED.format(machine=_machine(told["machine"]))
    rows = [{name: value for name, value in row.items() if name != "verdict"} for row in told["rows"]]
    yield table([Row(**row) for row in rows])
    yield ""


def _machine(facts: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in facts.items())


def _changes() -> Iterator[str]:
    yield CHANGES
    yield from pairs.lines()
    yield UNTOLD


def _head(made: Validated) -> Iterator[str]:
    yield OPENING.format(headline=made.headline)


def _cases(made: Validated, files: Mapping[Path, str]) -> Iterator[str]:
    for kind, title in KINDS:
        cases = [case for case in made.cases if case.kind is kind]
        if cases:
            yield f"## {title}"
            yield ""
        for case in cases:
            yield from _case(made, case)
            if PICTURES / f"{case.id}.svg" in files:
                yield f"![{case.title}](validation/{case.id}.svg)"
                yield ""


def _case(made: Validated, case: ValidatedCase) -> Iterator[str]:
    yield f"### {case.title}"
    yield ""
    yield f"`{case.id}`"
    yield ""
    rows = [validated.cells(row) for row in made.rows if row.case == case.id]
    shown = [i for i in range(len(validated.HEAD)) if any(row[i] for row in rows)]
    yield line(tuple(validated.HEAD[i] for i in shown))
    yield line(tuple("---" if i < 2 else "---:" for i in shown))
    yield from (line(tuple(row[i] for i in shown)) for row in rows)
    yield ""
    yield from (f"- {part.strip()}" for part in validated.said(case))
    notes = [f"- {row.label}: {row.note}" for row in made.rows if row.case == case.id and row.note]
    yield from notes
    yield ""


def main() -> int:
    if sys.argv[1:] != ["--write"]:
        print("usage: python -m tools.validation --write", file=sys.stderr)
        return 2
    files = rendered(answer())
    PICTURES.mkdir(exist_ok=True)
    for stale in set(PICTURES.glob("*.svg")) - set(files):
        stale.unlink()
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
