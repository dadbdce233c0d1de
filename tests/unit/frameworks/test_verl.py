"""verl: whole and torn step lines, what the trainer stack makes of a key, what the configuration states."""

import pytest

from simulators.plant import Mode, TrainerResize
from tests.unit.frameworks.conftest import DATA
from tuner.frameworks.base import Observed
from tuner.frameworks.verl import FRAMEWORK
from tuner.records import Record

ASYNC = "verl/fully-async-layout/console.log"


def shares(signals: dict[str, float], *names: str) -> float:
    return sum(signals[name] for name in names) / signals["step_s"]


def observed(records: list[Record], config: dict[str, object] | None = None) -> Observed:
    values = {key: value for record in records for key, value in record.values.items()}
    return Observed(frozenset(values), config or {}, values)


def test_a_step_line_gives_the_phases_of_a_serial_step(read_console, neutral):
    (record,) = read_console(FRAMEWORK, "verl/smollm-1gpu/console.log").records
    signals = neutral(FRAMEWORK, record, Mode.SERIAL)
    assert (record.step, record.cut) == (1, False)
    assert shares(signals, "rollout_s") == pytest.approx(0.3332, rel=0.01)
    assert shares(signals, "trainer_busy_s") == pytest.approx(0.6529, rel=0.01)
    assert signals["truncated_frac"] == pytest.approx(0.19921875)
    assert signals["batch_rollouts"] == 1024.0
    assert "mfu" not in signals
    assert "trainer_wait_s" not in signals


def test_parts_of_generation_are_not_added_to_it(read_console, neutral):
    (record,) = read_console(FRAMEWORK, "verl/smollm-1gpu/console.log").records
    assert record.values["timing_s/generate_sequences"] > 0.0
    assert neutral(FRAMEWORK, record, Mode.SERIAL)["rollout_s"] == record.values["timing_s/gen"]


def test_a_line_without_its_last_phases_is_cut_and_its_last_pair_dropped(read_console, neutral):
    (record,) = read_console(FRAMEWORK, "verl/issue-1208-gh200/console.log").records
    signals = neutral(FRAMEWORK, record, Mode.SERIAL)
    assert record.cut
    assert not any(key.startswith("timing_per_token_ms/") for key in record.values)
    assert shares(signals, "rollout_s") == pytest.approx(0.7666, rel=0.01)
    assert signals["mfu"] > 1.0  # impossible, and for the reading to say so


def test_a_line_that_starts_in_mid_record_still_gives_its_pairs(read_console, neutral):
    (record,) = read_console(FRAMEWORK, "verl/smollm-last-step/console.log").records
    signals = neutral(FRAMEWORK, record, Mode.SERIAL)
    assert (record.cut, record.step) == (True, None)
    assert shares(signals, "validation_s") == pytest.approx(0.7062, rel=0.01)
    assert signals["step_s"] - signals["validation_s"] == pytest.approx(8.824, rel=0.01)


def test_numpy_numbers_count_and_words_do_not(read_lines):
    line = "step:2 - val/a/mean@1:np.float64(0.5) - oops - :3 - val/c/n:three - val/d/n:-1"
    (record,) = read_lines(FRAMEWORK, line).records
    assert record.values == {"val/a/mean@1": 0.5, "val/d/n": -1.0}


def test_two_fragments_are_two_cut_records(read_console, neutral):
    first, second = read_console(FRAMEWORK, "verl/issue-7412/console.log").records
    signals = neutral(FRAMEWORK, second, Mode.SERIAL)
    assert (first.step, second.step) == (34, None)
    assert first.cut
    assert second.cut
    assert "response_length/min" not in first.values
    assert signals["slowest_s"] / signals["rollout_latency_s"] == pytest.approx(2.0235, rel=0.01)
    assert signals["slowest_s"] / signals["slowest_tokens"] == pytest.approx(0.1756, rel=0.01)


