"""A study in its storage: slots are handed out once, come back once, and another study is never joined."""

import os
import sqlite3
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from optuna.trial import TrialState

from tuner.errors import ConfigError, SourceError
from tuner.studies.favourites import earlier
from tuner.studies.opening import Where, first_line, joined, opened, shown, speaking
from tuner.studies.samplers import checked, quiet, usual
from tuner.studies.space import Dimension, Space
from tuner.studies.storage import Chooser, Ledger, begun

SPACE = Space((Dimension("x", 0, 9, 1, whole=True, now=4),))
DEFINITION = {"version": "1", "space": ["x"], "seed": 0}


@pytest.fixture
def where(tmp_path: Path) -> Where:
    quiet()
    return Where(f"sqlite:///{tmp_path}/s.db", "s", heartbeat_s=1, grace_s=30)


@pytest.fixture
def ledger(where: Where) -> Ledger:
    return another(where, create=True)


def another(where: Where, create: bool = False) -> Ledger:
    """A view of its own, as another worker has it."""
    storage = opened(where)
    if create:
        assert begun(storage, where.study, DEFINITION, ["maximize"])
    return Ledger(storage, where.study, Chooser("tpe", SPACE, 0, 2))


def test_each_trial_is_taken_by_one_worker_only_and_no_more_than_asked_for(ledger: Ledger, where: Where) -> None:
    other = another(where)
    taken = [view.take(3) for view in (ledger, other, ledger, other)]
    assert [trial.number for trial in taken if trial is not None] == [0, 1, 2]
    assert taken[-1] is None
    assert ledger.under_way(3) == 3
    more = other.take(4)
    assert more is not None
    assert more.number == 3


def test_a_waiting_trial_is_taken_before_a_new_one_is_made(ledger: Ledger) -> None:
    ledger.begin([{"x": 7}])
    trial = ledger.take(2)
    assert trial is not None
    assert trial.suggest_int("x", 0, 9) == 7


def test_what_was_lost_waits_again_with_the_same_point_once_and_is_then_replaced(ledger: Ledger) -> None:
    points = []
    for _ in range(2):
        trial = ledger.take(1)
        assert trial is not None
        points.append(trial.suggest_int("x", 0, 9))
        ledger.lost(trial.number)
        ledger.lost(trial.number)
    assert points[0] == points[1]
    assert ledger.counts() == {TrialState.FAIL: 2}
    assert ledger.under_way(1) == 1


def test_a_heart_that_stops_frees_the_trial_and_one_that_beats_keeps_it(ledger: Ledger, where: Where) -> None:
    stopped, beating = ledger.take(2), ledger.take(2)
    assert stopped is not None
    assert beating is not None
    ledger.beat(beating.number)
    _age(where, stopped.number, seconds=60)
    another(where).retake()
    another(where).retake()
    states = {t.number: t.state for t in ledger.trials()}
    assert states == {0: TrialState.FAIL, 1: TrialState.RUNNING, 2: TrialState.WAITING}


def test_a_trial_whose_worker_died_at_once_is_freed_as_well(ledger: Ledger, where: Where) -> None:
    assert ledger.take(1) is not None
    _age(where, 0, seconds=60)
    ledger.retake()
    assert ledger.counts() == {TrialState.FAIL: 1, TrialState.WAITING: 1}


def _age(where: Where, number: int, seconds: int) -> None:
    """Makes a heartbeat older, as time would."""
    with sqlite3.connect(where.url.removeprefix("sqlite:///")) as database:
        database.execute(
            "UPDATE trial_heartbeats SET heartbeat = datetime(heartbeat, ?) WHERE trial_id ="
            " (SELECT trial_id FROM trials WHERE number = ?)",
            (f"-{seconds} seconds", number),
        )


def test_the_same_study_is_joined(ledger: Ledger, where: Where) -> None:
    assert not begun(opened(where), "s", DEFINITION, ["maximize"])


