"""prime-rl: console lines of three ages, notices that belong to a step, rows of trainer and orchestrator."""

import json

import pytest

from simulators.plant import Mode
from tests.unit.frameworks.conftest import DATA
from tuner.frameworks.base import Observed
from tuner.frameworks.prime_rl import FRAMEWORK
from tuner.records import Record

OVERLAPPED = Mode.OVERLAPPED


def rows(path: str) -> list[Record]:
    lines = [json.loads(line) for line in (DATA / path).read_text(encoding="utf-8").splitlines()]
    return [Record({k: float(v) for k, v in line.items() if k not in ("step", "time")}, line["step"]) for line in lines]


def test_a_generation_paced_orchestrator(read_console, neutral):
    records = read_console(FRAMEWORK, "prime-rl/pr-1318/console.log").records
    signals = [neutral(FRAMEWORK, record, OVERLAPPED) for record in records]
    assert [record.step for record in records] == [13, 14, 15, 16, 17, 28, 29, 30, 31, 32]
    first, second = (512 * 5 / sum(s["step_s"] for s in part) for part in (signals[:5], signals[5:]))
    assert (first, second) == (pytest.approx(7.41, rel=0.02), pytest.approx(6.40, rel=0.02))
    assert signals[1]["rollout_s"] == 68.0
    assert signals[1]["tokens_total"] == pytest.approx(326.2 * 512)


def test_lines_that_break_off_lose_the_last_number_only(read_console):
    records = read_console(FRAMEWORK, "prime-rl/pr-1318/console.log").records
    assert [record.step for record in records if record.cut] == [17, 32]
    assert "orchestrator/perf/throughput" not in records[-1].values
    assert records[-1].values["orchestrator/time/step"] == 94.61


def test_a_whole_step_without_a_pause_line_was_not_gated(read_console, neutral):
    records = read_console(FRAMEWORK, "prime-rl/pr-1318/console.log").records
    gated = [neutral(FRAMEWORK, record, OVERLAPPED).get("generator_wait_s") for record in records]
    assert gated == [None, 0.0, 0.0, 0.0, 0.0, None, 0.0, 0.0, 0.0, None]  # the last line breaks off too early
    trust = {alias.trust for alias in FRAMEWORK.aliases if alias.key == "console/no_pause_line"}
    assert trust == {0.6}


def test_pauses_and_filters_belong_to_the_step_that_follows(read_console, neutral):
    records = read_console(FRAMEWORK, "prime-rl/pr-2280/console.log").records
    signals = [neutral(FRAMEWORK, record, OVERLAPPED) for record in records]
    assert [record.step for record in records] == [9, 10]
    assert [s["generator_wait_s"] for s in signals] == [3.0, 2.0]
    assert [s["zero_adv_frac"] for s in signals] == [95 / 128, 96 / 128]
    assert [s["batch_rollouts"] for s in signals] == [128.0, 128.0]
    assert all("rollout_s" not in s for s in signals)


def test_todays_orchestrator_and_trainer_share_a_console(read_console, neutral):
    pipeline, orchestrator, trainer = read_console(FRAMEWORK, "prime-rl/head-layout/console.log").records
    assert neutral(FRAMEWORK, pipeline, OVERLAPPED) == {"queue_depth": 120.0, "inflight_rollouts": 500.0}
    told = neutral(FRAMEWORK, orchestrator, OVERLAPPED)
    assert (orchestrator.step, told["step_s"], told["batch_rollouts"]) == (41, 312.0, 256.0)
    assert told["zero_adv_frac"] == pytest.approx(1 - 118 / 256)
    assert (told["staleness_max"], told["truncated_frac"]) == (3.0, pytest.approx(0.113))
    of_trainer = neutral(FRAMEWORK, trainer, OVERLAPPED)
    assert (of_trainer["step_s"], of_trainer["train_tokens_per_s"]) == (310.0, 41230.0)
    assert of_trainer["mfu"] == pytest.approx(0.105)
    assert not trainer.values.keys() & orchestrator.values.keys()
    assert [record.cut for record in (orchestrator, trainer)] == [False, False]


def test_trainer_rows_tell_wait_and_work(neutral):
    times, perf = (neutral(FRAMEWORK, row, OVERLAPPED) for row in rows("prime-rl/head-layout/trainer.jsonl"))
    assert (times["trainer_wait_s"], times["trainer_busy_s"], times["weight_sync_s"]) == (96.7, 204.8, 6.1)
    assert times["step_s"] > times["trainer_wait_s"] + times["trainer_busy_s"]
    assert perf["mfu"] == pytest.approx(0.105)


