"""NeMo-RL: the console block of a step and the names it gives TensorBoard and W&B; serial, legacy async, new async."""

import re
from collections.abc import Iterable, Mapping

from simulators.plant import Change, Mode, Setpoints, Topology
from tuner.adapting import count_setting, flag_setting, number_setting, printed_numbers
from tuner.frameworks.base import Alias, Framework, KnobKey, LineFormat, Observed
from tuner.parsing.lines import NUMBER
from tuner.records import Item, Line, Record

NAME = "nemo-rl"

TIMING = "timing/train/"

BLOCK_MARKERS = ("Training Results:", "⏱️  Timing:", "Total step time:", "=== Step ", "=== Epoch ")

_HEADER = re.compile(r"^\W*(Training Results|Timing|Performance Metrics|Validation Results|Validation Timing):?\W*$")
_BANNER = re.compile(r"(?<!=)=+ (Step|Epoch) (\d+)/")
_BULLET = re.compile(rf"^\s*(?:[•*-] +)?(.+?): *({NUMBER}) *(s|%|steps)?(?: *\([\d.]+%\))?\s*$")
_WORD = re.compile(r"[\w/.-]+")
_RESULTS = {
    "Loss": "train/loss",
    "Avg Reward": "train/reward",
    "Avg Total Reward": "train/reward",
    "Avg Filtered Reward": "train/filtered_reward",
    "Generation KL Error": "train/gen_kl_error",
    "Mean Generation Length": "train/mean_gen_tokens_per_sample",
    "Buffer Size": "train/buffer_size",
    "Avg Trajectory Age": "train/avg_trajectory_age",
}
_PERFORMANCE = {
    "Mean Total Tokens per Sample": "train/mean_total_tokens_per_sample",
    "Training Worker Idle Time Ratio": "performance/training_worker_idle_time_ratio",
    "Training Model Floating Point Utilization": "performance/train_fp_utilization",
    "E2E (Samples/sec)": "performance/samples_per_sec",
    "E2E (Tokens/sec)": "performance/tokens_per_sec",
}
_VALIDATION = {"Total validation time": "timing/validation/total_validation_time"}


class _Block:
    """Collects the bullets of one step under the names the metric loggers use; the next step or the end closes it.

    Other writers' lines may stand between the bullets; they belong to no section and are passed over.
    """

    def __init__(self) -> None:
        self._section = ""
        self._values: dict[str, float] = {}
        self._step: int | None = None
        self._offset = 0
        self._new_epoch = False
        self._time_s: float | None = None
        self._cut = False

    def feed(self, line: Line) -> Iterable[Item]:
        text = line.text
        if (banner := _BANNER.search(text)) is not None:
            yield from self.flush()
            self._turn(banner.group(1), int(banner.group(2)))
        elif (header := _HEADER.match(text)) is not None:
            if self._is_next(header.group(1)):
                yield from self.flush()
            self._section = header.group(1)
            self._time_s = line.time_s if self._time_s is None else self._time_s
        elif text.startswith("step_metrics="):
            found = printed_numbers(text)
            self._values |= {f"train/{key}": value for key, value in found.values.items()}
            self._cut = self._cut or found.cut
        elif "Total step time:" in text and self._is_headless():
            yield from self.flush()
            self._section = "Timing"
            yield from self.feed(line)
        elif self._section and (bullet := _BULLET.match(text)) is not None:
            if line.cut:
                self._cut = True
                return
            self._note(*bullet.groups())

    def _is_next(self, section: str) -> bool:
        """True when the section begins another step though no banner stood between. Validation comes before results."""
        if section == "Training Results":
            return any(not key.startswith("timing/validation/") for key in self._values)
        return section == "Timing" and TIMING + "total_step_time" in self._values

    def _is_headless(self) -> bool:
        """True when a step's timing begins though its header is missing: cut logs, and blocks pasted by people."""
        return not self._section or TIMING + "total_step_time" in self._values

    def _turn(self, what: str, number: int) -> None:
        """Step numbers of a serial run start again with each epoch: count on."""
        if what == "Epoch":
            self._new_epoch = number > 1
            return
        step = number + self._offset
        if self._new_epoch and self._step is not None and step <= self._step:
            self._offset = self._step
            step = number + self._offset
        self._step, self._new_epoch = step, False

    def _note(self, label: str, number: str, unit: str | None) -> None:
        value = float(number) / 100.0 if unit == "%" else float(number)
        key: str | None
        match self._section:
            case "Timing":
                timer = "total_step_time" if label == "Total step time" else label
                key = TIMING + timer if _WORD.fullmatch(timer) and unit == "s" else None
            case "Training Results":
                key = _RESULTS.get(label)
            case "Performance Metrics":
                key = _PERFORMANCE.get(label)
            case _:
                key = _VALIDATION.get(label)
        if key is not None:
            self._values[key] = value

    def flush(self) -> Iterable[Item]:
        values, self._values = self._values, {}
        time_s, self._time_s = self._time_s, None
        cut, self._cut = self._cut, False
        self._section = ""
        if values:
            yield Record(values, self._step, time_s, framework=NAME, cut=cut)


