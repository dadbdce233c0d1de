"""OpenRLHF: its `Global step` line and the same names in TensorBoard and W&B; serial or asynchronous."""

import re
from collections.abc import Iterable, Mapping

from simulators.plant import Change, Mode, Setpoints, Topology
from tuner.adapting import count_setting, flag_setting, printed_numbers, spelled
from tuner.frameworks.base import Alias, Framework, KnobKey, LineFormat, Observed
from tuner.records import Item, Line, Record

NAME = "openrlhf"

STEP_MARKER = "Global step "

SUM_TOLERANCE_FRAC = 0.01
"""A serial step is printed as the exact sum of its phases; this much covers rounding."""

_STEP = re.compile(r"Global step (\d+): (?=\{)")


class _Steps:
    """`Global step 42: {dict}`; a line may hold two writers' records, and the last may be cut."""

    def feed(self, line: Line) -> Iterable[Item]:
        heads = list(_STEP.finditer(line.text))
        ends = [*(head.start() for head in heads[1:]), len(line.text)]
        for head, end in zip(heads, ends, strict=False):
            found = printed_numbers(line.text[head.end() : end])
            if found.values:
                step = int(head.group(1)[:18])
                yield Record(found.values, step, line.time_s, framework=NAME, cut=found.cut or line.cut)

    def flush(self) -> Iterable[Item]:
        return ()


def _both(key: str, signal: str, only: Mode | None = None, trust: float = 1.0) -> tuple[Alias, ...]:
    """As printed, and under `train/` in TensorBoard and W&B."""
    return tuple(Alias(f"{prefix}{key}", signal, trust=trust, only=only) for prefix in ("", "train/"))


ALIASES = (
    *_both("timing/step_total", "step_s"),
    *_both("timing/generation", "rollout_s"),
    *_both("timing/ppo_train", "update_s"),
    *_both("timing/broadcast", "weight_sync_s", only=Mode.SERIAL),
    *_both("timing/broadcast", "weight_sync_s", only=Mode.OVERLAPPED, trust=0.6),
    *_both("rollout/reward_mean", "reward_mean"),
    *_both("rollout/response_length_mean", "resp_len_mean"),
    *_both("rollout/truncated_rate", "truncated_frac"),
    *_both("rollout/num_samples", "batch_rollouts"),
    *_both("kl", "kl"),
    *_both("entropy_loss", "entropy", trust=0.7),
    *_both("actor_grad_norm", "grad_norm"),
    *_both("grad_norm", "grad_norm"),
)
"""Without partial rollout an asynchronous broadcast waits for the running generation: starvation hides in it (0.6)."""


def interpret(record: Record, found: Mapping[str, float], mode: Mode) -> Mapping[str, float]:
    """Log-prob time, the trainer's wait (a lower bound) and the share of prompts that dynamic filtering throws away."""
    values = {key.removeprefix("train/"): value for key, value in record.values.items()}
    extra: dict[str, float] = {}
    rate = values.get("dynamic_filtering_pass_rate")
    if rate is not None and 0.0 <= rate <= 100.0:
        extra["waste_frac"] = 1.0 - rate / 100.0
    phases = _phases(values)
    if phases is None:
        return extra
    total, generation, experience, rest = phases
    inside = _nested(total, generation, experience, rest)
    extra["logprob_s"] = experience - generation if inside else experience
    if mode is Mode.OVERLAPPED:
        extra["trainer_wait_s"] = max(0.0, total - experience - rest)
    return extra


def _phases(values: Mapping[str, float]) -> tuple[float, float, float, float] | None:
    """Step, generation, experience, and update with broadcast; None unless step and experience are known."""
    total, experience = values.get("timing/step_total"), values.get("timing/make_experience")
    if total is None or experience is None:
        return None
    rest = values.get("timing/ppo_train", 0.0) + values.get("timing/broadcast", 0.0)
    return total, values.get("timing/generation", 0.0), experience, rest


def _nested(total: float, generation: float, experience: float, rest: float) -> bool:
    """True where the step adds up only with generation counted inside make_experience (older versions)."""
    return generation <= experience and _same(total, experience + rest) and generation > SUM_TOLERANCE_FRAC * total


def _same(total: float, parts: float) -> bool:
    return abs(total - parts) <= SUM_TOLERANCE_FRAC * max(abs(total), abs(parts))


def mode_of(observed: Observed) -> Mode:
    """As configured; else serial where the step is the sum of its phases, as only the serial trainer prints it."""
    stated = flag_setting(spelled(observed.config), "train.async_enable", "async_train")
    if stated is not None:
        return Mode.OVERLAPPED if stated else Mode.SERIAL
    phases = _phases({key.removeprefix("train/"): value for key, value in observed.values.items()})
    if phases is None:
        return Mode.UNKNOWN
    total, generation, experience, rest = phases
    if _same(total, generation + experience + rest) or _nested(total, generation, experience, rest):
        return Mode.SERIAL
    return Mode.OVERLAPPED


