"""Real offline W&B runs (see tests/data/wandb/README.md), and files that are cut, damaged or something else."""

import io
import math
import struct
import zlib
from pathlib import Path

import pytest

from tuner.errors import SourceError
from tuner.records import Configuration, Record, Remark
from tuner.sources.base import Opened
from tuner.sources.wandb import KINDS

DATA = Path(__file__).parents[1] / "data" / "wandb"
VERSIONS = ["0.16.6", "0.31.0"]
KIND = {kind.name: kind for kind in KINDS}


def items_of(content: bytes, kind: str = "wandb-run", name: str = "run-x.wandb") -> list:
    return list(KIND[kind].read(Opened(io.BufferedReader(io.BytesIO(content)), name), ()))


def claimed(name: str, content: bytes) -> list[str]:
    return [kind.name for kind in KINDS if kind.claims(name, content[:65536]) > 0.5]


def records(items: list) -> list[Record]:
    return [item for item in items if isinstance(item, Record)]


def fragment(type_: int, data: bytes) -> bytes:
    return struct.pack("<IHB", zlib.crc32(bytes([type_]) + data), len(data), type_) + data


@pytest.mark.parametrize("version", VERSIONS)
def test_each_history_row_is_a_record_with_step_and_time(version):
    content = (DATA / version / "run-verl.wandb").read_bytes()
    assert claimed("run-verl.wandb", content) == ["wandb-run"]
    rows = records(items_of(content))
    assert [row.step for row in rows] == [*range(1, 61), 62]
    assert rows[4].values == {
        "timing_s/gen": 45.0,
        "timing_s/update_actor": 20.0,
        "timing_s/step": 70.0,
        "critic/score/mean": 0.05,
        "response_length/mean": 905.0,
        "nested.inner": 5.0,
    }
    assert math.isnan(rows[2].values["critic/score/mean"])
    assert rows[-1].values == {"grad_norm": math.inf}
    times = [row.time_s for row in rows]
    assert times == sorted(times)
    assert times[0] > 1.7e9


@pytest.mark.parametrize("version", VERSIONS)
def test_the_runs_configuration_is_flat_and_without_secrets(version):
    items = items_of((DATA / version / "run-verl.wandb").read_bytes())
    merged = {key: value for item in items if isinstance(item, Configuration) for key, value in item.values.items()}
    assert (
        merged.items()
        >= {
            "trainer.nnodes": 2,
            "trainer.n_gpus_per_node": 8,
            "actor_rollout_ref.rollout.n": 5,
            "data.train_batch_size": 512,
        }.items()
    )
    assert "abcdefgh" not in str(items)
    assert "0123456789abcdef" not in str(items)


def test_the_go_writers_environment_gives_the_commands_arguments():
    items = items_of((DATA / "0.31.0" / "run-verl.wandb").read_bytes())
    assert {"rollout_batch_size": 32} in [item.values for item in items if isinstance(item, Configuration)]


@pytest.mark.parametrize("version", VERSIONS)
def test_rows_are_numbered_by_the_axis_that_the_run_defined(version):
    rows = records(items_of((DATA / version / "run-slime.wandb").read_bytes()))
    perf = [(row.step, row.values["perf/rollout_time"]) for row in rows if "perf/rollout_time" in row.values]
    waits = [(row.step, row.values["perf/train_wait_time"]) for row in rows if "perf/train_wait_time" in row.values]
    assert perf == [(step, 100.0 + step) for step in range(4)]
    assert waits == [(step, 30.0 + step) for step in range(4)]
    assert [row.step for row in rows if "train/loss" in row.values] == [0, 2, 4, 6]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("keep_frac", [0.3, 0.6, 0.9])
def test_a_killed_runs_file_is_read_to_where_it_goes(version, keep_frac):
    content = (DATA / version / "run-verl.wandb").read_bytes()
    items = items_of(content[: int(len(content) * keep_frac)])
    whole = records(items_of(content))
    rows = records(items)
    assert 0 < len(rows) < len(whole)
    assert rows == whole[: len(rows)]
    assert {item.code for item in items if isinstance(item, Remark)} >= {"unfinished-run"}


