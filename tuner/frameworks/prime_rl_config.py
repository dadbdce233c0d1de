"""What prime-rl's TOML says of a job: GPUs, batch, bounds. One file for the run, or one a component (bare keys)."""

from collections.abc import Mapping

from simulators.plant import Mode, Setpoints, Topology, TrainerResize
from tuner.frameworks.base import Observed
from tuner.lookup import positive, real, times, truth

DEPLOYED = "inference.deployment."


def _of(config: Mapping[str, object], key: str) -> tuple[str, ...]:
    """The key in the run's file and in the orchestrator's own."""
    return (f"orchestrator.{key}", key)


def facts_of(seen: Observed) -> tuple[Topology, Setpoints]:
    return _topology(seen), _setpoints(seen.config)


def _topology(seen: Observed) -> Topology:
    config = seen.config
    trainer, generator = _trainer_gpus(config), _generator_gpus(config)
    self_tuned = any("concurrency." in key for key in config) or "concurrency/max_inflight" in seen.keys
    return Topology(
        framework="prime-rl",
        mode=Mode.OVERLAPPED if seen.keys or config else Mode.UNKNOWN,
        gpus_total=trainer + generator if trainer and generator else None,
        gpus_per_engine=_gpus_per_engine(config),
        trainer_gpu_step=positive(config, "trainer.model.cp"),
        trainer_resize=TrainerResize.OK if config else None,
        max_response_tokens=positive(
            config,
            *_of(config, "train.sampling.max_completion_tokens"),
            *_of(config, "sampling.max_completion_tokens"),
            *_of(config, "sampling.max_tokens"),
        ),
        updates_per_step=1,
        self_tuned=("max_in_flight",) if self_tuned else (),
    )


def _setpoints(config: Mapping[str, object]) -> Setpoints:
    generator, per_engine = _generator_gpus(config), _gpus_per_engine(config)
    engines = generator // per_engine if generator and per_engine and generator >= per_engine else None
    group = positive(config, *_of(config, "group_size"), *_of(config, "rollouts_per_example"))
    batch = positive(config, *_of(config, "batch_size"))
    oversampling = real(config, *_of(config, "oversampling_factor"))
    return Setpoints(
        gpus_trainer=_trainer_gpus(config),
        gpus_generator=generator,
        gpus_prefill=times(engines, _role_gpus(config, "prefill")),
        gpus_decode=times(engines, _role_gpus(config, "decode")),
        engines=engines,
        oversampling_ratio=oversampling if oversampling is not None and oversampling >= 1.0 else None,
        max_in_flight=_max_in_flight(config, batch, group, oversampling),
        staleness_bound=_staleness_bound(config),
        sync_interval=1,
        group_size=group,
        batch_rollouts=batch,
        overlap=True,
        in_flight_update=True,  # engines are paused with mode=keep
        packing=True,  # text is always packed up to seq_len; there is no setting
        filter_zero_adv=truth(config, *_of(config, "train.filter_zero_advantages")),
        checkpoint_interval=positive(config, "ckpt.interval", "trainer.ckpt.interval", *_of(config, "ckpt.interval")),
        validation_interval=positive(config, *_of(config, "eval.interval")),
    )


def _trainer_gpus(config: Mapping[str, object]) -> int | None:
    stated = positive(config, "deployment.num_train_gpus") or _listed(config, "trainer_gpu_ids")
    return stated or times(positive(config, "deployment.num_train_nodes"), _per_node(config))


def _generator_gpus(config: Mapping[str, object]) -> int | None:
    """`num_infer_nodes` are the nodes of one replica; there may be several replicas."""
    stated = positive(config, "deployment.num_infer_gpus") or _listed(config, "inference_gpu_ids")
    if stated:
        return stated
    replicas = positive(config, "deployment.num_infer_replicas") or 1
    return times(positive(config, "deployment.num_infer_nodes"), _per_node(config), replicas)


def _per_node(config: Mapping[str, object]) -> int:
    return positive(config, "deployment.gpus_per_node") or 8


def _listed(config: Mapping[str, object], key: str) -> int | None:
    value = config.get(key)
    return len(value) if isinstance(value, list | tuple) and value else None


def _gpus_per_engine(config: Mapping[str, object]) -> int | None:
    """A disaggregated replica is one piece; else the tensor-parallel size under the names of several releases."""
    prefill, decode = (_role_gpus(config, role) for role in ("prefill", "decode"))
    if prefill and decode:
        return prefill + decode
    names = ("vllm.tensor_parallel_size", "tensor_parallel_size", "parallel.tp")
    return positive(config, *(f"inference.{name}" for name in names), "parallel.tp")


def _role_gpus(config: Mapping[str, object], role: str) -> int | None:
    """GPUs that one disaggregated replica gives to prefill or to decode."""
    if config.get(f"{DEPLOYED}type") != "disaggregated":
        return None
    replicas = positive(config, f"{DEPLOYED}num_{role}_replicas") or 1
    return times(replicas, positive(config, f"{DEPLOYED}{role}_nodes_per_replica") or 1, _per_node(config))


def _max_in_flight(
    config: Mapping[str, object], batch: int | None, group: int | None, oversampling: float | None
) -> int | None:
    stated = positive(
        config,
        *_of(config, "concurrency.max_inflight"),
        *_of(config, "max_inflight_episodes"),
        *_of(config, "max_inflight_rollouts"),
    )
    if stated is not None or batch is None or oversampling is None or not 0.0 < oversampling < 1e6:
        return stated
    return max(group or 1, int(batch * oversampling))


def _staleness_bound(config: Mapping[str, object]) -> float | None:
    """Versions a rollout may age before it is dropped; the dispatcher's own lead of one batch is no setting.

    To v0.5 a level bounds the lead itself, and binds first.
    """
    return real(config, "max_async_level", *_of(config, "max_async_level"), *_of(config, "max_off_policy_steps"))
