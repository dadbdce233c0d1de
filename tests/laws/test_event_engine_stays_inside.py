"""Compiled code writes past the end of an array without a word; the same code, interpreted, raises IndexError."""

import os
import subprocess
import sys

import pytest

JOBS = 8
INTERPRETED = f"""
import warnings
from simulators.event_model import EventModel
from tests.oracles.configurations import configuration
warnings.simplefilter("ignore")  # keys of random numbers overflow on purpose
for seed in range({JOBS}):
    job = configuration(seed, extras=True)
    EventModel(job.stations, batches=8, warm_up_batches=2).predict(job.topology, job.workload, job.setpoints)
"""


@pytest.mark.slow
def test_no_job_of_the_sampler_leaves_the_arrays() -> None:
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", INTERPRETED], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
