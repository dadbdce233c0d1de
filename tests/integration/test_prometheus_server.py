"""A real Prometheus server scrapes the emulated fleet; what our feed makes of it agrees with what truly happened."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from statistics import fmean

import pytest

from simulators.plant import Observation, Setpoints, Topology
from tests.fleet.fleet import Fleet
from tests.fleet.server import BINARY, MISSING, prometheus
from tests.fleet.web import served
from tuner.live import LivePlant, Stated, source_at
from tuner.scenario_files import load

pytestmark = pytest.mark.skipif(BINARY is None, reason=MISSING)

ACCELERATION = 48.0
"""A step of this job is some 90 s, here 2 s: four scrapes."""
EVERY = "400ms"
WATCHED_S = 16.0


@dataclass
class Watched:
    fleet: Fleet
    plant: LivePlant
    url: str
    seen: Observation


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A job that was watched for a while, from its tenth step on."""
    fleet = Fleet(load("steady-noise-24h").scenario, ACCELERATION, start_s=900.0)
    with ExitStack() as stack:
        fleet_url = stack.enter_context(served(fleet))
        url = stack.enter_context(prometheus(tmp_path_factory.mktemp("prometheus"), fleet_url, EVERY))
        stated = Stated(Topology(gpus_per_engine=8), Setpoints(gpus_trainer=64, gpus_generator=192))
        plant = stack.enter_context(closing(LivePlant([source_at(f"prometheus+{url}")], stated=stated)))
        until = time.monotonic() + WATCHED_S
        while time.monotonic() < until:
            time.sleep(1.0)
            seen = plant.observe(time.time())
        yield Watched(fleet, plant, url, seen)


def truth(fleet: Fleet, signal: str, steps: range) -> float:
    rows = [log.row.values for log in fleet.plant.log if log.row.step in steps]
    return fmean(fleet.faster(signal, row[signal]) for row in rows)


def test_every_engine_and_the_trainer_are_seen(watched: Watched) -> None:
    assert watched.seen.snapshot.get("engines") == 24.0
    (state,) = watched.plant.feeds
    assert (state.asked, state.answered, state.failure) == (25, 25, None)


def test_steps_are_the_trainers_own_one_row_each(watched: Watched) -> None:
    rows = watched.seen.snapshot.rows
    steps = [row.step for row in rows]
    assert len(steps) >= 5
    assert steps == sorted(set(steps))
    measured = fmean(row.values["step_s"] for row in rows[1:])
    assert measured == pytest.approx(truth(watched.fleet, "step_s", range(steps[1], steps[-1] + 1)), rel=0.02)


def test_idle_shares_agree_with_the_truth(watched: Watched) -> None:
    rows = watched.seen.snapshot.rows[1:]
    steps = range(rows[0].step or 0, (rows[-1].step or 0) + 1)
    idle = sum(r.values["trainer_wait_s"] for r in rows) / sum(r.values["step_s"] for r in rows)
    true_idle = truth(watched.fleet, "trainer_wait_s", steps) / truth(watched.fleet, "step_s", steps)
    assert idle == pytest.approx(true_idle, abs=0.05)


def test_rates_from_counters_agree_with_the_truth(watched: Watched) -> None:
    engine_rows = watched.seen.snapshot.engine_rows
    rate = fmean(row.values["decode_tokens_per_s"] for row in engine_rows if "decode_tokens_per_s" in row.values)
    steps = range(watched.seen.snapshot.rows[1].step or 0, (watched.seen.snapshot.rows[-1].step or 0) + 1)
    assert rate == pytest.approx(truth(watched.fleet, "decode_tokens_per_s", steps), rel=0.1)
    assert watched.seen.snapshot.get("running") == pytest.approx(truth(watched.fleet, "running", steps), rel=0.15)


def test_what_is_seen_is_young(watched: Watched) -> None:
    ages = {n: watched.seen.snapshot.signals[n].age_s for n in ("running", "decode_tokens_per_s", "step_s")}
    assert all(age is not None and age < 5.0 for age in ages.values()), ages
