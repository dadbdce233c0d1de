"""What slime's arguments and logged keys say of a job: mode, topology and knobs in force."""

from collections.abc import Mapping
from math import prod

from simulators.plant import Mode, Setpoints, Topology, TrainerResize
from tuner.frameworks.base import Observed
from tuner.lookup import positive, times, truth

HIDDEN_FRAC_MIN = 0.1
"""Generation and training overlap when at least this share of the shorter one is hidden in the step."""


def mode_of(seen: Observed) -> Mode:
    """From the arguments; else from the times: serial parts add up to the step, overlapped ones exceed it."""
    config = seen.config
    if truth(config, "colocate"):
        return Mode.SERIAL
    script = str(config.get("train_script", ""))
    if script.startswith("train_async") or _fully_async(seen):
        return Mode.OVERLAPPED
    if script.startswith("train.py"):
        return Mode.SERIAL
    if seen.values.get("perf/sleep_time", 0.0) > 0.0 and seen.values.get("perf/wake_up_time", 0.0) > 0.0:
        return Mode.SERIAL  # the trainer leaves its GPUs to the engines and comes back
    rollout_s, train_s = seen.values.get("perf/rollout_time", 0.0), seen.values.get("perf/train_time", 0.0)
    step_s = seen.values.get("perf/step_time", 0.0)
    if not (rollout_s > 0.0 and train_s > 0.0 and step_s > 0.0):
        return Mode.UNKNOWN
    hidden_s = rollout_s + train_s - step_s
    return Mode.OVERLAPPED if hidden_s > HIDDEN_FRAC_MIN * min(rollout_s, train_s) else Mode.SERIAL


def _fully_async(seen: Observed) -> bool:
    path = str(seen.config.get("rollout_function_path", ""))
    return "fully_async" in path or any(key.startswith("fully_async/") for key in seen.keys)


def facts_of(seen: Observed) -> tuple[Topology, Setpoints]:
    mode = mode_of(seen)
    return _topology(seen.config, mode), _setpoints(seen, mode)


def _topology(config: Mapping[str, object], mode: Mode) -> Topology:
    trainer, generator = _trainer_gpus(config), _generator_gpus(config)
    apart = trainer + generator if trainer and generator else None
    rollouts, update = _batch_rollouts(config), positive(config, "global_batch_size")
    updates = positive(config, "num_steps_per_rollout")
    return Topology(
        framework="slime",
        mode=mode,
        gpus_total=trainer if truth(config, "colocate") else apart,
        gpus_per_engine=positive(config, "rollout_num_gpus_per_engine"),
        trainer_gpu_step=_model_parallel(config),
        batch_must_divide=True,
        trainer_resize=TrainerResize.OK if config else None,
        max_response_tokens=positive(config, "rollout_max_response_len"),
        updates_per_step=updates or (max(1, rollouts // update) if rollouts and update else None),
    )


def _setpoints(seen: Observed, mode: Mode) -> Setpoints:
    config = seen.config
    generator, per_engine = _generator_gpus(config), positive(config, "rollout_num_gpus_per_engine")
    engines = generator // per_engine if generator and per_engine and generator >= per_engine else None
    group, prompts = positive(config, "n_samples_per_prompt"), positive(config, "rollout_batch_size")
    asked, interval = positive(config, "over_sampling_batch_size"), positive(config, "update_weights_interval")
    split = not truth(config, "colocate")
    return Setpoints(
        gpus_trainer=_trainer_gpus(config) if split else None,
        gpus_generator=generator if split else None,
        engines=engines,
        max_in_flight=times(_cap_per_engine(seen, group), engines),
        max_in_flight_per_engine=_cap_per_engine(seen, group),
        oversampling_ratio=asked / prompts if asked and prompts and asked >= prompts else None,
        staleness_bound=None if _fully_async(seen) else _bound(mode, interval),
        sync_interval=interval,
        overlap=None if mode is Mode.UNKNOWN else mode is Mode.OVERLAPPED,
        group_size=group,
        batch_rollouts=_batch_rollouts(config),
        partial_rollout=truth(config, "partial_rollout"),
        filter_zero_adv=_filters(config),
        packing=truth(config, "use_dynamic_batch_size"),
        activation_checkpointing=True if config.get("recompute_granularity") == "full" else None,
        checkpoint_interval=positive(config, "save_interval"),
        validation_interval=positive(config, "eval_interval"),
    )


def _trainer_gpus(config: Mapping[str, object]) -> int | None:
    return times(positive(config, "actor_num_nodes"), positive(config, "actor_num_gpus_per_node"))


def _generator_gpus(config: Mapping[str, object]) -> int | None:
    """Colocated engines live on the trainer's GPUs, whatever else is stated."""
    trainer = _trainer_gpus(config) if truth(config, "colocate") else None
    return trainer or positive(config, "rollout_num_gpus")


def _batch_rollouts(config: Mapping[str, object]) -> int | None:
    return times(positive(config, "rollout_batch_size"), positive(config, "n_samples_per_prompt"))


def _bound(mode: Mode, interval: int | None) -> float | None:
    """train_async.py generates one batch ahead and publishes at a barrier."""
    if mode is Mode.SERIAL:
        return 0.0
    return float(interval or 1) if mode is Mode.OVERLAPPED else None


def _model_parallel(config: Mapping[str, object]) -> int | None:
    sizes = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size")
    known = [positive(config, size) for size in sizes]
    return prod(size or 1 for size in known) if any(known) else None


def _cap_per_engine(seen: Observed, group: int | None) -> int | None:
    """Samples per engine; the fully asynchronous worker counts groups with the same number."""
    cap = positive(seen.config, "sglang_server_concurrency")
    return times(cap, group) if _fully_async(seen) else cap


def _filters(config: Mapping[str, object]) -> bool | None:
    if not config:
        return None
    path = config.get("dynamic_sampling_filter_path")
    return isinstance(path, str) and path not in ("", "None")
