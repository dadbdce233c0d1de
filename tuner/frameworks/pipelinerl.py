"""PipelineRL: the `stats` streams of actor, preprocessor and trainer (JSONL), the trainer's console line and W&B."""

import re
from collections.abc import Iterable, Mapping

from simulators.plant import Change, Mode, Setpoints, Topology
from tuner.adapting import count_setting, flag_setting, number_setting, printed_numbers
from tuner.frameworks.base import Alias, Framework, KnobKey, LineFormat, Observed
from tuner.records import Item, Line, Record

NAME = "pipelinerl"

STEP_MARKER = "Completed steps "

_STEP = re.compile(r"Completed steps (\d+): (?=\{)")


class _Steps:
    """`Completed steps 42: {dict}` of the trainer's log."""

    def feed(self, line: Line) -> Iterable[Item]:
        head = _STEP.search(line.text)
        if head is None:
            return
        found = printed_numbers(line.text[head.end() :])
        if any(key.startswith(("stats/", "throughput/", "rl/")) for key in found.values):
            step = int(head.group(1)[:18])
            yield Record(found.values, step, line.time_s, {"writer": "trainer"}, NAME, cut=found.cut or line.cut)

    def flush(self) -> Iterable[Item]:
        return ()


def _actor(key: str, signal: str, scale: float = 1.0, trust: float = 1.0) -> tuple[Alias, ...]:
    """As in the actor's stream, and under `actor/` in W&B."""
    return tuple(Alias(f"{prefix}{key}", signal, scale=scale, trust=trust) for prefix in ("", "actor/"))


ALIASES = (
    Alias("throughput/sec_per_step", "step_s"),
    Alias("stats/time_waiting_for_data", "trainer_wait_s", counter=True),
    Alias("stats/samples_too_old_to_queue", "dropped_stale", counter=True, add=True),
    Alias("stats/samples_too_old_to_train", "dropped_stale", counter=True, add=True),
    Alias("stats/samples", "batch_rollouts", counter=True),
    Alias("stats/grad_norm", "grad_norm"),
    Alias("throughput/samples_per_sec", "train_samples_per_s"),
    Alias("throughput/tokens_per_step", "tokens_total"),
    Alias("rl/entropy", "entropy"),
    Alias("rl/kl", "kl"),
    Alias("rl/reward", "reward_mean"),
    Alias("preprocessor/queue/output_samples", "queue_depth", add=True),
    Alias("preprocessor/queue/raw_samples", "queue_depth", add=True),
    Alias("preprocessor/filtered_out_samples", "filtered_zero_adv", trust=0.6),
    *_actor("always_success", "solved_all_frac"),
    *_actor("never_success", "solved_none_frac"),
    *_actor("reward_mean", "reward_mean"),
    *_actor("overflow_mean", "truncated_frac"),
    *_actor("output_tokens_mean", "resp_len_mean", trust=0.8),
    *_actor("output_tokens_max", "resp_len_max", trust=0.8),
    *_actor("prompt_tokens_mean", "prompt_len_mean", trust=0.8),
    *_actor("num_turns_mean", "turns_mean"),
    *_actor("num_turns_max", "turns_max"),
    *_actor("latency_mean", "rollout_latency_s"),
    *_actor("latency_max", "slowest_s"),
    *_actor("samples_per_second", "gen_samples_per_s", trust=0.8),
    *_actor("output_tokens_per_second", "gen_tokens_per_s", trust=0.8),
)
"""The waiting time is a running total. `throughput/samples_per_sec` divides by the passes alone: the service rate.
Token statistics count training texts, one a turn (0.8); filtered samples are those since the last publication (0.6)."""


def interpret(record: Record, found: Mapping[str, float], mode: Mode) -> Mapping[str, float]:
    """Seconds of the passes, rollouts of a step, tokens per second of the whole job, and lag in steps for samples.

    passes = tokens of a step / tokens per pass second; batch = samples per pass second x passes; lag / batch = age.
    """
    values = record.values
    tokens, rate = values.get("throughput/tokens_per_step", 0.0), values.get("throughput/tokens_per_sec", 0.0)
    extra: dict[str, float] = {}
    step_s = values.get("throughput/sec_per_step", 0.0)
    if tokens > 0.0 and step_s > 0.0:
        extra["train_tokens_per_s"] = tokens / step_s
    if tokens <= 0.0 or rate <= 0.0:
        return extra
    passes_s = tokens / rate
    extra["update_s"] = passes_s
    batch = values.get("throughput/samples_per_sec", 0.0) * passes_s
    if batch <= 0.0:
        return extra
    extra["batch_rollouts"] = batch
    oldest, mean = values.get("stats/lag_max", values.get("stats/lag", -1.0)), values.get("stats/lag_mean", -1.0)
    extra |= {"staleness_max": oldest / batch} if oldest >= 0.0 else {}
    return extra | {"staleness_mean": mean / batch} if mean >= 0.0 else extra


