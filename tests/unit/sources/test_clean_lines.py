"""Clean console lines: who speaks, when, and what is left to parse."""

from datetime import UTC, datetime

import pytest

from tuner.records import Line
from tuner.sources.console.clock import Clock
from tuner.sources.console.prefixes import Cleaner, Edges


def lines(text: str, edges: Edges | None = None) -> list[Line]:
    return list(Cleaner().lines(text, 7, edges or Edges()))


def only(text: str) -> Line:
    (line,) = lines(text)
    return line


@pytest.mark.parametrize(
    ("text", "speaker"),
    [
        ("(TaskRunner pid=16292) step:2 - a:1", "TaskRunner pid=16292"),
        ("(TaskRunner pid=1, ip=10.0.0.2) step:2 - a:1", "TaskRunner pid=1, ip=10.0.0.2"),
        ("\x1b[36m(TaskRunner pid=1)\x1b[0m step:2 - a:1", "TaskRunner pid=1"),
        ("[36m(TaskRunner pid=1)[0m step:2 - a:1", "TaskRunner pid=1"),
        ("(raylet) step:2 - a:1", "raylet"),
        ("(AsyncServer(replica=0) pid=9) step:2 - a:1", "AsyncServer(replica=0) pid=9"),
        ("(WorkerDict pid=1) (EngineCore_DP0 pid=2) step:2 - a:1", "WorkerDict pid=1 EngineCore_DP0 pid=2"),
        ("[1,0]<stdout>:step:2 - a:1", "1,0"),
        ("[rank0]: step:2 - a:1", "rank0"),
        ("[default3]:step:2 - a:1", "default3"),
        ("0: step:2 - a:1", "0"),
        ("node-1: step:2 - a:1", "node-1"),
        ("trainer-1  | step:2 - a:1", "trainer-1"),
        ("[pod/verl-head-0/main] step:2 - a:1", "verl-head-0/main"),
        ("Mar 22 13:53:38 gpu01 trainer.service[812]: step:2 - a:1", "trainer.service[812]"),
        ("2026-03-22T13:53:38.123456789Z stdout F (T pid=3) step:2 - a:1", "T pid=3"),
        ("2026-03-22T13:53:38Z (T pid=3) step:2 - a:1", "T pid=3"),
        ("(T pid=3) step:2 - a:1 [repeated 3x across cluster]", "T pid=3"),
        (r'{"log":"(T pid=3) step:2 - a:1\n","stream":"stdout","time":"2026-03-22T13:53:38.123456789Z"}', "T pid=3"),
        ("\x1b]0;title\x07(T pid=3) step:2 - a:1", "T pid=3"),
    ],
)
def test_the_speaker_is_taken_off_and_nothing_else(text: str, speaker: str) -> None:
    line = only(text)
    assert (line.text, line.speaker) == ("step:2 - a:1", speaker)


@pytest.mark.parametrize(
    "text",
    [
        "step-12: loss 0.3",
        "(see pid) step:2",
        "timing_s/gen: 341",
        "loss | 0.3",
        "[5ms] took [12m] done",
        "{'loss': 0.5}",
        "02:15:51 SUCCESS Step 13 | Time: 72.00s",
    ],
)
def test_text_that_is_no_prefix_stays(text: str) -> None:
    assert (only(text).text, only(text).speaker) == (text, None)


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("2026-03-22 13:53:38,500 INFO x", "2026-03-22T13:53:38.5"),
        ("[2026-07-20 17:53:16] rollout.py:1303 - perf 0", "2026-07-20T17:53:16"),
        ("(E pid=1) [2026-03-22 13:53:37 TP0] Decode batch", "2026-03-22T13:53:37"),
        ("2026-03-22T13:53:38+02:00 x", "2026-03-22T11:53:38"),
        ("2026-03-22T13:53:38.25Z x", "2026-03-22T13:53:38.25"),
        ("03/22/2026 13:53:38 - INFO - x", "2026-03-22T13:53:38"),
        ("[03/22/26 13:53:38] INFO x", "2026-03-22T13:53:38"),
        ("INFO 03-17 15:38:10 [loggers.py:259] x", "2000-03-17T15:38:10"),
        ("I0317 15:38:10.250000 12 x.cc:9] x", "2000-03-17T15:38:10.25"),
        ("02:15:51 SUCCESS Step 13", "1970-01-01T02:15:51"),
        ("[16:43:29 TP0] Prefill batch.", "1970-01-01T16:43:29"),
        ("Mar 22 13:53:38 host unit[1]: x", "2000-03-22T13:53:38"),
    ],
)
def test_a_leading_time_is_read_and_stays_in_the_text(text: str, iso: str) -> None:
    line = only(text)
    assert line.time_s == datetime.fromisoformat(iso).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize("text", ["step:2 - a:1", "25:00:00 x", "2026-02-30 x", "12:34 x", "1:2:3", ""])
