"""JSON rows in every form that loggers write them."""

from collections.abc import Callable, Iterable
from math import inf, isnan

import pytest

from tuner.errors import SourceError
from tuner.records import Configuration, Item, Record, Remark
from tuner.sources import jsonl
from tuner.sources.base import Opened

Make = Callable[..., Opened]


def records(items: Iterable[Item]) -> list[Record]:
    return [item for item in items if isinstance(item, Record)]


def remarks(items: Iterable[Item]) -> list[Remark]:
    return [item for item in items if isinstance(item, Remark)]


def test_nested_objects_are_flat_and_words_are_no_measurements(opened: Make) -> None:
    row = '{"step": 4, "time": {"gen": 1.5, "p": {"q": 2}}, "ok": true, "off": false, "w": "abc", "n": "2.5", "l": [1]}'
    (record,) = records(jsonl.read(opened(row + "\n"), ()))
    assert record.values == {"step": 4, "time/gen": 1.5, "time/p/q": 2, "ok": 1, "off": 0, "n": 2.5}
    assert (record.step, record.time_s, record.origin) == (4, None, "job.log:1")


def test_nan_and_infinities_pass_as_they_were_written(opened: Make) -> None:
    (record,) = records(jsonl.read(opened('{"a": NaN, "b": Infinity, "c": -Infinity, "d": "nan", "e": 1e999}\n'), ()))
    assert isnan(record.values["a"])
    assert isnan(record.values["d"])
    assert (record.values["b"], record.values["c"], record.values["e"]) == (inf, -inf, inf)


@pytest.mark.parametrize("wrapper", ["data", "metrics"])
def test_a_wrapped_row_is_unwrapped(opened: Make, wrapper: str) -> None:
    (record,) = records(jsonl.read(opened(f'{{"step": 7, "{wrapper}": {{"timing_s/gen": 3.5}}}}\n'), ()))
    assert (record.step, record.values["timing_s/gen"]) == (7, 3.5)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1711115618.5", 1711115618.5),
        ("1711115618500", 1711115618.5),
        ('"2024-03-22T13:53:38.500Z"', 1711115618.5),
        ("12.5", None),
        ('"soon"', None),
        ("true", None),
        ("null", None),
        ("NaN", None),
    ],
)
def test_a_timestamp_is_told_from_a_duration(opened: Make, text: str, seconds: float | None) -> None:
    (record,) = records(jsonl.read(opened(f'{{"a": 1, "timestamp": {text}}}\n'), ()))
    assert record.time_s == seconds


def test_several_rows_of_one_step_stay_rows(opened: Make) -> None:
    log = '{"step": 1, "time/step": 5.0}\n{"step": 1, "reward/mean": 0.5}\n{"step": 2, "time/step": 6.0}\n'
    assert [r.step for r in records(jsonl.read(opened(log), ()))] == [1, 1, 2]


def test_a_cut_last_row_is_told_and_left_out(opened: Make) -> None:
    items = list(jsonl.read(opened('{"step": 1, "a": 1}\n{"step": 2, "a": 12'), ()))
    assert [r.step for r in records(items)] == [1]
    assert [(r.code, r.origin) for r in remarks(items)] == [("truncated-record", "job.log:2")]


def test_broken_rows_in_the_middle_are_counted_with_the_first_place(opened: Make) -> None:
    rows = ['{"step": 1, "a": 1}'] * 5 + ["Traceback", "oops {", '{"a": 1}', "x"] + ['{"step": 9, "a": 1}'] * 5
    items = list(jsonl.read(opened("\n".join(rows) + "\n"), ()))
    (remark,) = remarks(items)
    assert len(records(items)) == 11
    assert (remark.code, remark.origin) == ("broken-lines", "job.log:6")
    assert remark.detail.startswith("3 lines")


def test_a_file_of_other_lines_is_refused_with_its_place(opened: Make) -> None:
    with pytest.raises(SourceError, match=r"job\.log:1: not a JSON object: 'hello'; 3 of 4 lines"):
        list(jsonl.read(opened('hello\nworld\n{"a": 1}\n!\n'), ()))


