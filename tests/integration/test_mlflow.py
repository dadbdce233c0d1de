"""A run at MLflow, logged and read by MLflow's own client, in a store on disk."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tuner.errors import ConfigError
from tuner.feeds.base import Cursor, Poll
from tuner.feeds.mlflow_run import SETTLED_S, MlflowRun
from tuner.live import LivePlant, source_at
from tuner.records import Record

mlflow = pytest.importorskip("mlflow", reason="MLflow's client is an extra: pip install 'equipoise[mlflow]'")
START_MS = 1_800_000_000_000


class Logged:
    """A run that a trainer writes."""

    def __init__(self, folder: Path) -> None:
        self.uri = f"file:{folder}/mlruns"
        self.client: Any = mlflow.MlflowClient(tracking_uri=self.uri)
        self.run = self.client.create_run(self.client.create_experiment("rl")).info.run_id

    @property
    def where(self) -> str:
        return f"{self.uri}/{self.run}"

    def step(self, number: int, **values: float) -> None:
        said = {"timing/step": 100.0, "timing/wait_for_generation_buffer": 30.0, **values}
        for key, value in said.items():
            self.client.log_metric(self.run, key, value, timestamp=START_MS + 100_000 * number, step=number)


@pytest.fixture
def logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Logged]:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    return Logged(tmp_path)


def told(poll: Poll) -> list[tuple[int | None, float]]:
    return [(item.step, item.values["timing/step"]) for item in poll.items if isinstance(item, Record)]


def at_s(step: int) -> float:
    """A moment after that step was logged, and before the step counts as settled."""
    return START_MS / 1000.0 + 100.0 * step + 1.0


def test_each_step_is_told_once_and_the_newest_when_it_is_whole(logged: Logged) -> None:
    for number in range(3):
        logged.step(number)
    cursor: Cursor = {}
    with closing(MlflowRun(logged.where)) as feed:
        first = feed.poll(cursor, at_s(2), 30.0)
        assert told(first) == [(0, 100.0), (1, 100.0)]
        second = feed.poll(first.cursor, at_s(2) + SETTLED_S, 30.0)
        assert told(second) == [(2, 100.0)]
        assert told(feed.poll(second.cursor, at_s(2) + 60.0, 30.0)) == []
        logged.step(3, **{"timing/step": 120.0})
        third = feed.poll(second.cursor, at_s(3) + SETTLED_S, 30.0)
    assert told(third) == [(3, 120.0)]
    with closing(MlflowRun(logged.where)) as feed:
        assert told(feed.poll(second.cursor, at_s(3) + SETTLED_S, 30.0)) == [(3, 120.0)], "a restart goes on there"


def test_a_live_job_is_known_by_its_run(logged: Logged) -> None:
    for number in range(6):
        logged.step(number, **{"system/gpu": 99.0})
    with closing(LivePlant([source_at(f"mlflow+{logged.where}")], deadline_s=30.0)) as plant:
        shown = plant.observe(at_s(5) + SETTLED_S).snapshot
        assert plant.topology.framework == "skyrl"
    assert (shown.get("step_s"), shown.get("trainer_wait_s"), len(shown.rows)) == (100.0, 30.0, 6)


def test_a_run_that_is_not_there_is_a_failure_in_words(logged: Logged) -> None:
    with closing(MlflowRun(f"{logged.uri}/{'0' * 32}")) as feed:
        poll = feed.poll({}, at_s(0), 30.0)
    assert poll.failure is not None
    assert "MLflow does not answer" in poll.failure


def test_what_names_no_run_is_refused(logged: Logged) -> None:
    for where in ("http://127.0.0.1:5000", "http://127.0.0.1:5000/run", "/"):
        with pytest.raises(ConfigError, match="RUN_ID"):
            source_at(f"mlflow+{where}")
    with pytest.raises(ConfigError, match="MLFLOW_TRACKING_TOKEN") as refused:
        source_at(f"mlflow+http://ann:swordfish@127.0.0.1:5000/{'0' * 32}")
    assert "swordfish" not in str(refused.value)
