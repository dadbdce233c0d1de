"""Opening: files, folders, packed streams, and what is told of those that cannot be read."""

import bz2
import gzip
import io
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from tuner.errors import SourceError
from tuner.records import Remark
from tuner.sources.base import Opened
from tuner.sources.opening import head_of, name_of
from tuner.sources.registry import open_sources

LOG = "".join(f"2026-03-22 13:53:{i:02d} step:{i} - timing_s/gen:{i}.5 - timing_s/step:9 - a_b:1\n" for i in range(60))


def met(*paths: Path | str, stdin: bytes = b"") -> list[tuple[str, str]]:
    """(name, content of an opened file or code of a remark), in order."""
    found = []
    for item in open_sources([str(p) for p in paths], io.BytesIO(stdin)):
        if isinstance(item, Opened):
            found.append((Path(item.origin).name, item.stream.read().decode()))
        else:
            found.append((Path(item.origin).name, item.code))
    return found


def test_a_file_opens_under_the_name_that_the_user_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run.log").write_text(LOG)
    monkeypatch.chdir(tmp_path)
    (item,) = open_sources(["run.log"], io.BytesIO())
    assert isinstance(item, Opened)
    assert (item.origin, item.path, item.size_bytes) == ("run.log", Path("run.log"), len(LOG))


def test_standard_input_opens_as_a_dash() -> None:
    assert met("-", stdin=LOG.encode()) == [("-", LOG)]


@pytest.mark.parametrize(
    ("ending", "pack"),
    [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress), (".log", gzip.compress)],
)
def test_packed_files_are_unpacked_by_their_bytes(tmp_path: Path, ending: str, pack: Callable[[bytes], bytes]) -> None:
    (tmp_path / f"run{ending}").write_bytes(pack(LOG.encode()))
    assert met(tmp_path / f"run{ending}") == [(f"run{ending}", LOG)]


def test_a_torn_packed_file_gives_what_it_holds_and_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.log.gz").write_bytes(gzip.compress(LOG.encode() * 50)[:-12])
    found = met(tmp_path / "x.log.gz")
    assert found[0][1].startswith(LOG[:1000])
    assert found[1:] == [("x.log.gz", "unreadable")]


def test_looking_at_the_head_consumes_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl.gz").write_bytes(gzip.compress(LOG.encode() * 100))
    for item in open_sources([str(tmp_path / "x.jsonl.gz")], io.BytesIO()):
        assert isinstance(item, Opened)
        assert name_of(item) == "x.jsonl"
        assert len(head_of(item)) == 1 << 16
        assert item.stream.read() == LOG.encode() * 100


def test_a_folder_gives_its_readable_files_in_sorted_order(tmp_path: Path) -> None:
    for name in ("b.log", "a/z.log", "a/c.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(LOG)
    for name in (".hidden", "model.safetensors", "train.py", "a/weights.bin", "noise"):
        (tmp_path / name).write_bytes(b"\x00\x01\x02\x03" * 100)
    (tmp_path / "empty.log").touch()
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "x.log").write_text(LOG)
    found = met(tmp_path)
    assert [name for name, text in found if text == LOG] == ["c.log", "z.log", "b.log"]
    assert [name for name, text in found if text == "empty-file"] == ["empty.log"]
    assert found[-1] == (tmp_path.name, "skipped-files")


def test_of_saved_trainer_states_only_the_latest_is_read(tmp_path: Path) -> None:
    for step in (900, 1000, 50):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "trainer_state.json").write_text(f'{{"log_history": [{{"step": {step}}}]}}')
        (folder / "config.json").write_text('{"a": 1}')
    found = met(tmp_path)
    assert [text for name, text in found if name == "trainer_state.json"] == ['{"log_history": [{"step": 1000}]}']
    assert "config.json" not in dict(found)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"PK\x03\x04rest", "zip archive: unzip it"),
        (b"\x28\xb5\x2f\xfdrest", "zstdcat"),
        (b"a" * 257 + b"ustar" + b"\0" * 300, "tar archive"),
        (gzip.compress(b"a" * 257 + b"ustar" + b"\0" * 300, mtime=0), "tar archive"),
        (b"\x1f\x8bgarbage", "reading stopped"),
    ],
)
def test_what_cannot_be_read_says_why_and_what_to_do(tmp_path: Path, data: bytes, words: str) -> None:
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(SourceError, match=words):
        list(open_sources([str(tmp_path / "x")], io.BytesIO()))


def test_one_bad_source_does_not_cost_the_others(tmp_path: Path) -> None:
    (tmp_path / "a.log").touch()
    (tmp_path / "b.log").write_text(LOG)
    assert met(tmp_path / "a.log", tmp_path / "b.log") == [("a.log", "empty-file"), ("b.log", LOG)]


def test_an_empty_folder_and_a_missing_path_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="holds no file that may hold metrics"):
        list(open_sources([str(tmp_path)], io.BytesIO()))
    with pytest.raises(SourceError, match=r"nowhere\.log: no such file or folder"):
        list(open_sources([str(tmp_path / "nowhere.log")], io.BytesIO()))


def test_a_file_that_may_not_be_opened_is_a_remark(tmp_path: Path) -> None:
    loop = tmp_path / "loop.log"
    loop.symlink_to(loop)
    (tmp_path / "b.log").write_text(LOG)
    first, second = open_sources([str(loop), str(tmp_path / "b.log")], io.BytesIO())
    assert isinstance(first, Remark)
    assert first.code == "unreadable"
    assert isinstance(second, Opened)
