"""What verl's Hydra configuration and logged keys say of a job: its stack, mode, topology and knobs in force."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from simulators.plant import Mode, Setpoints, Topology, TrainerResize
from tuner.frameworks.base import Observed
from tuner.lookup import positive, real, times, truth

ROLLOUT = "actor_rollout_ref.rollout."
ACTOR = "actor_rollout_ref.actor."
V1 = "trainer.v1."

SYNC, COLOCATE_ASYNC, ONE_STEP_OFF = "sync", "colocate_async", "one_step_off"
FULLY_ASYNC, SEPARATE_ASYNC = "fully_async", "separate_async"
HOOK_POLICY = "equipoise"
"""The lending policy of deploy/hooks/equipoise_verl.py: it does what it is told, so nothing tunes itself."""
OVERLAPPED_STACKS = frozenset((ONE_STEP_OFF, FULLY_ASYNC, SEPARATE_ASYNC))


def stack(seen: Observed) -> str | None:
    """Which of verl's trainers runs; None where neither configuration nor keys tell an asynchronous one apart."""
    entry = str(seen.config.get("entry_point", ""))
    if any(key.startswith("async_training.") for key in seen.config) or "fully_async" in entry:
        return FULLY_ASYNC
    if any(key.startswith(("fully_async/", "dynamic_resource/")) for key in seen.keys):
        return FULLY_ASYNC
    if "one_step_off" in entry or "rollout.nnodes" in seen.config or "timing_s/sync_rollout_weights" in seen.keys:
        return ONE_STEP_OFF
    if any(key.startswith("separate_async/") for key in seen.keys):
        return SEPARATE_ASYNC
    named = seen.config.get(f"{V1}trainer_mode")
    if named is not None and seen.config.get("trainer.use_v1") is not False:
        return str(named)
    stale = max(seen.values.get(f"training/off_policy/trajectory_staleness{part}", 0.0) for part in ("", "/mean"))
    return None if stale > 0.0 else SYNC


def mode_of(seen: Observed) -> Mode:
    """verl is serial unless something says otherwise; trained-on stale rollouts alone do not tell who shares GPUs."""
    if not seen.keys and not seen.config:
        return Mode.UNKNOWN
    match stack(seen):
        case "sync" | "colocate_async":
            return Mode.SERIAL
        case name if name in OVERLAPPED_STACKS:
            return Mode.OVERLAPPED
    return Mode.UNKNOWN


def version_of(seen: Observed) -> str | None:
    """verl prints no version; the name of the trainer stack is what decides how its keys read."""
    found = stack(seen)
    return None if found is None or found == SYNC else found


@dataclass(frozen=True, slots=True)
class _Gpus:
    total: int | None = None
    trainer: int | None = None
    generator: int | None = None


def facts_of(seen: Observed) -> tuple[Topology, Setpoints]:
    config, which = seen.config, stack(seen)
    gpus = _gpus(seen, which)
    per_engine = _gpus_per_engine(config)
    hosting = gpus.generator if which in OVERLAPPED_STACKS else gpus.total
    engines = hosting // per_engine if hosting and per_engine and hosting >= per_engine else None
    topology = Topology(
        framework="verl",
        mode=mode_of(seen),
        gpus_total=gpus.total,
        gpus_per_engine=per_engine,
        trainer_gpu_step=_trainer_step(config),
        batch_must_divide=True,
        trainer_resize=_resize(config),
        max_response_tokens=positive(config, "data.max_response_length", f"{ROLLOUT}response_length"),
        updates_per_step=_updates(config, which),
        self_tuned=_self_tuned(config),
    )
    return topology, _setpoints(seen, which, gpus, engines)


def _gpus(seen: Observed, which: str | None) -> _Gpus:
    config = seen.config
    pool = times(positive(config, "trainer.nnodes"), positive(config, "trainer.n_gpus_per_node"))
    if which in OVERLAPPED_STACKS:
        nodes = positive(config, "rollout.nnodes", f"{ROLLOUT}nnodes")
        per_node = positive(config, "rollout.n_gpus_per_node", f"{ROLLOUT}n_gpus_per_node", "trainer.n_gpus_per_node")
        generator = times(nodes, per_node)
        return _Gpus(pool + generator if pool and generator else None, pool, generator)
    return _Gpus(total=pool or gpus_from_throughput(seen.values))


def gpus_from_throughput(values: Mapping[str, float]) -> int | None:
    """perf/throughput is tokens per second and GPU of the whole step, so the three figures give the GPU count."""
    tokens, step_s = values.get("perf/total_num_tokens", 0.0), values.get("perf/time_per_step", 0.0)
    divisor = step_s * values.get("perf/throughput", 0.0)
    if not (0.0 < divisor < float("inf") and 0.0 < tokens < float("inf")):
        return None
    count = tokens / divisor
    return round(count) if count < 1e6 and round(count) >= 1 and abs(count - round(count)) < 0.02 * count else None


def _gpus_per_engine(config: Mapping[str, object]) -> int | None:
    tensor = positive(config, f"{ROLLOUT}tensor_model_parallel_size")
    if tensor is None:
        return None
    data = positive(config, f"{ROLLOUT}data_parallel_size") or 1
    return tensor * data * (positive(config, f"{ROLLOUT}pipeline_model_parallel_size") or 1)


