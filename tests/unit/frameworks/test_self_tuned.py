"""Which knobs a framework's own controller moves, by its configuration: those are not ours to turn."""

from collections.abc import Mapping

import pytest

from tuner.frameworks.base import Observed
from tuner.frameworks.registry import by_name

SPLIT = ("gpus_trainer", "gpus_generator")
VERL_LENDS = {"async_training.use_dynamic_resource_scheduling": True}


@pytest.mark.parametrize(
    ("framework", "config", "moved"),
    [
        ("prime-rl", {"orchestrator.concurrency.max_inflight": 1024}, ("max_in_flight",)),
        ("prime-rl", {"orchestrator.max_inflight_rollouts": 1024}, ()),
        ("verl", VERL_LENDS, SPLIT),
        ("verl", VERL_LENDS | {"async_training.dynamic_schedule_policy": "equipoise"}, ()),
        ("verl", {"trainer.v1.separate_async.hybrid_rollout.enable_switch": True}, SPLIT),
        ("verl", {"async_training.use_dynamic_resource_scheduling": False}, ()),
        ("rlinf", {"cluster.auto_scheduler": True}, SPLIT),
        ("rlinf", {"cluster.auto_scheduler": False}, ()),
    ],
)
def test_the_configuration_says_who_owns_a_knob(
    framework: str, config: Mapping[str, object], moved: tuple[str, ...]
) -> None:
    found = by_name(framework)
    assert found is not None
    topology, _ = found.facts(Observed(config=config))
    assert topology.self_tuned == moved
