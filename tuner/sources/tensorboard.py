"""TensorBoard event files: scalars of one step are one record, hyperparameters and arguments a configuration."""

import math
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from tuner.errors import SourceError
from tuner.messages import message_types, parse
from tuner.parsing.configuration import flatten, parse_json, parse_scalar
from tuner.records import Configuration, Item, Record, Remark
from tuner.sources.base import Format, Kind, Opened

LARGEST_EVENT_BYTES = 16 << 20
"""A larger event is an image or a graph: it is passed over without being held in memory."""

LARGEST_CHECKED_BYTES = 4096
"""A body's checksum is checked up to here: every scalar is smaller, and a crc in Python takes 0.1 us a byte."""

MOST_VALUES = 20_000
"""Values kept for one step; a file with more of them gets several records of that step."""

CONFIG_TAGS = frozenset({"args", "arguments", "config", "hparams", "hyperparameters", "training_args", "cfg"})
"""A text under one of these is the job's own configuration; keys of other texts get the tag in front."""

EVENT = {
    "Event": {"wall_time": (1, "double"), "step": (2, "int64"), "summary": (5, "Summary")},
    "Summary": {"value": (1, "*Value")},
    "Value": {
        "tag": (1, "bytes"),
        "simple_value": (2, "float"),
        "tensor": (8, "Tensor"),
        "metadata": (9, "Metadata"),
    },
    "Metadata": {"plugin_data": (1, "PluginData")},
    "PluginData": {"plugin_name": (1, "bytes"), "content": (2, "bytes")},
    "Tensor": {
        "dtype": (1, "int32"),
        "tensor_shape": (2, "Shape"),
        "tensor_content": (4, "bytes"),
        "float_val": (5, "*float"),
        "double_val": (6, "*double"),
        "int_val": (7, "*int32"),
        "string_val": (8, "*bytes"),
        "int64_val": (10, "*int64"),
        "half_val": (13, "*int32"),
    },
    "Shape": {"dim": (2, "*Dim")},
    "Dim": {"size": (1, "int64")},
    "HParamsPlugin": {"session_start_info": (3, "SessionStart")},
    "SessionStart": {"hparams": (1, "*HParam")},
    "HParam": {"key": (1, "bytes"), "value": (2, "HParamValue")},
    "HParamValue": {"number_value": (2, "double"), "string_value": (3, "bytes"), "bool_value": (4, "bool")},
}

_CONTENT_FORMATS = {1: "<f", 2: "<d", 3: "<i", 9: "<q", 19: "<e"}
"""How one element of `tensor_content` is packed, by dtype: float, double, int32, int64, half."""

_HALF, _BFLOAT16, _STRING = 19, 14, 7


def _crc_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return tuple(table)


_CRC32C = _crc_table()


def masked_crc(data: bytes) -> int:
    """TFRecord's checksum: CRC-32C, rotated and shifted."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC32C[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def claims(name: str, head: bytes) -> float:
    """Certain where the first length is signed as TFRecord does; a file only so named gets a refusal from `read`."""
    if len(head) >= 12 and masked_crc(head[:8]) == struct.unpack_from("<I", head, 8)[0]:
        return 1.0
    return 0.6 if "tfevents" in name.rpartition("/")[2] else 0.0


def read(opened: Opened, formats: Iterable[Format]) -> Iterator[Item]:
    """Records in the file's order; a step that comes again after a restart is a record of its own."""
    types = message_types(EVENT)
    step = _Step(opened.origin)
    number = 0
    for number, found in enumerate(_frames(opened), 1):
        if isinstance(found, Remark):
            yield found
            continue
        event = parse(types["Event"], found)
        if event is None:
            yield Remark("damaged-record", f"event {number} does not read", f"{opened.origin}:{number}")
            continue
        for value in event.summary.value:
            yield from _value(step, types, event, value, number)
    if number == 0:
        yield Remark("empty-file", "no event in this TensorBoard file: its writer wrote nothing yet", opened.origin)
    yield from step.finish()


@dataclass(slots=True)
class _Step:
    """The values of the step that is still being written."""

    origin: str
    step: int | None = None
    time_s: float | None = None
    number: int = 0
    values: dict[str, float] = field(default_factory=dict)

    def add(self, event: Any, tag: str, value: float, number: int) -> Iterator[Record]:
        if event.step != self.step or tag in self.values or len(self.values) >= MOST_VALUES:
            yield from self.finish()
            self.step, self.number = event.step, number
        self.values[tag] = value
        self.time_s = event.wall_time if math.isfinite(event.wall_time) and event.wall_time > 0 else None

    def finish(self) -> Iterator[Record]:
        if self.values:
            yield Record(self.values, self.step, self.time_s, origin=f"{self.origin}:{self.number}")
        self.values = {}


