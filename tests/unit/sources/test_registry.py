"""Which kind a file is: by its bytes first, its name second."""

import io

import pytest

from tuner.errors import SourceError
from tuner.sources.base import Opened
from tuner.sources.registry import KINDS, detect, kind_of

JSONL = b'{"step": 1, "a": 1}\n{"step": 2, "a": 2}\n'
CSV = b"# note\nstep,step_s,trainer_wait_s\n1,10,2\n2,11,3\n"
PROM = b'# HELP m x\n# TYPE m gauge\nm{engine="0"} 3\n'
STATE = b'{\n  "epoch": 1,\n  "log_history": [\n    {"step": 1}\n  ]\n}\n'
LOG = b"(TaskRunner pid=16292) step:2 - global_seqlen/min:5 - timing_s/gen:74.0\n" * 3
DICTS = b"{'loss': 0.5, 'reward': 1.0}\n{'loss': 0.4, 'reward': 1.1}\n"


@pytest.mark.parametrize("name", ["-", "metrics", "x.log", "x.txt"])
@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (JSONL, "jsonl"),
        (CSV, "csv"),
        (PROM, "prometheus"),
        (STATE, "trainer-state"),
        (LOG, "console"),
        (DICTS, "console"),
        (b"hello\n", "console"),
        (b'{"log":"step:1 - a/b:2\\n","stream":"stdout","time":"2026-03-22T13:53:38.123456789Z"}\n' * 3, "console"),
        (JSONL.decode().encode("utf-16"), "jsonl"),
    ],
)
def test_the_bytes_decide_whatever_the_name(name: str, head: bytes, kind: str) -> None:
    found = detect(name, head)
    assert found is not None
    assert found.name == kind


def test_a_log_named_as_rows_is_still_a_log() -> None:
    found = detect("metrics.jsonl", LOG)
    assert found is not None
    assert found.name == "console"


def test_kinds_have_names_of_their_own() -> None:
    assert len({kind.name for kind in KINDS}) == len(KINDS)


def test_binary_data_are_refused_with_what_was_found_and_what_is_read() -> None:
    stream = io.BufferedReader(io.BytesIO(b"\x7fELF" + bytes(range(256)) * 8))
    with pytest.raises(
        SourceError, match=r"x\.bin: found binary data \(7f 45 4c 46 .*read are .*console.*give the job's"
    ):
        kind_of(Opened(stream, "x.bin"))


def test_a_forced_kind_is_taken_and_an_unknown_one_refused() -> None:
    assert kind_of(Opened(io.BytesIO(LOG), "x"), "jsonl").name == "jsonl"
    with pytest.raises(SourceError, match="'xml' is no kind of source; known are"):
        kind_of(Opened(io.BytesIO(LOG), "x"), "xml")
