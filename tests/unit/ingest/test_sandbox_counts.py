"""Counters of sandboxes: who lives, what fails, what leaks."""

import pytest

from simulators.snapshot import Row, Snapshot
from simulators.window import assemble
from tuner.ingest.following import Follower, Stream
from tuner.ingest.sandbox_counts import SERVED, leak
from tuner.records import Record

NOW_S = 1.8e9


def seen(framework: str = "auto", **values: float) -> Snapshot:
    """What is known of a job whose trainer logs one thing, and whose orchestrator serves these beside it."""
    follower = Follower(framework=framework)
    row = Record({"time/step": 100.0, "time/wait_for_batch": 20.0}, 7, NOW_S)
    follower.take(Stream("metrics.jsonl", "jsonl"), [row])
    for scrape in range(3):
        gauges = Record(values, time_s=NOW_S + 10.0 * scrape)
        follower.take(Stream("orchestrator", "prometheus", sampled=True), [gauges])
    reading = follower.reading(NOW_S + 20.0)
    assert reading is not None
    assert reading.snapshot.get("step_s") == 100.0
    return reading.snapshot


@pytest.mark.parametrize("framework", ["auto", "prime-rl"])
def test_totals_of_starts_and_ends_say_how_many_live_and_fail(framework: str) -> None:
    totals = dict(zip(SERVED, (1000.0, 900.0, 50.0), strict=True))
    shown = seen(framework, **totals)
    assert (shown.get("sandbox_active"), shown.get("sandbox_fail_frac")) == (100.0, pytest.approx(0.05))
    assert shown.signals["sandbox_active"].age_s == 0.0


def test_a_stated_number_of_live_sandboxes_wins_over_the_count() -> None:
    shown = seen(rl_sandbox_active=90.0, rl_sandboxes_started_total=1000.0, rl_sandboxes_ended_total=900.0)
    assert shown.get("sandbox_active") == 90.0


@pytest.mark.parametrize(
    ("alive", "in_flight", "leaks"), [(520, 512, False), (700, 512, True), (12, 0, False), (20, 0, True)]
)
def test_sandboxes_that_no_rollout_holds_are_a_leak(alive: float, in_flight: float, leaks: bool) -> None:
    rows = [Row({"sandbox_active": alive, "inflight_rollouts": in_flight}, 1, NOW_S)]
    assert (leak(assemble(rows)) is not None) == leaks


def test_a_leak_is_told_with_its_number() -> None:
    notes = {
        note.code: note.detail for note in seen(rl_step=7.0, rl_sandbox_active=700.0, rl_inflight_rollouts=512.0).notes
    }
    assert "188 are held by nobody" in notes["sandbox-leak"]


def test_nothing_is_said_where_one_of_both_is_unknown() -> None:
    assert leak(assemble([Row({"sandbox_active": 700.0}, 1, NOW_S)])) is None
