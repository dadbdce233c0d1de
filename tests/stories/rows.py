"""Rows of published tables as jobs: a written mapping from columns to signals, and nothing but what the row states."""

import csv
from collections.abc import Callable, Mapping
from typing import NamedTuple

from simulators.plant import Mode, Setpoints, Topology
from simulators.snapshot import Snapshot, snapshot_of
from tests.stories.answers import case_text, without_comments

Cells = Mapping[str, str]


class Job(NamedTuple):
    topology: Topology
    setpoints: Setpoints
    snapshot: Snapshot


def number(row: Cells, column: str) -> float | None:
    return float(row[column]) if row[column].strip() else None


def whole(row: Cells, column: str) -> int | None:
    value = number(row, column)
    return None if value is None else int(value)


def known(**values: float | None) -> Snapshot:
    return snapshot_of(**{name: value for name, value in values.items() if value is not None})


def trl_async(row: Cells) -> Job:
    """TRL's asynchronous GRPO: the trainer steps while replicas generate.

    | column | is |
    |---|---|
    | step_s | the step *without* weight sync: wall = step_s + weight_sync_s / sync_every; no sync known: step_s |
    | (step_s blank) | the sum of fwd_bwd_s, rollout_wait_s and the amortised sync, only when all three are known |
    | fwd_bwd_s, rollout_wait_s | trainer_busy_s, trainer_wait_s |
    | weight_sync_s / sync_every | weight_sync_s (amortised); sync_every is the sync interval |
    | (always) | weights are updated in flight: TRL pauses its engines with mode=keep |
    | queue_size, queue_max | queue_depth, queue_capacity; TRL counts while it takes a batch: half of it is gone |
    | max_inflight, / replicas | cap in flight of the whole job, and of one engine |
    | gen_tok_s, mfu_pct / 100, samples_per_step, staleness_mean | their signals |
    | token_budget > 0 | packing on |
    | grad_ckpt | activation_checkpointing |
    | backpressure_s_per_group | not used: seconds of a group, not of a step |
    """
    sync, every = number(row, "weight_sync_s"), number(row, "sync_every")
    amortised = sync / every if sync is not None and every else None
    busy, wait, step = (number(row, column) for column in ("fwd_bwd_s", "rollout_wait_s", "step_s"))
    if step is not None:
        step += amortised or 0.0
    elif busy is not None and wait is not None and amortised is not None:
        step = busy + wait + amortised
    mfu_pct, cap, replicas = number(row, "mfu_pct"), whole(row, "max_inflight"), whole(row, "replicas")
    assert cap is not None
    assert replicas is not None
    setpoints = Setpoints(
        engines=replicas,
        max_in_flight=cap,
        max_in_flight_per_engine=cap // replicas,
        sync_interval=whole(row, "sync_every"),
        batch_rollouts=whole(row, "samples_per_step"),
        staleness_bound=number(row, "max_staleness"),
        packing=row["token_budget"] != "0",
        activation_checkpointing=row["grad_ckpt"] == "1",
        in_flight_update=True,
        overlap=True,
    )
    snapshot = known(
        step_s=step,
        trainer_wait_s=wait,
        trainer_busy_s=busy,
        weight_sync_s=amortised,
        queue_depth=number(row, "queue_size"),
        queue_capacity=number(row, "queue_max"),
        queue_taken_frac=0.5,
        inflight_limit=cap,
        gen_tokens_per_s=number(row, "gen_tok_s"),
        mfu=None if mfu_pct is None else mfu_pct / 100.0,
        staleness_mean=number(row, "staleness_mean"),
        engines=replicas,
    )
    return Job(Topology(framework="trl", mode=Mode.OVERLAPPED), setpoints, snapshot)


