"""TRL: GRPOTrainer (serial) and AsyncGRPOTrainer (overlapped), console dicts, trainer state, TensorBoard and W&B."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise

from simulators.plant import Change, Mode, Setpoints, Topology
from tuner.adapting import count_setting, flag_setting, number_setting, printed_numbers, spelled
from tuner.frameworks.base import Alias, Framework, KnobKey, LineFormat, Observed
from tuner.parsing.lines import NUMBER
from tuner.records import Configuration, Item, Line, Record

NAME = "trl"

PROFILE = "profiling/Time taken: "
"""Prefix of the timers that the trainer sends to W&B and MLflow only."""

BUFFER_FULL_POLL_S = 0.1
"""The scorer looks again, and prints again, after this long while the rollout buffer is full."""

DICT_MARKERS = ("{'loss':", "'completions/", "'frac_reward_zero_std':", "'rewards/")
STALE = "dropping stale sample"
FULL = "rollout buffer full"
INFLIGHT = "max_inflight_tasks set to"

_ASYNC_KEYS = (
    *("queue_wait_time_s", "buffer_qsize", "generation_tok_per_s", "training_tok/s", "weight_sync_time_s"),
    *("rollout_wait_s", "backpressure_s", "queue_size"),
    *("perf/rollout_wait_s", "rollout/backpressure_s", "sample/rollout_queue_size", "perf/fwd_bwd_s"),
)
_INFLIGHT = re.compile(r"max_inflight_tasks set to (\d+) \(max_staleness=(\d+) . samples_per_step=(\d+)\)")
_KEY = re.compile(r"'[\w/ .-]+': ")
_SWIFT_STEP = re.compile(r"'global_step/max_steps': '(\d{1,12})/\d")
_SWIFT_SPEED = re.compile(rf"'train_speed\((iter/s|s/it)\)': '?({NUMBER})")
"""ms-swift prints step and pace in its records: the pace is a mean since the start."""
_MAXSIZE = re.compile(r"maxsize=(\d+)")

BAR_MARKERS = ("s/it", "it/s")
_BAR = re.compile(
    rf"(?:^|\]|Train:)\s*\d{{1,3}}%(?:\|[^|]{{0,400}}\|)?\s*(\d{{1,12}})/\d{{1,12}} "
    rf"\[[\d:]+<[^,\]]{{0,20}},\s*({NUMBER})(s/it|it/s)"
)
"""The trainer's own progress bar: it has no name (ms-swift's is called Train)."""


class _Console:
    """Dict lines (several may share a line, the last may be cut); drops and a full buffer count towards the next."""

    def __init__(self) -> None:
        self._stale = 0
        self._full = 0
        self._capacity: float | None = None
        self._async = False
        self._bar: tuple[int, float] | None = None
        """Step and seconds per step of the progress bar before the next dict."""
        self._held: Record | None = None
        """A record that no bar stood before: the bar is drawn again after it."""
        self._last: int | None = None
        """The step of the record before: a bar that still shows it is that one, drawn again."""

    def feed(self, line: Line) -> Iterable[Item | None]:
        text = line.text
        bars = _BAR.findall(text) if "%" in text else []
        if bars:
            self._bar = _step_and_pace(*bars[-1])  # a captured terminal keeps every state of the bar on one line
            yield from self._completed(_step_and_pace(*bars[0]))
        elif STALE in text:
            self._stale += 1
            self._async = True
        elif FULL in text:
            self._full += 1
            self._async = True
            size = _MAXSIZE.search(text)
            self._capacity = float(size.group(1)) if size else self._capacity
        elif (found := _INFLIGHT.search(text)) is not None:
            names = ("max_inflight_tasks", "max_staleness", "samples_per_step")
            yield Configuration(dict(zip(names, map(int, found.groups()), strict=True)), NAME)
        else:
            for piece, broken in _dicts(text):
                yield from self._record(piece, broken, line)

    def _record(self, piece: str, broken: bool, line: Line) -> Iterable[Item | None]:
        if "}" not in piece and piece.rstrip().endswith((",", ":")):
            return  # a terminal wrapped it: the lines are read together elsewhere
        found = printed_numbers(piece)
        values = dict(found.values)
        bar, self._bar = self._bar, None
        if not _is_metrics(values):
            return
        yield from self.flush()
        bar = _swift(piece) or bar
        if bar is not None and bar[0] == self._last:
            bar = None
        self._async = self._async or any(key in values for key in _ASYNC_KEYS)
        if self._async:
            values |= {"log/stale_samples_dropped": float(self._stale), "log/buffer_full_waits": float(self._full)}
        if self._capacity:
            values["log/queue_maxsize"] = self._capacity
        self._stale = self._full = 0
        step = _whole(values.get("step"))
        self._held = Record(values, step, line.time_s, {}, NAME, str(line.number), found.cut or broken)
        if bar is not None or step is not None:
            yield from self._completed(bar)
        else:
            yield None

    def _completed(self, bar: tuple[int, float] | None) -> Iterable[Item]:
        """The held record with what the bar says."""
        record, self._held = self._held, None
        if record is None:
            return
        step = record.step
        if bar is not None:
            step = bar[0] if step is None else step
            record = replace(record, values={"s_per_it": bar[1], **record.values}, step=step)
        self._last = step
        yield record

    def flush(self) -> Iterable[Item]:
        return self._completed(None)


def _dicts(text: str) -> list[tuple[str, bool]]:
    """The flat dicts of a line, each to its closing brace or to where the next begins; True: its start is missing."""
    starts = [found.start() for found in re.finditer(r"\{'", text)]
    pieces = [(text[a:b], False) for a, b in pairwise([*starts, len(text)])]
    head = text[: starts[0]] if starts else text
    if "}" in head and (first := _KEY.search(head)) is not None:
        pieces.insert(0, ("{" + head[first.start() :], True))
    return [(piece[: piece.find("}") + 1] if "}" in piece else piece, broken) for piece, broken in pieces]


def _step_and_pace(step: str, pace: str, unit: str) -> tuple[int, float] | None:
    """None before the first step is done, and for a pace of 0 it/s."""
    rate = float(pace)
    if not rate > 0.0 or int(step) < 1:
        return None
    return int(step), rate if unit == "s/it" else 1.0 / rate


def _swift(piece: str) -> tuple[int, float] | None:
    step, speed = _SWIFT_STEP.search(piece), _SWIFT_SPEED.search(piece)
    if step is None or speed is None:
        return None
    return _step_and_pace(step.group(1), speed.group(2), "s/it" if speed.group(1) == "s/it" else "it/s")


def _is_metrics(values: Mapping[str, float]) -> bool:
    """A GRPO record, not the plain loss line of another Trainer, an evaluation or the summary at the end."""
    return any(key == "reward" or key.startswith(("completions/", "rewards/", "frac_reward")) for key in values)


def _whole(value: float | None) -> int | None:
    return int(value) if value is not None and value.is_integer() else None


_PREFIXES = ("", "train/")
"""On the console and in the trainer's state; in W&B, TensorBoard and MLflow."""


