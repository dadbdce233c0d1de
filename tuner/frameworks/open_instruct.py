"""open-instruct: the panel of metrics that GRPO prints each step, and the same names in W&B; it generates ahead.

The panel leaves the first part of each name to its row. `time/total` is the step, `time/training` the update; the
wait for data was `time/trainer_idle_waiting_for_inference` before it was `time/trainer_waiting_for_data`.
"""

import re
from collections.abc import Iterable, Mapping

from simulators.plant import Change, Mode, Setpoints, Topology
from tuner.adapting import count_setting, flag_setting, number_setting, spelled
from tuner.frameworks.base import Alias, Framework, KnobKey, LineFormat, Observed
from tuner.parsing.lines import NUMBER
from tuner.records import Item, Line, Record

NAME = "open-instruct"

TITLE = "─ Metrics ─"

_ROW = re.compile(r"│\s{1,4}([a-z][\w.-]{0,60})\s{2,}(\S.*?)\s*│?\s*$")
_MORE = re.compile(r"│\s{3,}(\S.*?)\s*│?\s*$")
_PAIR = re.compile(rf"([A-Za-z_][\w./@-]{{0,120}}): +({NUMBER})(?=\s*(?:\||$))")
_LONE = "other"
"""The row of the names that have no first part."""


class _Panels:
    """One panel is one record; a row that the terminal's width broke goes on in the next line."""

    def __init__(self) -> None:
        self._rows: dict[str, str] = {}
        self._last = ""
        self._time_s: float | None = None

    def feed(self, line: Line) -> Iterable[Item]:
        text = line.text
        if TITLE in text:
            yield from self.flush()
            self._time_s = line.time_s
        elif (row := _ROW.search(text)) is not None and ": " in row.group(2):
            self._last = row.group(1)
            self._rows[self._last] = row.group(2)
        elif self._last and (more := _MORE.search(text)) is not None:
            self._rows[self._last] += " " + more.group(1)
        elif text.lstrip().startswith("╰"):
            yield from self.flush()

    def flush(self) -> Iterable[Item]:
        rows, self._rows, self._last = self._rows, {}, ""
        values = {
            key if group == _LONE else f"{group}/{key}": float(number)
            for group, row in rows.items()
            for key, number in _PAIR.findall(row)
        }
        return (Record(values, None, self._time_s, framework=NAME),) if values else ()


_WAITS = ("time/trainer_waiting_for_data", "time/trainer_idle_waiting_for_inference")
_GATED = ("time/generation_waiting_for_trainer", "time/generation_idle_waiting_for_trainer")

ALIASES = (
    Alias("time/total", "step_s"),
    *(Alias(key, "trainer_wait_s", only=Mode.OVERLAPPED) for key in _WAITS),
    *(Alias(key, "rollout_s", only=Mode.SERIAL) for key in _WAITS),
    *(Alias(key, "generator_wait_s", only=Mode.OVERLAPPED) for key in _GATED),
    Alias("time/training", "update_s"),
    Alias("time/weight_sync", "weight_sync_s"),
    Alias("time/saving", "checkpoint_s"),
    Alias("time/group_generation_mean", "rollout_latency_s", trust=0.7),
    Alias("time/group_generation_max", "slowest_s", trust=0.9),
    Alias("scores", "reward_mean"),
    Alias("objective/scores", "reward_mean"),
    Alias("val/sequence_lengths", "resp_len_mean"),
    Alias("val/sequence_lengths_max", "resp_len_max"),
    Alias("policy/entropy_avg", "entropy"),
    Alias("optim/grad_norm", "grad_norm"),
    Alias("stale_results_dropped", "dropped_stale", trust=0.5),
    Alias("learner_mfu", "mfu", scale=0.01, trust=0.8),
    Alias("learner_tokens_per_second_step", "train_tokens_per_s"),
    Alias("tools/aggregate/avg_calls_per_rollout", "tool_calls_mean"),
)
"""Latencies are of whole groups: a group lasts as long as its slowest rollout (0.7). MFU is printed in percent."""


def interpret(record: Record, found: Mapping[str, float], mode: Mode) -> Mapping[str, float]:
    """Answers that end at the cap are those that do not stop."""
    stop = record.values.get("val/stop_rate")
    return {"truncated_frac": 1.0 - stop} if stop is not None and 0.0 <= stop <= 1.0 else {}


