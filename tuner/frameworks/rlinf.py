"""RLinf: the metric table that it prints each step and the same names in TensorBoard, W&B and SwanLab.

Reasoning and agent jobs generate with an engine; embodied ones let a simulator and a policy take turns. Components
share GPUs or stand apart by `component_placement`; an iteration holds all its phases, so a job is serial unless its
asynchronous runner says otherwise.
"""

import re
from collections.abc import Iterable, Mapping

from simulators.plant import Change, Mode, Setpoints, Topology
from tuner.adapting import count_setting, flag_setting
from tuner.frameworks.base import Alias, Framework, KnobKey, LineFormat, Observed
from tuner.parsing.lines import NUMBER
from tuner.records import Item, Line, Record

NAME = "rlinf"

TITLE = "─ Metric Table ─"

_STEP = re.compile(r"Global Step: {1,12}(\d{1,12})/")
_SECTION = re.compile(r"├─{1,200} ([A-Z][\w/ ]{0,40}) ─")
_PAIR = re.compile(rf"│\s*([A-Za-z_][\w./@-]{{0,120}})=({NUMBER})(?=\s*│|\s*$)")
_PREFIXES = {
    "Time": "time/",
    "Environment": "env/",
    "Rollout": "rollout/",
    "Evaluation": "eval/",
    "Replay Buffer": "replay_buffer/",
    "Training/Actor": "train/",
    "Training/Critic": "train/",
    "Training/Other": "train/",
}
"""What a section's title stands for; the table leaves it off its keys."""


class _Tables:
    """One table is one record, under the names that the loggers use."""

    def __init__(self) -> None:
        self._values: dict[str, float] = {}
        self._step: int | None = None
        self._prefix = ""
        self._time_s: float | None = None

    def feed(self, line: Line) -> Iterable[Item]:
        text = line.text
        if TITLE in text:
            yield from self.flush()
            self._time_s = line.time_s
        elif (section := _SECTION.search(text)) is not None:
            self._prefix = _PREFIXES.get(section.group(1).strip(), "")
        elif (step := _STEP.search(text)) is not None:
            self._step = int(step.group(1))
        elif self._prefix:
            pairs = _PAIR.findall(text)
            self._values |= {f"{self._prefix}{key}": float(number) for key, number in pairs}
        if text.lstrip().startswith("╰"):
            yield from self.flush()

    def flush(self) -> Iterable[Item]:
        values, step, self._values, self._step = self._values, self._step, {}, None
        self._prefix = ""
        return (Record(values, step, self._time_s, framework=NAME),) if values else ()


_STARTS = ("time/", "time/time/")
"""Older TensorBoard files write the first part twice."""


def _timers(signal: str, *names: str, only: Mode | None = None) -> tuple[Alias, ...]:
    return tuple(Alias(f"{start}{name}", signal, add=True, only=only) for start in _STARTS for name in names)


ALIASES = (
    *(Alias(f"{start}step", "step_s") for start in _STARTS),
    *_timers("rollout_s", "generate_rollouts", "rollout", only=Mode.SERIAL),
    *_timers("trainer_wait_s", "construct_rollout_batch", only=Mode.OVERLAPPED),
    *_timers("logprob_s", "inference", "actor/inference", "critic/inference"),
    *_timers("weight_sync_s", "sync_weights", "update_rollout_weights"),
    *_timers("reward_s", "reward"),
    *_timers("validation_s", "eval"),
    *_timers("checkpoint_s", "save_checkpoint"),
    *_timers("overhead_s", "cal_adv_and_returns", "prepare_data"),
    Alias("time/env/env_interact_step", "non_generation_mean_s", trust=0.8),
    Alias("rollout/rewards", "reward_mean"),
    Alias("rollout/reward_scores", "reward_mean", trust=0.9),
    Alias("env/success_once", "reward_mean", trust=0.7),
    Alias("rollout/response_length", "resp_len_mean"),
    Alias("rollout/max_response_length", "resp_len_max"),
    Alias("rollout/prompt_length", "prompt_len_mean"),
    Alias("rollout/total_num_sequence", "batch_rollouts"),
    Alias("rollout/avg_turns_per_traj", "turns_mean"),
    Alias("env/num_trajectories", "batch_rollouts", trust=0.9),
    Alias("train/actor/grad_norm", "grad_norm"),
    Alias("train/actor/entropy_loss", "entropy", trust=0.7),
    Alias("actor/training/grad_norm", "grad_norm"),
)
"""All simulators of an embodied job step together: what one waits for them, all wait (0.8)."""

_TRAINING = ("time/actor_training", "time/time/actor_training", "time/training")
_TRAINING_PARTS = ("time/actor/training", "time/critic/training", "time/actor/run_training")


