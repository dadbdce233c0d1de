"""A run's history at W&B: what a stand-in for its client answers, and that the real one is asked as it wants to be."""

import inspect
import json
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tuner.errors import ConfigError
from tuner.feeds.base import Cursor, Poll
from tuner.feeds.wandb_run import SETTLED_S, WandbRun
from tuner.live import LivePlant, source_at
from tuner.records import Configuration, Record

START_S = 1.8e9
WHERE = "team/project/run-1"
CLIENT = """\
import json, pathlib
STORE = pathlib.Path({store!r})
class Run:
    def __init__(self):
        self.config = {{"trainer": {{"nnodes": 2}}, "_wandb": {{"cli": 1}}, "some_api_key": "s3cret"}}
    def _rows(self):
        return [json.loads(line) for line in STORE.read_text().splitlines()]
    @property
    def lastHistoryStep(self):
        return max((row["_step"] for row in self._rows()), default=-1)
    def scan_history(self, keys=None, page_size=1000, min_step=0, max_step=None):
        return iter([row for row in self._rows() if min_step <= row["_step"] < max_step])
class Api:
    def __init__(self, overrides=None, timeout=None, api_key=None):
        assert isinstance(timeout, int)
    def run(self, path):
        if path != {where!r} or not STORE.exists():
            raise ValueError("Could not find run\\nand much more")
        return Run()
"""


class Logged:
    """A run that a trainer logs."""

    def __init__(self, store: Path) -> None:
        self.store = store

    def step(self, number: int, **more: object) -> None:
        row = {"_step": number, "_timestamp": START_S + 100.0 * number, "_runtime": 1.0, "time/step": 100.0}
        with self.store.open("a") as file:
            file.write(json.dumps(row | {"time/wait_for_batch": 30.0} | more) + "\n")


@pytest.fixture
def logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Logged]:
    store = tmp_path / "store.jsonl"
    (tmp_path / "wandb.py").write_text(CLIENT.format(store=str(store), where=WHERE))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    yield Logged(store)
    sys.modules.pop("wandb", None)


def told(poll: Poll) -> list[tuple[int | None, float]]:
    return [(item.step, item.values["time/step"]) for item in poll.items if isinstance(item, Record)]


def at_s(step: int) -> float:
    return START_S + 100.0 * step + 1.0


def test_each_row_is_told_once_and_the_newest_when_it_is_whole(logged: Logged) -> None:
    for number in range(3):
        logged.step(number)
    with closing(WandbRun(WHERE)) as feed:
        first = feed.poll({}, at_s(2), 30.0)
        assert told(first) == [(0, 100.0), (1, 100.0)]
        second = feed.poll(first.cursor, at_s(2) + SETTLED_S, 30.0)
        assert told(second) == [(2, 100.0)]
        assert told(feed.poll(second.cursor, at_s(3), 30.0)) == []


def test_a_restarted_daemon_goes_on_where_the_last_stood_and_hears_the_settings_again(logged: Logged) -> None:
    for number in range(4):
        logged.step(number)
    cursor: Cursor = {"row": 1}
    with closing(WandbRun(WHERE)) as feed:
        poll = feed.poll(cursor, at_s(9), 30.0)
    assert told(poll) == [(2, 100.0), (3, 100.0)]
    settings = [item.values for item in poll.items if isinstance(item, Configuration)]
    assert settings[0]["trainer.nnodes"] == 2
    assert not any(key.startswith("_wandb") for key in settings[0])


def test_media_and_words_are_passed_over(logged: Logged) -> None:
    logged.step(0, table={"_type": "table-file", "size": 3}, note="hello", reward="NaN")
    with closing(WandbRun(WHERE)) as feed:
        (record,) = [i for i in feed.poll({}, at_s(9), 30.0).items if isinstance(i, Record)]
    assert set(record.values) == {"time/step", "time/wait_for_batch", "reward"}


def test_a_job_is_known_by_its_run(logged: Logged) -> None:
    for number in range(6):
        logged.step(number)
    with closing(LivePlant([source_at(f"wandb+{WHERE}")], deadline_s=30.0)) as plant:
        shown = plant.observe(at_s(9)).snapshot
    assert shown.get("step_s") == 100.0


def test_a_run_that_is_not_there_is_a_failure_in_one_line(logged: Logged) -> None:
    with closing(WandbRun(WHERE)) as feed:
        poll = feed.poll({"row": 4}, at_s(1), 30.0)
    assert poll.failure == "W&B does not answer: ValueError: Could not find run"
    assert (poll.items, dict(poll.cursor), poll.answered) == ((), {"row": 4}, 0)


@pytest.mark.parametrize("where", ["", "run-1", "team/project", "https://wandb.ai/team/project/runs/r", "a/b/c/d"])
def test_what_is_no_run_is_refused_with_the_way_to_write_one(where: str) -> None:
    with pytest.raises(ConfigError, match="ENTITY/PROJECT/RUN_ID"):
        WandbRun(where)


def test_without_the_client_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ConfigError, match="pip install wandb"):
        source_at(f"wandb+{WHERE}")


def test_the_real_client_is_asked_as_it_wants_to_be() -> None:
    wandb = pytest.importorskip("wandb", reason="W&B's client is not installed here")
    runs = pytest.importorskip("wandb.apis.public")
    assert "timeout" in inspect.signature(wandb.Api.__init__).parameters
    assert {"page_size", "min_step", "max_step"} <= set(inspect.signature(runs.Run.scan_history).parameters)
    assert isinstance(inspect.getattr_static(runs.Run, "lastHistoryStep"), property)
