"""Engines that are let run nearly empty: each one's own limit is all that binds, and `predictive` turns it."""

from pathlib import Path

import pytest

from tuner.evaluation.controlled import controlled, nothing
from tuner.evaluation.tasks import Task
from tuner.scenario_files import load

JOB = """\
title = "Engines that are let run nearly empty"

[horizon]
steps = 40

[topology]
mode = "overlapped"
gpus_per_engine = 1

[setpoints]
gpus_trainer = 12
gpus_generator = 16
group_size = 4
batch_rollouts = 64
max_in_flight_per_engine = 4

[workload]
prompt = { mean_tokens = 300 }
response = { mean_tokens = 6000, sigma = 0.7, max_tokens = 32768 }

[stations.engine]
slots = 32
step = { table = [[0, 0.010], [1, 0.0104]] }

[stations.trainer]
base_s = 2
gpu_s_per_token = 5e-4

[stations.admission]
plug = "buffer-cap"
limit_groups = 64

[[move]]
knob = "max_in_flight_per_engine"
"""


@pytest.mark.slow
def test_the_limit_of_each_engine_is_raised_and_the_job_is_faster_for_it(tmp_path: Path) -> None:
    path = tmp_path / "limited.toml"
    path.write_text(JOB)
    scenario = load(str(path)).scenario
    stays = nothing(Task("limited", scenario, "static", 1))
    moved = controlled(Task("limited", scenario, "predictive", 1, goal=stays.goal, ends_s=stays.seconds))
    assert moved.moves >= 1
    assert moved.unfinished is None
    assert moved.violations == stays.violations == {}
    assert moved.seconds < stays.seconds / 1.5