def test_no_time_is_no_time(text: str) -> None:
    assert Clock().read(text) is None


def test_midnight_adds_a_day_and_a_small_step_back_does_not() -> None:
    clock = Clock()
    times = [clock.read(text) for text in ("23:59:50 a", "23:59:49 b", "00:00:10 c", "00:05:00 d")]
    assert times == [86390.0, 86389.0, 86410.0, 86700.0]


def test_a_time_of_day_follows_the_last_date() -> None:
    clock = Clock()
    dated, bare = clock.read("2026-03-22 23:59:00 a"), clock.read("00:01:00 b")
    assert dated is not None
    assert bare is not None
    assert bare - dated == 120.0


def test_new_year_goes_on_where_no_year_is_printed() -> None:
    clock = Clock()
    old, new = clock.read("INFO 12-31 23:59:00 a"), clock.read("INFO 01-01 00:01:00 b")
    assert old is not None
    assert new is not None
    assert new - old == 120.0


def test_of_a_progress_bar_the_last_state_stays_and_the_record_after_it_too() -> None:
    bar = "Generating rollouts (train): {}|##| {}/512 [01:08<00:00,  7.44it/s]"
    text = "\r".join(bar.format(f"{100 * i // 512}%", i) for i in range(0, 513, 64))
    found = lines(text + "\r02:17:01 SUCCESS Step 14 | Time: 69.24s")
    assert [line.text for line in found] == [bar.format("100%", 512), "02:17:01 SUCCESS Step 14 | Time: 69.24s"]
    assert found[1].time_s == 8221.0


def test_a_record_glued_to_a_bar_is_a_line_of_its_own() -> None:
    found = lines("Gen: 100%|##| 512/512 [01:08<00:00,  7.44it/s](T pid=1) step:2 - a:1")
    assert [(line.text[:6], line.speaker) for line in found] == [("Gen: 1", None), ("step:2", "T pid=1")]


def test_two_nested_bars_keep_one_state_each() -> None:
    outer, inner = "outer: {0}0%|# | {0}/10 [0:01<0:09, 1it/s]", "inner: 5%|# | 1/20 [0:01<0:19, 1it/s]"
    found = lines("\r".join((outer.format(1), inner, outer.format(2))))
    assert sorted(line.text[:10] for line in found) == ["inner: 5%|", "outer: 20%"]


def test_text_overwritten_by_other_text_is_kept() -> None:
    assert [line.text for line in lines("step:1 - a:1\rstep:2 - a:2\r\r")] == ["step:1 - a:1", "step:2 - a:2"]


def test_only_torn_edges_are_marked_as_cut() -> None:
    assert lines("0.0115 - critic/returns/max:2.47", Edges(first=True))[0].cut
    assert not lines("(T pid=1) step:2 - a:1", Edges(first=True))[0].cut
    assert not lines("02:15:51 SUCCESS Step 13", Edges(first=True))[0].cut
    assert not lines("0.0115 - critic/returns/max:2.47")[0].cut
    assert lines("(T pid=1) step:2 - a:1", Edges(unended=True))[0].cut
