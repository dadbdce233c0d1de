"""A knob is named as the user's own configuration names it, and only where the key does something."""

from simulators.plant import Mode
from tuner.frameworks.base import Framework
from tuner.frameworks.registry import by_name


def key(framework: str, knob: str, mode: Mode, config: dict[str, object]) -> str | None:
    found = by_name(framework)
    assert isinstance(found, Framework)
    return {k.knob: k.key for k in found.knobs if k.holds(mode, config)}.get(knob)


def test_verls_partial_rollout_is_a_key_of_its_asynchronous_trainer_only():
    assert key("verl", "partial_rollout", Mode.OVERLAPPED, {}) == "async_training.partial_rollout"
    assert key("verl", "partial_rollout", Mode.SERIAL, {}) is None


def test_verls_new_trainer_has_keys_of_its_own():
    config: dict[str, object] = {"trainer.v1.sampler.max_off_policy_threshold": 4}
    assert key("verl", "staleness_bound", Mode.OVERLAPPED, config) == "trainer.v1.sampler.max_off_policy_threshold"
    assert key("verl", "staleness_bound", Mode.OVERLAPPED, {}) == "async_training.staleness_threshold"


def test_prime_rl_on_several_nodes_counts_nodes():
    nodes: dict[str, object] = {"deployment.num_train_nodes": 2, "deployment.num_infer_nodes": 2}
    assert key("prime-rl", "gpus_trainer", Mode.OVERLAPPED, nodes) == "deployment.num_train_nodes"
    assert key("prime-rl", "gpus_generator", Mode.OVERLAPPED, nodes) == "deployment.num_infer_nodes"
    assert key("prime-rl", "gpus_trainer", Mode.OVERLAPPED, {}) == "deployment.num_train_gpus"
