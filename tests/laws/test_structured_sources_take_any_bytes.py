"""Any bytes end in items or in one TunerError, never in another exception, and never in a non-finite configuration."""

import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.errors import TunerError
from tuner.records import Configuration, Record, Remark
from tuner.sources import configuration, tensorboard, wandb
from tuner.sources.base import Kind, Opened
from tuner.sources.wandb.blocks import HEADER

KINDS = (tensorboard.KIND, *wandb.KINDS, configuration.KIND)
NAMES = [
    "x.yaml",
    "x.toml",
    "x.json",
    "x.sh",
    "x.args",
    "-",
    "run-x.wandb",
    "events.out.tfevents.1",
    "wandb-summary.json",
]
RUN = (Path(__file__).parents[1] / "data" / "wandb" / "0.31.0" / "run-slime.wandb").read_bytes()


def items_of(kind: Kind, name: str, content: bytes) -> list:
    assert 0.0 <= kind.claims(name, content[:65536]) <= 1.0
    refusal = None
    try:
        return list(kind.read(Opened(io.BufferedReader(io.BytesIO(content)), name), ()))
    except TunerError as refused:
        refusal = str(refused)
    assert name in refusal
    return []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@given(
    content=st.binary(max_size=300),
    name=st.sampled_from(NAMES),
    start=st.sampled_from([b"", HEADER + b"\0", b"{", b"a:\n"]),
)
@settings(max_examples=120, deadline=None)
def test_random_bytes_give_items_or_a_refusal(kind, content, name, start):
    for item in items_of(kind, name, start + content):
        assert isinstance(item, Record | Configuration | Remark)


@given(
    places=st.lists(st.tuples(st.integers(0, len(RUN) - 1), st.integers(0, 255)), max_size=8),
    end=st.integers(0, len(RUN)),
)
@settings(max_examples=200, deadline=None)
def test_a_damaged_run_file_never_yields_a_row_that_was_not_written(places, end):
    content = bytearray(RUN)
    for place, byte in places:
        content[place] = byte
    whole = {(row.step, row.time_s) for row in items_of(wandb.KINDS[0], "x", RUN) if isinstance(row, Record)}
    for item in items_of(wandb.KINDS[0], "x", bytes(content[:end])):
        if isinstance(item, Record) and ":summary" not in item.origin:
            assert item.time_s in {time_s for _, time_s in whole}
