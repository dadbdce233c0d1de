"""SkyRL: printed metrics and W&B share one set of keys; where metrics go to W&B only, its timers are on the console.

Its synchronous step is the sum of its phases. The fully asynchronous trainer times what it waits for the buffer of
finished groups. Evaluation and saving stand outside `timing/step` there, and inside or after it in the serial trainer.
With Ray's metrics on, the same keys are gauges of Ray's agents: `timing/step` is `ray_skyrl_timing_step` there.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from simulators.plant import Change, Mode, Setpoints, Topology
from tuner.adapting import count_setting, flag_setting
from tuner.frameworks.base import Alias, Framework, KnobKey, LineFormat, Observed
from tuner.records import Item, Line, Record

NAME = "skyrl"

ENGINE = "generator.inference_engine."
PLACEMENT = "trainer.placement."
ASYNC = "trainer.fully_async."

_TIMER = re.compile(r"Finished: '(\w{1,60})', time cost: (\d{1,12}(?:\.\d+)?)s")
PRINTED = "'timing/step'"
FINISHED = ", time cost: "


class _Timers:
    """`Finished: 'generate', time cost: 45.11s`: the timers up to that of the step are one record.

    A step whose metrics are printed as well is left to those: they hold the same timers.
    """

    def __init__(self) -> None:
        self._values: dict[str, float] = {}
        self._time_s: float | None = None

    def feed(self, line: Line) -> Iterable[Item]:
        if PRINTED in line.text:
            self._values = {}
            return
        for name, seconds in _TIMER.findall(line.text):
            if "timing/step" in self._values and (name == "step" or name not in AFTER_STEP):
                yield from self.flush()
            self._values[f"timing/{name}"] = self._values.get(f"timing/{name}", 0.0) + float(seconds)
            self._time_s = line.time_s if line.time_s is not None else self._time_s

    def flush(self) -> Iterable[Item]:
        values, self._values = self._values, {}
        whole = "timing/step" in values
        return (Record(values, None, self._time_s, framework=NAME),) if whole else ()


AFTER_STEP = ("eval", "save_checkpoints", "save_hf_model", "update_ref_with_policy", "cleanup_old_checkpoints")
"""Timers that may stop after that of the step they belong to."""

_MORE_TIMERS = ("timing/train_critic_and_policy", "timing/run_training")
"""Read by `interpret` alone."""
_OVERHEAD = ("convert_to_training_input", "compute_advantages_and_returns", "postprocess_generator_output")


def _timers(signal: str, *names: str) -> tuple[Alias, ...]:
    return tuple(Alias(f"timing/{name}", signal, add=True) for name in names)


def served(key: str) -> str:
    """The key as a gauge of Ray's agents."""
    return SERVED + re.sub(r"\W", "_", key)


SERVED = "ray_skyrl_"
LOGGED = (
    Alias("timing/step", "step_s"),
    Alias("timing/generate", "rollout_s", only=Mode.SERIAL),
    Alias("timing/wait_for_generation_buffer", "trainer_wait_s", only=Mode.OVERLAPPED),
    *_timers("update_s", "policy_train", "critic_train"),
    *_timers("logprob_s", "fwd_logprobs_values_reward"),
    *_timers("weight_sync_s", "sync_weights", "sync_weights_to_inference_engines"),
    *_timers("validation_s", "eval"),
    *_timers("checkpoint_s", "save_checkpoints", "save_hf_model"),
    *_timers("overhead_s", *_OVERHEAD),
    Alias("reward/avg_raw_reward", "reward_mean"),
    Alias("generate/avg_num_tokens", "resp_len_mean", trust=0.9),
    Alias("generate/avg_assistant_tokens", "resp_len_mean"),
    Alias("generate/max_num_tokens", "resp_len_max"),
    Alias("generate/batch_num_seq", "batch_rollouts", trust=0.9),
    Alias("generate/trajectory_time_completion_mean", "rollout_latency_s"),
    Alias("generate/trajectory_time_completion_max", "slowest_s"),
    Alias("generate/trajectory_time_env_mean", "non_generation_mean_s"),
    Alias("reward/num_zero_variance_filtered", "filtered_groups"),
    Alias("async/num_groups_dropped", "filtered_groups"),
    Alias("async/staleness_mean", "staleness_mean"),
    Alias("async/staleness_max", "staleness_max"),
    Alias("async/gen_buffer_qsize_at_wait_start", "queue_depth", trust=0.4),
    Alias("policy/policy_entropy", "entropy"),
    Alias("policy/grad_norm", "grad_norm"),
    Alias("policy/raw_grad_norm", "grad_norm"),
    Alias("policy/policy_kl", "kl"),
    Alias("vllm/num_requests_running", "running"),
    Alias("vllm/num_requests_waiting", "queued"),
    Alias("vllm/kv_cache_usage_perc", "kv_usage_frac"),
    Alias("vllm/generation_throughput_tok_s", "decode_tokens_per_s"),
    Alias("vllm/prompt_throughput_tok_s", "prompt_tokens_per_s"),
    Alias("vllm/prefix_cache_hit_rate", "prefix_hit_frac"),
    Alias("vllm/ttft_seconds_avg", "ttft_mean_s"),
    Alias("vllm/tpot_seconds_avg", "tpot_s"),
)
"""`num_tokens` counts what tools answered as well (0.9). The buffer holds *groups*: a lower bound of rollouts (0.4).
vLLM's usage is a fraction in spite of its name. Training by turns counts turns as sequences (0.9)."""
ALIASES = (
    *LOGGED,
    *(replace(alias, key=served(alias.key)) for alias in LOGGED),
    Alias(f"{SERVED}gen_buffer_qsize", "queue_depth", trust=0.4),
    Alias(f"{SERVED}gen_buffer_maxsize", "queue_capacity", trust=0.4),
)
_LOGGED_AS = {served(key): key for key in (*(a.key for a in LOGGED), *_MORE_TIMERS)}

