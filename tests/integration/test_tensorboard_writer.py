"""Event files by a real SummaryWriter (tensorboardX) are read back step by step."""

import io
import math
import struct
import time
from pathlib import Path

import pytest
from tensorboardX import SummaryWriter
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.proto.summary_pb2 import Summary
from tensorboardX.proto.tensor_pb2 import TensorProto
from tensorboardX.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboardX.record_writer import masked_crc32c

from tuner.records import Configuration, Record, Remark
from tuner.sources.base import Opened
from tuner.sources.tensorboard import KIND

pytestmark = pytest.mark.integration


def items_of(content: bytes, name: str = "events.out.tfevents.1.host") -> list:
    return list(KIND.read(Opened(io.BufferedReader(io.BytesIO(content)), name), ()))


def written(folder: Path, write) -> bytes:
    """What a real writer leaves in its folder."""
    with SummaryWriter(str(folder)) as writer:
        write(writer)
    (path,) = folder.glob("events.out.tfevents.*")
    assert KIND.claims(path.name, path.read_bytes()[:65536]) == 1.0
    return path.read_bytes()


def framed(event: Event) -> bytes:
    body = event.SerializeToString()
    length = struct.pack("<Q", len(body))
    return length + struct.pack("<I", masked_crc32c(length)) + body + struct.pack("<I", masked_crc32c(body))


def of_tensor(tensor: TensorProto) -> list:
    event = Event(step=3, wall_time=5.0, summary=Summary(value=[Summary.Value(tag="x", tensor=tensor)]))
    return items_of(framed(event))


def test_all_scalars_of_a_step_are_one_record(tmp_path):
    before = time.time()

    def write(writer):
        for step in range(5):
            writer.add_scalar("timing_s/gen", 40.0 + step, step)
            writer.add_scalar("timing_s/step", 65.0, step)
            writer.add_histogram("weights", [1.0, 2.0, 3.0], step)

    records = items_of(written(tmp_path, write))
    assert [record.step for record in records] == [0, 1, 2, 3, 4]
    assert [dict(record.values) for record in records] == [
        {"timing_s/gen": 40.0 + step, "timing_s/step": 65.0} for step in range(5)
    ]
    assert all(before - 1 <= record.time_s <= time.time() + 1 for record in records)


def test_steps_that_go_back_at_a_restart_are_records_of_their_own(tmp_path):
    def write(writer):
        for step in (8, 9, 10, 9, 10, 11):
            writer.add_scalar("reward", float(step), step)

    assert [record.step for record in items_of(written(tmp_path, write))] == [8, 9, 10, 9, 10, 11]


def test_a_step_logged_twice_gives_two_records_and_loses_nothing(tmp_path):
    def write(writer):
        writer.add_scalar("reward", 1.0, 7)
        writer.add_scalar("reward", 2.0, 7)

    records = items_of(written(tmp_path, write))
    assert [(record.step, record.values["reward"]) for record in records] == [(7, 1.0), (7, 2.0)]


def test_nan_and_infinity_arrive_as_written(tmp_path):
    def write(writer):
        writer.add_scalar("kl", float("nan"), 1)
        writer.add_scalar("grad_norm", float("inf"), 1)

    (record,) = items_of(written(tmp_path, write))
    assert math.isnan(record.values["kl"])
    assert record.values["grad_norm"] == math.inf


def test_hyperparameters_are_the_configuration(tmp_path):
    with SummaryWriter(str(tmp_path)) as writer:
        writer.add_hparams({"lr": 1e-6, "n": 5, "name": "vllm", "fused": True, "api_key": "s"}, {"m": 1.0}, name="h")
    (path,) = (tmp_path / "h").glob("events.out.tfevents.*")
    configuration, record = items_of(path.read_bytes())
    assert isinstance(configuration, Configuration)
    assert configuration.values == {"lr": 1e-6, "n": 5, "name": "vllm", "fused": True}
    assert record.values == {"m": 1.0}


