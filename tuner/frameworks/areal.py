"""AReaL: the table of each step, and the same names in TensorBoard and W&B; it generates ahead of its trainer.

`timeperf/rollout` is what the trainer waits for a batch, unless `max_head_offpolicyness` is 0: then it is generation.
No total is logged: the timers follow one another, and their sum is the step.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from math import prod

from simulators.plant import Change, Mode, Setpoints, Topology
from tuner.adapting import count_setting, flag_setting, number_setting, setting
from tuner.frameworks.base import Alias, Framework, KnobKey, LineFormat, Observed
from tuner.parsing.lines import number_in
from tuner.records import Item, Line, Record

NAME = "areal"

TIMER = "timeperf/"

_STEP = re.compile(r"\bTrain step (\d{1,12})/\d+ done\b")
_PARALLEL = re.compile(r"([dptcm])(\d{1,6})")
"""Dimensions of `sglang:d4p1t1`; older ones write `m` for tensors. Experts (`e`) share the GPUs of the others."""


class _Tables:
    """Rows of `│ key │ number │ key │ number │`; a table's end, its like's start or the next step closes the record."""

    def __init__(self) -> None:
        self._values: dict[str, float] = {}
        self._step: int | None = None
        self._time_s: float | None = None
        self._cut = False

    def feed(self, line: Line) -> Iterable[Item]:
        text = line.text
        if (found := _STEP.search(text)) is not None:
            yield from self.flush()
            self._step, self._time_s = int(found.group(1)), line.time_s
        elif "│" in text:
            cells = [cell.strip() for cell in text.split("│")]
            pairs = {key: number_in(value) for key, value in pairwise(cells) if "/" in key}
            if not self._values.keys().isdisjoint(pairs):
                yield from self.flush()
            self._values |= {key: value for key, value in pairs.items() if value is not None}
            self._cut = self._cut or line.cut
        elif "╘" in text:
            yield from self.flush()

    def flush(self) -> Iterable[Item]:
        values, step, self._values, self._step = self._values, self._step, {}, None
        cut, self._cut = self._cut, False
        if not any(key.startswith(_FAMILY) for key in values):
            return ()
        return (Record(values, step, self._time_s, framework=NAME, cut=cut),)


_FAMILY = (TIMER, "ppo_actor/", "grpo_actor/", "ppo_critic/")


def _timers(signal: str, *names: str) -> tuple[Alias, ...]:
    return tuple(Alias(TIMER + name, signal, add=True) for name in names)


ALIASES = (
    Alias(TIMER + "rollout", "trainer_wait_s", only=Mode.OVERLAPPED),
    Alias(TIMER + "rollout", "rollout_s", only=Mode.SERIAL),
    *_timers("update_s", "train_step", "critic_train_step"),
    *_timers("logprob_s", "recompute_logp", "ref_logp", "critic_values", "teacher_logp"),
    *_timers("weight_sync_s", "update_weights", "rollout_pause", "rollout_resume"),
    *_timers("checkpoint_s", "save", "checkpoint_for_recover"),
    *_timers("validation_s", "eval"),
    *_timers("overhead_s", "compute_advantage", "compute_advantages", "clear_batches"),
    *_timers("offload_s", "rollout_onload", "rollout_offload", "actor_onload", "actor_offload"),
    Alias("rollout/reward", "reward_mean"),
    Alias("*/task_reward/avg", "reward_mean", trust=0.9),
    Alias("*/no_eos_ratios/avg", "truncated_frac", trust=0.8),
    Alias("*/prompt_len/avg", "prompt_len_mean"),
    Alias("*/update/entropy/avg", "entropy"),
    Alias("*/update/grad_norm", "grad_norm"),
    Alias("*/update/version_stats/sample_staleness_theta_avg", "staleness_mean", trust=0.8),
    Alias("*/update/version_stats/sample_staleness_theta_max", "staleness_max"),
)
"""Staleness is a mean over tokens, not over rollouts (0.8). An answer as long as the padded batch counts as one without
an end (0.8). What the trainer waits while engines pause for new weights belongs to publishing them."""


def interpret(record: Record, found: Mapping[str, float], mode: Mode) -> Mapping[str, float]:
    """The step as the sum of its timers, answers as what is not prompt, rejected rollouts as waste."""
    raw = record.values
    told: dict[str, float] = {}
    seconds = [value for key, value in raw.items() if key.startswith(TIMER)]
    if TIMER + "train_step" in raw and len(seconds) > 1 and not record.cut:
        told["step_s"] = sum(seconds)
        told |= {name: 0.0 for name in ("validation_s", "checkpoint_s") if name not in found}
    for actor in ("ppo_actor", "grpo_actor"):
        whole, prompt = raw.get(f"{actor}/seq_len/avg"), raw.get(f"{actor}/prompt_len/avg")
        if whole is not None and prompt is not None and whole >= prompt:
            told["resp_len_mean"] = whole - prompt
    if "rollout/rejected" in raw:
        told["waste_frac"] = raw["rollout/rejected"]
    return told


def mode_of(observed: Observed) -> Mode:
    bound = number_setting(observed.config, "rollout.max_head_offpolicyness", "max_head_offpolicyness")
    return Mode.SERIAL if bound == 0 else Mode.OVERLAPPED


def facts(observed: Observed) -> tuple[Topology, Setpoints]:
    config, mode = observed.config, mode_of(observed)
    generator, trainer, engine = _split(config)
    group = count_setting(config, "gconfig.n_samples", "group_size")
    prompts = count_setting(config, "train_dataset.batch_size", "train_bs_n_seqs")
    started = count_setting(config, "rollout.max_concurrent_rollouts", "max_concurrent_rollouts")
    topology = Topology(
        framework=NAME,
        mode=mode,
        gpus_total=trainer + generator if trainer and generator else None,
        gpus_per_engine=engine,
        max_response_tokens=count_setting(config, "gconfig.max_new_tokens", "ppo.gen.max_new_tokens"),
    )
    return topology, Setpoints(
        gpus_trainer=trainer,
        gpus_generator=generator,
        engines=generator // engine if generator and engine else None,
        max_in_flight=started * group if started and group else None,
        staleness_bound=number_setting(config, "rollout.max_head_offpolicyness", "max_head_offpolicyness"),
        group_size=group,
        batch_rollouts=prompts * group if prompts and group else None,
        overlap=mode is Mode.OVERLAPPED,
        in_flight_update=True if mode is Mode.OVERLAPPED else None,  # rollouts are interrupted and go on
        activation_checkpointing=flag_setting(config, "actor.gradient_checkpointing"),
        checkpoint_interval=count_setting(config, "saver.freq_steps"),
        validation_interval=count_setting(config, "evaluator.freq_steps"),
    )


def _split(config: Mapping[str, object]) -> tuple[int | None, int | None, int | None]:
    """GPUs of generator and trainer, and of one engine: `rollout.backend` and `actor.backend`, or one mode for both."""
    halves = str(setting(config, "allocation_mode") or "").split("+")
    rollout = str(setting(config, "rollout.backend") or (halves[0] if len(halves) > 1 else ""))
    actor = str(setting(config, "actor.backend") or (halves[1] if len(halves) > 1 else ""))
    generator, trainer = _sizes(rollout), _sizes(actor)
    engine = _product(size for name, size in generator if name != "d") if generator else None
    return _product(size for _, size in generator), _product(size for _, size in trainer), engine


def _sizes(backend: str) -> list[tuple[str, int]]:
    sizes = backend.replace(".", ":").rpartition(":")[2]
    return [(name, int(size)) for name, size in _PARALLEL.findall(sizes)]


def _product(sizes: Iterable[int]) -> int | None:
    """The product of the sizes given; None for none, and for a number of GPUs that no job has."""
    known = list(sizes)
    whole = prod(known)
    return whole if known and 0 < whole < GPUS_MOST else None


GPUS_MOST = 10**6

RESTART = Change.RESTART
FRAMEWORK = Framework(
    name=NAME,
    aliases=ALIASES,
    knobs=(
        KnobKey("gpus_trainer", "actor.backend", RESTART, note="its d x p x t; before 1.0: allocation_mode"),
        KnobKey("gpus_generator", "rollout.backend", RESTART, note="its d x p x t; before 1.0: allocation_mode"),
        KnobKey("overlap", "rollout.max_head_offpolicyness", RESTART, data_changing=True, note="above 0"),
        KnobKey("staleness_bound", "rollout.max_head_offpolicyness", RESTART, data_changing=True),
        KnobKey("max_in_flight", "rollout.max_concurrent_rollouts", RESTART, note="counts prompts (groups)"),
        KnobKey("group_size", "gconfig.n_samples", RESTART, data_changing=True),
        KnobKey("curriculum_filter", "should_accept_fn", RESTART, data_changing=True, note="of prepare_batch"),
        KnobKey("packing", "actor.mb_spec.max_tokens_per_mb", RESTART, note="tokens of one packed micro-batch"),
        KnobKey("activation_checkpointing", "actor.gradient_checkpointing", RESTART),
        KnobKey("kv_memory", "sglang.mem_fraction_static", RESTART, note="vLLM: vllm.gpu_memory_utilization"),
        KnobKey("engine_settings", "sglang.disable_cuda_graph", RESTART, note="any setting of sglang or vllm"),
        KnobKey("checkpoint_interval", "saver.freq_steps", RESTART),
        KnobKey("validation_interval", "evaluator.freq_steps", RESTART),
        KnobKey("logging", "rollout.enable_rollout_tracing", RESTART, note="running, accepted and rejected rollouts"),
    ),
    formats=(LineFormat("areal-table", (TIMER, "│ ppo_", "│ grpo_", "│ rollout/", "Train step ", "╘═"), _Tables),),
    signature=(TIMER, "ppo_actor/", "grpo_actor/", "eval-rollout/"),
    config_signature=(
        *("rollout.max_head_offpolicyness", "rollout.max_concurrent_rollouts", "gconfig.", "rollout.backend"),
        *("max_head_offpolicyness", "allocation_mode", "actor.mb_spec."),
    ),
    mode=mode_of,
    facts=facts,
    interpret=interpret,
    computed_trust={"step_s": 0.9, "resp_len_mean": 0.9, "waste_frac": 0.7},
)