def _timers(signal: str, *names: str) -> tuple[Alias, ...]:
    return tuple(Alias(TIMING + name, signal, add=True) for name in names)


ALIASES = (
    Alias(TIMING + "total_step_time", "step_s"),
    Alias(TIMING + "exposed_generation", "trainer_wait_s", only=Mode.OVERLAPPED),
    Alias(TIMING + "generation", "rollout_s"),
    *_timers("update_s", "policy_training", "value_training"),
    *_timers("logprob_s", "policy_and_reference_logprobs", "value_inference", "teacher_logprob_inference"),
    Alias(TIMING + "weight_sync", "weight_sync_s"),
    Alias(TIMING + "prepare_for_generation/transfer_and_update_weights", "weight_sync_s"),
    Alias(TIMING + "reward_calculation", "reward_s"),
    Alias(TIMING + "checkpointing", "checkpoint_s"),
    Alias(TIMING + "idle/validation", "validation_s"),
    Alias("timing/validation/total_validation_time", "validation_s"),
    *_timers("offload_s", "policy_offload_after_refit", "offload_before_refit"),
    *_timers(
        "overhead_s",
        *("buffer_sampling", "logprob_inference_prep", "training_prep", "data_processing", "advantage_calculation"),
        *("recompute_kv_scales", "value_training_prep", "teacher_logprob_inference_prep", "dynamic_sampling"),
    ),
    Alias("train/reward", "reward_mean"),
    Alias("train/avg_trajectory_age", "staleness_mean"),
    Alias("train/buffer_size", "queue_depth", trust=0.4),
    Alias("train/mean_gen_tokens_per_sample", "resp_len_mean"),
    Alias("train/max_gen_tokens_per_sample", "resp_len_max"),
    Alias("train/mean_prompt_length", "prompt_len_mean"),
    Alias("train/total_num_tokens", "tokens_total"),
    Alias("train/truncation_rate", "truncated_frac"),
    Alias("train/avg_turns_per_sample", "turns_mean"),
    Alias("train/turns_per_sample/mean", "turns_mean"),
    Alias("train/max_turns_per_sample", "turns_max"),
    Alias("train/turns_per_sample/max", "turns_max"),
    Alias("train/approx_entropy", "entropy"),
    Alias("train/grad_norm", "grad_norm"),
    Alias("train/gen_kl_error", "kl"),
    Alias("train/baseline_reward/pct_0", "solved_none_frac", scale=0.01, trust=0.6),
    Alias("train/baseline_reward/pct_1", "solved_all_frac", scale=0.01, trust=0.6),
    Alias("performance/samples_per_sec", "gen_samples_per_s", trust=0.9),
    Alias("performance/tokens_per_sec", "train_tokens_per_s", trust=0.9),
    Alias("performance/train_fp_utilization", "mfu", trust=0.7),
    Alias("performance/training_worker_idle_time_ratio", "published_trainer_idle_frac", trust=0.1),
    Alias("rollout/idle_s", "since_completion_s", trust=0.8),
    Alias("rollout/inflight", "inflight_rollouts", trust=0.4),
    Alias("rollout/infra_drops_total", "errored", counter=True, trust=0.4),
)
"""`idle/buffer_starvation` lies inside exposed_generation and `idle/refit_bubble` around weight_sync: never added.
The idle ratio is set to 0 exactly when there was waiting (0.1). Buffer, rollouts in flight and drops of the new
controller count *groups*: a lower bound of rollouts (0.4). A baseline of 0 or 1 may leave out its own sample (0.6)."""


def interpret(record: Record, found: Mapping[str, float], mode: Mode) -> Mapping[str, float]:
    """What waking the engines cost beside the weight transfer inside it."""
    total = record.values.get(TIMING + "prepare_for_generation/total")
    if total is None:
        return {}
    moved = record.values.get(TIMING + "prepare_for_generation/transfer_and_update_weights", 0.0)
    return {"offload_s": found.get("offload_s", 0.0) + max(0.0, total - moved)}


def mode_of(observed: Observed) -> Mode:
    """Overlapped where the trainer's wait has a name of its own; serial where generation is a phase of the step."""
    on = flag_setting(observed.config, "grpo.async_grpo.enabled", "async_grpo.enabled")
    if TIMING + "exposed_generation" in observed.keys or on or "rollout/inflight" in observed.keys:
        return Mode.OVERLAPPED
    if TIMING + "generation" in observed.keys or on is False:
        return Mode.SERIAL
    return Mode.UNKNOWN


def _recomputes(config: Mapping[str, object]) -> bool | None:
    """Of the backend that is enabled."""
    megatron = flag_setting(config, "policy.megatron_cfg.enabled")
    return flag_setting(config, f"policy.{'megatron' if megatron else 'dtensor'}_cfg.activation_checkpointing")


