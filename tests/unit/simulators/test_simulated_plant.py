"""A simulated job as a plant: orders take their time, may fail or be refused, and cost what they cost."""

from dataclasses import replace

import pytest

from simulators.drift import By, Drift
from simulators.pipeline import SimulatedPlant, simulate
from simulators.plant import Change, Observation, Order, Receipt, Setpoints, Status, TrainerResize
from simulators.scenario import Event, EventKind, Horizon, Measurement, Move, Scenario
from simulators.stations import Verifier
from tests.unit.simulators.scenarios import HOT, RESTART, small
from tuner.scenario_files import load

SPLIT = Setpoints(gpus_trainer=3, gpus_generator=5)


def order(knobs: Setpoints, name: str = "d1", token: int = 0) -> Order:
    return Order(knobs, name, token)


def statuses(receipt: Receipt) -> dict[str, str]:
    return {knob: outcome.status.value for knob, outcome in receipt.outcomes.items()}


def gpus(seen: Observation) -> tuple[int | None, int | None]:
    return seen.inventory.gpus_trainer, seen.inventory.gpus_generator


def test_the_same_seed_gives_the_same_run_and_another_one_does_not() -> None:
    runs = [simulate(small(), seed).log for seed in (3, 3, 4)]
    assert [log.row for log in runs[0]] == [log.row for log in runs[1]]
    assert [log.row for log in runs[0]] != [log.row for log in runs[2]]


def test_looking_more_often_changes_nothing() -> None:
    seldom, often = SimulatedPlant(small(), 1), SimulatedPlant(small(), 1)
    seldom.observe(400.0)
    for second in range(0, 401, 7):
        often.observe(float(second))
    often.observe(400.0)
    assert [log.row.step for log in seldom.log] == [log.row.step for log in often.log]
    assert [log.row.time_s for log in seldom.log] == pytest.approx([log.row.time_s for log in often.log])


def test_a_hot_knob_without_delay_is_in_force_at_once() -> None:
    plant = SimulatedPlant(small())
    assert plant.apply(order(Setpoints(max_in_flight=40)), 50.0).status is Status.APPLIED
    assert plant.observe(50.0).in_force.max_in_flight == 40


def test_gpus_that_change_sides_serve_neither_until_they_arrive() -> None:
    plant = SimulatedPlant(small())
    receipt = plant.apply(order(SPLIT), 100.0)
    assert statuses(receipt) == {"gpus_trainer": "pending", "gpus_generator": "pending"}
    assert receipt.outcomes["gpus_trainer"].effective_at_s == pytest.approx(160.0)
    on_the_way, arrived = plant.observe(150.0), plant.observe(161.0)
    assert (on_the_way.in_force.gpus_trainer, gpus(on_the_way)) == (2, (2, 5))
    assert (arrived.in_force.gpus_trainer, gpus(arrived)) == (3, (3, 5))


def test_an_order_that_is_repeated_is_carried_out_once() -> None:
    plant = SimulatedPlant(small())
    first, again = plant.apply(order(SPLIT), 100.0), plant.apply(order(SPLIT, "d2"), 130.0)
    assert again.status is Status.PENDING
    assert again.outcomes["gpus_trainer"].effective_at_s == first.outcomes["gpus_trainer"].effective_at_s
    assert plant.apply(order(SPLIT, "d3"), 170.0).status is Status.APPLIED