def test_records_joined_on_one_line_are_parted(read_lines):
    line = "noise step:7 - timing_s/step:2.0 - actor/lr:1e-06step:8 - timing_s/step:3.0 - actor/lr:1e-06"
    line = line.replace("1e-06step", "1e-06 step")
    records = read_lines(FRAMEWORK, line).records
    assert [(r.step, r.values["timing_s/step"]) for r in records] == [(7, 2.0), (8, 3.0)]


def test_a_validation_record_alone_is_whole(read_lines):
    (record,) = read_lines(FRAMEWORK, "step:0 - val-core/openai/gsm8k/reward/mean@1:np.float64(0.31)").records
    assert (record.step, record.cut) == (0, False)
    assert list(record.values.values()) == [0.31]


def test_other_programs_lists_are_left_alone(read_lines):
    lines = ("took 3 - 4 step: a/b - c/d:3", "global_step:3 - loss:2 - lr:1", "url:http://actor/critic/3 - x")
    assert read_lines(FRAMEWORK, *lines).records == []


def test_in_an_asynchronous_stack_gen_is_the_wait(read_console, neutral):
    reading = read_console(FRAMEWORK, ASYNC)
    cycle = next(r for r in reading.records if "timing_s/gen" in r.values)
    signals = neutral(FRAMEWORK, cycle, Mode.OVERLAPPED)
    assert signals["trainer_wait_s"] == 22.1
    assert "rollout_s" not in signals
    assert signals["weight_sync_s"] == 2.0
    assert signals["trainer_busy_s"] == pytest.approx(256.8)
    assert signals["published_trainer_idle_frac"] == 0.078


def test_a_checkpoint_after_the_clock_stopped_lengthens_the_step(read_console, neutral):
    cycle = next(r for r in read_console(FRAMEWORK, ASYNC).records if "timing_s/gen" in r.values)
    signals = neutral(FRAMEWORK, cycle, Mode.OVERLAPPED)
    assert signals["step_s"] == pytest.approx(282.8 + 30.0)
    inside = {"timing_s/step": 100.0, "timing_s/gen": 40.0, "timing_s/update_actor": 30.0, "timing_s/testing": 25.0}
    assert neutral(FRAMEWORK, Record(inside), Mode.SERIAL)["step_s"] == 100.0


def test_samples_of_the_rollouter_are_prompts_with_all_their_responses(read_console, neutral):
    cycle = next(r for r in read_console(FRAMEWORK, ASYNC).records if "timing_s/gen" in r.values)
    signals = neutral(FRAMEWORK, cycle, Mode.OVERLAPPED)
    assert signals["batch_rollouts"] == 32 * 4 * 16
    assert (signals["queue_depth"], signals["queue_capacity"]) == (12 * 16, 192 * 16)
    assert (signals["inflight_rollouts"], signals["inflight_limit"]) == (96 * 16, 128 * 16)
    assert signals["rollout_latency_s"] == pytest.approx(92.0)


def test_without_the_group_size_the_rollouters_counts_stay_unknown(read_console, neutral):
    statistics = next(r for r in read_console(FRAMEWORK, ASYNC).records if r.step is None)
    assert statistics.values["fully_async/monitor/queue/mq_queue_size"] == 12.0
    assert "queue_depth" not in neutral(FRAMEWORK, statistics, Mode.OVERLAPPED)


def test_the_rollouters_gating_is_a_lower_bound(read_console, neutral):
    rollouter = next(
        r for r in read_console(FRAMEWORK, ASYNC).records if "fully_async/rollouter/idle_ratio" in r.values
    )
    assert neutral(FRAMEWORK, rollouter, Mode.OVERLAPPED)["generator_wait_s"] == pytest.approx(4.8)
    trust = {alias.signal: alias.trust for alias in FRAMEWORK.aliases}
    assert trust["published_generator_idle_frac"] < 0.5