def facts(observed: Observed) -> tuple[Topology, Setpoints]:
    config = observed.config
    nodes, per_node = count_setting(config, "cluster.num_nodes"), count_setting(config, "cluster.gpus_per_node")
    total = nodes * per_node if nodes and per_node else None
    trainer, generator = _split(config, total)
    prompts = count_setting(config, "grpo.num_prompts_per_step")
    group = count_setting(config, "grpo.num_generations_per_prompt")
    engine = count_setting(config, "policy.generation.vllm_cfg.tensor_parallel_size")
    mode = mode_of(observed)
    overlapped = mode is Mode.OVERLAPPED
    inflight = count_setting(config, "async_rl.max_inflight_prompts") if overlapped else None
    topology = Topology(
        framework=NAME,
        mode=mode,
        gpus_total=total,
        gpus_per_engine=engine,
        max_response_tokens=count_setting(config, "policy.generation.max_new_tokens"),
    )
    return topology, Setpoints(
        gpus_trainer=trainer,
        gpus_generator=generator,
        engines=generator // engine if generator and engine else None,
        max_in_flight=inflight * group if inflight and group else None,
        staleness_bound=number_setting(config, "grpo.async_grpo.max_trajectory_age_steps") if overlapped else None,
        group_size=group,
        batch_rollouts=prompts * group if prompts and group else None,
        overlap=None if mode is Mode.UNKNOWN else overlapped,
        in_flight_update=flag_setting(config, "grpo.async_grpo.in_flight_weight_updates") if overlapped else None,
        filter_zero_adv=flag_setting(config, "grpo.use_dynamic_sampling"),
        packing=flag_setting(config, "policy.sequence_packing.enabled"),
        activation_checkpointing=_recomputes(config),
        checkpoint_interval=count_setting(config, "checkpointing.save_period"),
        validation_interval=count_setting(config, "grpo.val_period"),
    )


def _split(config: Mapping[str, object], total: int | None) -> tuple[int | None, int | None]:
    """GPUs of trainer and generator; colocated: all do both, there is no split."""
    if flag_setting(config, "policy.generation.colocated.enabled") is not False or total is None:
        return None, None
    per_node = count_setting(config, "policy.generation.colocated.resources.gpus_per_node")
    nodes = count_setting(config, "policy.generation.colocated.resources.num_nodes") or 1
    generator = per_node * nodes if per_node else None
    return (total - generator if generator and generator < total else None), generator


FRAMEWORK = Framework(
    name=NAME,
    aliases=ALIASES,
    knobs=(
        KnobKey("gpus_generator", "policy.generation.colocated.resources.num_nodes", Change.RESTART),
        KnobKey("gpus_trainer", "cluster.num_nodes", Change.RESTART, note="the trainer gets what generation leaves"),
        KnobKey("overlap", "grpo.async_grpo.enabled", Change.RESTART, data_changing=True),
        KnobKey("staleness_bound", "grpo.async_grpo.max_trajectory_age_steps", Change.RESTART, data_changing=True),
        KnobKey("in_flight_update", "grpo.async_grpo.in_flight_weight_updates", Change.RESTART, data_changing=True),
        KnobKey(
            "max_in_flight", "async_rl.max_inflight_prompts", Change.RESTART, note="prompts; not in grpo.async_grpo"
        ),
        KnobKey("group_size", "grpo.num_generations_per_prompt", Change.RESTART, data_changing=True),
        KnobKey("curriculum_filter", "grpo.use_dynamic_sampling", Change.RESTART, data_changing=True),
        KnobKey("oversampling_ratio", "grpo.batch_multiplier", Change.RESTART, data_changing=True),
        KnobKey("packing", "policy.sequence_packing.enabled", Change.RESTART),
        KnobKey(
            "activation_checkpointing",
            "policy.dtensor_cfg.activation_checkpointing",
            Change.RESTART,
            note="or policy.megatron_cfg",
        ),
        KnobKey("kv_memory", "policy.generation.vllm_cfg.gpu_memory_utilization", Change.RESTART),
        KnobKey("checkpoint_interval", "checkpointing.save_period", Change.RESTART),
        KnobKey("validation_interval", "grpo.val_period", Change.RESTART),
        KnobKey("logging", "policy.generation.vllm_cfg.enable_vllm_metrics_logger", Change.RESTART),
    ),
    formats=(LineFormat("nemo-rl-step", BLOCK_MARKERS, _Block, block=True),),
    signature=(
        *(TIMING + name for name in ("total_step_time", "exposed_generation", "policy_training", "idle/")),
        TIMING + "policy_and_reference_logprobs",
        "train/avg_trajectory_age",
        "train/mean_gen_tokens_per_sample",
        "performance/training_worker_idle_time_ratio",
        "performance/samples_per_sec_per_gpu",
        "efficiency/productive_time_s",
        "rollout/committed_total",
        "rollout/infra_drops_total",
    ),
    config_signature=("grpo.", "policy.generation.vllm_cfg.", "cluster.gpus_per_node"),
    mode=mode_of,
    facts=facts,
    interpret=interpret,
    computed_trust={"offload_s": 0.8},
)
