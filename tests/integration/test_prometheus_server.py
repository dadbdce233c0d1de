"""A real Prometheus server scrapes the emulated fleet; what our feed makes of it agrees with what truly happened."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import pytest

from simulators.plant import Observation, Setpoints, Status, Topology
from tests.fleet.fleet import Fleet
from tests.fleet.server import BINARY, MISSING, free_port, prometheus
from tests.fleet.web import served
from tuner.live import LivePlant, Stated, source_at
from tuner.scenario_files import load

pytestmark = pytest.mark.skipif(BINARY is None, reason=MISSING)

ACCELERATION = 48.0
"""A step of this job is some 90 s, here 2 s: four scrapes."""
EVERY = "400ms"
STEPS = 8
PATIENCE_S = 60.0
"""A busy machine is slow, and a server looks for new targets every five seconds."""


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
        yield Watched(fleet, plant, url, watching(plant, lambda seen: len(seen.snapshot.rows) >= STEPS))


def watching(plant: LivePlant, enough: Callable[[Observation], bool]) -> Observation:
    """A look every second, until it shows what is waited for; the last one."""
    until = time.monotonic() + PATIENCE_S
    seen = plant.observe(time.time())
    while not enough(seen) and time.monotonic() < until:
        time.sleep(1.0)
        seen = plant.observe(time.time())
    return seen


def pool_of(engines: int) -> Callable[[Observation], bool]:
    return lambda seen: bool(seen.snapshot.engine_rows) and newest_pool(seen) == engines


def newest_pool(seen: Observation) -> float:
    return seen.snapshot.engine_rows[-1].values["engines"]


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
    assert len(steps) >= STEPS
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


# ---- the fleet changes ----


def test_an_engine_that_dies_leaves_the_pool_and_its_series_do_not_linger(watched: Watched) -> None:
    watched.fleet.control(3, "dead")
    seen = watching(watched.plant, pool_of(23))
    assert newest_pool(seen) == 23
    assert "24 of 25 targets answered" in str([note.detail for note in seen.snapshot.notes])
    watched.fleet.control(3, "alive")
    assert newest_pool(watching(watched.plant, pool_of(24))) == 24


def test_engines_that_restart_make_no_negative_and_no_huge_rate(watched: Watched) -> None:
    before = watched.plant.observe(time.time()).snapshot.get("decode_tokens_per_s")
    assert before is not None
    began_s = time.time()
    for index in range(0, 24, 4):
        watched.fleet.control(index, "reset")

    def rates_since(seen: Observation) -> list[float]:
        rows = [row for row in seen.snapshot.engine_rows if (row.time_s or 0.0) > began_s]
        return [row.values["decode_tokens_per_s"] for row in rows if "decode_tokens_per_s" in row.values]

    rates = rates_since(watching(watched.plant, lambda seen: len(rates_since(seen)) >= 8))
    assert len(rates) >= 8
    assert all(0.0 <= rate < 2.0 * before for rate in rates)


def test_another_split_shows_in_the_fleet_and_in_what_is_seen(watched: Watched) -> None:
    receipt = watched.fleet.order(Setpoints(gpus_trainer=128, gpus_generator=128))
    assert receipt.status is not Status.REFUSED
    watching(watched.plant, lambda _: watched.fleet.in_force()[0].gpus_generator == 128)
    assert watched.fleet.in_force()[0].gpus_generator == 128
    assert newest_pool(watching(watched.plant, pool_of(16))) == 16


def at_work(seen: Observation) -> bool:
    return bool(seen.snapshot.rows) and pool_of(24)(seen)


def test_a_server_that_comes_back_empty_is_told_and_heals(tmp_path: Path) -> None:
    fleet, port = Fleet(load("steady-noise-24h").scenario, ACCELERATION, start_s=900.0), free_port()
    with served(fleet) as fleet_url, closing(LivePlant([source_at(f"prometheus+http://127.0.0.1:{port}")])) as plant:
        with prometheus(tmp_path / "first", fleet_url, EVERY, port):
            before = watching(plant, at_work).snapshot
        down = plant.observe(time.time()).snapshot
        with prometheus(tmp_path / "second", fleet_url, EVERY, port):
            restarted_s = time.time()
            after = watching(plant, lambda seen: at_work(seen) and seen.snapshot.rows[-1].time_s > restarted_s).snapshot
    assert "nobody listens there" in str([note.detail for note in down.notes])
    assert down.get("engines") == 24.0, "what was known stays, and ages"
    assert after.engine_rows[-1].values["engines"] == 24.0
    assert after.rows[-1].step is not None
    assert before.rows[-1].step is not None
    assert after.rows[-1].step > before.rows[-1].step
