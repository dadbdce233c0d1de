"""A day of looks at the same noise: wider intervals while nothing changes, and a new count where something does."""

from dataclasses import replace
from math import exp
from random import Random

import pytest

from policies.control import View
from policies.fitted import ROWS
from policies.looks import STILL_S, still_since_s, widened
from policies.outlook import to_come
from simulators.snapshot import Row, Signal, Snapshot
from tests.plants import START, TOPOLOGY

STEP_S = 100.0


def view_at(now_s: float, logs: list[float], memory: dict[str, float | str]) -> View:
    """The last steps of a job whose trainer needs e^log times as long."""
    told = {"batch_rollouts": 100.0, "tpot_s": 0.01, "resp_len_mean": 100.0, "engines": 24.0, "step_s": STEP_S}
    count = len(logs)
    rows = [
        Row({**told, "trainer_busy_s": 100.0 * exp(x)}, i, now_s - STEP_S * (count - 1 - i)) for i, x in enumerate(logs)
    ]
    known = Snapshot({"step_s": Signal(STEP_S, "s")}, rows=tuple(rows))
    return View(now_s, known, START, TOPOLOGY, memory=memory)


def noise(seed: int, count: int, at: float = 0.0) -> list[float]:
    draw = Random(seed)
    return [at + draw.gauss(0.0, 0.05) for _ in range(count)]


def watched(logs: list[float], steps: int) -> tuple[View, float]:
    """The view after so many steps, each looked at, and since when the job is thought to stand still."""
    memory: dict[str, float | str] = {}
    for i in range(8, steps + 1):
        view = view_at(STEP_S * i, logs[max(0, i - ROWS) : i], memory)
        since_s = still_since_s(view, to_come(view.snapshot, 8.0, 0.5))
        memory = {STILL_S: since_s}
    return view, since_s


def test_the_worked_table() -> None:
    view = view_at(STEP_S * 1000, noise(0, ROWS), {})
    table = {looks: widened(view, STEP_S * (1000 - looks)) for looks in (10, 64, 128, 1000)}
    assert table == pytest.approx({10: 1.0, 64: 1.0, 128: 1.30, 1000: 1.94}, abs=0.005)


def test_what_stands_still_for_longer_than_the_view_holds_is_remembered() -> None:
    """One look in fifty takes noise for a drift, and begins a new count."""
    found = [watched(noise(seed, 400), 400) for seed in range(8)]
    assert sum(widened(view, since_s) > 1.4 for view, since_s in found) >= 6
    view, _ = found[0]
    forgotten = replace(view, memory={})
    assert widened(forgotten, still_since_s(forgotten, to_come(view.snapshot, 8.0, 0.5))) == pytest.approx(1.0)


def test_a_jump_begins_a_new_count() -> None:
    view, since_s = watched([*noise(3, 300), *noise(4, 20, at=0.4)], 320)
    assert since_s >= 290 * STEP_S
    assert widened(view, since_s) == 1.0


def test_a_view_of_few_steps_begins_a_new_count() -> None:
    """After a move only the steps on the new number of engines are in view."""
    view = view_at(STEP_S * 500, noise(5, 12), {STILL_S: 0.0})
    assert still_since_s(view, to_come(view.snapshot, 8.0, 0.5)) == STEP_S * (500 - 12)


def test_a_job_without_a_step_time_is_looked_at_once() -> None:
    view = view_at(0.0, [], {})
    assert widened(replace(view, snapshot=Snapshot({})), 0.0) == 1.0