_INSIDE = ("rollout_s", "trainer_wait_s", "update_s", "logprob_s", "weight_sync_s", "overhead_s")


def interpret(record: Record, found: Mapping[str, float], mode: Mode) -> Mapping[str, float]:
    """Training without its own timer, and the wall time of a step whose clock stopped before evaluation or saving."""
    raw = {_LOGGED_AS.get(key, key): value for key, value in record.values.items()}
    extra: dict[str, float] = {}
    if "update_s" not in found and (update := _training(raw)) is not None:
        extra["update_s"] = update
    step_s = raw.get("timing/step")
    if step_s is None or mode is Mode.UNKNOWN:
        return extra
    extra |= {name: 0.0 for name in ("validation_s", "checkpoint_s") if name not in found and not record.cut}
    outside_s = found.get("validation_s", 0.0) + found.get("checkpoint_s", 0.0)
    inside_s = sum({**found, **extra}.get(name, 0.0) for name in _INSIDE)
    if outside_s > 0.0 and inside_s <= 1.01 * step_s < inside_s + outside_s:
        extra["step_s"] = step_s + outside_s
    return extra


def _training(raw: Mapping[str, float]) -> float | None:
    """The outer timers of training, where the inner are not told."""
    if "timing/train_critic_and_policy" in raw:
        return raw["timing/train_critic_and_policy"]
    whole = raw.get("timing/run_training")
    return max(0.0, whole - raw.get("timing/fwd_logprobs_values_reward", 0.0)) if whole is not None else None


def mode_of(observed: Observed) -> Mode:
    on = flag_setting(observed.config, f"{ASYNC}enabled")
    keys = {_LOGGED_AS.get(key, key) for key in observed.keys}
    if on or "timing/wait_for_generation_buffer" in keys or "async/staleness_mean" in keys:
        return Mode.OVERLAPPED
    if "timing/generate" in keys or flag_setting(observed.config, f"{PLACEMENT}colocate_all"):
        return Mode.SERIAL
    return Mode.UNKNOWN


def facts(observed: Observed) -> tuple[Topology, Setpoints]:
    config, mode = observed.config, mode_of(observed)
    trainer, generator = _gpus(config)
    tensor = count_setting(config, f"{ENGINE}tensor_parallel_size", "generator.inference_engine_tensor_parallel_size")
    group = count_setting(config, "generator.n_samples_per_prompt")
    prompts = count_setting(config, "trainer.policy_mini_batch_size" if mode is Mode.OVERLAPPED else _BATCH)
    workers = count_setting(config, f"{ASYNC}num_parallel_generation_workers") if mode is Mode.OVERLAPPED else None
    together = flag_setting(config, f"{PLACEMENT}colocate_all")
    split = together is False
    topology = Topology(
        framework=NAME,
        mode=mode,
        gpus_total=trainer if not split else (trainer + generator if trainer and generator else None),
        gpus_per_engine=tensor,
        batch_must_divide=True,
        max_response_tokens=count_setting(config, "generator.sampling_params.max_generate_length"),
    )
    return topology, Setpoints(
        gpus_trainer=trainer if split else None,
        gpus_generator=generator if split else None,
        engines=count_setting(config, f"{ENGINE}num_engines", "generator.num_inference_engines"),
        max_in_flight=workers * group if workers and group else None,
        max_in_flight_per_engine=count_setting(config, f"{ENGINE}max_num_seqs"),
        staleness_bound=_bound(config) if mode is Mode.OVERLAPPED else None,
        group_size=group,
        batch_rollouts=prompts * group if prompts and group else None,
        overlap=None if mode is Mode.UNKNOWN else mode is Mode.OVERLAPPED,
        in_flight_update=True if mode is Mode.OVERLAPPED else None,  # engines are paused with mode=keep
        filter_zero_adv=flag_setting(config, f"{ASYNC}sample_full_batch"),
        packing=flag_setting(config, "trainer.remove_microbatch_padding", "trainer.use_sample_packing"),
        activation_checkpointing=flag_setting(config, "trainer.gradient_checkpointing"),
        checkpoint_interval=count_setting(config, "trainer.ckpt_interval"),
        validation_interval=count_setting(config, "trainer.eval_interval"),
    )


