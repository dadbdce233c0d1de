"""Compiled code writes past the end of an array without a word; the same code, interpreted, raises IndexError."""

import os
import subprocess
import sys

import pytest

JOBS = 8
SAMPLED = f"""
from simulators.event_model import EventModel
from tests.oracles.configurations import configuration
for seed in range({JOBS}):
    job = configuration(seed, extras=True)
    EventModel(job.stations, batches=8, warm_up_batches=2).predict(job.topology, job.workload, job.setpoints)
"""
GROWING_POOL = """
from simulators.simulation import Simulation
from tests.laws.test_event_stations import POOLED as job
from tests.jobs import with_knobs
running = Simulation(job)
for prefill in (2, 40, 1):
    running.advance(until_step=running.step + 4)
    running.change(with_knobs(job, gpus_prefill=prefill))
running.advance(until_step=running.step + 4)
assert running.stopped is None and running.broken_laws() == (), (running.stopped, running.broken_laws())
"""
LEAKING_UNDER_A_LARGER_QUOTA = """
from simulators.simulation import Simulation
from simulators.stations import Sandboxes
from tests.jobs import plain_job, with_stations
def leaking(quota):
    fleet = Sandboxes(start_s=1.0, live_limit=quota, leak_frac=0.9, lifetime_s=1e5)
    return with_stations(plain_job(), sandboxes=fleet)
running = Simulation(leaking(40))
running.advance(until_step=1)
running.change(leaking(4000))
running.advance(until_step=40)
assert running.counters().boxes_leaked > 400, running.counters()
"""


@pytest.mark.slow
@pytest.mark.parametrize("code", [SAMPLED, GROWING_POOL, LEAKING_UNDER_A_LARGER_QUOTA])
def test_no_job_leaves_the_arrays(code: str) -> None:
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    quiet = "import warnings\nwarnings.simplefilter('ignore')  # keys of random numbers overflow on purpose\n"
    done = subprocess.run([sys.executable, "-c", quiet + code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