def verl_fully_async(row: Cells) -> Job:
    """verl's comparison of colocated and asynchronous runs.

    | column | is |
    |---|---|
    | mode | colocate: serial, gen_s is its generation phase; every other: overlapped, gen_s is the trainer's wait |
    | mode `partial rollout` | partial rollout on |
    | train_gpus, rollout_gpus, gpus_total | the split (overlapped only) and the total |
    | step_s, update_actor_s | step_s, update_s |
    | old_log_prob_s + ref_s | logprob_s, of those that are printed |
    | t100 ... t400 | not used: they count evaluation and checkpoints too |
    """
    serial = row["mode"] == "colocate"
    passes = [p for p in (number(row, "old_log_prob_s"), number(row, "ref_s")) if p is not None]
    update, logprob = number(row, "update_actor_s"), sum(passes) if passes else None
    topology = Topology(
        framework="verl",
        mode=Mode.SERIAL if serial else Mode.OVERLAPPED,
        gpus_total=whole(row, "gpus_total"),
    )
    setpoints = Setpoints(
        gpus_trainer=None if serial else whole(row, "train_gpus"),
        gpus_generator=None if serial else whole(row, "rollout_gpus"),
        partial_rollout=True if row["mode"] == "partial rollout" else None,
        overlap=not serial,
    )
    generation = number(row, "gen_s")
    snapshot = known(
        step_s=number(row, "step_s"),
        rollout_s=generation if serial else None,
        trainer_wait_s=None if serial else generation,
        update_s=update,
        logprob_s=logprob,
        trainer_busy_s=None if update is None else update + (logprob or 0.0),
    )
    return Job(topology, setpoints, snapshot)


def vime_phases(row: Cells) -> Job:
    """vime's phases of one step, as slime prints them.

    | column | is |
    |---|---|
    | mode | fully_async: overlapped; every other: serial, the trainer's wait is then generation and offloading |
    | train_wait_time - sleep_time - wake_up_time | rollout_s of a serial job |
    | sleep_time + wake_up_time | offload_s |
    | update_weights_time | weight_sync_s |
    """
    serial = row["mode"] != "fully_async"
    wait = number(row, "perf/train_wait_time")
    parts = [p for p in (number(row, "perf/sleep_time"), number(row, "perf/wake_up_time")) if p is not None]
    offload = sum(parts) if parts else None
    snapshot = known(
        step_s=number(row, "perf/step_time"),
        rollout_s=wait - (offload or 0.0) if serial and wait is not None else None,
        trainer_wait_s=None if serial else wait,
        trainer_busy_s=number(row, "perf/train_time"),
        offload_s=offload,
        weight_sync_s=number(row, "perf/update_weights_time"),
    )
    topology = Topology(framework="slime", mode=Mode.SERIAL if serial else Mode.OVERLAPPED)
    return Job(topology, Setpoints(overlap=not serial), snapshot)


def nemo_performance(row: Cells) -> Job:
    """NeMo-RL's performance summary: lag, lengths, GPUs, batch, step time.

    | column | is |
    |---|---|
    | policy_lag | on-policy: serial; k-step-off: overlapped with a staleness bound of k |
    | avg_gen_len, gbs_gen, step_s | resp_len_mean, batch_rollouts, step_s |
    | gbs_train | not used: minibatches of one step |
    """
    serial = row["policy_lag"] == "on-policy"
    topology = Topology(
        framework="nemo-rl", mode=Mode.SERIAL if serial else Mode.OVERLAPPED, gpus_total=whole(row, "gpus")
    )
    setpoints = Setpoints(
        overlap=not serial,
        batch_rollouts=whole(row, "gbs_gen"),
        staleness_bound=0.0 if serial else float(row["policy_lag"].partition("-")[0]),
    )
    return Job(topology, setpoints, known(step_s=number(row, "step_s"), resp_len_mean=number(row, "avg_gen_len")))


class Table(NamedTuple):
    label: Callable[[Cells], str]
    """How expected.json names a row, in full: a shorter name that only one row starts with is enough."""
    job: Callable[[Cells], Job]


MAPPINGS = {
    "A12_trl_asyncgrpo_5runs.csv": Table(lambda row: row["run"], trl_async),
    "A19_verl_fully_async_tables.csv": Table(
        lambda row: f"{row['table']}/{row['mode']}/{row['gpus_total']}", verl_fully_async
    ),
    "A20_vime_phase_tables.csv": Table(lambda row: f"{row['setup']}/{row['mode']}", vime_phases),
    "A21_nemo_rl_perf_table.csv": Table(
        lambda row: f"{row['model']}/{row['policy_lag']}/{row['gpus']}", nemo_performance
    ),
}
MAPPINGS["nemo_rl_perf_further.csv"] = MAPPINGS["A21_nemo_rl_perf_table.csv"]


def job_of(table: str, name: str) -> Job:
    lines = without_comments(case_text(table)).splitlines()
    mapping = MAPPINGS[table]
    rows = [row for row in csv.DictReader(lines) if f"{mapping.label(row)}/".startswith(f"{name}/")]
    assert len(rows) == 1, f"{name} names {len(rows)} rows"
    return mapping.job(rows[0])
