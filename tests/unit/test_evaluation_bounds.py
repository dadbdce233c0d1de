"""An evaluation counts each bound that a law breaks, by what the job really did, and none that doing nothing breaks."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from policies.base import Interval
from policies.commands import ControlMode
from policies.control import Hold, Policy, Proposal, View
from policies.settings import merged, values
from policies.state import State
from simulators.clock import VirtualClock
from simulators.pipeline import SimulatedPlant
from simulators.plant import Bounds, Setpoints
from simulators.scenario import Move, Scenario
from simulators.stations import Admission, Order, Plug, Sandboxes, Trainer
from simulators.step_log import Rollouts, StepLog
from simulators.workload import Lengths, Workload
from tests.unit.simulators.scenarios import small
from tuner.charter import rules_of
from tuner.evaluation.breaking import BLOCK_STEPS, START_QUOTA, Excess, beyond, excesses
from tuner.evaluation.controlled import charter_of, controlled, nothing
from tuner.evaluation.tasks import Task, extended
from tuner.loop import NoInbox, NoLedger, Parts, run


def starved(**bounds: float) -> Scenario:
    """A generator that limits, prompts of very different lengths, 512 rollouts in flight for batches of 256."""
    job = small(64, tuple(Move(knob) for knob in ("oversampling_ratio", "max_in_flight")))
    lengths = Lengths(1000.0, sigma=1.0, max_tokens=8192, between_prompt_frac=0.7)
    return replace(
        job,
        setpoints=replace(job.setpoints, batch_rollouts=256, max_in_flight=512),
        workload=Workload(Lengths(200.0), lengths),
        stations=replace(job.stations, trainer=Trainer(2.0, 2e-5), admission=Admission()),
        bounds=Bounds(**{"staleness_max": 3.0, **bounds}),  # type: ignore[arg-type]
    )


@dataclass(frozen=True)
class Greedy:
    """Wants this at once, and says that it gains half as much again."""

    wish: Setpoints

    def decide(self, view: View) -> Proposal | Hold:
        if merged(view.in_force, self.wish) == view.in_force:
            return Hold("it is in force")
        return Proposal(self.wish, "more is more", Interval(0.4, 0.5, 0.6))


THROWS_LONG_ONES_AWAY = Greedy(Setpoints(oversampling_ratio=2.0, max_in_flight=1024))
FILLS_UP = Greedy(Setpoints(max_in_flight=4096))


def task(scenario: Scenario) -> Task:
    return Task("starved", scenario, "threshold", 0, goal=nothing(Task("starved", scenario, "static", 0)).goal)


def unguarded(scenario: Scenario, law: Policy) -> dict[str, tuple[Excess, ...]]:
    """What the same job breaks of its bounds where the controller is told of none."""
    plant = SimulatedPlant(extended(scenario))
    by = replace(rules_of(charter_of(task(scenario))), policy=law, bounds=Bounds(kept_over_attempted_min=0.0))
    parts = Parts(plant, by, VirtualClock(), NoLedger(), NoInbox(), 60.0)
    run(parts, State(mode=ControlMode.AUTO), 4000.0)
    assert set(values(law.wish)) <= set(values(plant.observe(4000.0).in_force))  # type: ignore[attr-defined]
    return excesses(scenario, plant.log)


@pytest.mark.parametrize(
    ("law", "bound"), [(THROWS_LONG_ONES_AWAY, "length-bias"), (FILLS_UP, "staleness")], ids=["throws away", "fills up"]
)
def test_a_greedy_law_is_counted_and_the_guardrails_hold_it(law: Greedy, bound: str) -> None:
    scenario = starved()
    still = nothing(Task("starved", scenario, "static", 0))
    assert still.violations == {}
    found = beyond(unguarded(scenario, law), still.excess)
    assert found.get(bound, 0) >= 2 * BLOCK_STEPS
    guarded = controlled(task(scenario), law)
    assert guarded.violations == {}
    assert guarded.holds.get("bound", 0) > 0


@pytest.mark.parametrize("policy", ["threshold", "rate_balance", "lending", "predictive"])
def test_no_law_of_ours_breaks_what_doing_nothing_keeps(policy: str) -> None:
    assert controlled(replace(task(starved()), policy=policy)).violations == {}


def test_what_doing_nothing_breaks_as_far_is_nobody_s_fault() -> None:
    still = {"staleness": ((0.5, 0.1), (1.0, 0.1)), "budget": ((8.0, 0.0),)}
    assert beyond({"staleness": ((1.0, 0.1), (1.2, 0.1)), "budget": ((8.0, 0.0), (8.0, 0.0))}, still) == {}
    worse = {"staleness": ((0.5, 0.1), (1.3, 0.1)), "budget": ((16.0, 0.0),), "length-bias": ((0.02, 0.005),)}
    assert beyond(worse, still) == {"staleness": 1, "budget": 1, "length-bias": 1}
    late = nothing(Task("starved", starved(staleness_max=1.0), "static", 0))
    assert late.violations["staleness"] > 0
    assert beyond(late.excess, late.excess) == {}


# ---- bound by bound ----


@pytest.fixture(scope="module")
def log() -> list[StepLog]:
    plant = SimulatedPlant(starved())
    plant.advance()
    return plant.log


def broken(log: list[StepLog], scenario: Scenario | None = None) -> dict[str, int]:
    return {name: len(found) for name, found in excesses(scenario or starved(), log).items()}


def with_job(log: list[StepLog], **setpoints: int) -> list[StepLog]:
    """Its last step under other settings."""
    last = log[-1]
    return [*log[:-1], replace(last, job=replace(last.job, setpoints=replace(last.job.setpoints, **setpoints)))]


def test_gpus_that_pools_add_are_over_the_budget(log: list[StepLog]) -> None:
    assert broken(log) == {}
    assert broken(with_job(log, gpus_generator=7)) == {"budget": 1}
    assert broken(with_job(log, gpus_prefill=4, gpus_decode=4)) == {"budget": 1}
    assert broken(with_job(log, gpus_prefill=2, gpus_decode=4)) == {}
    assert broken(log, replace(starved(), bounds=Bounds(gpus_total_max=7))) == {"budget": len(log)}


def test_sizes_and_limits_hold_in_every_step(log: list[StepLog]) -> None:
    tight = replace(starved(), bounds=Bounds(gpus_trainer_min=2, max_in_flight_max=512))
    assert broken(log, tight) == {}
    assert broken(with_job(log, gpus_trainer=1, max_in_flight=600), tight) == {"in-flight": 1, "trainer-size": 1}


def with_shown(entry: StepLog, **shown: float) -> StepLog:
    return replace(entry, row=replace(entry.row, values={**entry.row.values, **shown}))


def test_discarding_is_held_to_its_worst_and_a_cap_to_its_mean(log: list[StepLog]) -> None:
    old = [*log[:-1], with_shown(log[-1], staleness_max=99.0)]
    strict = [
        replace(e, job=replace(e.job, stations=replace(e.job.stations, admission=Admission(Plug.DISCARD_STALE))))
        for e in old
    ]
    bounds = Bounds(staleness_max=50.0)
    discards = replace(starved(), bounds=bounds, stations=strict[0].job.stations)
    assert broken(strict, discards) == {"staleness": 1}
    assert broken(old, replace(starved(), bounds=bounds)) == {}
    older = [*log[:BLOCK_STEPS], *(with_shown(entry, staleness_mean=4.0) for entry in log[BLOCK_STEPS:])]
    assert broken(older) == {"staleness": len(log) - BLOCK_STEPS}
    assert broken([*log[:-1], with_shown(log[-1], staleness_mean=4.0)]) == {}, "one step is chance"


def test_a_bias_counts_beyond_what_its_steps_scatter(log: list[StepLog]) -> None:
    """All 85 % of what was attempted: once alike in every step, once from a half to more than all."""

    def kept(shares: list[float]) -> list[StepLog]:
        whole = Rollouts(256, 256_000, 128)
        return [
            replace(e, attempted=whole, trained=Rollouts(256, round(256_000 * share), 128))
            for e, share in zip(log, shares, strict=True)
        ]

    assert broken(kept([0.85] * len(log))) == {"length-bias": len(log)}
    assert broken(kept([0.5, 1.2] * (len(log) // 2))) == {}
    unsolved = [replace(e, attempted=Rollouts(256, 1000, 128), trained=Rollouts(256, 1000, 100)) for e in log]
    assert broken(unsolved) == {"solve-bias": len(log)}


def test_lengths_that_grow_while_a_rollout_waits_are_no_bias(log: list[StepLog]) -> None:
    """4 % a step, and trained four steps after: 85 % of what is attempted meanwhile, and all of what was then."""

    def trained_after(steps: int, age: float) -> dict[str, int]:
        tokens = [round(256_000 * 1.04**place) for place in range(len(log))]
        grown = []
        for place, entry in enumerate(log):
            trained, attempted = (Rollouts(256, tokens[at], 128) for at in (max(0, place - steps), place))
            grown.append(replace(with_shown(entry, staleness_mean=age), trained=trained, attempted=attempted))
        return broken(grown, replace(starved(), bounds=Bounds()))

    assert trained_after(4, 4.0) == {}
    assert "length-bias" in trained_after(4, 0.0)


def test_a_sandbox_quota_is_held_against_what_is_in_flight_and_against_what_is_started(log: list[StepLog]) -> None:
    def in_boxes(**limits: Any) -> list[StepLog]:
        boxes = Sandboxes(start_s=1.0, **limits)
        return [replace(e, job=replace(e.job, stations=replace(e.job.stations, sandboxes=boxes))) for e in log]

    assert broken(in_boxes(live_limit=600)) == {}
    assert broken(in_boxes(live_limit=400))["sandbox-quota"] > len(log) - BLOCK_STEPS
    per_s = sum(e.row.values["dispatched"] for e in log) / sum(e.row.values["step_s"] for e in log)
    assert broken(in_boxes(starts_per_s_limit=1.5 * per_s)) == {}
    assert broken(in_boxes(starts_per_s_limit=0.5 * per_s)) == {START_QUOTA: len(log) - BLOCK_STEPS}


def test_a_quota_that_falls_is_broken_by_whoever_lowered_it_and_by_whoever_then_asks_for_more(
    log: list[StepLog],
) -> None:
    def falls(flights: dict[int, float]) -> dict[str, int]:
        found = []
        for place, entry in enumerate(log):
            boxes = Sandboxes(start_s=1.0, live_limit=600 if place < 40 else 300)
            stations = replace(entry.job.stations, sandboxes=boxes)
            shown = with_shown(entry, inflight_rollouts=flights.get(place, 500.0))
            found.append(replace(shown, job=replace(entry.job, stations=stations)))
        return broken(found)

    assert falls({}) == {}
    assert falls({39: 550.0, 45: 540.0}) == {}
    assert falls({45: 540.0, 50: 290.0}) == {"sandbox-quota": 1}
    assert falls({20: 650.0}) == {"sandbox-quota": 1}


def test_the_order_of_admission_is_held_to_its_worst_too() -> None:
    job = small(20)
    ordered = replace(job, stations=replace(job.stations, admission=Admission(Plug.WIP_CAP, 24, order=Order.ADMISSION)))
    plant = SimulatedPlant(ordered)
    plant.advance()
    worst = max(entry.row.values["staleness_max"] for entry in plant.log)
    assert broken(plant.log, replace(ordered, bounds=Bounds(staleness_max=worst))) == {}
    assert "staleness" in broken(plant.log, replace(ordered, bounds=Bounds(staleness_max=worst - 1.0)))
