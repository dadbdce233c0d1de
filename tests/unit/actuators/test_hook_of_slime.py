"""slime's hook around slime's own rollout loop: the code of its release, with stand-ins for what needs GPUs."""

import ast
import asyncio
import json
import sys
from argparse import Namespace
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from simulators.plant import Order, Setpoints, Status
from tests.unit.actuators.hooks import ROOT, hook
from tests.unit.actuators.sites import SLIME, site_of
from tuner.actuators.registry import make

SOURCE = ROOT / "tests" / "data" / "hooks" / "slime-624b824-sglang_rollout.py.txt"
PARTS = ("GenerateState", "generate_rollout_async", "generate_rollout")


class Meter:
    """Counts the groups that slime asked for, and the most that ran at once."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.running = self.most = 0

    def get_samples(self, count: int) -> list[list[Any]]:
        self.asked.append(count)
        group = [SimpleNamespace(index=0, prompt="", response="", label="", reward=0.0)] * 16
        return [list(group) for _ in range(count)]

    def add_samples(self, samples: list[Any]) -> None:
        raise AssertionError("nothing is aborted here")


class Singleton(type):
    _one: Any = None

    def __call__(cls, *args: Any) -> Any:
        cls._one = cls._one or super().__call__(*args)
        return cls._one


def released(meter: Meter) -> ModuleType:
    """slime.rollout.sglang_rollout: its state and its loop as released, its requests replaced by a short sleep."""
    module = ModuleType("slime.rollout.sglang_rollout")

    async def generate_and_rm_group(args: Namespace, group: list[Any], **_: Any) -> list[Any]:
        async with module.GenerateState(args).semaphore:
            meter.running += 1
            meter.most = max(meter.most, meter.running)
            await asyncio.sleep(0)
            meter.running -= 1
        return group

    async def abort(args: Namespace, rollout_id: int) -> list[Any]:
        await asyncio.gather(*module.GenerateState(args).pendings)
        return []

    module.__dict__.update(
        asyncio=asyncio,
        contextmanager=contextmanager,
        SingletonMeta=Singleton,
        Namespace=Namespace,
        Any=Any,
        Callable=Callable,
        Sample=Any,
        np=None,
        logger=SimpleNamespace(info=lambda *_: None),
        load_tokenizer=lambda *_, **__: None,
        load_processor=lambda *_, **__: None,
        get_rollout_num_engines=lambda args: 24,
        tqdm=lambda **_: SimpleNamespace(update=lambda n: None, close=lambda: None),
        MetricGatherer=lambda: SimpleNamespace(collect=dict),
        call_dynamic_filter=lambda *_: SimpleNamespace(keep=True),
        should_drop_dynamic_filter_output=lambda *_, **__: False,
        RolloutFnTrainOutput=SimpleNamespace,
        RolloutFnEvalOutput=SimpleNamespace,
        run=asyncio.run,
        generate_and_rm_group=generate_and_rm_group,
        abort=abort,
    )
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"))
    parts = [node for node in tree.body if getattr(node, "name", "") in PARTS]
    assert len(parts) == len(PARTS)
    exec(compile(ast.Module(parts, type_ignores=[]), str(SOURCE), "exec"), module.__dict__)
    return module


@pytest.fixture
def meter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Meter:
    meter = Meter()
    utils = ModuleType("slime.utils.http_utils")
    utils.__dict__["get_rollout_num_engines"] = lambda args: 24
    for name, module in (
        ("slime", ModuleType("slime")),
        ("slime.rollout", ModuleType("slime.rollout")),
        ("slime.rollout.sglang_rollout", released(meter)),
        ("slime.utils", ModuleType("slime.utils")),
        ("slime.utils.http_utils", utils),
    ):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setenv("EQUIPOISE_CONTROL_FILE", str(tmp_path / "c.json"))
    return meter


class Arguments(Namespace):
    """slime's arguments: what the loop reads is there, what it reads and nobody set is off."""

    def __getattr__(self, name: str) -> Any:
        return 1.0 if name == "rollout_top_p" else None


def arguments() -> Namespace:
    return Arguments(**{k: v for k, v in SLIME.items() if isinstance(v, int)}, rollout_global_dataset=True)


def ordered(folder: Path, wish: Setpoints) -> Any:
    options = {"path": folder / "c.json", "knobs": ["max_in_flight", "oversampling_ratio"]}
    actuator = make("control_file", options, site_of("slime", SLIME))
    return actuator, actuator.apply(Order(wish, "d7.1", 1), 0.0)


def test_the_next_rollout_asks_for_as_many_prompts_as_ordered(meter: Meter, tmp_path: Path) -> None:
    slime, args = hook("equipoise_slime"), arguments()
    slime.generate_rollout(args, 0, meter)
    assert meter.asked == [240]
    actuator, receipt = ordered(tmp_path, Setpoints(oversampling_ratio=1.5))
    assert receipt.status is Status.PENDING
    slime.generate_rollout(args, 1, meter)
    assert meter.asked == [240, 288]
    assert actuator.current().oversampling_ratio == 1.5


def test_the_next_rollout_runs_no_more_at_once_than_ordered(meter: Meter, tmp_path: Path) -> None:
    slime, args = hook("equipoise_slime"), arguments()
    slime.generate_rollout(args, 0, meter)
    assert meter.most == 240
    meter.most = 0
    actuator, _ = ordered(tmp_path, Setpoints(max_in_flight=96))
    slime.generate_rollout(args, 1, meter)
    assert meter.most == 96
    assert actuator.current().max_in_flight == 96
    assert actuator.current().max_in_flight_per_engine == 4


def test_an_evaluation_changes_nothing(meter: Meter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slime, args = hook("equipoise_slime"), arguments()
    ordered(tmp_path, Setpoints(oversampling_ratio=1.5))
    monkeypatch.setattr(slime, "_wrapped", lambda: lambda *_, evaluation: evaluation)
    assert slime.generate_rollout(args, 0, meter, evaluation=True) is True
    assert args.over_sampling_batch_size == 240


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"max_in_flight": 1000}, "not a whole number for each of 24 engines"),
        ({"max_in_flight_per_engine": 65}, "opened its HTTP pool for 64 per engine"),
        ({"packing": True}, "does not turn it"),
    ],
)
def test_what_it_cannot_do_it_says(meter: Meter, tmp_path: Path, wish: dict[str, Any], words: str) -> None:
    slime, args = hook("equipoise_slime"), arguments()
    slime.generate_rollout(args, 0, meter)
    (tmp_path / "c.json").write_text(json.dumps({"schema": 1, "sequence": 1, "setpoints": wish}))
    slime.generate_rollout(args, 1, meter)
    said = json.loads((tmp_path / "c.json.ack").read_text())
    assert words in said["refused"][next(iter(wish))]


def test_behind_the_fully_asynchronous_worker_both_are_refused(
    meter: Meter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EQUIPOISE_SLIME_ROLLOUT", "slime.rollout.fully_async_rollout.generate_rollout_fully_async")
    slime, args = hook("equipoise_slime"), arguments()
    monkeypatch.setattr(slime, "_wrapped", lambda: lambda *_, **__: None)
    ordered(tmp_path, Setpoints(max_in_flight=96, oversampling_ratio=1.5))
    slime.generate_rollout(args, 0, meter)
    said = json.loads((tmp_path / "c.json.ack").read_text())
    assert set(said["refused"]) == {"max_in_flight", "oversampling_ratio"}
