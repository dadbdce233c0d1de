"""The one sentence that a tired person reads first."""

from pathlib import Path

import pytest

from policies.diagnosis import diagnose
from policies.estimators import estimate
from simulators.plant import Mode, Setpoints, Topology
from simulators.snapshot import Row, Snapshot
from simulators.window import assemble
from tests.stories.answers import CASES
from tuner import ingest

READABLE = sorted(p.name for p in CASES.iterdir() if p.suffix != ".json" and p.name != "README.md")


def serial(rollout_s: float, busy_s: float, validation_s: float = 0.0, steps: int = 6) -> Snapshot:
    step = {"step_s": rollout_s + busy_s + validation_s, "rollout_s": rollout_s, "trainer_busy_s": busy_s}
    return assemble([Row({**step, "validation_s": validation_s}, i, None) for i in range(steps)])


def said(snapshot: Snapshot, mode: Mode = Mode.SERIAL) -> str:
    topology = Topology(mode=mode)
    return diagnose(topology, Setpoints(), estimate(topology, Setpoints(), snapshot)).headline


@pytest.mark.parametrize("name", READABLE)
def test_a_headline_is_one_short_sentence_with_one_colon(name: str) -> None:
    reading = ingest.read([str(Path(CASES) / name)])
    known = estimate(reading.topology, reading.setpoints, reading.snapshot)
    headline = diagnose(reading.topology, reading.setpoints, known).headline
    assert headline.count(": ") == 1
    assert headline.endswith(".")
    assert ". " not in headline
    assert len(headline) <= 240


def test_the_share_of_the_step_comes_first_where_no_cause_is_named() -> None:
    assert said(serial(60.0, 30.0)).startswith("Generation is the bottleneck: 67% of each 90 s step, training 33%;")
    assert said(serial(20.0, 60.0)) == "Training is the bottleneck: 75% of each 80 s step, generation 25%."


def test_an_evaluation_of_unknown_period_is_not_counted_into_the_shares() -> None:
    headline = said(serial(6.0, 4.0, validation_s=30.0, steps=1))
    assert "60% of each 10 s step, training 40% (without validation, 30 s here)" in headline
