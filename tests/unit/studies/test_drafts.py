"""The trial under way is kept in memory: what of it is on record when, and that nothing is missing in the end."""

import sqlite3
from pathlib import Path

import pytest
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import BaseStorage, RDBStorage
from optuna.trial import FrozenTrial, Trial, TrialState

from tuner.studies.opening import Where, opened
from tuner.studies.samplers import quiet
from tuner.studies.space import Dimension, Space
from tuner.studies.storage import Chooser, Ledger, begun

SPACE = Space((Dimension("x", 0, 9, 1, whole=True, now=4), Dimension("y", 0.1, 10.0, log=True)))


@pytest.fixture
def where(tmp_path: Path) -> Where:
    quiet()
    found = Where(f"sqlite:///{tmp_path}/s.db", "s")
    assert begun(opened(found), "s", {"version": "1"}, ["maximize"])
    return found


def worker(where: Where) -> Ledger:
    return Ledger(opened(where), "s", Chooser("random", SPACE, 0, 2))


def on_record(where: Where, number: int) -> FrozenTrial:
    """As Optuna's own storage, and so its dashboard, reads it."""
    storage: BaseStorage = RDBStorage(where.url)
    return storage.get_all_trials(storage.get_study_id_from_name("s"))[number]


def taken(ledger: Ledger, trials: int = 9) -> Trial:
    trial = ledger.take(trials)
    assert trial is not None
    return trial


def test_a_trial_that_begins_is_on_record_with_a_heartbeat(where: Where) -> None:
    trial = taken(worker(where))
    assert on_record(where, trial.number).state is TrialState.RUNNING
    with sqlite3.connect(where.url.removeprefix("sqlite:///")) as database:
        assert database.execute("SELECT count(*) FROM trial_heartbeats").fetchone() == (1,)


def test_a_beat_of_its_heart_puts_on_record_what_was_found_since(where: Where) -> None:
    ledger = worker(where)
    trial = taken(ledger)
    point = SPACE.chosen(trial)
    assert on_record(where, 0).params == {}
    ledger.beat(0)
    assert on_record(where, 0).params == point
    trial.report(0.5, 1)
    trial.set_user_attr("note", "first")
    ledger.beat(0)
    trial.set_user_attr("note", "second")
    ledger.beat(0)
    there = on_record(where, 0)
    assert there.intermediate_values == {1: 0.5}
    assert there.user_attrs == {"note": "second"}


@pytest.mark.parametrize("state", [TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL])
def test_what_has_ended_is_on_record_whole(where: Where, state: TrialState) -> None:
    ledger = worker(where)
    trial = taken(ledger)
    SPACE.chosen(trial)
    trial.report(0.25, 1)
    trial.report(float("inf"), 4)
    trial.set_constraint("staleness", 0.5)
    trial.set_user_attr("note", {"level": 1, "ratios": [0.1, None]})
    if state is TrialState.COMPLETE:
        trial.study.tell(trial, 0.75)
    else:
        trial.study.tell(trial, state=state)
    mine, there = ledger.trials()[0], on_record(where, 0)
    assert there.state is mine.state is state
    assert there.params == mine.params
    assert there.distributions == mine.distributions
    assert there.values == mine.values
    assert there.intermediate_values == mine.intermediate_values == {1: 0.25, 4: float("inf")}
    assert there.user_attrs == mine.user_attrs == {"note": {"level": 1, "ratios": [0.1, None]}}
    assert there.system_attrs == mine.system_attrs
    assert there.constraints == {"staleness": 0.5}
    assert there.datetime_complete is not None
    assert mine.datetime_complete is not None
    assert abs((there.datetime_complete - mine.datetime_complete).total_seconds()) < 60.0


def test_a_waiting_trial_brings_what_is_known_of_it(where: Where) -> None:
    worker(where).begin([{"x": 7, "y": 2.0}])
    ledger = worker(where)
    trial = taken(ledger)
    assert SPACE.chosen(trial) == {"x": 7, "y": 2.0}
    trial.study.tell(trial, 1.0)
    assert on_record(where, 0).system_attrs["fixed_params"] == {"x": 7, "y": 2.0}


def test_what_others_begin_and_end_is_seen(where: Where) -> None:
    one, other = worker(where), worker(where)
    theirs, ours = taken(other), taken(one)
    assert [t.state for t in one.trials()] == [TrialState.RUNNING] * 2
    SPACE.chosen(theirs)
    theirs.report(0.5, 1)
    theirs.study.tell(theirs, 0.5)
    ours.report(0.4, 1)
    seen = ours.study.get_trials(deepcopy=False)
    assert [t.state for t in seen] == [TrialState.COMPLETE, TrialState.RUNNING]
    assert seen[0].intermediate_values == {1: 0.5}
    assert seen[1].intermediate_values == {1: 0.4}


def test_a_trial_of_anothers_that_began_before_ours_is_not_missed(where: Where) -> None:
    one, other = worker(where), worker(where)
    assert one.trials() == []
    theirs = taken(other)
    ours = one.storage.create_new_trial(one.study_id)
    one.storage.set_trial_state_values(ours, TrialState.COMPLETE, [1.0])
    assert [t.state for t in one.trials()] == [TrialState.RUNNING, TrialState.COMPLETE]
    theirs.study.tell(theirs, 0.5)
    assert [t.state for t in one.trials()] == [TrialState.COMPLETE] * 2


def test_levels_that_others_have_reached_are_seen_with_whatever_else_has_moved(where: Where) -> None:
    one, slow, quick = worker(where), worker(where), worker(where)
    theirs = taken(slow)
    SPACE.chosen(theirs)
    slow.beat(theirs.number)
    assert one.trials()[0].params == theirs.params
    theirs.report(0.5, 1)
    slow.beat(theirs.number)
    taken(quick)
    assert one.trials()[0].intermediate_values == {1: 0.5}


def test_what_is_read_of_others_is_what_optuna_reads(where: Where) -> None:
    ledger = worker(where)
    ledger.begin([{"x": 7, "y": 2.0}, {"x": 1, "y": 0.5}])
    for value in (float("inf"), 0.25):
        trial = taken(ledger)
        SPACE.chosen(trial)
        trial.report(value, 1)
        trial.set_constraint("runs", 0.0)
        trial.set_user_attr("note", {"ratios": [0.1, None]})
        trial.study.tell(trial, value)
    ledger.lost(taken(ledger).number)
    taken(ledger)
    storage: BaseStorage = RDBStorage(where.url)
    assert worker(where).trials() == storage.get_all_trials(storage.get_study_id_from_name("s"))


def test_a_trial_that_was_given_to_another_worker_is_not_written_by_the_first(where: Where) -> None:
    slow, other = worker(where), worker(where)
    trial = taken(slow)
    SPACE.chosen(trial)
    slow.beat(0)
    other.lost(0)
    with pytest.raises(UpdateFinishedTrialError):
        trial.study.tell(trial, 9.0)
    assert on_record(where, 0).state is TrialState.FAIL
    assert on_record(where, 0).values is None
    again = taken(slow)
    assert again.number == 1
    assert SPACE.chosen(again) == on_record(where, 0).params


def test_a_trial_that_has_ended_is_told_also_by_a_worker_that_never_looked_at_the_others(where: Where) -> None:
    storage = opened(where)
    ident = storage.create_new_trial(storage.get_study_id_from_name("s"))
    storage.set_trial_state_values(ident, TrialState.COMPLETE, [1.0])
    assert storage.get_trial(ident).values == [1.0]
