"""One line of the speed table: what was promised, what was measured; and the table as JSON and as a page."""

import json
import os
import platform
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "simulator.json"
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"


@dataclass(frozen=True, slots=True)
class Row:
    what: str
    unit: str
    measured: float | None
    """None: could not be measured here; `note` says why."""
    floor: float | None = None
    goal: float | None = None
    less_is_better: bool = False
    note: str = ""

    @property
    def verdict(self) -> str:
        if self.measured is None:
            return "not measured"
        if self.floor is None:
            return ""
        if self.goal is not None and self._reaches(self.goal):
            return "goal"
        return "floor" if self._reaches(self.floor) else "MISSED"

    @property
    def told(self) -> str:
        """The verdict, and how far the goal is where it is not reached."""
        if self.measured is None or self.goal is None or self.verdict == "goal":
            return self.verdict
        share = self.goal / self.measured if self.less_is_better else self.measured / self.goal
        return f"{self.verdict}, {share:.0%} of the goal"

    def _reaches(self, mark: float) -> bool:
        assert self.measured is not None
        return self.measured <= mark if self.less_is_better else self.measured >= mark


def shown(number: float | None) -> str:
    if number is None:
        return "-"
    return f"{number:,.0f}" if abs(number) >= 1000.0 else f"{number:.3g}"


def machine() -> dict[str, str]:
    """The machine by its kind: nothing here names it."""
    models = [line for line in _cpu_lines() if line.startswith("model name")]
    return {
        "processor": models[0].split(":", 1)[1].strip() if models else platform.machine(),
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        "numba": version("numba"),
        "simpy": version("simpy"),
        "load average": " ".join(f"{load:.1f}" for load in os.getloadavg()),
    }


def _cpu_lines() -> list[str]:
    described = Path("/proc/cpuinfo")
    return described.read_text().splitlines() if described.exists() else []


def table(rows: list[Row]) -> str:
    lines = ["| what | unit | floor | goal | measured | reached |", "|---|---|---|---|---|---|"]
    for row in rows:
        cells = (row.what, row.unit, shown(row.floor), shown(row.goal), shown(row.measured), row.told)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


INTRODUCTION = """# Benchmarks of the event engine

Written by `make bench`; the numbers are in `benchmarks/results/simulator.json`. All times are processor time, medians
of repeated runs, and ratios are taken in one run on one machine, runs of both sides in turn.

The job: N engines of 64 slots, an iteration of b residents takes 8 + 0.1 b ms; lengths lognormal with mean 8,000
tokens and sigma 1; groups of 8, batches of 512 behind a buffer of 128 groups; a training step of 5 s + 1 s per 200,000
tokens; a pause of 2 s for each publication of weights. Batch, buffer and trainer grow in proportion to N / 24. With 20
turns a rollout has 20 x 400 tokens and exponential tool calls of 5 s between them.

The C++ engine (`benchmarks/event_engine.cpp`) runs the same algorithm on the same keyed draws, and its clock must show
the product's to a billionth after the measured steps, else no ratio is printed. It compares heap entries without a
branch, has a cache line for each engine, rollout and group, fetches ahead what the next events will read, and is built
for this processor. A row that misses its floor says so.
"""


WHAT_IS_LEFT = """## What a goal that is not reached would take

- *Against C++*: both sides do the same steps on the same numbers, so what is left is code: numba's LLVM against g++
  built for this processor. A profile-guided build, which numba has not, or the loop in C would close it: two days, a
  compiler at every installation, and a fifth at most.
- *N = 2,400, exact*: 150,000 rollouts in flight do not fit into the caches, and an event costs two to three times what
  it does at N = 24, in C++ too. Half as large records of rollouts and groups (they are a cache line each), or a machine
  whose caches are not shared with others (see the load average), would get there; reduced to N = 24 the goal is passed.
"""


def publish(rows: list[Row]) -> None:
    """Write the numbers and the page."""
    described = machine()
    RESULTS.parent.mkdir(exist_ok=True)
    listed = [{**asdict(row), "verdict": row.verdict} for row in rows]
    RESULTS.write_text(json.dumps({"machine": described, "rows": listed}, indent=2) + "\n")
    facts = ", ".join(f"{name} {value}" for name, value in described.items())
    notes = "\n".join(f"- {row.what}: {row.note}" for row in rows if row.note)
    PAGE.write_text(f"{INTRODUCTION}\nMachine: {facts}.\n\n{table(rows)}\n\n{notes}\n\n{WHAT_IS_LEFT}")