def mode_of(observed: Observed) -> Mode:
    steps = number_setting(spelled(observed.config), "async_steps")
    return Mode.SERIAL if steps == 0 else Mode.OVERLAPPED


def facts(observed: Observed) -> tuple[Topology, Setpoints]:
    config, mode = spelled(observed.config), mode_of(observed)
    engines = count_setting(config, "vllm_num_engines")
    tensor = count_setting(config, "vllm_tensor_parallel_size") or (1 if engines else None)
    generator = engines * tensor if engines and tensor else None
    trainer = _learners(config.get("num_learners_per_node"))
    group = count_setting(config, "num_samples_per_prompt_rollout")
    prompts = count_setting(config, "num_unique_prompts_rollout")
    topology = Topology(
        framework=NAME,
        mode=mode,
        gpus_total=trainer + generator if trainer and generator else None,
        gpus_per_engine=tensor,
        max_response_tokens=count_setting(config, "response_length"),
    )
    return topology, Setpoints(
        gpus_trainer=trainer,
        gpus_generator=generator,
        engines=engines,
        staleness_bound=number_setting(config, "async_steps"),
        group_size=group,
        batch_rollouts=prompts * group if prompts and group else None,
        overlap=mode is Mode.OVERLAPPED,
        in_flight_update=flag_setting(config, "inflight_updates"),
        filter_zero_adv=flag_setting(config, "active_sampling"),
        packing=True,
        activation_checkpointing=flag_setting(config, "gradient_checkpointing"),
        checkpoint_interval=count_setting(config, "save_freq"),
        validation_interval=count_setting(config, "local_eval_every"),
    )


def _learners(written: object) -> int | None:
    """Trainer GPUs: a number, or one for each node (`8 8`)."""
    counts = written if isinstance(written, list | tuple) else re.findall(r"\d{1,6}", str(written or ""))
    known = [int(n) for n in counts if isinstance(n, int | str) and str(n).isascii() and str(n).isdigit()]
    return sum(known) or None


RESTART = Change.RESTART
FRAMEWORK = Framework(
    name=NAME,
    aliases=ALIASES,
    knobs=(
        KnobKey("gpus_trainer", "--num_learners_per_node", RESTART, note="one number for each node"),
        KnobKey("gpus_generator", "--vllm_num_engines", RESTART, per=("vllm_tensor_parallel_size",)),
        KnobKey("overlap", "--async_steps", RESTART, data_changing=True, note="above 0"),
        KnobKey("staleness_bound", "--async_steps", RESTART, data_changing=True),
        KnobKey("in_flight_update", "--inflight_updates", RESTART, data_changing=True),
        KnobKey("max_in_flight", "--async_steps", RESTART, data_changing=True, note="prompts in flight follow it"),
        KnobKey("group_size", "--num_samples_per_prompt_rollout", RESTART, data_changing=True),
        KnobKey("curriculum_filter", "--active_sampling", RESTART, data_changing=True),
        KnobKey("packing", "--pack_length", RESTART, note="tokens of a packed row"),
        KnobKey("activation_checkpointing", "--gradient_checkpointing", RESTART),
        KnobKey("kv_memory", "--vllm_gpu_memory_utilization", RESTART),
        KnobKey("engine_settings", "--vllm_enforce_eager", RESTART),
        KnobKey("checkpoint_interval", "--save_freq", RESTART),
        KnobKey("validation_interval", "--local_eval_every", RESTART),
        KnobKey("logging", "--with_tracking", RESTART),
    ),
    formats=(LineFormat("open-instruct-panel", (TITLE,), _Panels, block=True),),
    signature=(
        *_WAITS,
        *_GATED,
        *("learner_tokens_per_second_step", "learner_tokens_per_second_overall", "val/sequence_lengths"),
        *("unsolved_batch_size_ratio", "real_batch_size_ratio", "val/actor_tokens_per_second", "packed_ratio"),
        *("time/group_generation_mean", "val/stop_rate", "val/num_total_tokens"),
    ),
    config_signature=(
        *("num_learners_per_node", "num_unique_prompts_rollout", "num_samples_per_prompt_rollout", "async_steps"),
        *("--num_unique_prompts_rollout", "--num_samples_per_prompt_rollout", "pack_length"),
    ),
    step_keys=("training_step", "step"),
    mode=mode_of,
    facts=facts,
    interpret=interpret,
    computed_trust={"truncated_frac": 0.8},
)
