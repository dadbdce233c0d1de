"""verl's hook under verl's own base class and registry."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from simulators.plant import Order, Setpoints, Status
from tests.unit.actuators.hooks import ROOT, hook
from tests.unit.actuators.sites import VERL, site_of
from tuner.actuators.registry import make

BASE = ROOT / "tests" / "data" / "hooks" / "verl-0.9.1-dynamic_schedule-base.py.txt"
LENDING = VERL | {
    "async_training.use_dynamic_resource_scheduling": True,
    "async_training.dynamic_schedule_policy": "equipoise",
    "actor_rollout_ref.actor.strategy": "fsdp2",
    "actor_rollout_ref.actor.ulysses_sequence_parallel_size": 8,
}


@pytest.fixture
def schedule(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """verl's module `dynamic_schedule.base`, as released."""
    source = tmp_path / "verl_schedule_base.py"
    source.write_bytes(BASE.read_bytes())
    spec = importlib.util.spec_from_file_location("verl_schedule_base", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setenv("EQUIPOISE_CONTROL_FILE", str(tmp_path / "c.json"))
    hook("equipoise_verl").policy(module)
    return module


def context(schedule: ModuleType, ahead: int = 0) -> Any:
    return schedule.DynamicScheduleContext(
        required_samples=64,
        trigger_parameter_sync_step=4,
        total_generated_samples=1000 + ahead,
        expected_samples=1000,
        buffer_samples=0,
    )


def test_verl_builds_it_by_name_and_an_order_changes_what_is_lent(schedule: ModuleType, tmp_path: Path) -> None:
    policy, ctx = schedule.build_policy("equipoise", deactivate_ratio=0.3, only_hybrid=False), context(schedule)
    options = {"path": tmp_path / "c.json", "knobs": ["gpus_trainer"]}
    actuator = make("control_file", options, site_of("verl", LENDING))
    assert policy.deactivate_wait_samples(ctx) == 76
    for leg, wish in enumerate((Setpoints(gpus_trainer=48), Setpoints(gpus_trainer=48, gpus_generator=208))):
        order = Order(wish, f"d7.{leg}", 1)
        assert actuator.apply(order, 0.0).status is Status.PENDING
        policy.update_after_step(41 + leg, ctx)
        assert actuator.apply(order, 1.0).status is Status.APPLIED
    assert policy.deactivate_wait_samples(ctx) == 64
    assert policy.should_deactivate(42, True, ctx)
    assert policy.should_activate_after_step(42, False, context(schedule, ahead=63))
    assert not policy.should_activate_after_step(42, False, context(schedule, ahead=64))


def test_giving_everything_back_lends_nothing(schedule: ModuleType, tmp_path: Path) -> None:
    policy = schedule.build_policy("equipoise", deactivate_ratio=0.3, only_hybrid=False)
    wanted = {"gpus_trainer": 64, "gpus_generator": 192}
    order = {"schema": 1, "sequence": 1, "setpoints": wanted, "base": wanted}
    (tmp_path / "c.json").write_text(json.dumps(order))
    policy.update_after_step(1, context(schedule))
    assert policy.deactivate_wait_samples(context(schedule)) == 0
    assert not policy.should_activate_after_step(1, False, context(schedule, ahead=-50))


@pytest.mark.parametrize("generator", [184, 264])
def test_what_lending_cannot_give_is_refused(schedule: ModuleType, tmp_path: Path, generator: int) -> None:
    policy = schedule.build_policy("equipoise", deactivate_ratio=0.3, only_hybrid=False)
    base = {"gpus_trainer": 64, "gpus_generator": 192}
    order = {"schema": 1, "sequence": 1, "setpoints": {"gpus_generator": generator}, "base": base}
    (tmp_path / "c.json").write_text(json.dumps(order))
    policy.update_after_step(1, context(schedule))
    said = json.loads((tmp_path / "c.json.ack").read_text())
    assert "cannot be had by lending" in said["refused"]["gpus_generator"]
    assert policy.deactivate_wait_samples(context(schedule)) == 76


def test_without_standalone_replicas_everything_stays_lent(schedule: ModuleType) -> None:
    policy = schedule.build_policy("equipoise", deactivate_ratio=0.3, only_hybrid=True)
    assert policy.deactivate_wait_samples(context(schedule)) == 256
    assert policy.should_activate_after_step(1, False, context(schedule, ahead=10_000))