def interpret(record: Record, found: Mapping[str, float], mode: Mode) -> Mapping[str, float]:
    """Training under whichever of its names, the runner's wall time first; phases that did not run took no time."""
    raw = record.values
    walls = [raw[key] for key in _TRAINING if key in raw]
    parts = [raw[key] for key in _TRAINING_PARTS if key in raw]
    told = {"update_s": walls[0] if walls else sum(parts)} if walls or parts else {}
    if "time/step" in raw and told and not record.cut:
        told |= {name: 0.0 for name in ("validation_s", "checkpoint_s") if name not in found}
    return told


def mode_of(observed: Observed) -> Mode:
    if "time/construct_rollout_batch" in observed.keys:
        return Mode.OVERLAPPED
    return Mode.SERIAL


def facts(observed: Observed) -> tuple[Topology, Setpoints]:
    config, mode = observed.config, mode_of(observed)
    trainer, generator = _placed(config, "actor"), _placed(config, "rollout")
    split = bool(trainer and generator and not trainer & generator)
    tensor = count_setting(config, "rollout.tensor_parallel_size")
    group = count_setting(config, "algorithm.group_size")
    prompts = count_setting(config, "data.rollout_batch_size")
    topology = Topology(
        framework=NAME,
        mode=mode,
        gpus_total=len(trainer | generator) or None,
        gpus_per_engine=tensor,
        max_response_tokens=count_setting(config, "algorithm.sampling_params.max_new_tokens"),
        self_tuned=("gpus_trainer", "gpus_generator") if flag_setting(config, "cluster.auto_scheduler") else (),
    )
    return topology, Setpoints(
        gpus_trainer=len(trainer) if split else None,
        gpus_generator=len(generator) if split else None,
        max_in_flight_per_engine=count_setting(config, "rollout.max_running_requests"),
        group_size=group,
        batch_rollouts=prompts * group if prompts and group else None,
        overlap=mode is Mode.OVERLAPPED,
        packing=flag_setting(config, "runner.enable_dynamic_batch_size"),
        checkpoint_interval=count_setting(config, "runner.save_interval"),
        validation_interval=count_setting(config, "runner.val_check_interval"),
    )


_SPAN = re.compile(r"(?<![\d-])(\d{1,6})(?:-(\d{1,6}))?(?![\d-])")


def _placed(config: Mapping[str, object], role: str) -> frozenset[int]:
    """The GPU numbers of `0-3` or `0-1,4-5`. A key may place several roles; `all` names no number."""
    start = "cluster.component_placement."
    for key, where in config.items():
        if key.startswith(start) and role in re.split(r"\s*,\s*", key.removeprefix(start)):
            spans = [(int(first), int(last or first)) for first, last in _SPAN.findall(str(where))]
            return frozenset(gpu for first, last in spans for gpu in range(first, min(last, first + 10_000) + 1))
    return frozenset()


RESTART = Change.RESTART
_PLACEMENT = "cluster.component_placement"
FRAMEWORK = Framework(
    name=NAME,
    aliases=ALIASES,
    knobs=(
        KnobKey("gpus_trainer", f"{_PLACEMENT}.actor", RESTART, note="GPU numbers: 4-7"),
        KnobKey("gpus_generator", f"{_PLACEMENT}.rollout", RESTART, note="GPU numbers; embodied jobs: .env as well"),
        KnobKey("overlap", _PLACEMENT, RESTART, note="apart: phases are pipelined; embodied: the async runners"),
        KnobKey(
            "max_in_flight",
            "rollout.max_running_requests",
            RESTART,
            note="per engine; embodied: env.train.total_num_envs",
        ),
        KnobKey("group_size", "algorithm.group_size", RESTART, data_changing=True),
        KnobKey("packing", "runner.enable_dynamic_batch_size", RESTART, note="with runner.max_tokens_per_mbs"),
        KnobKey("kv_memory", "rollout.gpu_memory_utilization", RESTART),
        KnobKey("engine_settings", "rollout.enforce_eager", RESTART),
        KnobKey("checkpoint_interval", "runner.save_interval", RESTART),
        KnobKey("validation_interval", "runner.val_check_interval", RESTART),
        KnobKey("logging", "runner.logger.logger_backends", RESTART),
    ),
    formats=(LineFormat("rlinf-table", (TITLE,), _Tables, block=True),),
    signature=(
        *("time/generate_rollouts", "time/cal_adv_and_returns", "time/actor_training", "time/construct_rollout_batch"),
        *("time/actor/", "time/env/", "time/rollout/", "flops/", "actor/training/", "rollout/total_num_sequence"),
        *("env/success_once", "rollout/fraction_of_samples_properly_ended", "train/actor/"),
    ),
    config_signature=("cluster.component_placement", f"{_PLACEMENT}.", "cluster.auto_scheduler", "runner.task_type"),
    mode=mode_of,
    facts=facts,
    interpret=interpret,
)
