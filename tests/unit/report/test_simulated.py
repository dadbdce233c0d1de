"""What became of a simulated job, on one screen, as JSON and as a page with pictures."""

import json
from dataclasses import replace
from functools import cache

import pytest

from policies.base import Interval
from policies.levers import Lever
from simulators.drift import By
from simulators.pipeline import simulate
from simulators.scenario import Event, EventKind, Scenario
from simulators.stations import Admission, Plug
from tests.unit.simulators.scenarios import small
from tuner.answers.advise import to_json
from tuner.report.simulated import Run, build, render
from tuner.report.simulated_html import render_simulated
from tuner.report.simulated_pictures import pictures_of_run, thinned
from tuner.report.text import Screen

LEVERS = (
    Lever("split", "3 + 5 GPUs", Interval(0.03, 0.05, 0.08), 0.021, 0.004, "legal: its ranks divide 64 rollouts"),
    Lever("tail", "cut responses at 1,500 tokens", None, None, None, "starved"),
)


@cache
def run(scenario: Scenario | None = None, levers: tuple[Lever, ...] = ()) -> Run:
    told = scenario or small(steps=30)
    return Run("small", "small.toml", told, 1, (), simulate(told, 1), "All is well.", levers)


def wasteful() -> Scenario:
    """Half of the prompts teach nothing and are filtered; for a while nothing is seen."""
    scenario = small(steps=200)
    solve = replace(scenario.workload.solve, never_frac=0.5)
    outage = Event(EventKind.METRICS_OUTAGE, at=300.0, by=By.TIME, until=900.0)
    return replace(
        scenario,
        workload=replace(scenario.workload, solve=solve),
        setpoints=replace(scenario.setpoints, filter_zero_adv=True),
        event=(outage,),
    )


def test_the_answer_fits_on_one_screen() -> None:
    for answer in (build(run()), build(run(wasteful(), LEVERS))):
        lines = render(answer, Screen()).splitlines()
        assert len(lines) <= Screen().rows
        assert max(len(line) for line in lines) <= 100


def test_the_headline_has_the_rate_and_who_waits() -> None:
    answer = build(run())
    assert "useful rollouts/s over 30 steps" in answer.headline
    assert "the trainer waits" in answer.headline


def test_a_job_that_stands_still_says_why() -> None:
    scenario = replace(small(), stations=replace(small().stations, admission=Admission(Plug.BUFFER_CAP, 2)))
    answer = build(run(scenario))
    assert answer.stopped is not None
    assert "stands still" in answer.headline
    assert "deadlock" in answer.headline
    assert render_simulated(answer, run(scenario)).startswith("<!doctype html>")


def test_figures_add_up_over_the_run() -> None:
    answer = build(run(wasteful()))
    assert answer.totals.steps == len(answer.steps) == 200
    assert answer.totals.trained_rollouts == 200 * 64
    assert answer.totals.useful_rollouts <= answer.totals.trained_rollouts < answer.totals.dispatched_rollouts
    assert sum(step["step_s"] for step in answer.steps) == pytest.approx(answer.totals.seconds)
    rate = next(f for f in answer.figures if f.signal == "gen_samples_per_s")
    assert rate.whole == pytest.approx(answer.totals.trained_rollouts / answer.totals.seconds)


def test_waste_is_told_by_cause_with_the_largest_first() -> None:
    waste = build(run(wasteful())).waste
    assert next(iter(waste)) == "filtered"
    assert 0.3 < waste["filtered"] < 0.7
    assert sum(waste.values()) <= 1.0


def test_events_stand_where_they_happened() -> None:
    events = build(run(wasteful())).events
    assert [(e.what, e.time_s) for e in events] == [("metrics-outage", 300.0), ("metrics-outage ends", 900.0)]
    assert 0 < events[0].step < events[1].step


def test_levers_are_told_with_bound_and_simulation_apart() -> None:
    text = " ".join(render(build(run(None, LEVERS)), Screen(columns=200)).split())
    assert "3 + 5 GPUs: at most +3%..+8% by rates; +2.1% simulated (se 0.4%); legal" in text
    assert "cut responses at 1,500 tokens: starved" in text


def test_the_json_answer_is_valid_and_finite() -> None:
    answer = json.loads(to_json(build(run(wasteful(), LEVERS))))
    assert answer["schema_version"] == 1
    assert {"scenario", "headline", "totals", "figures", "waste", "events", "levers", "steps"} <= answer.keys()


def test_a_page_has_its_pictures_each_with_a_table_and_runs_nothing() -> None:
    page = render_simulated(build(run(wasteful(), LEVERS)), run(wasteful(), LEVERS))
    for ident in ("rates", "idle", "waste", "queue", "staleness", "flight", "lengths", "latency"):
        assert (
            f'<section class="card{" half" if ident not in ("rates", "idle", "waste") else ""}" id="{ident}">' in page
        )
    assert "<script" not in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "metrics outage" in page


def test_a_run_of_a_single_step_has_figures_and_no_pictures() -> None:
    scenario = small(steps=1)
    assert pictures_of_run(run(scenario).plant.log) == ()
    assert "The run in figures" in render_simulated(build(run(scenario)), run(scenario))


def test_long_runs_are_drawn_as_means_that_keep_the_total_and_the_worst() -> None:
    log = run(wasteful()).plant.log
    rows = [row for row, _ in thinned(log, 50)]
    assert len(rows) <= 50
    assert sum(row.weight for row in rows) == len(log)
    worst = max(entry.row.values["staleness_max"] for entry in log)
    assert max(row.values["staleness_max"] for row in rows) == worst