def test_a_damaged_record_costs_the_rest_of_its_block_only():
    content = bytearray((DATA / "0.31.0" / "run-verl.wandb").read_bytes())
    content[20_000] ^= 0xFF
    items = items_of(bytes(content))
    assert [item.code for item in items if isinstance(item, Remark)] == ["damaged-record"]
    steps = [row.step for row in records(items)]
    assert steps[0] == 1
    assert steps[-1] == 62
    assert len(steps) < 61


def test_a_record_without_its_end_is_left_out_and_the_next_one_read():
    whole = (DATA / "0.16.6" / "run-verl.wandb").read_bytes()
    items = items_of(whole[:7] + fragment(2, b"start of something") + whole[7:])
    assert items[0].code == "damaged-record"
    assert len(records(items)) == 61


def test_a_run_without_history_gives_its_summary():
    item = b"\x0a\x06reward" + b"\x82\x01\x030.5"
    summary = b"\x1a" + bytes([len(item) + 2]) + b"\x0a" + bytes([len(item)]) + item
    record, remark = items_of(b":W&B\xe1\xbe\0" + fragment(1, summary))
    assert record.values == {"reward": 0.5}
    assert remark.code == "unfinished-run"


@pytest.mark.parametrize("content", [b"step 1\n" * 30, b":W&B", b":W&B\0\0\0", bytes(64)])
def test_another_kind_of_file_is_refused_with_its_first_bytes(content):
    with pytest.raises(SourceError, match="no W&B run file"):
        items_of(content)


def test_an_empty_run_file_is_remarked():
    assert [item.code for item in items_of(b"")] == ["empty-file"]


def test_a_summary_is_one_record_without_media():
    content = b"""{"timing_s/gen": 72.0, "critic/score/mean": "NaN", "nested": {"a": 1}, "_step": 40,
        "_timestamp": 1.7e9, "_runtime": 3.0, "_wandb": {"runtime": 3}, "hist": {"_type": "histogram", "values": [1]},
        "note": "text"}"""
    assert claimed("wandb-summary.json", content) == ["wandb-summary"]
    (record,) = items_of(content, "wandb-summary", "files/wandb-summary.json")
    assert math.isnan(record.values["critic/score/mean"])
    assert {**record.values, "critic/score/mean": 0} == {"timing_s/gen": 72.0, "critic/score/mean": 0, "nested.a": 1.0}
    assert (record.step, record.time_s) == (40, 1.7e9)


def test_a_wrapped_configuration_is_unwrapped():
    content = b"""wandb_version: 1
_wandb:
    desc: null
    value:
        cli_version: 0.16.6
trainer:
    desc: null
    value:
        nnodes: 2
api_key:
    value: secret
rollout_batch_size:
    value: 32
"""
    assert claimed("config.yaml", content) == ["wandb-config"]
    (configuration,) = items_of(content, "wandb-config", "files/config.yaml")
    assert configuration.values == {"trainer.nnodes": 2, "rollout_batch_size": 32}


def test_metadata_gives_the_commands_arguments_and_gpus():
    content = (DATA / "0.16.6" / "files" / "wandb-metadata.json").read_bytes()
    assert claimed("wandb-metadata.json", content) == ["wandb-metadata"]
    (configuration,) = items_of(content, "wandb-metadata", "files/wandb-metadata.json")
    assert configuration.values == {"rollout_batch_size": 32}
    (configuration,) = items_of(b'{"args": ["--n=2"], "gpu": "NVIDIA H100", "gpu_count": 8}', "wandb-metadata")
    assert configuration.values == {"n": 2, "environment.gpu_count": 8, "environment.gpu_type": "NVIDIA H100"}


@pytest.mark.parametrize("kind", ["wandb-summary", "wandb-config", "wandb-metadata"])
@pytest.mark.parametrize("content", [b"", b"   \n", b"[1, 2]", b"{{{", b"\xff\xfe\xfd", b"a: [", b"3"])
def test_a_small_file_that_does_not_read_is_remarked(kind, content):
    (remark,) = items_of(content, kind, "files/x")
    assert isinstance(remark, Remark)


def test_rows_of_jsonl_and_plain_settings_are_not_claimed():
    assert claimed("metrics.jsonl", b'{"_step": 1, "a": 2}\n{"_step": 2, "a": 3}\n') == []
    assert claimed("config.yaml", b"trainer:\n  nnodes: 2\n") == []
    assert claimed("config.json", b'{"trainer": {"nnodes": 2}}') == []
    assert claimed("train.log", b"step:1 - reward:0.5") == []
