"""A running job as a plant: what its feeds and actuators say becomes one observation."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

import pytest

from policies.control import Capability
from policies.settings import merged, values
from simulators.plant import Inventory, Mode, Order, Outcome, Receipt, Setpoints, Status, Topology
from tests.servers import Asked, serving
from tuner.errors import ActuationError, ConfigError
from tuner.feeds.base import Cursor, Poll, Source
from tuner.feeds.scrape import Scrape
from tuner.feeds.tail import Tail
from tuner.live import LivePlant, Stated, source_at

START_S = 1.8e9
TICK_S = 1000.0


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
        with closing(LivePlant(sources, stated=stated, deadline_s=30.0)) as live:
            yield live


def test_engines_and_trainer_make_one_snapshot_with_rates_and_ages(plant: LivePlant) -> None:
    plant.observe(START_S + 400.0)
    seen = plant.observe(START_S + 400.0 + TICK_S)
    shown = {name: seen.snapshot.get(name) for name in ("step_s", "trainer_wait_s", "engines", "running")}
    assert shown == {"step_s": 100.0, "trainer_wait_s": 30.0, "engines": 2.0, "running": 24.0}
    assert seen.snapshot.get("decode_tokens_per_s") == pytest.approx(2 * 1000.0 / TICK_S, rel=0.05)
    assert seen.snapshot.signals["step_s"].age_s == pytest.approx(TICK_S)
    assert seen.snapshot.signals["running"].age_s == pytest.approx(0.0, abs=60.0)
    assert [row.step for row in seen.snapshot.rows] == [0, 1, 2, 3, 4]


def test_what_is_stated_is_in_force_where_nobody_knows_better(plant: LivePlant) -> None:
    seen = plant.observe(START_S)
    assert (seen.in_force.gpus_trainer, seen.in_force.gpus_generator) == (16, 48)
    assert (plant.topology.framework, plant.topology.mode) == ("prime-rl", Mode.OVERLAPPED)
    assert seen.inventory.gpus_trainer is None


# ---- knobs ----


@dataclass
class Box:
    """A hand on some knobs of a job that keeps them in memory; `broken`: what it says to every question."""

    name: str
    knobs: tuple[str, ...]
    settings: Setpoints = field(default_factory=Setpoints)
    broken: str = ""
    ordered: list[Order] = field(default_factory=list)

    def capabilities(self) -> tuple[Capability, ...]:
        return tuple(map(Capability, self.knobs))

    def current(self) -> Setpoints:
        self._check()
        return self.settings

    def inventory(self) -> Inventory:
        return Inventory(gpus_trainer=self.settings.gpus_trainer)

    def apply(self, order: Order, now_s: float) -> Receipt:
        self._check()
        self.ordered.append(order)
        self.settings = merged(self.settings, order.setpoints)
        return Receipt(order.decision_id, dict.fromkeys(values(order.setpoints), Outcome(Status.APPLIED, self.name)))

    def _check(self) -> None:
        if self.broken:
            raise ActuationError(self.broken)

    def close(self) -> None:
        return None


SPLIT = Setpoints(gpus_trainer=24, gpus_generator=40, max_in_flight=512)


def test_each_knob_goes_to_the_one_actuator_that_owns_it() -> None:
    cluster, file = Box("cluster", ("gpus_trainer",)), Box("file", ("max_in_flight",))
    with closing(LivePlant((), (cluster, file))) as plant:
        receipt = plant.apply(Order(SPLIT, "d1", 7), START_S)
        seen = plant.observe(START_S)
    assert {knob: outcome.reason for knob, outcome in receipt.outcomes.items()} == {
        "gpus_trainer": "cluster",
        "gpus_generator": "cluster",
        "max_in_flight": "file",
    }
    assert [(o.setpoints, o.decision_id, o.fencing_token) for o in file.ordered] == [
        (Setpoints(max_in_flight=512), "d1", 7)
    ]
    assert (seen.in_force, seen.inventory.gpus_trainer) == (SPLIT, 24)


def test_what_nobody_turns_or_what_fails_is_refused_with_the_reason() -> None:
    broken = Box("cluster", ("gpus_trainer",), broken="the API answers 503")
    with closing(LivePlant((), (broken,))) as plant:
        receipt = plant.apply(Order(SPLIT, "d1"), START_S)
        seen = plant.observe(START_S)
    assert receipt.status is Status.REFUSED
    assert "503" in receipt.outcomes["gpus_trainer"].reason
    assert "no actuator turns max_in_flight" in receipt.outcomes["max_in_flight"].reason
    assert seen.in_force == Setpoints()
    assert [note.code for note in seen.snapshot.notes] == ["actuator-silent"]


def test_two_actuators_of_one_knob_are_refused() -> None:
    with pytest.raises(ConfigError, match="two actuators, a and b"):
        LivePlant((), (Box("a", ("max_in_flight",)), Box("b", ("max_in_flight",))))


def test_an_actuator_knows_better_than_the_statement() -> None:
    hand = Box("hand", ("gpus_trainer",), Setpoints(gpus_trainer=32))
    stated = Stated(setpoints=Setpoints(gpus_trainer=16, gpus_generator=48))
    with closing(LivePlant((), (hand,), stated)) as plant:
        assert plant.observe(START_S).in_force == Setpoints(gpus_trainer=32, gpus_generator=48)


class Hanging:
    """A feed that keeps no deadline."""

    name = "hanging"

    def __init__(self) -> None:
        self.asked = 0
        self.let_go = Event()

    def poll(self, cursor: Cursor, now_s: float, deadline_s: float) -> Poll:
        self.asked += 1
        self.let_go.wait(10.0)
        return Poll()

    def close(self) -> None:
        self.let_go.set()


@pytest.mark.slow
def test_a_feed_that_hangs_costs_its_own_signals_only_and_is_not_asked_again(tmp_path: Path) -> None:
    log, hanging = tmp_path / "metrics.jsonl", Hanging()
    log.write_text("".join(map(step_line, range(5))))
    with closing(LivePlant([Source(hanging), Source(Tail(str(log), ()))], deadline_s=0.5)) as plant:
        plant.observe(START_S)
        seen = plant.observe(START_S)
    assert hanging.asked == 1
    assert seen.snapshot.get("step_s") == 100.0
    assert [state.failure for state in plant.feeds] == ["no answer in time", None]


class Breaking(Hanging):
    """A feed that raises, its words full of secrets."""

    name = "breaking"

    def poll(self, cursor: Cursor, now_s: float, deadline_s: float) -> Poll:
        raise RuntimeError("Authorization: Bearer s3cr3t")


def test_a_feed_that_breaks_fails_alone_and_its_words_stay_inside() -> None:
    with closing(LivePlant([Source(Breaking())])) as plant:
        seen = plant.observe(START_S)
    assert plant.feeds[0].failure == "it broke: RuntimeError; please report"
    assert "s3cr3t" not in repr(seen)


def test_a_run_at_mlflow_without_its_client_is_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ConfigError, match=r"pip install 'equipoise\[mlflow\]'"):
        source_at(f"mlflow+http://127.0.0.1:5000/{'0' * 32}")
