"""Neutral tables: signals, facts of the job, other people's columns."""

from collections.abc import Callable, Iterable

import pytest

from tuner.errors import SourceError
from tuner.records import Configuration, Item, Record, Remark
from tuner.sources import table
from tuner.sources.base import Opened

Make = Callable[..., Opened]


def records(items: Iterable[Item]) -> list[Record]:
    return [item for item in items if isinstance(item, Record)]


def facts(items: Iterable[Item]) -> dict[str, object]:
    return {k: v for item in items if isinstance(item, Configuration) for k, v in item.values.items()}


def codes(items: Iterable[Item]) -> dict[str, str]:
    return {item.code: item.detail for item in items if isinstance(item, Remark)}


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_columns_are_signals_steps_and_times(opened: Make, delimiter: str) -> None:
    text = "# note\nstep,time,step_s,trainer_wait_s\n1,1711115618,10.5,2\n2,1711115628.5,,3\n".replace(",", delimiter)
    found = records(table.read(opened(text), ()))
    assert [(r.step, r.time_s, dict(r.values)) for r in found] == [
        (1, 1711115618.0, {"step": 1.0, "step_s": 10.5, "trainer_wait_s": 2.0}),
        (2, 1711115628.5, {"step": 2.0, "trainer_wait_s": 3.0}),
    ]
    assert found[1].origin == "job.log:4"


def test_decimal_commas_are_read_beside_semicolons(opened: Make) -> None:
    (record,) = records(table.read(opened("step;step_s\n1;10,5\n"), ()))
    assert record.values["step_s"] == 10.5


def test_other_names_of_a_signal_mean_the_signal(opened: Make) -> None:
    (record,) = records(table.read(opened("step,t_step_s,engine_running\n1,10,64\n"), ()))
    assert record.values == {"step": 1.0, "step_s": 10.0, "running": 64.0}


def test_quoted_cells_and_words_become_labels(opened: Make) -> None:
    (record,) = records(table.read(opened('run,"note",step_s\n"a, b","line ""x""",10\n'), ()))
    assert record.labels == {"run": "a, b", "note": 'line "x"'}


def test_constant_facts_become_the_configuration(opened: Make) -> None:
    text = "step,step_s,gpus_total,gpus_train,rollout_gpus,n_engines,mode,overlap,gpu_model\n"
    text += "1,10,16,8,8,4,overlapped,yes,H100\n2,11,16,8,8,4,overlapped,yes,H100\n"
    items = list(table.read(opened(text), ()))
    assert facts(items) == {
        "job.gpus_total": 16,
        "job.gpus_trainer": 8,
        "job.gpus_generator": 8,
        "job.engines": 4,
        "job.mode": "overlapped",
        "job.overlap": True,
        "job.gpu_model": "H100",
    }
    assert all(set(r.values) == {"step", "step_s"} for r in records(items))


def test_a_fact_that_changes_is_no_fact(opened: Make) -> None:
    items = list(table.read(opened("step,step_s,gpus_total\n1,10,16\n2,11,32\n"), ()))
    assert facts(items) == {}
    assert "gpus_total" in codes(items)["varying-setup"]


@pytest.mark.parametrize("cell", ["8.5", "-1", "many", "1e400"])
def test_a_cell_that_is_no_value_of_its_fact_is_told(opened: Make, cell: str) -> None:
    items = list(table.read(opened(f"step_s,gpus_trainer\n10,{cell}\n"), ()))
    assert facts(items) == {}
    assert "gpus_trainer" in codes(items)["odd-value"]


def test_unknown_columns_are_kept_and_told_with_a_hint(opened: Make) -> None:
    items = list(table.read(opened("step,step_s,trainer_wait,perf/train_time,zzz\n1,10,2,3,4\n"), ()))
    assert records(items)[0].values["trainer_wait"] == 2.0
    assert records(items)[0].values["perf/train_time"] == 3.0
    assert "trainer_wait: did you mean trainer_wait_s?" in codes(items)["unknown-columns"]
    assert "zzz" in codes(items)["unknown-columns"]
    assert "perf/" not in codes(items)["unknown-columns"]


@pytest.mark.parametrize("cell", ["", "-", "n/a", "None", "null"])
def test_absent_cells_are_absent(opened: Make, cell: str) -> None:
    (record,) = records(table.read(opened(f"step,step_s,update_s\n1,10,{cell}\n"), ()))
    assert record.values == {"step": 1.0, "step_s": 10.0}
    assert record.labels == {}


def test_a_word_among_numbers_is_told(opened: Make) -> None:
    items = list(table.read(opened("step,step_s,update_s\n1,10,2\n2,11,fast\n"), ()))
    assert "update_s" in codes(items)["not-a-number"]


def test_a_cut_last_row_loses_its_last_cell(opened: Make) -> None:
    items = list(table.read(opened("step,step_s,update_s\n1,100,20\n2,10"), ()))
    assert dict(records(items)[-1].values) == {"step": 2.0}
    assert records(items)[-1].cut
    assert "truncated-record" in codes(items)


def test_rows_of_another_width_are_read_as_far_as_they_go(opened: Make) -> None:
    items = list(table.read(opened("step,step_s\n1,10,99\n2\n3,12\n"), ()))
    assert [r.values.get("step_s") for r in records(items)] == [10.0, None, 12.0]
    assert codes(items)["ragged-rows"].startswith("2 rows")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only\n",
        "1,2,3\n4,5,6\n",
        "step,step_s\n",
        "step,step_s\na,b\n",
        "step,step_s\n" + '"' + "x" * 200_000,
        ",,,\n,,",
    ],
)
def test_what_is_no_table_is_refused_with_its_name(opened: Make, text: str) -> None:
    with pytest.raises(SourceError, match=r"job\.log"):
        list(table.read(opened(text), ()))


def test_a_field_too_long_ends_the_table_and_is_told(opened: Make) -> None:
    items = list(table.read(opened("step,step_s\n1,10\n2," + "x" * 200_000 + "\n3,12\n"), ()))
    assert [r.step for r in records(items)] == [1]
    assert "broken-lines" in codes(items)


def test_a_frameworks_own_columns_keep_their_names(case: Callable[[str], Opened]) -> None:
    found = records(table.read(case("A20_vime_phase_tables.csv"), ()))
    assert [r.values["perf/step_time"] for r in found] == [31.5, 20.8, 178.3, 104.0, 18.853, 3.316]
    assert found[0].labels["setup"].startswith("358-s1")
    assert found[0].labels["mode"] == "sync"


@pytest.mark.parametrize("numbers", ["1,30.2,20.1\n2,31,20.9\n", "0,1\n0,2\n"])
def test_a_table_without_a_header_is_told_so(opened: Make, numbers: str) -> None:
    assert table.claims("times.csv", numbers.encode()) > 0.3
    with pytest.raises(SourceError, match=r"first row is numbers .*docs/signals\.md"):
        list(table.read(opened(numbers), ()))
