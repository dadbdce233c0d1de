"""slime: two writers of one rollout, waits that hold other work, counts of groups, arguments."""

import pytest

from simulators.plant import Mode
from tuner.frameworks.base import Observed
from tuner.frameworks.slime import FRAMEWORK
from tuner.records import Record

LAYOUT = "slime/trainer-layout/console.log"


def merged(records: list[Record], step: int) -> Record:
    return Record({k: v for r in records if r.step == step for k, v in r.values.items()}, step)


def test_the_rollout_managers_record_and_the_trainers_data_line_are_one_rollout(read_console, neutral):
    records = read_console(FRAMEWORK, "slime/tau2-rollout0/console.log").records
    signals = neutral(FRAMEWORK, merged(records, 0), Mode.UNKNOWN)
    assert [record.step for record in records] == [0, 0]
    assert signals["filtered_groups"] == 6.0
    assert signals["rollout_s"] == pytest.approx(262.38, rel=0.01)
    assert signals["non_generation_mean_s"] == pytest.approx(70.92, rel=0.01)
    assert signals["reward_mean"] == pytest.approx(0.2083, rel=0.01)
    assert signals["prompt_len_mean"] == pytest.approx(11525.9 - 5824.1, rel=0.01)


def test_starvation_is_the_wait_without_publishing_saving_and_sleeping(read_console, neutral):
    record = merged(read_console(FRAMEWORK, LAYOUT).records, 41)
    signals = neutral(FRAMEWORK, record, Mode.OVERLAPPED)
    assert signals["trainer_wait_s"] == pytest.approx(118.4 - 6.0 - 1.0 - 2.0 - 9.4)
    assert (signals["weight_sync_s"], signals["checkpoint_s"], signals["offload_s"]) == (6.0, 9.4, 3.0)
    assert signals["trainer_busy_s"] == pytest.approx(260.0)
    assert signals["trainer_wait_s"] < signals["published_trainer_idle_frac"] * signals["step_s"]
    assert "trainer_wait_s" not in neutral(FRAMEWORK, record, Mode.SERIAL)


def test_a_rollout_that_states_its_groups_tells_the_share_without_advantage(read_console, neutral):
    signals = neutral(FRAMEWORK, merged(read_console(FRAMEWORK, LAYOUT).records, 41), Mode.OVERLAPPED)
    assert signals["zero_adv_frac"] == pytest.approx(10 / 32)
    assert (signals["solved_none_frac"], signals["solved_all_frac"]) == (4 / 32, 6 / 32)


def test_with_a_warm_queue_the_rollout_time_is_collecting_not_generating(neutral):
    cold = {"perf/rollout_time": 40.0, "fully_async/queue_warm": 0.0}
    warm = {"perf/rollout_time": 2.0, "fully_async/queue_warm": 32.0}
    assert neutral(FRAMEWORK, Record(cold), Mode.OVERLAPPED)["rollout_s"] == 40.0
    assert "rollout_s" not in neutral(FRAMEWORK, Record(warm), Mode.OVERLAPPED)


def test_a_dict_that_breaks_off_is_marked(read_lines):
    (record,) = read_lines(FRAMEWORK, "perf 3: {'perf/rollout_time': 100.5, 'perf/step_time': 12").records
    assert record.cut
    assert record.values == {"perf/rollout_time": 100.5}


def test_other_programs_dicts_are_left_alone(read_lines):
    assert read_lines(FRAMEWORK, "rollout 3: {'loss': 1.0, 'a': 2}", "perf counter: {'perf/x': 1}").records == []


def test_notices_of_a_rollout_that_never_ended_are_kept(read_lines):
    (record,) = read_lines(FRAMEWORK, "fully-async rollout 7: target=32 queue_warm=64").records
    assert (record.step, record.values["fully_async/queue_warm"]) == (7, 64.0)


def test_the_printed_arguments_state_topology_and_knobs(read_console):
    reading = read_console(FRAMEWORK, LAYOUT)
    topology, setpoints = FRAMEWORK.facts(Observed(config=reading.configuration))
    assert (topology.mode, topology.gpus_total, topology.gpus_per_engine) == (Mode.OVERLAPPED, 32, 2)
    assert (topology.trainer_gpu_step, topology.updates_per_step, topology.max_response_tokens) == (4, 1, 16384)
    assert (setpoints.gpus_trainer, setpoints.gpus_generator, setpoints.engines) == (16, 16, 8)
    assert (setpoints.batch_rollouts, setpoints.group_size) == (256, 8)
    assert setpoints.oversampling_ratio == pytest.approx(1.5)
    assert (setpoints.max_in_flight_per_engine, setpoints.max_in_flight) == (64 * 8, 64 * 8 * 8)
    assert (setpoints.staleness_bound, setpoints.filter_zero_adv) == (None, False)


def test_megatrons_own_list_of_arguments_is_not_slimes(read_lines):
    lines = ("---- arguments ----", "  tensor_model_parallel_size ............... 4", "---- end of arguments ----")
    assert read_lines(FRAMEWORK, *lines).configuration == {}


@pytest.mark.parametrize(
    ("config", "values", "mode"),
    [
        ({"colocate": True}, {}, Mode.SERIAL),
        ({"train_script": "train.py"}, {}, Mode.SERIAL),
        ({"train_script": "train_async.py"}, {}, Mode.OVERLAPPED),
        ({}, {"perf/rollout_time": 97.0, "perf/train_time": 81.0, "perf/step_time": 178.0}, Mode.SERIAL),
        ({}, {"perf/rollout_time": 97.0, "perf/train_time": 81.0, "perf/step_time": 104.0}, Mode.OVERLAPPED),
        ({}, {"perf/rollout_time": 97.0}, Mode.UNKNOWN),
    ],
)
def test_the_mode_is_stated_or_shows_in_the_sum(config: dict[str, object], values: dict[str, float], mode: Mode):
    assert FRAMEWORK.mode(Observed(frozenset(values), config, values)) is mode


def test_a_step_and_the_waits_share_of_it_are_both_halves(neutral):
    told = {"perf/step_time": 40.0, "perf/wait_time_ratio": 0.9}
    signals = neutral(FRAMEWORK, Record(told), Mode.OVERLAPPED)
    assert (signals["trainer_wait_s"], signals["trainer_busy_s"]) == (pytest.approx(36.0), pytest.approx(4.0))
    assert "trainer_wait_s" not in neutral(FRAMEWORK, Record(told | {"perf/train_time": 4.0}), Mode.OVERLAPPED)


def test_forks_that_write_timing_for_perf_are_read(read_lines):
    line = "train_metric_utils.py - perf 1: {'timing/train_wait_time': 10.0, 'timing/train_time': 10.0, 'other/x': 1}"
    assert read_lines(FRAMEWORK, line).records[0].values == {"perf/train_wait_time": 10.0, "perf/train_time": 10.0}
