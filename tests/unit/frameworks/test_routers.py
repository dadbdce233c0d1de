"""Routers before engines, and engines that report through Ray: what a live job knows of them."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from simulators.plant import Mode
from simulators.snapshot import Snapshot
from tests.servers import Asked, serving
from tuner.feeds.contract import contract_of
from tuner.feeds.promql import metric_names
from tuner.frameworks.registry import FRAMEWORKS
from tuner.live import LivePlant, source_at

DATA = Path(__file__).parents[2] / "data" / "router"
NOW_S, TICK_S = 1.8e9, 30.0
ENGINE = """\
vllm:num_requests_running{engine="0"} 2
vllm:num_requests_waiting{engine="0"} 1
vllm:kv_cache_usage_perc{engine="0"} 0.5
"""


def seen(answer: Callable[[str, int], str], *paths: str) -> tuple[Snapshot, LivePlant]:
    """After three looks at these targets; `answer` is what each says at its n-th."""
    looks: dict[str, int] = {}

    def respond(asked: Asked) -> bytes:
        looks[asked.path] = looks.get(asked.path, 0) + 1
        return answer(asked.path.removeprefix("/"), looks[asked.path]).encode()

    with serving(respond) as server:
        sources = [source_at(f"scrape+{server.url}/{path}") for path in paths]
        with closing(LivePlant(sources, deadline_s=30.0)) as plant:
            for tick in range(3):
                shown = plant.observe(NOW_S + TICK_S * tick).snapshot
    return shown, plant


@pytest.mark.parametrize("name", ["smg", "sglang-router", "vllm-router"])
def test_a_router_alone_tells_engines_and_requests_in_flight(name: str) -> None:
    shown, _ = seen(lambda path, _: (DATA / f"{path}.prom").read_text(), name)
    assert (shown.get("engines"), shown.get("running")) == (2.0, 5.0)
    assert shown.signals["running"].trust == 0.6


@pytest.mark.parametrize("name", ["smg", "vllm-router"])
def test_what_engines_say_themselves_wins_over_their_router(name: str) -> None:
    def answer(path: str, _: int) -> str:
        return ENGINE if path == "engine" else (DATA / f"{path}.prom").read_text()

    shown, plant = seen(answer, name, "engine")
    assert (shown.get("running"), shown.get("queued"), shown.get("kv_usage_frac")) == (2.0, 1.0, 0.5)
    assert {row.values["engines"] for row in shown.engine_rows} == {1.0}
    assert plant.reading is not None
    assert plant.reading.framework == "vllm"


def test_a_router_of_grpc_engines_tells_times_to_and_per_token() -> None:
    def answer(_: str, look: int) -> str:
        name = "smg_router_ttft_seconds"
        return f'smg_worker_pool_size{{model="m"}} 2\n{name}_sum {10 * look}\n{name}_count {4 * look}\n'

    shown, _ = seen(answer, "smg")
    assert shown.get("ttft_mean_s") == pytest.approx(2.5)


def through_ray(_: str, look: int) -> str:
    """Two engines of vLLM by Ray's agent, with the labels that it adds; counters stand there twice."""
    lines = []
    for worker in ("a1", "b2"):
        labels = f'{{Component="core_worker",NodeAddress="n",Version="2.60.0",WorkerId="{worker}",engine="0"}}'
        lines += [
            f"ray_vllm_num_requests_running{labels} 6",
            f"ray_vllm_kv_cache_usage_perc{labels} 0.25",
            f"ray_vllm_generation_tokens{labels} {3000 * look}",
            f"ray_vllm_generation_tokens_total{labels} {3000 * look}",
            f"ray_vllm_time_to_first_token_seconds_sum{labels} {look}",
            f"ray_vllm_time_to_first_token_seconds_count{labels} {2 * look}",
        ]
    return "\n".join(lines) + "\n"


def test_engines_that_report_through_ray_are_told_apart_by_their_worker() -> None:
    shown, _ = seen(through_ray, "metrics")
    assert (shown.get("engines"), shown.get("running"), shown.get("kv_usage_frac")) == (2.0, 12.0, 0.25)
    assert shown.get("decode_tokens_per_s") == pytest.approx(2 * 3000 / TICK_S, rel=0.2)
    assert shown.get("ttft_mean_s") == pytest.approx(0.5)


def test_skyrls_gauges_of_ray_are_its_steps() -> None:
    def answer(_: str, look: int) -> str:
        said = {
            "trainer_global_step": 7 + look,
            "timing_step": 100 + look,
            "timing_wait_for_generation_buffer": 40,
            "timing_run_training": 50,
            "timing_sync_weights": 8,
            "gen_buffer_qsize": 3,
            "gen_buffer_maxsize": 16,
        }
        return "".join(f'ray_skyrl_{name}{{WorkerId="w"}} {value}\n' for name, value in said.items())

    shown, plant = seen(answer, "metrics")
    assert [(row.step, row.values["step_s"]) for row in shown.rows] == [(8, 101.0), (9, 102.0), (10, 103.0)]
    told = [
        shown.get(name) for name in ("trainer_wait_s", "weight_sync_s", "update_s", "queue_depth", "queue_capacity")
    ]
    assert told == [40.0, 8.0, 50.0, 3.0, 16.0]
    assert (plant.topology.framework, plant.topology.mode) == ("skyrl", Mode.OVERLAPPED)


def test_a_server_is_asked_for_each_of_their_names_and_says_before_a_run_what_is_there() -> None:
    known = {name for framework in FRAMEWORKS for name in metric_names(framework)}
    wanted = {
        *("smg_worker_requests_active", "smg_worker_pool_size", "vllm_router_running_requests"),
        *("ray_vllm_num_requests_running", "ray_vllm_generation_tokens_total", "ray_skyrl_timing_step"),
        *("ray_skyrl_trainer_global_step", "ray_skyrl_gen_buffer_qsize", "ray_vllm_time_to_first_token_seconds_sum"),
    }
    assert wanted <= known
    contract = contract_of("server", sorted(wanted), FRAMEWORKS)
    assert set(contract.found) == {"router", "vllm", "skyrl"}
    renamed = contract_of("server", ["smg_worker_request_active", "smg_worker_pool_size"], FRAMEWORKS)
    told = next(missing for missing in renamed.missing if missing.what == "engines at work")
    assert told.alike == ("smg_worker_request_active",)
