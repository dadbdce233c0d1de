"""Stories: rows of published tables go in through the library, and a person would agree with what comes out."""

import json
from typing import Any

import pytest

from policies.base import Advice
from policies.diagnosis.waiting import stored_batches
from policies.estimators import estimate
from policies.recommendations import advise
from simulators.calibration.headroom import queue_room
from tests.stories.answers import CASES, moves, rank_of, wrong_moves
from tests.stories.rows import job_of

TABLES: dict[str, dict[str, Any]] = json.loads((CASES / "expected.json").read_text(encoding="utf-8"))["tables"]
ROWS = [(table, name) for table in TABLES for name in TABLES[table]["rows"]]
every_row = pytest.mark.parametrize(("table", "name"), ROWS, ids=[f"{t[:3]} {n}" for t, n in ROWS])


def advice_on(table: str, name: str) -> Advice:
    return advise(*job_of(table, name))


@every_row
def test_the_verdict_on_a_row_is_one_that_a_person_would_give(table: str, name: str) -> None:
    diagnosis = advice_on(table, name).diagnosis
    assert diagnosis.verdict.value in TABLES[table]["rows"][name]["verdicts"], diagnosis.headline


@every_row
def test_no_wrong_move_on_a_row_is_among_the_first_three(table: str, name: str) -> None:
    assert wrong_moves(advice_on(table, name), TABLES[table]["rows"][name]["forbidden"]) == []


@pytest.mark.parametrize(("table", "name"), [(t, n) for t, n in ROWS if "first" in TABLES[t]["rows"][n]])
def test_the_clear_first_move_on_a_row_comes_first(table: str, name: str) -> None:
    advice = advice_on(table, name)
    assert rank_of(advice, [TABLES[table]["rows"][name]["first"]]) == 1, moves(advice)


@pytest.mark.parametrize(("name", "wall_s", "steps_s"), [("r1-dp2", 25.0, 12_480), ("r1-dp3-inflight384", 6.35, 3_180)])
def test_the_wall_step_of_a_row_adds_its_share_of_the_weight_sync(name: str, wall_s: float, steps_s: float) -> None:
    """Checked against the printed time of 500 steps: 3 h 28 and 53 min."""
    job = job_of("A12_trl_asyncgrpo_5runs.csv", name)
    step = estimate(*job).get("step_s")
    assert step is not None
    assert step == pytest.approx(wall_s, rel=0.005)
    assert 500 * step == pytest.approx(steps_s, rel=0.01)


def test_a_step_that_is_not_stated_is_the_sum_of_its_parts_only_when_all_are_known() -> None:
    stated = job_of("A12_trl_asyncgrpo_5runs.csv", "r1-dp2-tb16k-nockpt").snapshot
    assert stated.get("step_s") == pytest.approx(4.6 + 0.6 + 7.6 / 4)
    assert job_of("A12_trl_asyncgrpo_5runs.csv", "r1-dp3-tb16k-nockpt").snapshot.get("step_s") is None


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("r1-dp2", "full"),
        ("r1-dp2-tb16k", "room"),
        ("r1-dp2-tb16k-nockpt", "lacks a batch"),
        ("r1-dp3-inflight384", "full"),
    ],
)
def test_a_queue_is_found_full_where_the_generator_is_blocked_and_lacks_a_batch_where_the_trainer_waits(
    name: str, found: str
) -> None:
    """Runs 1 and 5 log a generator blocked for 15 and 5 s a group, run 3 a trainer that waits for 8 % of the time."""
    job = job_of("A12_trl_asyncgrpo_5runs.csv", name)
    known = estimate(*job)
    stored, room = stored_batches(known), queue_room(job.setpoints, known)
    assert stored is not None
    assert ("lacks a batch" if stored < 1.0 else "full" if room is None else "room") == found


def test_parts_that_exceed_a_step_are_no_contradiction_when_they_are_averages() -> None:
    job = job_of("A19_verl_fully_async_tables.csv", "7B-28k/fully_async/32")
    parts = (job.snapshot.get("trainer_wait_s") or 0.0) + (job.snapshot.get("trainer_busy_s") or 0.0)
    assert parts > (job.snapshot.get("step_s") or 0.0)
    assert advise(*job).diagnosis.verdict.value != "bad-data"


def test_the_trainer_gets_one_small_step_not_the_naive_split() -> None:
    """96:32 measured wait 7.8 %: one step to the trainer and measure again, not 30 GPUs at once."""
    advice = advice_on("A19_verl_fully_async_tables.csv", "30B-A3B-8k/fully_async")
    proposed = [r.proposed for r in advice.recommendations if r.knob == "gpus_trainer"]
    assert proposed
    assert all(isinstance(gpus, int | float) and 32 < gpus <= 48 for gpus in proposed)