def _value(step: _Step, types: Any, event: Any, value: Any, number: int) -> Iterator[Item]:
    tag = value.tag.decode("utf-8", "replace")
    plugin = value.metadata.plugin_data.plugin_name
    scalar = value.simple_value if value.HasField("simple_value") else _scalar(value.tensor)
    if plugin == b"hparams":
        settings = _hparams(types, value.metadata.plugin_data.content)
    elif scalar is not None and tag:
        yield from step.add(event, tag, scalar, number)
        return
    else:
        settings = _text_settings(tag, value.tensor)
    if settings:
        yield Configuration(settings, origin=f"{step.origin}:{number}")


def _scalar(tensor: Any) -> float | None:
    """The number in a tensor of one element; None for anything else."""
    if any(dim.size != 1 for dim in tensor.tensor_shape.dim):
        return None
    for values in (tensor.float_val, tensor.double_val, tensor.int_val, tensor.int64_val):
        if len(values) == 1:
            return float(values[0])
    content = tensor.tensor_content
    if len(tensor.half_val) == 1:
        content = struct.pack("<H", tensor.half_val[0] & 0xFFFF)
    if tensor.dtype == _BFLOAT16 and len(content) == 2:
        return float(struct.unpack("<f", b"\0\0" + content)[0])
    packed = _CONTENT_FORMATS.get(tensor.dtype)
    if packed is None or len(content) != struct.calcsize(packed):
        return None
    return float(struct.unpack(packed, content)[0])


def _hparams(types: Any, content: bytes) -> dict[str, object]:
    plugin = parse(types["HParamsPlugin"], content)
    if plugin is None:
        return {}
    found: dict[str, object] = {}
    for hparam in plugin.session_start_info.hparams:
        key = hparam.key.decode("utf-8", "replace")
        if hparam.value.HasField("number_value"):
            number = hparam.value.number_value
            found[key] = int(number) if number.is_integer() and abs(number) < 2**53 else number
        elif hparam.value.HasField("bool_value"):
            found[key] = hparam.value.bool_value
        elif hparam.value.HasField("string_value"):
            found[key] = parse_scalar(hparam.value.string_value.decode("utf-8", "replace"))
    return flatten(found)


def _text_settings(tag: str, tensor: Any) -> dict[str, object]:
    """JSON (as Transformers logs its arguments) or a two-column markdown table; {} for any other text."""
    if tensor.dtype != _STRING or len(tensor.string_val) != 1:
        return {}
    text = tensor.string_val[0].decode("utf-8", "replace").strip()
    name = tag.removesuffix("/text_summary")
    if text.startswith("{"):
        settings = parse_json(text)[0]
    elif text.startswith("|"):
        settings = _table(text)
    else:
        return {}
    return flatten(settings if name.lower() in CONFIG_TAGS else {name: settings})


def _table(text: str) -> dict[str, object]:
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in text.splitlines()]
    pairs = [row for row in rows if len(row) == 2 and row[0] and set(row[0]) - set(":-")]
    ruled = len(rows) > 1 and all(set(cell) <= set(":-") for cell in rows[1])
    return {key.strip("`*"): parse_scalar(value) for key, value in pairs[1 if ruled else 0 :]}


def _frames(opened: Opened) -> Iterator[bytes | Remark]:
    """The bodies of the file's events. Stops where the framing is lost: lengths cannot be trusted after that."""
    number = 0
    while head := opened.stream.read(12):
        number += 1
        place = f"{opened.origin}:{number}"
        if len(head) < 12:
            yield _truncated(place)
            return
        length, crc = struct.unpack("<QI", head)
        if masked_crc(head[:8]) != crc:
            if number == 1:
                raise SourceError(
                    f"{opened.origin}: no TensorBoard event file: its first bytes {head.hex()} are no signed length. "
                    "Give the file that SummaryWriter wrote (events.out.tfevents.*)."
                )
            yield Remark("damaged-record", f"the length of event {number} fails its check; the rest is not read", place)
            return
        body = _body(opened.stream, length)
        if isinstance(body, bytes) and len(body) > LARGEST_CHECKED_BYTES:
            yield body[:-4]
        elif isinstance(body, bytes):
            if masked_crc(body[:-4]) == struct.unpack("<I", body[-4:])[0]:
                yield body[:-4]
            else:
                yield Remark("damaged-record", f"event {number} fails its check and is left out", place)
        elif body:
            yield Remark("large-record", f"event {number} of {length:,} bytes is no scalar and is passed over", place)
        else:
            yield _truncated(place)
            return


def _truncated(place: str) -> Remark:
    return Remark("truncated-record", "the file ends inside an event: its writer was killed or is still at work", place)


def _body(stream: BinaryIO, length: int) -> bytes | bool:
    """Body and checksum; True where it was too large and passed over; False where the file ends before."""
    if length <= LARGEST_EVENT_BYTES:
        body = stream.read(length + 4)
        return body if len(body) == length + 4 else False
    left = length + 4
    while left > 0:
        passed = len(stream.read(min(left, 1 << 20)))
        if passed == 0:
            return False
        left -= passed
    return True


KIND = Kind("tensorboard", claims, read)