def test_orchestrator_rows_tell_flow_and_signal(neutral):
    (row,) = rows("prime-rl/head-layout/orchestrator.jsonl")
    signals = neutral(FRAMEWORK, row, OVERLAPPED)
    assert (signals["batch_rollouts"], signals["dispatched"]) == (256.0, 300.0)
    assert (signals["errored"], signals["aborted"], signals["dropped_stale"]) == (3.0, pytest.approx(24.0), 5.0)
    assert signals["zero_adv_frac"] == pytest.approx(0.539)
    assert (signals["sandbox_start_s"], signals["rollout_latency_s"]) == (12.5, 240.0)
    assert signals["tokens_total"] == 9_000_000 + 1_792_000


def test_names_of_three_ages_mean_the_same(neutral):
    ages = [
        {"scheduler/inflight_rollouts": 64.0, "off_policy_level/all/max": 2.0},
        {"dispatcher/inflight_train": 64.0, "dispatcher/off_policy_level_max": 2.0},
        {"dispatcher/inflight/train": 64.0, "off_policy/max": 2.0},
    ]
    read = [neutral(FRAMEWORK, Record(values), OVERLAPPED) for values in ages]
    assert read == [{"inflight_rollouts": 64.0, "staleness_max": 2.0}] * 3
    assert [FRAMEWORK.version(Observed(frozenset(v))) for v in ages] == ["v0.5", "v0.6", "after v0.8"]


def test_step_lines_of_other_programs_are_left_alone(read_lines):
    lines = ("Step 3 | Loss 0.5 | Throughput 100 tokens/s", "Micro Step 1/8 | Loss 0.5", "Step 12 of 30")
    assert read_lines(FRAMEWORK, *lines).records == []


def test_one_file_for_the_run_states_its_facts():
    config = {"deployment.num_train_gpus": 4, "deployment.num_infer_gpus": 4, "orchestrator.batch_size": 512}
    config |= {"orchestrator.rollouts_per_example": 8, "orchestrator.oversampling_factor": 2.0}
    config |= {"inference.parallel.tp": 2, "orchestrator.max_async_level": 2, "ckpt.interval": 50}
    topology, setpoints = FRAMEWORK.facts(Observed(config=config))
    assert (topology.mode, topology.gpus_total, topology.gpus_per_engine) == (OVERLAPPED, 8, 2)
    assert (setpoints.engines, setpoints.max_in_flight, setpoints.staleness_bound) == (2, 1024, 2.0)
    assert (setpoints.group_size, setpoints.batch_rollouts, setpoints.checkpoint_interval) == (8, 512, 50)
    assert topology.self_tuned == ()


def test_nodes_and_the_jobs_own_controller():
    config = {"deployment.num_train_nodes": 2, "deployment.num_infer_nodes": 2, "deployment.num_infer_replicas": 3}
    config |= {"orchestrator.concurrency.max_inflight": 1024, "orchestrator.max_off_policy_steps": 8}
    topology, setpoints = FRAMEWORK.facts(Observed(config=config))
    assert (setpoints.gpus_trainer, setpoints.gpus_generator) == (16, 48)
    assert (setpoints.max_in_flight, topology.self_tuned) == (1024, ("max_in_flight",))
    assert setpoints.staleness_bound == 8.0


def test_the_orchestrators_own_file_has_bare_keys():
    _, setpoints = FRAMEWORK.facts(Observed(config={"batch_size": 128, "group_size": 4, "max_inflight_rollouts": 256}))
    assert (setpoints.batch_rollouts, setpoints.group_size, setpoints.max_in_flight) == (128, 4, 256)


def test_a_disaggregated_replica_moves_in_one_piece():
    config = {"deployment.num_infer_nodes": 8, "deployment.num_infer_replicas": 2, "inference.parallel.tp": 8}
    config |= {"inference.deployment.type": "disaggregated", "inference.deployment.prefill_nodes_per_replica": 3}
    config |= {"inference.deployment.decode_nodes_per_replica": 5}
    topology, setpoints = FRAMEWORK.facts(Observed(config=config))
    assert (topology.gpus_per_engine, setpoints.engines) == (64, 2)
    assert (setpoints.gpus_prefill, setpoints.gpus_decode) == (48, 80)


def test_the_time_of_scoring_is_a_part_of_the_rollouts(neutral):
    scored = {f"train/agg/effective/solver/timing/{part}/mean": s for part, s in (("scoring", 48.0), ("total", 240.0))}
    signals = neutral(FRAMEWORK, Record(scored, 1), OVERLAPPED)
    assert (signals["reward_latency_s"], signals["rollout_latency_s"]) == (48.0, 240.0)
