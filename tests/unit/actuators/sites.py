"""Jobs that the tests of actuators act on: configurations as their frameworks have them."""

from collections.abc import Mapping

from simulators.plant import Bounds, Mode, Setpoints, Topology
from tuner.actuators.site import Site
from tuner.frameworks.base import Observed
from tuner.frameworks.registry import by_name

VERL = {
    "trainer.nnodes": 8,
    "trainer.n_gpus_per_node": 8,
    "rollout.nnodes": 24,
    "rollout.n_gpus_per_node": 8,
    "actor_rollout_ref.rollout.n": 16,
    "actor_rollout_ref.rollout.tensor_model_parallel_size": 8,
    "actor_rollout_ref.actor.strategy": "megatron",
    "actor_rollout_ref.actor.megatron.tensor_model_parallel_size": 8,
    "actor_rollout_ref.actor.ppo_mini_batch_size": 24,
    "async_training.require_batches": 1,
    "async_training.trigger_parameter_sync_step": 4,
    "async_training.staleness_threshold": 0.5,
}
SLIME = {
    "train_script": "train_async.py",
    "actor_num_nodes": 8,
    "actor_num_gpus_per_node": 8,
    "rollout_num_gpus": 192,
    "rollout_num_gpus_per_engine": 8,
    "rollout_batch_size": 192,
    "n_samples_per_prompt": 16,
    "over_sampling_batch_size": 240,
    "sglang_server_concurrency": 64,
    "tensor_model_parallel_size": 8,
}
OPENRLHF = {
    "actor.num_nodes": 4,
    "actor.num_gpus_per_node": 8,
    "vllm.num_engines": 16,
    "vllm.tensor_parallel_size": 2,
    "rollout.batch_size": 128,
    "rollout.n_samples_per_prompt": 8,
    "train.async_enable": True,
    "train.async_queue_size": 1,
}
PRIME = {
    "deployment.num_train_gpus": 4,
    "deployment.num_infer_gpus": 4,
    "orchestrator.batch_size": 512,
    "orchestrator.group_size": 16,
    "orchestrator.oversampling_factor": 1.5,
}
TRL = {"max_inflight_tasks": 64, "max_staleness": 4, "num_generations": 8}


def site_of(name: str, config: Mapping[str, object], bounds: Bounds | None = None) -> Site:
    """A job of that framework under that configuration."""
    framework = by_name(name)
    assert framework is not None
    topology, in_force = framework.facts(Observed(config=config))
    return Site(topology, in_force, bounds or Bounds(), framework, config)


PLAIN = Site(
    Topology(mode=Mode.OVERLAPPED, gpus_total=256, gpus_per_engine=8, trainer_gpu_step=8, trainer_gpus_min=16),
    Setpoints(gpus_trainer=64, gpus_generator=192, max_in_flight=1536, oversampling_ratio=1.25),
    Bounds(gpus_trainer_min=32, gpus_trainer_max=128, max_in_flight_max=4096, staleness_max=4.0),
)
"""A job of no known framework."""
