"""Files that are no event files, or hold nothing yet, get a sentence."""

import io
import struct
import tracemalloc

import pytest

from tuner.errors import SourceError
from tuner.sources.base import Opened
from tuner.sources.tensorboard import KIND, masked_crc


def items_of(content: bytes) -> list:
    return list(KIND.read(Opened(io.BufferedReader(io.BytesIO(content)), "events.out.tfevents.1"), ()))


def test_the_checksum_is_crc32c_masked():
    # RFC 3720 B.4: 32 zero bytes have CRC-32C 0x8A9136AA; the mask is TFRecord's.
    crc = 0x8A9136AA
    assert masked_crc(bytes(32)) == (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def test_an_empty_file_is_remarked():
    (remark,) = items_of(b"")
    assert remark.code == "empty-file"


@pytest.mark.parametrize("content", [b"step 1 reward 0.5\n" * 10, bytes(100), b"\xff" * 64])
def test_another_kind_of_file_is_refused_with_its_first_bytes(content):
    with pytest.raises(SourceError, match="no TensorBoard event file") as refused:
        items_of(content)
    assert content[:12].hex() in str(refused.value)


def test_a_length_of_4_gb_is_never_allocated():
    length = struct.pack("<Q", 4 << 30)
    content = length + struct.pack("<I", masked_crc(length)) + b"x" * 100
    tracemalloc.start()
    (remark,) = items_of(content)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert remark.code == "truncated-record"
    assert peak < 32 << 20


def test_only_signed_lengths_or_the_name_are_claimed():
    length = struct.pack("<Q", 20)
    assert KIND.claims("x", length + struct.pack("<I", masked_crc(length))) == 1.0
    assert KIND.claims("train.log", b"step:1 - reward:0.5 - more text") == 0.0
    assert 0 < KIND.claims("events.out.tfevents.1.host", b"") < 1
