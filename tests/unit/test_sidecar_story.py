"""The story of the end-to-end benchmark: told faster it is the same story, and its job file is one."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.sidecar import STORY, Wish, job_text, sped_up
from simulators.pipeline import SimulatedPlant
from simulators.scenario import Scenario
from tuner.config import load as load_job
from tuner.scenario_files import load

SPEED, STEPS = 40.0, 6


def told(tmp_path: Path, speed: float) -> Scenario:
    """The beginning of the story, so much faster."""
    path = tmp_path / f"story-{speed:g}.toml"
    path.write_text(sped_up(STORY.read_text(encoding="utf-8"), speed))
    scenario = load(str(path)).scenario
    return replace(scenario, horizon=replace(scenario.horizon, steps=STEPS))


def test_a_story_told_faster_is_the_same_story(tmp_path: Path) -> None:
    plants = [SimulatedPlant(told(tmp_path, speed), 1) for speed in (1.0, SPEED)]
    for plant in plants:
        plant.advance()
    slow, fast = ([entry.row.time_s or 0.0 for entry in plant.log] for plant in plants)
    assert len(slow) == STEPS
    assert fast == pytest.approx([at_s / SPEED for at_s in slow], rel=1e-3)


def test_its_job_file_says_of_the_job_what_the_story_says(tmp_path: Path) -> None:
    scenario, story = told(tmp_path, SPEED), tmp_path / f"story-{SPEED:g}.toml"
    (tmp_path / "job.toml").write_text(
        job_text(story, "http://127.0.0.1:9090", Wish(SPEED, "predictive", tmp_path, 1)), encoding="utf-8"
    )
    job = load_job(tmp_path / "job.toml")
    assert job.to_setpoints() == scenario.setpoints
    assert replace(job.to_topology(), restart_s=None) == replace(scenario.topology, restart_s=None)
    assert job.to_topology().restart_s == pytest.approx(scenario.topology.restart_s)
