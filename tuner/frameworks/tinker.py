"""Tinker cookbook: metrics.jsonl of a hosted service (no GPUs of ours to move); synchronous unless said otherwise."""

from collections.abc import Mapping

from simulators.plant import Change, Mode, Setpoints, Topology
from tuner.adapting import count_setting, number_setting, quotient, setting
from tuner.frameworks.base import Alias, Framework, KnobKey, Observed
from tuner.records import Record

NAME = "tinker"

ENV = "env/all/"

SAMPLING = ("time/sampling", "time/sample")
"""The sampling phase of a synchronous step, today's name and the first one."""

ALIASES = (
    Alias("time/total", "step_s", only=Mode.SERIAL),
    *(Alias(name, "rollout_s", only=Mode.SERIAL) for name in SAMPLING),
    Alias("time/train", "update_s"),
    Alias("time/train_step", "update_s"),
    Alias("time/save_checkpoint", "checkpoint_s"),
    Alias("time/run_evals", "validation_s"),
    Alias("time/run_evaluations_parallel", "validation_s"),
    Alias("time/assemble_training_data", "overhead_s", add=True),
    Alias("time/kl_vs_base", "logprob_s", add=True),
    Alias("time/compute_post_kl", "logprob_s", add=True),
    Alias("time/compute_kl_sample_train", "overhead_s", add=True),
    Alias("time/sampling_time_mean", "rollout_latency_s", trust=0.7),
    Alias("time/sampling_time_max", "slowest_s", trust=0.7),
    Alias(ENV + "total_episodes", "batch_rollouts"),
    Alias(ENV + "turns_per_episode", "turns_mean"),
    Alias(ENV + "reward/total", "reward_mean"),
    Alias(ENV + "by_group/frac_all_good", "solved_all_frac"),
    Alias(ENV + "by_group/frac_all_bad", "solved_none_frac"),
    Alias("optim/entropy", "entropy"),
    Alias("optim/kl_sample_train_v1", "kl"),
    Alias("optim/grad_norm", "grad_norm"),
)
"""An asynchronous step's `time/total` leaves out the wait for groups, so it is no step time there; sampling times are
those of a *group*, whose slowest member they follow (0.7)."""

PHASES = (
    *("time/train", "time/train_step", "time/save_checkpoint", "time/run_evals", "time/run_evaluations_parallel"),
    *("time/assemble_training_data", "time/kl_vs_base", "time/compute_post_kl", "time/compute_kl_sample_train"),
)
"""Phases of a synchronous step other than sampling; none of them lies inside another."""


def interpret(record: Record, found: Mapping[str, float], mode: Mode) -> Mapping[str, float]:
    """Lengths and signal of the batch; in a synchronous step without a sampling time, what the named phases leave.

    rollout = total - named phases: an upper bound (trust 0.5), since a first step's set-up and logging are in it too.
    """
    values = record.values
    extra = _batch(values)
    named = [values[name] for name in PHASES if name in values]
    total = values.get("time/total")
    if mode is Mode.SERIAL and total is not None and named and "rollout_s" not in found:
        rest = total - sum(named)
        extra |= {"rollout_s": rest} if rest >= 0.0 else {}
    oldest = values.get("sampling_client/step_min")
    trained = values.get("progress/batch")
    if mode is Mode.OVERLAPPED and trained is not None and oldest is not None:
        mean = values.get("sampling_client/step_mean", oldest)
        extra |= {"staleness_mean": max(0.0, trained - mean), "staleness_max": max(0.0, trained - oldest)}
    return extra


def _batch(values: Mapping[str, float]) -> dict[str, float]:
    extra: dict[str, float] = {}
    for signal, total in (("resp_len_mean", "total_ac_tokens"), ("prompt_len_mean", "total_ob_tokens")):
        mean = quotient(values, ENV + total, ENV + "total_episodes")
        if mean is not None:
            extra[signal] = mean
    if ENV + "total_ac_tokens" in values and ENV + "total_ob_tokens" in values:
        extra["tokens_total"] = values[ENV + "total_ac_tokens"] + values[ENV + "total_ob_tokens"]
    mixed = values.get(ENV + "by_group/frac_mixed")
    if mixed is not None:
        extra["zero_adv_frac"] = 1.0 - mixed
    return extra


def mode_of(observed: Observed) -> Mode:
    """Serial, unless off-policy steps are configured or the steps of the sampling clients are logged."""
    asynchronous = setting(observed.config, "async_config.max_steps_off_policy") is not None
    if asynchronous or "sampling_client/step_mean" in observed.keys:
        return Mode.OVERLAPPED
    return Mode.SERIAL


def facts(observed: Observed) -> tuple[Topology, Setpoints]:
    config = observed.config
    mode = mode_of(observed)
    group = count_setting(config, "group_size")
    groups = count_setting(config, "groups_per_batch")
    topology = Topology(
        framework=NAME,
        mode=mode,
        max_response_tokens=count_setting(config, "max_tokens"),
        updates_per_step=count_setting(config, "num_substeps"),
    )
    return topology, Setpoints(
        max_in_flight=groups * group if groups and group and mode is Mode.OVERLAPPED else None,
        staleness_bound=number_setting(config, "async_config.max_steps_off_policy"),
        group_size=group,
        batch_rollouts=groups * group if groups and group else None,
        overlap=mode is Mode.OVERLAPPED,
        checkpoint_interval=count_setting(config, "save_every"),
        validation_interval=count_setting(config, "eval_every"),
    )


FRAMEWORK = Framework(
    name=NAME,
    aliases=ALIASES,
    knobs=(
        KnobKey("overlap", "async_config", Change.RESTART, data_changing=True),
        KnobKey("staleness_bound", "async_config.max_steps_off_policy", Change.RESTART, data_changing=True),
        KnobKey("max_in_flight", "async_config.groups_per_batch", Change.RESTART, data_changing=True, note="groups"),
        KnobKey("group_size", "dataset_builder.group_size", Change.RESTART, data_changing=True),
        KnobKey("curriculum_filter", "remove_constant_reward_groups", Change.RESTART, data_changing=True),
        KnobKey("sync_interval", "num_substeps", Change.RESTART, data_changing=True, note="updates per publication"),
        KnobKey("checkpoint_interval", "save_every", Change.RESTART),
        KnobKey("validation_interval", "eval_every", Change.RESTART),
        KnobKey("logging", "enable_trace", Change.RESTART, note="gives the sampling phase a time of its own"),
    ),
    signature=(
        ENV + "by_group/",
        ENV + "ac_tokens_per_turn",
        ENV + "total_ac_tokens",
        ENV + "total_episodes",
        "time/assemble_training_data",
        "sampling_client/step_mean",
    ),
    config_signature=("dataset_builder.", "async_config.", "remove_constant_reward_groups"),
    step_keys=("step", "progress/batch"),
    mode=mode_of,
    facts=facts,
    interpret=interpret,
    computed_trust={"rollout_s": 0.5},
)