def test_texts_hold_arguments_as_json_or_as_a_table(tmp_path):
    def write(writer):
        writer.add_text("args", '{"num_generations": 8, "hub_token": "hf_secret", "vllm": {"mode": "colocate"}}')
        writer.add_text("model_config", '{"hidden_size": 1024}')
        writer.add_text("hyperparameters", "|param|value|\n|-|-|\n|learning_rate|0.1|\n|seed|7|")
        writer.add_text("sample", "a completion: {not settings}")

    values = [item.values for item in items_of(written(tmp_path, write))]
    assert values == [
        {"num_generations": 8, "vllm.mode": "colocate"},
        {"model_config.hidden_size": 1024},
        {"learning_rate": 0.1, "seed": 7},
    ]


@pytest.mark.parametrize("cut", [1, 4, 11, 30])
def test_a_killed_writers_file_is_read_to_where_it_goes(tmp_path, cut):
    def write(writer):
        for step in range(3):
            writer.add_scalar("reward", float(step), step)

    items = items_of(written(tmp_path, write)[:-cut])
    assert [item.step for item in items if isinstance(item, Record)] == [0, 1]
    assert [item.code for item in items if isinstance(item, Remark)] == ["truncated-record"]


def test_a_damaged_body_costs_one_event_and_a_damaged_length_the_rest(tmp_path):
    def write(writer):
        for step in range(4):
            writer.add_scalar("reward", float(step), step)

    content = bytearray(written(tmp_path, write))
    event = len(
        framed(Event(step=3, wall_time=1.0, summary=Summary(value=[Summary.Value(tag="reward", simple_value=3)])))
    )
    body, length = bytearray(content), bytearray(content)
    body[len(content) - 3 * event + 14] ^= 0xFF
    length[len(content) - 3 * event] ^= 0xFF
    damaged_body, damaged_length = items_of(bytes(body)), items_of(bytes(length))
    assert [item.step for item in damaged_body if isinstance(item, Record)] == [0, 2, 3]
    assert [item.step for item in damaged_length if isinstance(item, Record)] == [0]
    for items in (damaged_body, damaged_length):
        assert [item.code for item in items if isinstance(item, Remark)] == ["damaged-record"]


@pytest.mark.parametrize(
    "tensor",
    [
        TensorProto(dtype=1, float_val=[2.5]),
        TensorProto(dtype=2, double_val=[2.5]),
        TensorProto(dtype=1, tensor_content=struct.pack("<f", 2.5)),
        TensorProto(dtype=2, tensor_content=struct.pack("<d", 2.5)),
        TensorProto(dtype=19, half_val=[int.from_bytes(struct.pack("<e", 2.5), "little")]),
        TensorProto(dtype=14, half_val=[int.from_bytes(struct.pack("<f", 2.5)[2:], "little")]),
        TensorProto(dtype=14, tensor_content=struct.pack("<f", 2.5)[2:]),
        TensorProto(dtype=1, float_val=[2.5], tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])),
    ],
)
def test_a_scalar_in_tensor_form_is_a_scalar(tensor):
    (record,) = of_tensor(tensor)
    assert record.values == {"x": 2.5}
    assert (record.step, record.time_s) == (3, 5.0)


@pytest.mark.parametrize(
    "tensor",
    [
        TensorProto(dtype=1, float_val=[1.0, 2.0]),
        TensorProto(dtype=1, tensor_content=b"\0" * 7),
        TensorProto(dtype=99, tensor_content=b"\0" * 4),
        TensorProto(dtype=2, double_val=[1.0], tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=3)])),
        TensorProto(),
    ],
)
def test_any_other_tensor_is_passed_over(tensor):
    assert of_tensor(tensor) == []


def test_a_picture_is_passed_over_without_being_kept():
    picture = Event(
        step=1, summary=Summary(value=[Summary.Value(tag="x", tensor=TensorProto(tensor_content=bytes(17 << 20)))])
    )
    scalar = Event(step=2, summary=Summary(value=[Summary.Value(tag="reward", simple_value=1)]))
    remark, record = items_of(framed(picture) + framed(scalar))
    assert remark.code == "large-record"
    assert record.values == {"reward": 1.0}