@pytest.mark.parametrize(("key", "value"), [("version", "2"), ("space", ["x", "y"]), ("seed", 1)])
def test_another_study_of_that_name_is_refused_with_what_differs(
    ledger: Ledger, where: Where, key: str, value: object
) -> None:
    with pytest.raises(ConfigError, match=f"{key} is .* there and .* here.*--study NAME"):
        begun(opened(where), "s", {**DEFINITION, key: value}, ["maximize"])


def test_the_best_of_an_earlier_study_is_begun_from(ledger: Ledger, where: Where) -> None:
    for _ in range(4):
        trial = ledger.take(4)
        assert trial is not None
        x = trial.suggest_int("x", 0, 9)
        trial.set_constraint("kept", 1.0 if x == 9 else 0.0)
        trial.study.tell(trial, float(x))
    kept = sorted({t.params["x"] for t in ledger.trials()} - {9}, reverse=True)
    assert [p["x"] for p in earlier(opened(where), "s", SPACE)] == kept[:3]
    narrow = Space((Dimension("x", 0, kept[-1], 1, whole=True),))
    assert earlier(opened(where), "s", narrow) == [{"x": kept[-1]}]
    with pytest.raises(ConfigError, match="--begin-from t: no such study there; known: s"):
        earlier(opened(where), "t", SPACE)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("nonsense", "sqlite:///FILE"),
        ("oracles://x/y", "sqlite:///FILE"),
        ("mysql://ann@db/studies", "sqlite:///FILE"),
        ("sqlite:////no/such/folder/s.db", "there is no folder /no/such/folder; make it first"),
        ("postgresql://nobody:secret@127.0.0.1:9/none", "cannot be opened"),
    ],
)
def test_a_storage_that_cannot_be_opened_is_one_sentence_without_a_password(url: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as raised:
        opened(Where(url, "s"))
    assert "secret" not in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_file_that_may_not_be_written_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "s.db").touch(mode=0o444)
    with pytest.raises(ConfigError, match="may not be written"):
        opened(Where(f"sqlite:///{tmp_path}/s.db", "s"))


def test_a_database_that_stays_away_is_one_sentence_that_says_how_to_go_on(where: Where) -> None:
    short = replace(where, patience_s=0.5)
    ledger = another(short, create=True)
    assert ledger.take(2) is not None
    with sqlite3.connect(where.url.removeprefix("sqlite:///")) as database:
        database.execute("ALTER TABLE trials RENAME TO elsewhere")
    says = "no such table.*nothing that is finished is lost, and the same command goes on"
    with pytest.raises(SourceError, match=says) as raised, speaking(short):
        ledger.trials()
    assert "\n" not in str(raised.value)


def test_a_worker_that_starts_while_the_database_is_gone_waits_for_it(tmp_path: Path) -> None:
    where = Where(f"sqlite:///{tmp_path}/s.db", "s")
    (tmp_path / "s.db").mkdir()
    with pytest.raises(ConfigError, match="cannot be opened"):
        opened(where)
    with pytest.raises(ConfigError, match="cannot be opened"):
        joined(replace(where, patience_s=0.3))
    threading.Timer(1.0, (tmp_path / "s.db").rmdir).start()
    assert joined(where).get_all_studies() == []


def test_a_password_is_never_shown() -> None:
    assert shown("postgresql://ann:secret@db/x") == "postgresql://ann@db/x"
    assert shown("sqlite:///a.db") == "sqlite:///a.db"
    assert first_line(ValueError("one\ntwo")) == "one"


def test_samplers_follow_from_dimension_and_budget() -> None:
    wide = Space((Dimension("x", 0.0, 1.0),))
    assert usual(SPACE, 1, trials=10) == "all"
    assert usual(SPACE, 1, trials=9) == "tpe"
    assert usual(wide, 1, trials=10_000) == "tpe"
    assert usual(wide, 2, trials=100) == "tpe"
    assert usual(wide, 2, trials=1000) == "nsga"


@pytest.mark.parametrize(
    ("name", "objectives", "says"), [("annealing", 1, "known: auto"), ("all", 1, "continuum"), ("gp", 2, "gp")]
)
def test_a_sampler_that_does_not_fit_is_refused(name: str, objectives: int, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        checked(name, Space((Dimension("x", 0.0, 1.0),)), objectives)
