"""A day of looks at the same noise: wider intervals while nothing changes, and a new count where something does."""

from dataclasses import replace
from math import exp
from random import Random

import pytest

from policies.control import Memory, View
from policies.fitted import ROWS
from policies.laws.static import Static
from policies.looks import MOVING_S, STILL_S, looked, widened
from policies.outlook import to_come
from policies.rules import DRIFT_S, Rules
from policies.state import State
from policies.viewing import view_of
from simulators.plant import Inventory, Observation
from simulators.snapshot import Row, Signal, Snapshot
from tests.plants import START, TOPOLOGY

STEP_S = 100.0


def view_at(now_s: float, logs: list[float], memory: Memory) -> View:
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


def look(view: View) -> Memory:
    return looked(view, to_come(view.snapshot, 8.0, 0.5))


def watched(logs: list[float]) -> tuple[View, Memory]:
    """The last view and what is remembered, where every step was looked at."""
    memory: Memory = {}
    for i in range(8, len(logs) + 1):
        view = view_at(STEP_S * i, logs[max(0, i - ROWS) : i], memory)
        memory = look(view)
    return view, memory


def test_the_worked_table() -> None:
    view = view_at(STEP_S * 1000, noise(0, ROWS), {})
    table = {looks: widened(view, {STILL_S: STEP_S * (1000 - looks)}) for looks in (10, 64, 128, 1000)}
    assert table == pytest.approx({10: 1.0, 64: 1.0, 128: 1.30, 1000: 1.94}, abs=0.005)


def test_what_stands_still_for_longer_than_the_view_holds_is_remembered() -> None:
    """Though now and then a look takes noise for a jump."""
    found = [watched(noise(seed, 400)) for seed in range(8)]
    assert sum(widened(*one) > 1.4 for one in found) >= 6
    forgotten = replace(found[0][0], memory={})
    assert widened(forgotten, look(forgotten)) == pytest.approx(1.0)


def test_a_jump_begins_a_new_count() -> None:
    view, memory = watched([*noise(3, 300), *noise(4, 20, at=0.4)])
    assert widened(view, memory) == 1.0
    assert float(memory[STILL_S]) >= 290 * STEP_S


def test_a_drift_stops_the_count_and_begins_a_new_one_where_it_lasts() -> None:
    drifting = [0.02 * i + x for i, x in enumerate(noise(5, 100))]
    soon, late = (watched([*noise(3, 300), *drifting[:steps]]) for steps in (40, 100))
    assert [widened(*one) for one in (soon, late)] == [1.0, 1.0]
    assert float(late[1][STILL_S]) >= 360 * STEP_S


def test_a_view_of_few_steps_begins_a_new_count() -> None:
    """After a move only the steps on the new number of engines are in view."""
    view = view_at(STEP_S * 500, noise(5, 12), {STILL_S: 0.0})
    assert look(view) == {STILL_S: STEP_S * (500 - 12)}


def test_a_job_without_a_step_time_is_looked_at_once() -> None:
    view = view_at(0.0, [], {})
    assert widened(replace(view, snapshot=Snapshot({})), {STILL_S: 0.0}) == 1.0


@pytest.mark.parametrize(
    ("memory", "ends_s", "horizon_s"),
    [
        ({}, 2e5, DRIFT_S),
        ({STILL_S: 9e4}, 2e5, DRIFT_S),
        ({STILL_S: 5e4}, 2e5, 5e4),
        ({STILL_S: 5e4}, 1.2e5, 2e4),
        ({STILL_S: 5e4, MOVING_S: 9.9e4}, 2e5, DRIFT_S),
    ],
)
def test_a_gain_counts_for_as_long_again_as_the_job_has_stood_still(
    memory: Memory, ends_s: float, horizon_s: float
) -> None:
    rules, seen = Rules(Static(), TOPOLOGY, ends_s=ends_s), Observation(1e5, Snapshot({}), START, Inventory())
    assert view_of(rules, State(memory=memory), seen).horizon_s == horizon_s