def _trainer_step(config: Mapping[str, object]) -> int | None:
    strategy = str(config.get(f"{ACTOR}strategy", ""))
    if strategy.startswith("megatron"):
        sizes = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size")
        return prod(positive(config, f"{ACTOR}megatron.{size}") or 1 for size in sizes)
    return positive(config, f"{ACTOR}ulysses_sequence_parallel_size") if strategy.startswith("fsdp") else None


def _resize(config: Mapping[str, object]) -> TrainerResize | None:
    """FSDP checkpoints are one file a rank of a fixed world size; Megatron's distributed ones load on any."""
    strategy = str(config.get(f"{ACTOR}strategy", ""))
    if strategy.startswith("fsdp"):
        return TrainerResize.IMPOSSIBLE
    return TrainerResize.OK if strategy.startswith("megatron") else None


def _updates(config: Mapping[str, object], which: str | None) -> int | None:
    if which == FULLY_ASYNC:
        batches = positive(config, "async_training.require_batches")
        return times(batches, positive(config, "async_training.trigger_parameter_sync_step"))
    batch, mini = positive(config, "data.train_batch_size"), positive(config, f"{ACTOR}ppo_mini_batch_size")
    if batch is None or mini is None:
        return None
    return max(1, batch // mini) * (positive(config, f"{ACTOR}ppo_epochs") or 1)


def _self_tuned(config: Mapping[str, object]) -> tuple[str, ...]:
    ours = config.get("async_training.dynamic_schedule_policy") == HOOK_POLICY
    lends = truth(config, "async_training.use_dynamic_resource_scheduling") and not ours
    switches = truth(config, f"{V1}separate_async.hybrid_rollout.enable_switch")
    return ("gpus_trainer", "gpus_generator") if lends or switches else ()


def _setpoints(seen: Observed, which: str | None, gpus: _Gpus, engines: int | None) -> Setpoints:
    config = seen.config
    group = positive(config, f"{ROLLOUT}n") or positive(config, "rollout.n")
    prompts = _prompts_per_step(config, which)
    filters = truth(config, "algorithm.filter_groups.enable")
    asked = positive(config, "data.gen_batch_size") if filters and which != FULLY_ASYNC else None
    cap = _cap_per_engine(config, which, group)
    return Setpoints(
        gpus_trainer=gpus.trainer,
        gpus_generator=gpus.generator,
        engines=engines,
        oversampling_ratio=asked / prompts if asked and prompts and asked >= prompts else None,
        max_in_flight=_max_in_flight(config, which, group, engines),
        max_in_flight_per_engine=cap,
        staleness_bound=_staleness_bound(config, which),
        sync_interval=_sync_interval(config, which),
        group_size=group,
        batch_rollouts=times(prompts, group),
        overlap=None if which is None else which in OVERLAPPED_STACKS,
        partial_rollout=truth(config, "async_training.partial_rollout"),
        filter_zero_adv=filters,
        packing=truth(config, f"{ACTOR}use_dynamic_bsz"),
        activation_checkpointing=truth(config, "actor_rollout_ref.model.enable_gradient_checkpointing"),
        checkpoint_interval=positive(config, "trainer.save_freq"),
        validation_interval=positive(config, "trainer.test_freq"),
    )


def _prompts_per_step(config: Mapping[str, object], which: str | None) -> int | None:
    """Prompts behind one logged record: a fully asynchronous one covers all batches up to the next publication."""
    if which != FULLY_ASYNC:
        return positive(config, "data.train_batch_size")
    required = times(
        positive(config, f"{ACTOR}ppo_mini_batch_size"), positive(config, "async_training.require_batches")
    )
    return times(required, positive(config, "async_training.trigger_parameter_sync_step"))


def _cap_per_engine(config: Mapping[str, object], which: str | None, group: int | None) -> int | None:
    slots = positive(config, f"{ROLLOUT}max_num_seqs")
    if which != FULLY_ASYNC:
        return slots
    tasks = times(positive(config, "async_training.concurrent_samples_per_replica"), group)
    return min((n for n in (slots, tasks) if n is not None), default=None)


def _max_in_flight(
    config: Mapping[str, object], which: str | None, group: int | None, engines: int | None
) -> int | None:
    """Fully async: the rollouter starts at most this many; else a step starts its whole batch at once: no cap."""
    if which != FULLY_ASYNC:
        return None
    by_engines = times(engines, positive(config, "async_training.concurrent_samples_per_replica"))
    prompts, bound = _prompts_per_step(config, which), real(config, "async_training.staleness_threshold")
    by_staleness = int(prompts * (1.0 + bound)) if prompts and bound is not None and 0.0 <= bound < 1e6 else None
    if by_engines is None or by_staleness is None:
        return None
    return times(min(by_engines, by_staleness), group)


def _staleness_bound(config: Mapping[str, object], which: str | None) -> float | None:
    match which:
        case "fully_async":
            return real(config, "async_training.staleness_threshold")
        case "one_step_off":
            return 1.0
        case "separate_async" | "colocate_async":
            return real(config, f"{V1}sampler.max_off_policy_threshold")
        case "sync":
            return 0.0
    return None


def _sync_interval(config: Mapping[str, object], which: str | None) -> int | None:
    match which:
        case "fully_async":
            return positive(config, "async_training.trigger_parameter_sync_step")
        case "separate_async":
            return positive(config, f"{V1}separate_async.parameter_sync_step")
        case "sync" | "one_step_off" | "colocate_async":
            return 1
    return None
