"""Records of one source sorted into runs."""

from simulators.signals import Fold
from simulators.snapshot import Note
from tuner.ingest.history import RawRow
from tuner.ingest.writers import WRITERS_MAX, Writers
from tuner.records import Record


def sorted_out(records: list[Record], last: int | None = None) -> tuple[list[RawRow], dict[str, Note]]:
    writers = Writers(lambda _: Fold.MEAN, last)
    for record in records:
        writers.add(record)
    rows, notes = writers.finish()
    return rows, {note.code: note for note in notes}


def run(*steps: int, loss: float = 1.0) -> list[Record]:
    return [Record({"loss": loss + step, "lr": loss}, step) for step in steps]


def test_nothing_makes_no_run() -> None:
    assert sorted_out([]) == ([], {})


def test_two_records_of_one_step_are_one_row() -> None:
    rows, notes = sorted_out([Record({"a": 1.0}, 1), Record({"b": 2.0}, 1), Record({"a": 3.0}, 2)])
    assert [(row.step, row.values) for row in rows] == [(1, {"a": 1.0, "b": 2.0}), (2, {"a": 3.0})]
    assert notes == {}


def test_a_late_part_of_a_recent_step_still_finds_its_row() -> None:
    """A generator that runs ahead of the trainer in one file."""
    records = [Record({"gen": float(n)}, n) for n in (1, 2, 3)] + [Record({"train": 1.0}, 1), Record({"train": 2.0}, 2)]
    rows, _ = sorted_out(records)
    assert [row.values for row in rows] == [{"gen": 1.0, "train": 1.0}, {"gen": 2.0, "train": 2.0}, {"gen": 3.0}]


def test_a_counter_that_goes_back_is_a_restart_and_what_was_redone_counts() -> None:
    rows, notes = sorted_out([*run(1, 2, 3, 4), *run(3, 4, 5, loss=100.0)])
    assert [row.step for row in rows] == [1, 2, 3, 4, 5]
    assert rows[2].values["loss"] == 103.0
    assert notes["step-restart"].evidence == {"restarts": 1.0}


def test_a_restart_is_followed_past_the_step_where_the_first_life_ended() -> None:
    rows, notes = sorted_out([*run(*range(1, 41)), *run(*range(21, 81), loss=100.0)])
    assert [row.step for row in rows] == list(range(1, 81))
    assert {row.values["lr"] for row in rows[20:]} == {100.0}
    assert notes.keys() == {"step-restart"}


def test_a_restart_that_never_logs_the_last_step_again_is_followed_too() -> None:
    rows, notes = sorted_out([*run(*range(101)), *run(*range(50, 140, 3), loss=100.0)])
    assert rows[-1].values["lr"] == 100.0
    assert rows[-1].step == 137
    assert notes.keys() == {"step-restart"}


def test_writers_whose_lines_come_in_buffers_full_stay_apart() -> None:
    blocks = [run(*range(n, n + 5), loss=loss) for n in range(0, 60, 5) for loss in (1.0, 100.0)]
    rows, notes = sorted_out([record for block in blocks for record in block])
    assert {row.values["lr"] for row in rows} == {1.0}
    assert len(rows) == 60
    assert notes["interleaved-writers"].evidence["writers"] == 2.0


def test_two_interleaved_counters_are_two_runs_and_only_the_longer_counts() -> None:
    mixed = [record for pair in zip(run(1, 2, 3, 4), run(1, 2, 3, 4, loss=100.0), strict=True) for record in pair]
    rows, notes = sorted_out([*mixed, *run(5, 6)])
    assert [row.values["lr"] for row in rows] == [1.0] * 6
    assert notes["interleaved-writers"].evidence["writers"] == 2.0


def test_records_without_a_step_join_what_is_being_written() -> None:
    rows, _ = sorted_out([Record({"loss": 1.0}, 7), Record({"reward": 0.5}), Record({"loss": 2.0}, 8)])
    assert [row.values for row in rows] == [{"loss": 1.0, "reward": 0.5}, {"loss": 2.0}]


def test_the_last_steps_alone_are_kept_where_only_they_are_asked_for() -> None:
    rows, _ = sorted_out(run(*range(50)), last=3)
    assert [row.step for row in rows] == [47, 48, 49]


def test_more_counters_than_any_run_has_are_counted_and_left_out() -> None:
    crowd = [Record({"loss": float(n)}, -n) for n in range(WRITERS_MAX + 5)]
    _, notes = sorted_out(crowd)
    assert notes["interleaved-writers"].evidence["left_out"] == 5


def test_an_extract_printed_before_each_record_is_no_step_of_its_own_and_changes_none() -> None:
    """A callback prints a few rounded metrics, then the trainer its whole record."""
    lengths = {10: 53.35, 20: 2.6}
    whole = [Record({"len": n, "reward": 1.0}, step, framework="trl") for step, n in lengths.items()]
    extracts = [Record({"len": 53.4, "extra": 1.0}), Record({"len": 2.6, "extra": 2.0})]
    rows, _ = sorted_out([extracts[0], whole[0], extracts[1], whole[1]])
    assert [(row.step, row.values) for row in rows] == [
        (10, {"len": 53.35, "reward": 1.0, "extra": 1.0}),
        (20, {"len": 2.6, "reward": 1.0, "extra": 2.0}),
    ]


def test_a_run_that_is_followed_may_be_asked_at_any_time_and_go_on() -> None:
    writers = Writers(lambda _: Fold.MEAN, 4)
    for step in range(1, 20):
        writers.add(Record({"a": float(step)}, step))
        rows, _ = writers.finish()
        assert [row.step for row in rows] == list(range(max(1, step - 3), step + 1))
    writers.add(Record({"b": 1.0}, 19))
    assert writers.finish()[0][-1].values == {"a": 19.0, "b": 1.0}


def test_a_run_that_is_followed_outlives_any_number_of_restarts() -> None:
    writers = Writers(lambda _: Fold.MEAN, 4)
    for restart in range(2 * WRITERS_MAX):
        for record in run(*range(restart, restart + 6)):
            writers.add(record)
    rows, _ = writers.finish()
    assert [row.step for row in rows] == list(range(2 * WRITERS_MAX + 1, 2 * WRITERS_MAX + 5))
    assert writers.crowded == 0
