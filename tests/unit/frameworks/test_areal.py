"""AReaL: the table of a step, its timers as the step, and what its backends say of GPUs."""

import pytest

from simulators.plant import Mode
from tuner.frameworks.areal import FRAMEWORK
from tuner.frameworks.base import Observed

TABLE = "areal/table/console.log"


def test_a_table_is_one_record_whose_timers_are_the_step(read_console, neutral):
    [record] = read_console(FRAMEWORK, TABLE).records
    signals = neutral(FRAMEWORK, record, Mode.OVERLAPPED)
    assert record.step == 42
    assert signals["step_s"] == pytest.approx(88.992 + 6.1 + 24.1 + 2.2)
    assert (signals["trainer_wait_s"], signals["update_s"], signals["weight_sync_s"]) == (88.992, 24.1, 2.2)
    assert (signals["resp_len_mean"], signals["reward_mean"]) == (pytest.approx(1024.1), 0.26204)


def test_rows_pasted_without_their_frame_are_read(read_lines):
    rows = ("│ timeperf/rollout │ 8.8992e+01 │ rollout/reward │ 2.6e-01 │", "│ non_metric │ ignored │")
    [record] = read_lines(FRAMEWORK, *rows).records
    assert record.values == {"timeperf/rollout": 88.992, "rollout/reward": 0.26}
    assert len(read_lines(FRAMEWORK, rows[0], rows[0]).records) == 2


def test_without_head_start_its_rollout_is_generation():
    assert FRAMEWORK.mode(Observed()) is Mode.OVERLAPPED
    assert FRAMEWORK.mode(Observed(config={"rollout.max_head_offpolicyness": 0})) is Mode.SERIAL


@pytest.mark.parametrize(
    "config",
    [
        {"rollout.backend": "sglang:d4p1t2", "actor.backend": "fsdp:d8p1t1"},
        {"allocation_mode": "sglang:d4p1t2+fsdp:d8"},
        {"allocation_mode": "sglang.d4p1m2+d4p2m1"},
    ],
)
def test_backends_say_how_the_gpus_are_split(config):
    topology, setpoints = FRAMEWORK.facts(Observed(config=config))
    assert (setpoints.gpus_generator, setpoints.gpus_trainer, setpoints.engines) == (8, 8, 4)
    assert (topology.gpus_total, topology.gpus_per_engine) == (16, 2)