def facts(observed: Observed) -> tuple[Topology, Setpoints]:
    config = observed.config
    trainer, generator = _fractions(config)
    tensor = count_setting(config, "vllm_config.vllm_kwargs.tensor-parallel-size")
    per_step = _samples_per_step(config)
    lag = number_setting(config, "finetune.max_lag", "max_lag")
    limit = count_setting(config, "actor.llm_max_rollouts")
    engines = generator // tensor if generator and tensor else None
    topology = Topology(
        framework=NAME,
        mode=Mode.OVERLAPPED,
        gpus_total=trainer + generator if trainer and generator else None,
        gpus_per_engine=tensor,
        max_response_tokens=count_setting(config, "llm.parameters.max_tokens"),
    )
    return topology, Setpoints(
        gpus_trainer=trainer,
        gpus_generator=generator,
        engines=engines,
        max_in_flight_per_engine=limit,
        max_in_flight=limit * engines if limit and engines else None,
        staleness_bound=lag / per_step if lag is not None and per_step else None,
        group_size=count_setting(config, "finetune.attempts", "attempts"),
        batch_rollouts=per_step,
        overlap=True,
        in_flight_update=True,
        packing=flag_setting(config, "finetune.seq_packing"),
        activation_checkpointing=flag_setting(config, "finetune.gradient_checkpointing"),
        checkpoint_interval=count_setting(config, "finetune.save_checkpoint_steps"),
    )


def _fractions(config: Mapping[str, object]) -> tuple[int | None, int | None]:
    """The fractions are GPUs only where they add up to the GPUs of the job: known when the world size is stated."""
    sides = [count_setting(config, f"world.{side}_fraction") for side in ("finetune", "actor")]
    nodes, per_node = count_setting(config, "world.num_nodes") or 1, count_setting(config, "world.gpus_per_node")
    total = nodes * per_node if per_node else None
    if total is None or sides[0] is None or sides[1] is None:
        return None, None
    whole = sides[0] + sides[1] + (count_setting(config, "world.preprocessor_fraction") or 0)
    return total * sides[0] // whole or None, total * sides[1] // whole or None


def _samples_per_step(config: Mapping[str, object]) -> int | None:
    size = count_setting(config, "finetune.train_batch_size")
    passes = count_setting(config, "finetune.gradient_accumulation_passes")
    return size * passes if size and passes else None


FRAMEWORK = Framework(
    name=NAME,
    aliases=ALIASES,
    knobs=(
        KnobKey("gpus_trainer", "world.finetune_fraction", Change.RESTART),
        KnobKey("gpus_generator", "world.actor_fraction", Change.RESTART),
        KnobKey("max_in_flight", "actor.llm_max_rollouts", Change.RESTART, note="per engine"),
        KnobKey("staleness_bound", "finetune.max_lag", Change.RESTART, data_changing=True, note="counts samples"),
        KnobKey("sync_interval", "finetune.weight_update_interval", Change.RESTART, data_changing=True, note="samples"),
        KnobKey("group_size", "finetune.attempts", Change.RESTART, data_changing=True),
        KnobKey("packing", "finetune.seq_packing", Change.RESTART),
        KnobKey("activation_checkpointing", "finetune.gradient_checkpointing", Change.RESTART),
        KnobKey("kv_memory", "vllm_config.vllm_kwargs.gpu-memory-utilization", Change.RESTART),
        KnobKey("engine_settings", "vllm_config.vllm_kwargs.max-num-batched-tokens", Change.RESTART),
        KnobKey("reward_concurrency", "world.env_replicas", Change.RESTART),
        KnobKey("checkpoint_interval", "finetune.save_checkpoint_steps", Change.RESTART),
        KnobKey("validation_interval", "eval_every_n_versions", Change.RESTART, note="counts samples"),
    ),
    formats=(LineFormat("pipelinerl-step", (STEP_MARKER,), _Steps),),
    signature=(
        *("stats/time_waiting_for_data", "stats/samples_too_old_to_queue", "stats/samples_too_old_to_train"),
        *(
            "stats/queue/batches",
            "stats/lag",
            "stats/lag_max",
            "throughput/tokens_perGPU_per_sec",
            "throughput/sec_per_pass",
            "rl/ess",
        ),
        *("preprocessor/", "actor/problem_queue_size", "problem_queue_size", "actor/always_success", "always_success"),
        *("never_success", "sometimes_success", "trainer_model_version"),
    ),
    config_signature=("world.actor_fraction", "world.finetune_fraction", "finetune.", "actor.llm_max_rollouts"),
    step_keys=("stats/completed_steps", "step"),
    mode=lambda _: Mode.OVERLAPPED,
    facts=facts,
    interpret=interpret,
    computed_trust={"update_s": 0.9, "batch_rollouts": 0.9, "train_tokens_per_s": 0.9, "staleness_max": 0.8},
)