def _both(key: str, signal: str, **more: float) -> tuple[Alias, ...]:
    """As printed, and as TensorBoard and W&B show it."""
    scale, trust = more.get("scale", 1.0), more.get("trust", 1.0)
    return tuple(Alias(f"{prefix}{key}", signal, scale=scale, trust=trust) for prefix in _PREFIXES)


def _timers(signal: str, *names: str) -> tuple[Alias, ...]:
    return tuple(Alias(f"{PROFILE}GRPOTrainer.{name}", signal, trust=0.8) for name in names)


ALIASES = (
    *_both("step_time", "step_s", trust=0.9),
    *_both("s_per_it", "step_s", trust=0.7),
    *_both("completions/mean_length", "resp_len_mean"),
    *_both("completion_length", "resp_len_mean", trust=0.9),
    *_both("completions/max_length", "resp_len_max"),
    *_both("completions/clipped_ratio", "truncated_frac"),
    *_both("reward", "reward_mean"),
    *_both("frac_reward_zero_std", "zero_adv_frac"),
    *_both("entropy", "entropy"),
    *_both("entropy/mean", "entropy", trust=0.9),
    *_both("grad_norm", "grad_norm"),
    *_both("kl", "kl"),
    *_both("tools/call_frequency", "tool_calls_mean"),
    Alias("num_tokens", "train_tokens_per_s", counter=True, trust=0.8),
    Alias("train/num_tokens", "train_tokens_per_s", counter=True, trust=0.8),
    *_timers("rollout_s", "vLLM.generate", "transformers.generate", "transformers.generate_batch"),
    *_timers("reward_s", "_calculate_rewards"),
    *_timers("logprob_s", "_get_per_token_logps_and_entropies"),
    *_timers("weight_sync_s", "sync_weights"),
    *_both("rollout_wait_s", "trainer_wait_s"),
    *_both("perf/rollout_wait_s", "trainer_wait_s"),
    *_both("sample/rollout_queue_size", "queue_depth"),
    *_both("fwd_bwd_s", "update_s"),
    *_both("weight_sync_time_s", "weight_sync_s"),
    *_both("buffer_qsize", "queue_depth"),
    *_both("queue_size", "queue_depth"),
    *_both("generation_tok_per_s", "gen_tokens_per_s", trust=0.6),
    *_both("training_tok/s", "train_tokens_per_s", trust=0.8),
    Alias("log/stale_samples_dropped", "dropped_stale", trust=0.7),
    Alias("log/buffer_full_waits", "generator_wait_s", scale=BUFFER_FULL_POLL_S, trust=0.5),
    Alias("log/queue_maxsize", "queue_capacity"),
    *_both("perf/step_s", "step_s"),
    *(Alias(f"{at}perf/{part}", "update_s", add=True) for at in _PREFIXES for part in ("fwd_bwd_s", "optimizer_s")),
    *_both("perf/weight_sync_s", "weight_sync_s"),
    *_both("batch/samples_per_step", "batch_rollouts"),
    *_both("batch/forwarded_tokens_per_step", "tokens_total"),
    *_both("rollout/inflight", "inflight_rollouts", trust=0.8),
    *_both("rollout/generated_tok_s", "gen_tokens_per_s"),
    *_both("sample/staleness_mean", "staleness_mean"),
    *_both("sample/staleness_max", "staleness_max"),
    *_both("sample/dropped_stale_total", "dropped_stale"),
)
"""`step_time` holds generation, scoring, forward and backward, not the optimizer's step, logging and saving (0.9); a
progress bar's seconds per iteration are a running mean (0.7). `generation_tok_per_s` is a mean since the start (0.6).
`completion_length` is TRL's name before 0.17, `entropy/mean` ms-swift's.
`queue_wait_time_s` is a mean per *sample*, `backpressure_s` per *group*: not seconds of a step, so not translated.
Newer names begin with `perf/`, `batch/`, `rollout/` and `sample/`. `perf/step_s` runs from one step's end to the next
one's, a weight sync between them included. In flight is counted as a group ends (0.8)."""


