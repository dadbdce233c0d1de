"""`equipoise compare`: two runs phase by phase, per rollout and per token: why is one slower?"""

import os
import sys

from policies.comparison import Side, compare
from policies.estimators import estimate
from tuner.answers.advise import to_json
from tuner.commands.base import Ask, read, screen_for
from tuner.errors import ConfigError
from tuner.report.compared import build, render


def run(a: Ask, b: Ask, *, as_json: bool) -> None:
    """Prints the comparison of two readings."""
    if a.sources == b.sources == ("-",):
        raise ConfigError("both runs are standard input: write one of them to a file first")
    names = side_names(a.sources[0], b.sources[0])
    sides = [_side(name, ask) for name, ask in zip(names, (a, b), strict=True)]
    compared = build(compare(sides[0], sides[1]))
    sys.stdout.write(to_json(compared) + "\n" if as_json else render(compared, screen_for(sys.stdout, os.environ)))


def side_names(a: str, b: str) -> tuple[str, str]:
    """What to call the runs: their paths without what both begin with; A and B in front keep equal names apart."""
    common = os.path.commonpath([a, b]) if os.path.isabs(a) == os.path.isabs(b) else ""
    short = [os.path.relpath(p, common) if common and p != common else p for p in (a, b)]
    return f"A ({short[0]})", f"B ({short[1]})"


def _side(name: str, ask: Ask) -> Side:
    reading, _ = read(ask)
    snapshot = estimate(reading.topology, reading.setpoints, reading.snapshot)
    return Side(name, reading.topology.mode, snapshot)
