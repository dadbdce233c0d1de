"""trainer_state.json: the history, what it was set to, and a torn end."""

import json
from collections.abc import Callable

import pytest

from tuner.errors import SourceError
from tuner.records import Configuration, Record, Remark
from tuner.sources import trainer_state
from tuner.sources.base import Opened

Make = Callable[..., Opened]

STATE = {
    "best_metric": None,
    "epoch": 0.1,
    "global_step": 20,
    "logging_steps": 10,
    "max_steps": 500,
    "log_history": [
        {"step": 10, "epoch": 0.05, "loss": 0.5, "reward": 0.25, "completions/mean_length": 142.7},
        {"step": 20, "epoch": 0.1, "eval_loss": 0.4, "eval_runtime": 12.5},
        {"step": 20, "train_runtime": 812.5, "train_steps_per_second": 0.02},
    ],
}


def test_the_history_comes_row_by_row_with_the_settings(opened: Make) -> None:
    items = list(trainer_state.read(opened(json.dumps(STATE, indent=2)), ()))
    found = [item for item in items if isinstance(item, Record)]
    assert [r.step for r in found] == [10, 20, 20]
    assert found[0].values["completions/mean_length"] == 142.7
    assert found[2].values["train_runtime"] == 812.5
    assert found[1].origin == "job.log:log_history[1]"
    (config,) = [item for item in items if isinstance(item, Configuration)]
    assert config.values == {"logging_steps": 10, "max_steps": 500}


def test_a_state_that_breaks_off_gives_the_rows_before(opened: Make) -> None:
    text = json.dumps(STATE, indent=2)
    items = list(trainer_state.read(opened(text[: text.index("train_runtime")]), ()))
    assert [item.step for item in items if isinstance(item, Record)] == [10, 20]
    (remark,) = [item for item in items if isinstance(item, Remark)]
    assert remark.code == "truncated-record"
    assert "after 2 rows" in remark.detail


@pytest.mark.parametrize(
    "text", ["", "{}", '{"log_history": []}', '{"log_history": 3}', '{"log_history"', "[" * 90_000]
)
def test_a_state_without_history_is_refused(opened: Make, text: str) -> None:
    with pytest.raises(SourceError, match=r"job\.log"):
        list(trainer_state.read(opened(text), ()))