def test_a_knob_under_way_is_not_ordered_elsewhere() -> None:
    plant = SimulatedPlant(small())
    plant.apply(order(SPLIT), 100.0)
    receipt = plant.apply(order(Setpoints(gpus_trainer=1, gpus_generator=7), "d2"), 110.0)
    assert receipt.status is Status.REFUSED
    assert "d1 still moves" in receipt.outcomes["gpus_trainer"].reason


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        (Setpoints(sync_interval=2), "no actuator for sync_interval"),
        (Setpoints(gpus_trainer=3), "use 9 of topology.gpus_total=8"),
        (Setpoints(gpus_trainer=8, gpus_generator=0), "gpus_generator=0"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(knobs: Setpoints, words: str) -> None:
    plant = SimulatedPlant(small())
    receipt = plant.apply(order(knobs), 10.0)
    assert receipt.status is Status.REFUSED
    assert words in " ".join(o.reason for o in receipt.outcomes.values())
    assert plant.observe(20.0).in_force == small().setpoints


def test_a_trainer_whose_checkpoints_cannot_be_resized_is_not_resized() -> None:
    scenario = replace(small(), topology=replace(small().topology, trainer_resize=TrainerResize.IMPOSSIBLE))
    assert SimulatedPlant(scenario).apply(order(SPLIT), 0.0).outcomes["gpus_trainer"].status is Status.REFUSED


def test_an_older_writer_is_refused() -> None:
    plant = SimulatedPlant(small())
    plant.apply(order(Setpoints(max_in_flight=40), token=5), 0.0)
    assert plant.apply(order(Setpoints(max_in_flight=50), "d2", token=4), 1.0).status is Status.REFUSED


def test_a_move_that_fails_leaves_all_as_it_was() -> None:
    moves = tuple(replace(move, failure_frac=1.0) for move in HOT)
    plant = SimulatedPlant(small(moves=moves))
    assert plant.apply(order(SPLIT), 100.0).status is Status.PENDING
    after = plant.observe(200.0)
    assert (after.in_force.gpus_trainer, gpus(after)) == (2, (2, 6))


def test_a_restart_costs_its_time_and_what_was_in_flight() -> None:
    told, left = SimulatedPlant(small(moves=RESTART)), SimulatedPlant(small(moves=RESTART))
    told.apply(order(SPLIT), 100.0)
    assert told.observe(399.0).in_force.gpus_trainer == 2
    assert told.step == left_step_at(left, 100.0)
    assert told.observe(401.0).in_force.gpus_trainer == 3
    told.advance(460.0)
    first_after = next(log for log in told.log if (log.row.time_s or 0.0) > 400.0)
    assert (first_after.row.time_s or 0.0) - 400.0 > 10.0


def left_step_at(plant: SimulatedPlant, now_s: float) -> int:
    plant.advance(now_s)
    return plant.step


def test_a_boundary_knob_waits_for_the_end_of_the_step() -> None:
    plant = SimulatedPlant(small(moves=(Move("max_in_flight", Change.BOUNDARY),)))
    plant.advance(100.0)
    step = plant.step
    assert plant.apply(order(Setpoints(max_in_flight=40)), 100.0).status is Status.PENDING
    while plant.step == step:
        assert plant.observe(plant.now_s).in_force.max_in_flight is None
        plant.run_step()
    assert plant.observe(plant.now_s).in_force.max_in_flight == 40


def test_what_another_turned_is_in_force_until_ordered_otherwise() -> None:
    event = Event(EventKind.KNOB_CHANGE, at=50.0, by=By.TIME, knob="max_in_flight", value=30.0)
    plant = SimulatedPlant(replace(small(), event=(event,)))
    assert plant.observe(51.0).in_force.max_in_flight == 30
    plant.apply(order(Setpoints(max_in_flight=40)), 60.0)
    assert plant.observe(99.0).in_force.max_in_flight == 40


def test_during_a_metrics_outage_the_job_runs_unseen_and_signals_age() -> None:
    event = Event(EventKind.METRICS_OUTAGE, at=100.0, by=By.TIME, until=200.0)
    plant = SimulatedPlant(replace(small(), event=(event,)))
    before, inside, after = (plant.observe(at) for at in (99.0, 199.0, 300.0))
    assert [row.step for row in inside.snapshot.rows] == [row.step for row in before.snapshot.rows]
    assert inside.snapshot.signals["step_s"].age_s == pytest.approx(199.0 - (before.snapshot.rows[-1].time_s or 0.0))
    times = [row.time_s or 0.0 for row in after.snapshot.rows]
    assert not [t for t in times if 100.0 <= t < 200.0]
    assert [t for t in times if t >= 200.0]
    assert len(plant.log) > len(times)


def noisy(sigma: float, hidden: tuple[str, ...] = ()) -> Scenario:
    return replace(small(), measurement=Measurement(sigma, hidden))


def test_measured_seconds_scatter_but_add_up_and_counts_are_exact() -> None:
    exact, scattered = (SimulatedPlant(noisy(sigma), 1).observe(500.0).snapshot.rows for sigma in (0.0, 0.2))
    for true, seen in zip(exact, scattered, strict=True):
        parts = ("trainer_busy_s", "trainer_wait_s", "weight_sync_s")
        assert sum(seen.values[name] for name in parts) == pytest.approx(seen.values["step_s"])
        assert seen.values["dispatched"] == true.values["dispatched"]
        assert seen.values["rollout_latency_s"] != true.values["rollout_latency_s"]


def test_the_same_step_is_measured_alike_whenever_one_looks() -> None:
    plant = SimulatedPlant(noisy(0.2), 1)
    early, late = plant.observe(200.0).snapshot.rows, plant.observe(500.0).snapshot.rows
    assert late[: len(early)] == early


def test_a_hidden_signal_is_nowhere() -> None:
    seen = SimulatedPlant(noisy(0.0, ("trainer_wait_s",)), 1).observe(500.0).snapshot
    assert "trainer_wait_s" not in seen.signals
    assert not [row for row in seen.rows if "trainer_wait_s" in row.values]


def test_a_run_ends_at_its_horizon_by_steps_or_by_seconds() -> None:
    assert simulate(small(steps=7)).step == 7
    assert simulate(replace(small(), horizon=Horizon(seconds=123.0))).now_s == 123.0


def test_longer_answers_slow_the_job_down_as_they_come() -> None:
    drift = Drift("workload.response.mean_tokens", to=4000.0, start=10.0, end=20.0)
    log = simulate(replace(small(steps=60), drift=(drift,))).log
    early, late = (sum(entry.row.values["step_s"] for entry in part) for part in (log[2:10], log[-8:]))
    assert late > 2.0 * early


def test_progress_is_told_from_nothing_to_all() -> None:
    told: list[int] = []
    simulate(small(), tell=lambda done, total: told.append(done))
    assert told == sorted(told)
    assert told[-1] == 1000


def test_before_its_first_step_a_job_shows_its_engines_at_work() -> None:
    plant = SimulatedPlant(small())
    assert not plant.observe(0.0).snapshot.engine_rows
    early = plant.observe(14.0).snapshot
    assert not early.rows
    assert early.get("engines") == 6.0
    assert (early.get("running") or 0.0) > 0.0
    assert early.get("tpot_s") == pytest.approx(0.0164, rel=0.2)
    assert "step_s" not in early.signals
    plant.advance(400.0)
    later = plant.observe(400.0).snapshot
    assert later.rows
    assert not later.engine_rows


def test_what_is_hidden_or_out_of_sight_is_so_before_the_first_step_too() -> None:
    hidden = SimulatedPlant(noisy(0.0, ("tpot_s",))).observe(14.0).snapshot
    assert "tpot_s" not in hidden.signals
    assert "running" in hidden.signals
    outage = Event(EventKind.METRICS_OUTAGE, 0.0, By.TIME, until=50.0)
    assert not SimulatedPlant(replace(small(), event=(outage,))).observe(14.0).snapshot.signals


def test_a_node_that_takes_the_last_engine_ends_the_run_with_the_reason() -> None:
    """Two of six GPUs are left by order before three are lost: what others do may leave no job at all."""
    scenario = replace(small(), event=(Event(EventKind.NODE_LOSS, at=6, gpus=3),))
    plant = SimulatedPlant(scenario)
    plant.apply(order(Setpoints(gpus_generator=2)), 1.0)
    plant.advance()
    assert plant.stopped is not None
    assert "the generator needs at least one engine" in plant.stopped
    assert plant.step < 20


def test_pools_that_are_not_all_of_the_generator_are_refused_and_nothing_is_turned() -> None:
    """160 GPUs in engines of 16, of which 32 prefill: no GPU comes from nowhere, and none goes there."""
    plant = SimulatedPlant(load("tool-calls-20-to-51").scenario)
    before = plant.observe(0.0).in_force
    whole = before.gpus_generator or 0
    for prefill, decode in ((48, None), (whole, whole), (0, whole), (40, whole - 40)):
        receipt = plant.apply(order(Setpoints(gpus_prefill=prefill, gpus_decode=decode)), 0.0)
        assert receipt.status is Status.REFUSED
        assert plant.observe(0.0).in_force == before
    assert plant.apply(order(Setpoints(gpus_prefill=48, gpus_decode=whole - 48)), 0.0).status is Status.PENDING


def test_engines_tell_what_they_did_up_to_now_and_a_look_changes_nothing() -> None:
    """Within a minute hardly an answer of 12,000 tokens is done: nothing has happened yet, and all engines work."""
    scenario = load("trainer-slowdown").scenario
    engine = scenario.stations.engine
    watched, left_alone = SimulatedPlant(scenario), SimulatedPlant(scenario)
    for second in (20.0, 40.0, 60.0):
        row = watched.observe(second).snapshot.engine_rows[-1].values
        residents = row["running"] / row["engines"]
        empty_s, one_s = (step_s for _, step_s in engine.step.table)
        assert row["tpot_s"] > 0.95 * (empty_s + residents * (one_s - empty_s))
        assert row["tpot_s"] < 1.2 * (empty_s + residents * (one_s - empty_s))
    for plant in (watched, left_alone):
        plant.run_step()
    assert watched.log[0].row == left_alone.log[0].row


def test_each_step_trains_one_batch_also_where_the_next_one_begins_as_it_ends() -> None:
    """A trainer that waits for nothing between two batches: what it trains counts where it is trained."""
    scenario = load("hidden-sync-stalls").scenario
    scenario = replace(scenario, setpoints=replace(scenario.setpoints, gpus_trainer=48, gpus_generator=208))
    plant = SimulatedPlant(scenario, seed=1)
    while plant.step < 40:
        plant.run_step()
    rows = [log.row.values for log in plant.log]
    assert {row["batch_rollouts"] for row in rows} == {float(scenario.setpoints.batch_rollouts or 0)}
    assert all(row["trainer_busy_s"] <= row["step_s"] + 1e-6 for row in rows)
    assert any(row["trainer_busy_s"] == pytest.approx(row["step_s"]) for row in rows)  # one followed at once


def test_the_longest_rollout_of_each_batch_is_told_and_is_no_longer_than_the_cap() -> None:
    plant = SimulatedPlant(load("hidden-sync-stalls").scenario, seed=1)
    while plant.step < 12:
        plant.run_step()
    cap = plant.scenario.workload.response.max_tokens or 0
    found = [(log.row.values["resp_len_mean"], log.row.values["resp_len_max"]) for log in plant.log]
    assert all(mean < longest <= cap for mean, longest in found)
    shown = [row.values["resp_len_max"] for row in plant.observe(plant.now_s).snapshot.rows]
    assert shown == [longest for _, longest in found]  # one rollout's tokens are counted, not measured


def test_the_wait_for_a_narrow_verifier_is_seen() -> None:
    wide, narrow = (replace(small(8).stations, verifier=Verifier(10.0, at_once)) for at_once in (None, 2))
    told = [simulate(replace(small(8), stations=stations), 1).log[-1].row.values for stations in (wide, narrow)]
    assert told[0]["reward_latency_s"] == pytest.approx(10.0)
    assert told[1]["rollout_latency_s"] > told[1]["reward_latency_s"] > 100.0
    assert "reward_latency_s" not in simulate(small(4), 1).log[-1].row.values


def test_what_a_judge_takes_is_no_tool_time() -> None:
    """A log tells both apart, and a model that has a station for the verifier must not count it twice."""
    plain, judged = small(8), replace(small(8), stations=replace(small(8).stations, verifier=Verifier(10.0, None)))
    told = [simulate(scenario, 1).log[-1].row.values["non_generation_mean_s"] for scenario in (plain, judged)]
    assert told[1] == pytest.approx(told[0], abs=2.0)