def interpret(record: Record, found: Mapping[str, float], mode: Mode) -> Mapping[str, float]:
    """Weights are published every few steps only: an asynchronous step that names no sync had none.

    `training_tok/s` and `perf/step_s` came with the sync's time, so they vouch for it. The queue's size is a mean over
    the samples of a batch, each counted as it is taken (async_grpo_trainer.py, RolloutQueueDataset).
    """
    extra: dict[str, float] = {}
    could_tell = _tells(record, "training_tok/s") or _tells(record, "perf/step_s")
    if mode is Mode.OVERLAPPED and "weight_sync_s" not in found and could_tell:
        extra["weight_sync_s"] = 0.0
    if _tells(record, "sample/rollout_queue_size"):
        extra["queue_taken_frac"] = 0.5
    return extra


def _tells(record: Record, key: str) -> bool:
    return key in record.values or f"train/{key}" in record.values


def mode_of(observed: Observed) -> Mode:
    """GRPOTrainer generates inside its step, also when a vLLM server on other GPUs does it."""
    keys = {key.removeprefix("train/") for key in observed.keys}
    config = spelled(observed.config)
    if keys & set(_ASYNC_KEYS) or "max_inflight_tasks" in config or "max_staleness" in config:
        return Mode.OVERLAPPED
    return Mode.SERIAL


