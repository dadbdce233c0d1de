"""Protobuf messages from a table of the fields we read: no generated code, no framework's package to import.

A file's other fields are skipped by protobuf itself. Texts are declared as bytes: strangers' files hold broken UTF-8.
"""

from collections.abc import Mapping
from typing import Any

Table = Mapping[str, Mapping[str, tuple[int, str]]]
"""Message -> field -> (number, type). A type is double, float, int32, int64, uint32, sint64, bool, bytes or the name
of another message of the table; `*` in front means repeated."""

_SCALARS = {"double": 1, "float": 2, "int64": 3, "int32": 5, "bool": 8, "bytes": 12, "uint32": 13, "sint64": 18}
"""FieldDescriptorProto.Type of each scalar."""

_MESSAGE, _OPTIONAL, _REPEATED = 11, 1, 3


def message_types(table: Table) -> Mapping[str, Any]:
    """The message classes of a table, by name. Each has `FromString`, `HasField` and an attribute per field."""
    # protobuf takes 0.1 s to import: only for those who have such a file.
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # noqa: PLC0415

    package = "equipoise"
    file = descriptor_pb2.FileDescriptorProto(name="equipoise.proto", package=package, syntax="proto2")
    for message, fields in table.items():
        described = file.message_type.add(name=message)
        for name, (number, type_) in fields.items():
            plain = type_.removeprefix("*")
            field = described.field.add(name=name, number=number)
            field.label = _REPEATED if type_ != plain else _OPTIONAL  # type: ignore[assignment]
            if plain in _SCALARS:
                field.type = _SCALARS[plain]  # type: ignore[assignment]
            else:
                field.type, field.type_name = _MESSAGE, f".{package}.{plain}"  # type: ignore[assignment]
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        message: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{message}"))
        for message in table
    }


def parse(message: Any, payload: bytes) -> Any | None:
    """The message in a payload; None where the bytes are no such message."""
    from google.protobuf.message import DecodeError  # noqa: PLC0415

    try:
        return message.FromString(payload)
    except (DecodeError, RecursionError):
        return None
