"""What the live job learns, how it drifts, and what its report tells of a recorded run."""

import shutil
from contextlib import closing
from pathlib import Path
from statistics import fmean

import pytest

from examples.live_job import plots, report, work
from examples.live_job.calibrate import Compared, table
from examples.live_job.contest import JUDGED_S, moves, within
from examples.live_job.live import drift_of
from examples.live_job.stage import Settings
from tuner.charter import decoded
from tuner.commands.explain import told_of
from tuner.journal import viewed

DATA = Path(__file__).parents[2] / "data" / "live_job"


def test_the_mix_goes_from_its_first_to_its_last_state_and_stays_there() -> None:
    first, last = work.mix_at(0.0), work.mix_at(1.0)
    assert (first.prompt_tokens, last.answer_tokens) == (work.FIRST.prompt_tokens, work.LAST.answer_tokens)
    assert work.mix_at(-1.0) == first
    assert work.mix_at(7.0) == last
    assert first.answer_tokens < work.mix_at(0.5).answer_tokens < last.answer_tokens


def test_a_run_begins_and_ends_quietly() -> None:
    drift = drift_of(300.0)
    assert drift["quiet_s"] >= 60.0
    assert drift["quiet_s"] + drift["drift_s"] <= 240.0


def test_a_calibration_is_judged_by_what_it_had_not_seen_and_beside_its_own_noise() -> None:
    seen = Compared(Settings(2, 2), (10.0, 10.0), 10.0)
    others = [
        Compared(Settings(3, 1), (4.0, 6.0), 5.5),
        Compared(Settings(1, 3), (8.0, 8.0), 8.0),
        Compared(Settings(2, 2, 32), (20.0, 20.0), 15.0),
    ]
    told = table([seen, *others])
    assert told.endswith("of 3 settings never seen: median error 10.0%, worst 25.0%")
    assert "50.0% |      5.50 | +10.0%" in told


def test_the_same_prompt_is_the_same_in_every_run() -> None:
    mix = work.mix_at(0.3)
    assert work.task_at(17, mix) == work.task_at(17, mix)
    assert work.task_at(17, mix).prompt != work.task_at(18, mix).prompt


@pytest.mark.parametrize("progress", [0.0, 0.5, 1.0])
def test_tasks_are_on_average_what_the_mix_says(progress: float) -> None:
    mix = work.mix_at(progress)
    tasks = [work.task_at(n, mix) for n in range(600)]
    limits = [work.answer_limit(task, member, 0) for task in tasks for member in range(4)]
    assert fmean(task.turns for task in tasks) == pytest.approx(mix.turns, rel=0.1)
    assert fmean(len(task.prompt) for task in tasks) == pytest.approx(mix.prompt_tokens, rel=0.1)
    # The median is the mix's; sigma 0.5 makes the mean exp(0.125) times that.
    assert fmean(limits) == pytest.approx(1.133 * mix.answer_tokens, rel=0.1)


def test_only_the_end_of_an_answer_is_judged() -> None:
    task = work.task_at(1, work.mix_at(0.0))
    assert work.reward(task, "x" * 500 + "e" * 64) == 1.0
    assert work.reward(task, "e" * 500 + "x" * 64) == 0.0


@pytest.fixture
def run(tmp_path: Path) -> Path:
    shutil.copy(DATA / "controlled.jsonl", tmp_path / "steps.jsonl")
    shutil.copy(DATA / "controlled.journal", tmp_path / "equipoise.journal")
    return tmp_path


def test_the_report_tells_each_move_with_what_it_promised_and_gave(run: Path) -> None:
    told = report.told(run)
    assert "ticks, 2 moves" in told
    assert "2 : 2 GPUs: +24.3% (+17.1%..+26.7%) by the model" in told
    assert "predicted +27.5% (+17.1%..+38.9%), realised -7.1% (-63.1%..+133.9%): no clear loss" in told
    assert "1 : 3 GPUs: +18.9% (+5.3%..+35.5%) by the model" in told
    assert "predicted +33.5% (+5.3%..+47.4%), realised -27.5% (-68.0%..+64.4%): no clear loss" in told


def test_the_contest_finds_the_moves_of_a_recorded_run_and_the_minute_after_each(run: Path) -> None:
    found = moves(run)
    assert [(move.before, move.after) for move in found] == [(3, 2), (2, 1)]
    steps = report.steps_of(run)
    first = steps[0]["timestamp"]
    for at_s in (move.at_s for move in found):
        minute = within(steps, at_s - first)
        assert minute
        assert all(at_s <= s["timestamp"] - s["step_s"] <= s["timestamp"] <= at_s + JUDGED_S for s in minute)


def test_each_move_of_a_recorded_run_is_explained_with_its_promise_beside_what_it_gave(run: Path) -> None:
    with closing(viewed(run / "equipoise.journal")) as book:
        entries, charter = list(book.entries()), decoded(book.charter() or "")
    names = [entry.decision.decision_id.partition(".")[0] for entry in entries]
    for move in moves(run):
        told = told_of(entries, charter, names.index(move.ident))
        assert move.reason in told.decision.reason
        assert told.limits
        assert told.considered
        assert "gain > cost" in told.models
        assert (
            f"predicted {report.in_words(move.predicted)}, realised {report.in_words(move.realised)}" in told.after[-1]
        )


def test_the_pictures_show_all_five(run: Path) -> None:
    drawn = plots.document(run)
    assert drawn.count("<polyline") == 2 + 2 + 3 + 1 + 1
