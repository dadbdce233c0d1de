"""Files that grow: read on where we stood, through everything that happens to a log."""

import json
import os
from contextlib import closing
from pathlib import Path

import pytest

from tuner.feeds.base import Cursor, Poll
from tuner.feeds.tail import Tail
from tuner.feeds.zones import zone_s
from tuner.frameworks.registry import FRAMEWORKS
from tuner.ingest.reading import formats_of
from tuner.live import LivePlant, source_at
from tuner.records import Record, Remark

NOW_S = 1.8e9
DATA = Path(__file__).parents[2] / "data"
VERL = "(TaskRunner pid=7) step:{} - timing_s/step:100.0 - timing_s/gen:30.0 - critic/score/mean:0.5\n"


def row(step: int, **values: float) -> str:
    return json.dumps({"step": step, "time": NOW_S + step, "time/step": 100.0, **values}) + "\n"


class Growing:
    """A file and its tail."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.tail = Tail(str(path), formats_of(FRAMEWORKS))
        self.cursor: Cursor = {}

    def append(self, text: str) -> None:
        with self.path.open("a") as file:
            file.write(text)

    def poll(self) -> Poll:
        poll = self.tail.poll(self.cursor, NOW_S + 1e6, 5.0)
        self.cursor = poll.cursor
        return poll

    def steps(self) -> list[int | None]:
        return [item.step for item in self.poll().items if isinstance(item, Record)]


@pytest.fixture
def log(tmp_path: Path) -> Growing:
    return Growing(tmp_path / "metrics.jsonl")


def test_what_is_new_is_read_and_nothing_twice(log: Growing) -> None:
    log.append(row(1) + row(2))
    assert log.steps() == [1, 2]
    assert log.steps() == []
    log.append(row(3))
    assert log.steps() == [3]


def test_a_half_written_line_waits_for_its_rest(log: Growing) -> None:
    log.append(row(1) + row(2)[:20])
    assert log.steps() == [1]
    log.append(row(2)[20:])
    assert log.steps() == [2]


def test_a_file_that_is_not_there_yet_is_a_failure_that_heals(log: Growing) -> None:
    failure = log.poll().failure
    assert failure is not None
    assert "not there" in failure
    log.append(row(1))
    assert log.steps() == [1]


def test_after_a_rotation_the_old_file_is_read_to_its_end_and_then_the_new_one(log: Growing) -> None:
    log.append(row(1))
    log.poll()
    log.append(row(2))
    log.path.rename(log.path.with_suffix(".1"))
    log.append(row(3))
    assert log.steps() == [2, 3]
    log.append(row(4))
    assert log.steps() == [4]


def test_the_last_line_of_a_rotated_file_needs_no_end(log: Growing) -> None:
    log.append(row(1))
    log.poll()
    log.append(row(2).rstrip("\n"))
    log.path.rename(log.path.with_suffix(".1"))
    log.append(row(3))
    assert log.steps() == [2, 3]


def test_between_two_files_the_path_is_empty_and_nothing_is_lost(log: Growing) -> None:
    log.append(row(1))
    log.poll()
    log.append(row(2))
    log.path.rename(log.path.with_suffix(".1"))
    assert log.steps() == [2]
    log.append(row(3))
    assert log.steps() == [3]


def test_a_file_truncated_at_a_restart_is_read_anew(log: Growing) -> None:
    log.append(row(1) + row(2) + row(3))
    log.poll()
    log.path.write_text(row(1, reward=0.5))
    poll = log.poll()
    assert [item.step for item in poll.items if isinstance(item, Record)] == [1]
    assert "log-truncated" in [item.code for item in poll.items if isinstance(item, Remark)]


def test_a_file_truncated_and_grown_beyond_our_place_is_known_by_its_bytes(log: Growing) -> None:
    log.append(row(1) + row(2))
    log.poll()
    log.path.write_text("".join(row(step, reward=0.25) for step in range(1, 9)))
    assert log.steps() == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_restarted_daemon_goes_on_from_its_cursor(log: Growing) -> None:
    log.append(row(1) + row(2))
    log.poll()
    log.append(row(3))
    log.tail.close()
    log.tail = Tail(str(log.path), ())
    assert log.steps() == [3]


def test_a_table_keeps_its_header_over_polls_and_restarts(tmp_path: Path) -> None:
    table = Growing(tmp_path / "metrics.csv")
    table.append("step,step_s,trainer_wait_s\n1,100,20\n")
    assert table.steps() == [1]
    table.append("2,101,21\n")
    assert table.steps() == [2]
    table.tail.close()
    table.tail = Tail(str(table.path), ())
    table.append("3,102,22\n")
    (record,) = [item for item in table.poll().items if isinstance(item, Record)]
    assert record.values == {"step": 3.0, "step_s": 102.0, "trainer_wait_s": 22.0}


def test_a_console_log_is_read_by_its_frameworks_formats(tmp_path: Path) -> None:
    console = Growing(tmp_path / "train.log")
    console.append("starting\n" + VERL.format(1))
    assert console.steps() == [1]
    console.append(VERL.format(2)[:50])
    assert console.steps() == []
    console.append(VERL.format(2)[50:] + VERL.format(3))
    assert console.steps() == [2, 3]


def test_a_long_past_is_read_from_its_beginning_and_its_end(log: Growing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tuner.feeds.growing.BACKLOG_BYTES", 1 << 20)
    for place in ("growing", "tail"):
        monkeypatch.setattr(f"tuner.feeds.{place}.BEGINNING_BYTES", 1 << 19)
    filler, count = " " * 4000, 1000
    log.append("".join(row(step)[:-1] + filler + "\n" for step in range(count)))
    steps = [step for step in log.steps() if step is not None]
    assert steps[0] == 0
    assert steps[-1] == count - 1
    assert len(steps) < count
    assert steps == sorted(set(steps))


@pytest.mark.parametrize("content", [b"\x1f\x8b\x08\x00binary", b"\x00\x01\x02\x03" * 64])
def test_what_cannot_be_followed_is_a_failure_in_words(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.log").write_bytes(content + b"\n")
    failure = Growing(tmp_path / "x.log").poll().failure
    assert failure is not None
    assert "cannot be followed" in failure


def test_a_folder_and_a_pipe_are_no_files_that_grow(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        assert Growing(path).poll().failure is not None


# ---- times ----


def test_records_without_a_time_bear_that_of_the_writing(tmp_path: Path) -> None:
    console = Growing(tmp_path / "train.log")
    console.append(VERL.format(1) + VERL.format(2))
    os.utime(console.path, (NOW_S, NOW_S))
    first = [item for item in console.poll().items if isinstance(item, Record)]
    assert [record.time_s for record in first] == [None, NOW_S]
    console.append(VERL.format(3))
    os.utime(console.path, (NOW_S + 60.0, NOW_S + 60.0))
    (second,) = [item for item in console.poll().items if isinstance(item, Record)]
    assert second.time_s == NOW_S + 60.0


@pytest.mark.parametrize(
    ("stamp_s", "written_s", "known_s", "fresh", "zone"),
    [
        (NOW_S, NOW_S + 12.0, 0.0, True, 0.0),
        (NOW_S - 7200.0, NOW_S + 12.0, 0.0, True, 7200.0),
        (NOW_S + 28800.0, NOW_S + 12.0, 0.0, True, -28800.0),
        (NOW_S - 19800.0, NOW_S + 12.0, 0.0, False, 19800.0),
        (NOW_S - 900.0, NOW_S, 0.0, True, 0.0),
        (NOW_S - 7200.0, NOW_S + 300.0, 7200.0, False, 7200.0),
    ],
)
def test_stamps_of_another_zone_are_brought_to_ours(
    stamp_s: float, written_s: float, known_s: float, fresh: bool, zone: float
) -> None:
    assert zone_s(stamp_s, written_s, known_s, fresh) == zone


def test_a_job_that_restarts_from_a_checkpoint_redoes_its_steps(log: Growing) -> None:
    log.append("".join(row(step, reward=0.1) for step in range(1, 8)))
    with closing(LivePlant([source_at(str(log.path))])) as plant:
        plant.observe(NOW_S)
        log.append("".join(row(step, reward=0.9) for step in range(5, 7)))
        seen = plant.observe(NOW_S + 30.0).snapshot
    assert [r.step for r in seen.rows] == [1, 2, 3, 4, 5, 6]
    assert "step-restart" in [note.code for note in seen.notes]


BLOCKS = ("nemo-rl/async-2025-09/console.txt", "open-instruct/panel/console.log", "rlinf/pr-942/console.log")


@pytest.mark.parametrize("sample", BLOCKS)
def test_a_block_that_was_half_written_at_a_kill_loses_nothing(sample: str, tmp_path: Path) -> None:
    """Killed after each line of a step that is printed over many, and started anew: the same records, each once."""
    lines = [line for line in (DATA / sample).read_text().splitlines(keepends=True) if not line.startswith("#")] * 2

    def told(killed_after: int) -> list[dict[str, float]]:
        path = tmp_path / f"{killed_after}.log"
        path.write_text("".join(lines[:killed_after]))
        first = Growing(path)
        with closing(first.tail):
            items = list(first.poll().items)
        second = Growing(path)
        second.cursor = first.cursor
        second.append("".join(lines[killed_after:]))
        with closing(second.tail):
            items += second.poll().items
        return [dict(item.values) for item in items if isinstance(item, Record)]

    whole = told(len(lines))
    assert whole
    assert [count for count in range(1, len(lines)) if told(count) != whole] == []