def test_a_printed_configuration_states_topology_and_knobs(read_lines):
    text = (DATA / ASYNC).read_text(encoding="utf-8")
    reading = read_lines(FRAMEWORK, *(line.split("pid=41) ")[-1] for line in text.splitlines()))
    topology, setpoints = FRAMEWORK.facts(observed(reading.records, reading.configuration))
    assert (topology.mode, topology.gpus_total, topology.gpus_per_engine) == (Mode.OVERLAPPED, 128, 4)
    assert (topology.trainer_gpu_step, topology.trainer_resize) == (8, TrainerResize.OK)
    assert (setpoints.gpus_trainer, setpoints.gpus_generator, setpoints.engines) == (96, 32, 8)
    assert (setpoints.staleness_bound, setpoints.sync_interval, setpoints.group_size) == (0.5, 4, 16)
    assert (setpoints.batch_rollouts, setpoints.max_in_flight) == (2048, 8 * 16 * 16)
    assert (setpoints.checkpoint_interval, setpoints.validation_interval) == (20, None)
    assert setpoints.overlap is True
    assert setpoints.packing is True


def test_a_configuration_that_breaks_off_is_left_out(read_lines):
    assert read_lines(FRAMEWORK, "{'actor_rollout_ref': {'actor': {'strategy': 'fsdp',").configuration == {}


def test_the_shells_echo_of_the_start_is_a_configuration(read_lines):
    line = "+ python3 -m verl.trainer.main_ppo data.train_batch_size=64 actor_rollout_ref.rollout.n=5 trainer.nnodes=1"
    config = read_lines(
        FRAMEWORK, f"{line} trainer.n_gpus_per_node=8 actor_rollout_ref.actor.strategy=fsdp2"
    ).configuration
    topology, setpoints = FRAMEWORK.facts(Observed(config=config))
    assert (topology.mode, topology.gpus_total, topology.trainer_resize) == (Mode.SERIAL, 8, TrainerResize.IMPOSSIBLE)
    assert (setpoints.batch_rollouts, setpoints.group_size, setpoints.gpus_trainer) == (320, 5, None)


@pytest.mark.parametrize(
    ("config", "keys", "mode"),
    [
        ({}, {"timing_s/gen"}, Mode.SERIAL),
        ({}, {"timing_s/gen", "timing_s/sync_rollout_weights"}, Mode.OVERLAPPED),
        ({}, {"fully_async/total_wait_time"}, Mode.OVERLAPPED),
        ({"rollout.nnodes": 1}, set(), Mode.OVERLAPPED),
        ({"async_training.require_batches": 1, "trainer.v1.trainer_mode": "sync"}, set(), Mode.OVERLAPPED),
        ({"trainer.v1.trainer_mode": "separate_async"}, set(), Mode.OVERLAPPED),
        ({"trainer.v1.trainer_mode": "colocate_async"}, set(), Mode.SERIAL),
        ({"trainer.v1.trainer_mode": "separate_async", "trainer.use_v1": False}, set(), Mode.SERIAL),
        ({}, set(), Mode.UNKNOWN),
    ],
)
def test_the_stack_decides_the_mode(config: dict[str, object], keys: set[str], mode: Mode):
    assert FRAMEWORK.mode(Observed(frozenset(keys), config)) is mode


def test_stale_rollouts_alone_do_not_tell_who_shares_gpus():
    stale = {"timing_s/gen": 5.0, "training/off_policy/trajectory_staleness/mean": 0.8}
    assert FRAMEWORK.mode(Observed(frozenset(stale), {}, stale)) is Mode.UNKNOWN


def test_throughput_per_gpu_tells_the_gpus(read_console):
    records = read_console(FRAMEWORK, "verl/smollm-1gpu/console.log").records
    assert FRAMEWORK.facts(observed(records))[0].gpus_total == 1


def test_a_rollout_lasts_until_it_has_its_score(read_console, neutral):
    (record, *_) = read_console(FRAMEWORK, "verl/issue-7412/console.log").records
    timed = {f"timing_s/agent_loop/{part}/mean": s for part, s in (("tool_calls", 20.0), ("compute_score", 90.0))}
    values = record.values | timed | {"timing_s/agent_loop/generate_sequences/mean": 40.0}
    signals = neutral(FRAMEWORK, Record(values, record.step), Mode.SERIAL)
    assert (signals["rollout_latency_s"], signals["reward_latency_s"]) == (150.0, 90.0)
    assert signals["non_generation_mean_s"] == 20.0
