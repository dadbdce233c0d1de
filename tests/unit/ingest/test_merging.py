"""Several sources of one job: joined on the step, facts by who knows best."""

from simulators.plant import Mode, Setpoints, Topology, TrainerResize
from simulators.snapshot import Row
from tuner.ingest.history import RawRow
from tuner.ingest.merging import better, merge_engines, merge_sources, stated_facts


def rows(*steps: int | None, **values: float) -> list[RawRow]:
    return [RawRow(dict(values), step, None, step) for step in steps]


def test_two_sources_of_one_run_are_one_row_a_step() -> None:
    merged, notes = merge_sources([("a", rows(1, 2, 3, loss=1.0)), ("b", rows(2, 3, 4, reward=0.5))])
    assert [(r.step, r.values) for r in merged] == [
        (1, {"loss": 1.0}),
        (2, {"loss": 1.0, "reward": 0.5}),
        (3, {"loss": 1.0, "reward": 0.5}),
        (4, {"reward": 0.5}),
    ]
    assert notes == []


def test_a_source_of_another_run_is_left_out_with_a_note() -> None:
    merged, notes = merge_sources([("a", rows(1, 2, 3, loss=1.0, lr=2.0)), ("b", rows(1, 2, loss=5.0, lr=9.0))])
    assert {r.values["loss"] for r in merged} == {1.0}
    assert [note.code for note in notes] == ["conflicting-sources"]
    assert notes[0].detail.startswith("b ")


def test_records_without_a_step_cannot_be_joined_to_steps_and_are_told() -> None:
    merged, notes = merge_sources([("a", rows(1, 2, loss=1.0)), ("b", rows(None, reward=0.5))])
    assert [r.step for r in merged] == [1, 2]
    assert [note.code for note in notes] == ["unnumbered-records"]


def test_records_without_a_step_speak_where_there_are_no_steps() -> None:
    merged, notes = merge_sources([("a", rows(None, None, loss=1.0))])
    assert len(merged) == 2
    assert notes == []


def test_engines_stand_in_time_order_only_where_all_have_a_time() -> None:
    early, late, bare = Row({}, time_s=1.0), Row({}, time_s=2.0), Row({})
    assert merge_engines([[late], [early]]) == [early, late]
    assert merge_engines([[late], [bare]]) == [late, bare]


def test_who_knows_best_comes_first_and_gaps_are_filled() -> None:
    stated = Topology(gpus_total=64, mode=Mode.UNKNOWN)
    read = Topology(gpus_total=32, gpus_per_engine=8, mode=Mode.SERIAL, trainer_sizes=(8, 16))
    assert better(stated, read) == Topology(gpus_total=64, gpus_per_engine=8, mode=Mode.SERIAL, trainer_sizes=(8, 16))
    assert better(Setpoints(overlap=False), Setpoints(overlap=True, group_size=8)).group_size == 8


def test_facts_under_our_own_names_are_taken_and_values_of_a_wrong_kind_are_not() -> None:
    config = {
        "job.gpus_total": 64,
        "job.mode": "overlapped",
        "job.trainer_resize": "needs-convert",
        "job.restart_s": 120.0,
        "job.group_size": "eight",
        "job.batch_rollouts": -1,
        "job.packing": True,
        "gpus_trainer": 32,
    }
    topology, setpoints = stated_facts(config)
    assert topology == Topology(
        gpus_total=64, mode=Mode.OVERLAPPED, trainer_resize=TrainerResize.NEEDS_CONVERT, restart_s=120.0
    )
    assert setpoints == Setpoints(packing=True)