def facts(observed: Observed) -> tuple[Topology, Setpoints]:
    config = spelled(observed.config)
    mode = mode_of(observed)
    engines = count_setting(config, "vllm.num_engines", "vllm_num_engines")
    tensor = count_setting(config, "vllm.tensor_parallel_size", "vllm_tensor_parallel_size")
    nodes, per_node = count_setting(config, "actor.num_nodes"), count_setting(config, "actor.num_gpus_per_node")
    nodes = nodes or count_setting(config, "actor_num_nodes")
    per_node = per_node or count_setting(config, "actor_num_gpus_per_node")
    together = flag_setting(config, "train.colocate_all", "colocate_all_models")
    trainer = nodes * per_node if nodes and per_node else None
    generator = engines * tensor if engines and tensor else None
    group = count_setting(config, "rollout.n_samples_per_prompt", "n_samples_per_prompt")
    prompts = count_setting(config, "rollout.batch_size", "rollout_batch_size")
    asked = count_setting(config, "rollout.vllm_generate_batch_size", "vllm_generate_batch_size")
    bound = count_setting(config, "train.async_queue_size", "async_queue_size")
    topology = Topology(
        framework=NAME,
        mode=mode,
        gpus_total=trainer if together else None,
        gpus_per_engine=tensor,
        batch_must_divide=True,
        max_response_tokens=count_setting(config, "rollout.max_new_tokens", "generate_max_len"),
    )
    return topology, Setpoints(
        gpus_trainer=None if together else trainer,
        gpus_generator=None if together else generator,
        engines=engines,
        oversampling_ratio=asked / prompts if asked and prompts and asked >= prompts else None,
        staleness_bound=float(bound) if bound and mode is Mode.OVERLAPPED else None,
        group_size=group,
        batch_rollouts=prompts * group if prompts and group else None,
        overlap=None if mode is Mode.UNKNOWN else mode is Mode.OVERLAPPED,
        partial_rollout=flag_setting(config, "train.partial_rollout_enable"),
        filter_zero_adv=flag_setting(config, "algo.dynamic_filtering_enable", "dynamic_filtering"),
        packing=flag_setting(config, "train.dynamic_batch_enable", "use_dynamic_batch", "packing_samples"),
        activation_checkpointing=flag_setting(config, "actor.gradient_checkpointing_enable", "gradient_checkpointing"),
        checkpoint_interval=count_setting(config, "ckpt.save_steps", "save_steps"),
        validation_interval=count_setting(config, "eval.steps", "eval_steps"),
    )


FRAMEWORK = Framework(
    name=NAME,
    aliases=ALIASES,
    knobs=(
        KnobKey(
            "gpus_trainer",
            "--actor.num_nodes",
            Change.RESTART,
            note="with --actor.num_gpus_per_node",
            per=("actor.num_gpus_per_node",),
        ),
        KnobKey("gpus_generator", "--vllm.num_engines", Change.RESTART, per=("vllm.tensor_parallel_size",)),
        KnobKey("overlap", "--train.async_enable", Change.RESTART, data_changing=True),
        KnobKey("staleness_bound", "--train.async_queue_size", Change.RESTART, data_changing=True),
        KnobKey("partial_rollout", "--train.partial_rollout_enable", Change.RESTART, data_changing=True),
        KnobKey(
            "oversampling_ratio",
            "--rollout.vllm_generate_batch_size",
            Change.RESTART,
            data_changing=True,
            times=("rollout.batch_size",),
        ),
        KnobKey("group_size", "--rollout.n_samples_per_prompt", Change.RESTART, data_changing=True),
        KnobKey("curriculum_filter", "--algo.dynamic_filtering_enable", Change.RESTART, data_changing=True),
        KnobKey("packing", "--train.dynamic_batch_enable", Change.RESTART),
        KnobKey("activation_checkpointing", "--actor.gradient_checkpointing_enable", Change.RESTART),
        KnobKey("kv_memory", "--vllm.gpu_memory_utilization", Change.RESTART),
        KnobKey("checkpoint_interval", "--ckpt.save_steps", Change.RESTART),
        KnobKey("validation_interval", "--eval.steps", Change.RESTART),
    ),
    formats=(LineFormat("openrlhf-step", (STEP_MARKER,), _Steps),),
    signature=tuple(
        f"{prefix}{key}"
        for prefix in ("", "train/")
        for key in (
            *("timing/make_experience", "timing/ppo_train", "timing/broadcast", "timing/step_total"),
            *("rollout/response_length_mean", "rollout/truncated_rate", "dynamic_filtering_pass_rate"),
        )
    ),
    config_signature=("vllm.num_engines", "vllm_num_engines", "train.async_enable", "actor.num_gpus_per_node"),
    step_keys=("train/global_step", "global_step", "step"),
    mode=mode_of,
    facts=facts,
    config_style="arguments",
    interpret=interpret,
    computed_trust={"trainer_wait_s": 0.6, "logprob_s": 0.9},
)