_BATCH = "trainer.train_batch_size"


def _gpus(config: Mapping[str, object]) -> tuple[int | None, int | None]:
    """GPUs of the policy and of the engines. What a start command leaves out keeps its default of 1."""
    per_node = count_setting(config, f"{PLACEMENT}policy_num_gpus_per_node")
    nodes = count_setting(config, f"{PLACEMENT}policy_num_nodes") or 1
    engines = count_setting(config, f"{ENGINE}num_engines", "generator.num_inference_engines")
    tensor = count_setting(config, f"{ENGINE}tensor_parallel_size", "generator.inference_engine_tensor_parallel_size")
    return (nodes * per_node if per_node else None), (engines * (tensor or 1) if engines else None)


def _bound(config: Mapping[str, object]) -> float | None:
    bound = count_setting(config, f"{ASYNC}max_staleness_steps")
    return float(bound) if bound is not None else None


RESTART = Change.RESTART
FRAMEWORK = Framework(
    name=NAME,
    aliases=ALIASES,
    knobs=(
        KnobKey(
            "gpus_trainer",
            f"{PLACEMENT}policy_num_nodes",
            RESTART,
            note=f"with {PLACEMENT}policy_num_gpus_per_node",
            per=(f"{PLACEMENT}policy_num_gpus_per_node",),
        ),
        KnobKey("gpus_generator", f"{ENGINE}num_engines", RESTART, per=(f"{ENGINE}tensor_parallel_size",)),
        KnobKey("overlap", f"{ASYNC}enabled", RESTART, data_changing=True, note="with its own entry point"),
        KnobKey("staleness_bound", f"{ASYNC}max_staleness_steps", RESTART, data_changing=True, only=Mode.OVERLAPPED),
        KnobKey(
            "max_in_flight",
            f"{ASYNC}num_parallel_generation_workers",
            RESTART,
            data_changing=True,
            only=Mode.OVERLAPPED,
            note="counts groups; at most mini-batch x (max_staleness_steps + 1)",
        ),
        KnobKey(
            "max_in_flight", f"{ENGINE}max_num_seqs", RESTART, setpoint="max_in_flight_per_engine", note="per engine"
        ),
        KnobKey("reward_concurrency", "environment.skyrl_gym.max_env_workers", RESTART),
        KnobKey("group_size", "generator.n_samples_per_prompt", RESTART, data_changing=True),
        KnobKey("curriculum_filter", "trainer.algorithm.dynamic_sampling.type", RESTART, data_changing=True),
        KnobKey("prefill_decode_split", f"{ENGINE}num_prefill", RESTART, note=f"with {ENGINE}enable_pd"),
        KnobKey("kv_memory", f"{ENGINE}gpu_memory_utilization", RESTART),
        KnobKey("engine_settings", f"{ENGINE}enforce_eager", RESTART),
        KnobKey("packing", "trainer.max_tokens_per_microbatch", RESTART, note="with remove_microbatch_padding"),
        KnobKey("activation_checkpointing", "trainer.gradient_checkpointing", RESTART),
        KnobKey("checkpoint_interval", "trainer.ckpt_interval", RESTART),
        KnobKey("validation_interval", "trainer.eval_interval", RESTART),
        KnobKey("logging", "trainer.logger", RESTART, note=f"engine figures: {ENGINE}enable_ray_prometheus_stats"),
    ),
    formats=(LineFormat("skyrl-timers", (FINISHED, PRINTED), _Timers),),
    signature=(
        *("timing/wait_for_generation_buffer", "timing/fwd_logprobs_values_reward", "timing/policy_train"),
        *("timing/train_critic_and_policy", "timing/convert_to_training_input", "timing/run_training"),
        *("reward/avg_raw_reward", "async/staleness_", "async/gen_buffer_qsize_at_wait_start"),
        SERVED,
        *("generate/avg_num_tokens", "generate/trajectory_time_", "policy/policy_entropy", "loss/avg_final_rewards"),
    ),
    config_signature=(ENGINE, PLACEMENT, ASYNC, "generator.num_inference_engines", "environment.skyrl_gym."),
    serves=(SERVED, served("trainer/global_step"), *map(served, _MORE_TIMERS)),
    step_keys=("trainer/global_step", "global_step", "step", served("trainer/global_step")),
    mode=mode_of,
    facts=facts,
    interpret=interpret,
    computed_trust={"update_s": 0.9},
)
