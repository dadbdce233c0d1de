"""A running job as a plant: what its feeds and actuators say becomes one observation."""

import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from simulators.plant import Mode, Setpoints, Topology
from tests.servers import Asked, serving
from tuner.feeds.base import Source
from tuner.feeds.scrape import Scrape
from tuner.feeds.tail import Tail
from tuner.live import LivePlant, Stated

START_S = 1.8e9
TICK_S = 10.0


def metrics(engine: int, tokens: float, running: int = 12) -> bytes:
    labels = f'{{engine="{engine}",model_name="m"}}'
    return (
        f"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{labels} {running}\n"
        f"vllm:kv_cache_usage_perc{labels} 0.5\nvllm:generation_tokens_total{labels} {tokens}\n"
    ).encode()


def step_line(step: int) -> str:
    row = {"step": step, "time": START_S + 100.0 * step, "time/step": 100.0, "time/wait_for_batch": 30.0}
    return json.dumps(row | {"time/forward_backward": 65.0, "progress/samples": 512}) + "\n"


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[LivePlant]:
    """Two engines that make 1000 tokens between two scrapes, and a trainer that logs a step between two looks."""
    scrapes = [0, 0]

    def respond(asked: Asked) -> bytes:
        engine = int(asked.path[-1])
        scrapes[engine] += 1
        return metrics(engine, 1000.0 * scrapes[engine])

    log = tmp_path / "metrics.jsonl"
    log.write_text("".join(map(step_line, range(5))))
    os.utime(log, (START_S + 400.0, START_S + 400.0))
    with serving(respond) as server:
        engines = Scrape("engines", lambda: (f"{server.url}/metrics/0", f"{server.url}/metrics/1"))
        sources = [Source(engines, "prometheus", sampled=True), Source(Tail(str(log), ()))]
        stated = Stated(Topology(gpus_total=64), Setpoints(gpus_trainer=16, gpus_generator=48))
        with closing(LivePlant(sources, stated=stated)) as live:
            yield live


def test_engines_and_trainer_make_one_snapshot_with_rates_and_ages(plant: LivePlant) -> None:
    plant.observe(START_S + 400.0)
    seen = plant.observe(START_S + 400.0 + TICK_S)
    shown = {name: seen.snapshot.get(name) for name in ("step_s", "trainer_wait_s", "engines", "running")}
    assert shown == {"step_s": 100.0, "trainer_wait_s": 30.0, "engines": 2.0, "running": 24.0}
    assert seen.snapshot.get("decode_tokens_per_s") == pytest.approx(2 * 1000.0 / TICK_S, rel=0.05)
    assert seen.snapshot.signals["step_s"].age_s == pytest.approx(TICK_S)
    assert seen.snapshot.signals["running"].age_s == pytest.approx(0.0, abs=1.0)
    assert [row.step for row in seen.snapshot.rows] == [0, 1, 2, 3, 4]


def test_what_is_stated_is_in_force_where_nobody_knows_better(plant: LivePlant) -> None:
    seen = plant.observe(START_S)
    assert (seen.in_force.gpus_trainer, seen.in_force.gpus_generator) == (16, 48)
    assert (plant.topology.framework, plant.topology.mode) == ("prime-rl", Mode.OVERLAPPED)
    assert seen.inventory.gpus_trainer is None