@pytest.mark.parametrize(
    "text",
    [
        '[{"step": 1, "a": 1}, {"step": 2, "a": 2}]',
        '[\n  {"step": 1, "a": 1},\n  {"step": 2, "a": 2}\n]\n',
        '{\n  "step": 1,\n  "a": 1\n}\n{\n  "step": 2,\n  "a": 2\n}\n',
        '\ufeff{"step": 1, "a": 1}\r\n\r\n{"step": 2, "a": 2}\r\n',
        '# source: x\n{"step": 1, "a": 1}\n{"step": 2, "a": 2}\n',
    ],
)
def test_arrays_and_printed_documents_read_as_rows(opened: Make, text: str) -> None:
    assert [(r.step, r.values["a"]) for r in records(jsonl.read(opened(text), ()))] == [(1, 1.0), (2, 2.0)]


def test_a_printed_array_that_breaks_off_keeps_the_rows_before(opened: Make) -> None:
    items = list(jsonl.read(opened('[\n {"step": 1, "a": 1},\n {"step": 2, "a": 2},\n {"step": 3, "a'), ()))
    assert [r.step for r in records(items)] == [1, 2]
    assert [r.code for r in remarks(items)] == ["truncated-record"]


def test_half_a_character_in_a_name_does_not_reach_the_output(opened: Make) -> None:
    (record,) = records(jsonl.read(opened('{"a\\ud800b": 1, "run": "x\\udfff"}\n'), ()))
    for text in (*record.values, *record.labels.values()):
        assert text.encode("utf-8")


@pytest.mark.parametrize(
    "text",
    ["[" * 50_000, '{"a":' * 50_000, '{"a": ' + "9" * 5_000 + "}", "[]", "[1, 2]", "{}", "null", '{"a": "x"}', "[\n]"],
)
def test_degenerate_json_is_refused_or_empty_never_a_crash(opened: Make, text: str) -> None:
    try:
        assert records(jsonl.read(opened(text), ())) == []
    except SourceError as error:
        assert "job.log" in str(error)  # noqa: PT017 (either outcome is right, a crash is not)


def test_steps_beyond_any_count_are_no_steps(opened: Make) -> None:
    log = "".join(f'{{"step": {step}, "a": 1}}\n' for step in ("1e300", "2.5", "NaN", '"12"', "Infinity"))
    assert [r.step for r in records(jsonl.read(opened(log), ()))] == [None, None, None, 12, None]


def test_two_interleaved_writers_come_through_in_file_order(case: Callable[[str], Opened]) -> None:
    found = records(jsonl.read(case("A01_tinker_qwen3_4b_metrics.jsonl"), ()))
    assert len(found) == 135
    assert [r.step for r in found[:6]] == [0, 1, 2, 0, 1, 3]


@pytest.mark.parametrize("indented", [False, True], ids=["on one line", "printed over lines"])
def test_a_run_written_column_by_column_is_one_record_a_step(opened: Make, indented: bool) -> None:
    columns = (
        '{"train/reward": {"3": 0.5, "10": 0.6}, "timing/train/total_step_time": {"10": 90.0, "3": 100.0, "4": 1}}'
    )
    text = columns.replace("{", "{\n").replace(", ", ",\n") if indented else columns
    found = records(jsonl.read(opened(text + "\n"), ()))
    assert [record.step for record in found] == [3, 4, 10]
    assert found[0].values == {"train/reward": 0.5, "timing/train/total_step_time": 100.0}
    assert found[1].values == {"timing/train/total_step_time": 1.0}


def test_objects_in_objects_that_count_nothing_are_one_record(opened: Make) -> None:
    (record,) = records(jsonl.read(opened('{"timing": {"step": 9.0, "gen": 6.0}, "reward": {"mean": 0.5}}\n'), ()))
    assert record.values == {"timing/step": 9.0, "timing/gen": 6.0, "reward/mean": 0.5}


def configuration(items: Iterable[Item]) -> dict[str, object]:
    return {name: value for item in items if isinstance(item, Configuration) for name, value in item.values.items()}


def test_what_every_line_says_of_the_job_is_its_configuration(opened: Make) -> None:
    lines = '{"step": 1, "gpus_trainer": 6, "overlap": true, "t": 1.5}\n{"step": 2, "gpus_trainer": 6, "t": 1.6}\n'
    items = list(jsonl.read(opened(lines), ()))
    assert configuration(items) == {"job.gpus_trainer": 6, "job.overlap": True}
    assert [record.step for record in records(items)] == [1, 2]


def test_what_changes_from_line_to_line_or_is_no_fact_describes_no_job(opened: Make) -> None:
    lines = '{"gpus_trainer": 6, "mode": "train", "t": 1}\n{"gpus_trainer": 8, "mode": "train", "t": 2}\n'
    assert configuration(jsonl.read(opened(lines), ())) == {}