def facts(observed: Observed) -> tuple[Topology, Setpoints]:
    config = spelled(observed.config)
    mode = mode_of(observed)
    batch = _samples_per_step(config, mode)
    staleness = number_setting(config, "max_staleness") if mode is Mode.OVERLAPPED else None
    in_flight = count_setting(config, "max_inflight_tasks")
    if in_flight is None and number_setting(config, "max_inflight_tasks") == -1 and batch and staleness:
        in_flight = int(staleness) * batch
    topology = Topology(
        framework=NAME,
        mode=mode,
        gpus_per_engine=count_setting(config, "vllm_tensor_parallel_size"),
        max_response_tokens=count_setting(config, "max_completion_length"),
        queue_capacity=count_setting(config, "queue_maxsize") if mode is Mode.OVERLAPPED else None,
        updates_per_step=count_setting(config, "num_iterations"),
    )
    return topology, Setpoints(
        max_in_flight=in_flight,
        staleness_bound=staleness,
        sync_interval=count_setting(config, "weight_sync_steps"),
        group_size=count_setting(config, "num_generations"),
        batch_rollouts=batch,
        overlap=mode is Mode.OVERLAPPED,
        in_flight_update=True if mode is Mode.OVERLAPPED else None,  # engines are paused with mode=keep
        packing=True if count_setting(config, "token_budget") else None,
        activation_checkpointing=flag_setting(config, "gradient_checkpointing"),
        checkpoint_interval=count_setting(config, "save_steps") if config.get("save_strategy") != "no" else None,
        validation_interval=count_setting(config, "eval_steps") if config.get("eval_strategy") == "steps" else None,
    )


def _samples_per_step(config: Mapping[str, object], mode: Mode) -> int | None:
    """Rollouts of one optimizer step: stated, or per-device batch x accumulation x processes."""
    stated = count_setting(config, "samples_per_step")
    if stated is not None:
        return stated
    parts = (
        count_setting(config, "per_device_train_batch_size"),
        count_setting(config, "gradient_accumulation_steps"),
        count_setting(config, "num_processes", "world_size"),
    )
    return parts[0] * parts[1] * parts[2] if parts[0] and parts[1] and parts[2] else None


SIGNATURE = ("completions/", "frac_reward_zero_std", "rewards/", "queue_wait_time_s", "training_tok/s")

FRAMEWORK = Framework(
    name=NAME,
    aliases=ALIASES,
    knobs=(
        KnobKey("gpus_trainer", "--num_processes", Change.RESTART, note="of accelerate launch"),
        KnobKey("gpus_generator", "trl vllm-serve --data_parallel_size", Change.RESTART),
        KnobKey("overlap", "trl.experimental.async_grpo.AsyncGRPOTrainer", Change.RESTART, data_changing=True),
        KnobKey("max_in_flight", "max_inflight_tasks", Change.RESTART, note="-1: max_staleness x samples per step"),
        KnobKey("staleness_bound", "max_staleness", Change.RESTART, data_changing=True),
        KnobKey("sync_interval", "weight_sync_steps", Change.RESTART, data_changing=True),
        KnobKey("group_size", "num_generations", Change.RESTART, data_changing=True),
        KnobKey("packing", "token_budget", Change.RESTART, note="tokens of one packed micro-batch"),
        KnobKey("activation_checkpointing", "gradient_checkpointing", Change.RESTART),
        KnobKey("kv_memory", "vllm_gpu_memory_utilization", Change.RESTART),
        KnobKey("checkpoint_interval", "save_steps", Change.RESTART),
        KnobKey("validation_interval", "eval_steps", Change.RESTART),
        KnobKey("logging", "report_to", Change.RESTART, note="wandb or mlflow also get the profiling/ timers"),
    ),
    formats=(LineFormat("trl-console", (*DICT_MARKERS, STALE, FULL, INFLIGHT), _Console, faint=BAR_MARKERS),),
    signature=(
        *(
            f"{prefix}{key}"
            for prefix in ("", "train/")
            for key in ("completions/", "frac_reward_zero_std", "rewards/")
        ),
        *(f"{prefix}{key}" for prefix in ("", "train/") for key in ("queue_wait_time_s", "training_tok/s")),
        "profiling/",
    ),
    config_signature=("num_generations", "max_completion_length", "max_inflight_tasks", "weight_sync_steps"),
    step_keys=("step", "train/global_step", "global_step"),
    mode=mode_of,
    facts=facts,
    config_style="arguments",
    interpret=interpret,
)
