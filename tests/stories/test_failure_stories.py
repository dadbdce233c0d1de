"""How other autoscalers failed in production, by symptom; ours must not.

Each story names where it happened (issues of Dynamo, KEDA, llm-d, Ray, Flink, Karpenter and RL frameworks).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest

from policies.control import Action, Capability, HoldCode, Policy
from policies.laws.rate_balance import RateBalance
from policies.laws.threshold import Threshold
from policies.rules import Foreign
from policies.settings import SPLIT, with_trainer
from simulators.plant import Bounds, Observation, Receipt, Setpoints
from simulators.signals import SIGNALS
from simulators.snapshot import Row, Signal, Snapshot
from simulators.window import assemble
from tests.plants import START, TOPOLOGY, FluidPlant
from tests.stories.driving import HOUR, WantsThree, driven, rules


@dataclass
class Disturbed:
    """A plant whose looks are changed on their way while `during` holds."""

    plant: FluidPlant
    during: Callable[[float], bool]
    change: Callable[[Observation], Observation]

    def observe(self, now_s: float) -> Observation:
        seen = self.plant.observe(now_s)
        return self.change(seen) if self.during(now_s) else seen

    def apply(self, order: Any, now_s: float) -> Receipt:
        return self.plant.apply(order, now_s)


def from_the_start(now_s: float) -> bool:
    return True


def without_anything(seen: Observation) -> Observation:
    return replace(seen, snapshot=Snapshot({}))


def raising(seen: Observation) -> Observation:
    raise OSError("503 Service Unavailable")


def silent(seen: Observation) -> Observation:
    """Every mean of nothing: 0/0."""
    nothing = {n: Signal(float("nan"), SIGNALS[n].unit) for n in ("step_s", "gen_samples_per_s", "trainer_wait_s")}
    return replace(seen, snapshot=Snapshot({**nothing, "inflight_rollouts": Signal(0.0, "rollouts")}))


def test_1_no_traffic_is_nan_and_nothing_is_ever_released() -> None:
    """Means of nothing are no zeros and no full load: hold with a reason, and go on when traffic is back."""
    plant = FluidPlant()
    _, kept = driven(Disturbed(plant, lambda t: t < 1 * HOUR, silent), 3)
    assert kept.codes() > {HoldCode.POLICY}
    assert {d.action for d in kept.decisions if d.at_s < HOUR} == {Action.HOLD}
    assert all(d.reason for d in kept.decisions)
    assert plant.setpoints.gpus_trainer == 56


@pytest.mark.parametrize("outage", [without_anything, raising, silent])
def test_2_an_outage_of_the_metrics_is_read_as_no_load(outage: Callable[[Observation], Observation]) -> None:
    """Nothing moves in an outage, whatever it looks like."""
    plant = FluidPlant(generator_factor=lambda t: 0.5 if t > HOUR else 1.0)
    state, _ = driven(plant, 1, rules(Threshold(high_frac=0.6, persist_ticks=20)))
    _, kept = driven(Disturbed(plant, from_the_start, outage), 4, state=state)
    assert kept.moves == set()
    assert plant.setpoints == START


def test_2_metrics_that_stand_still_are_an_outage() -> None:
    plant = FluidPlant()
    frozen = plant.observe(HOUR)

    def stuck(seen: Observation) -> Observation:
        return replace(frozen, in_force=seen.in_force, inventory=seen.inventory)

    _, kept = driven(Disturbed(plant, from_the_start, stuck), 3)
    assert kept.codes(since_s=2 * HOUR) <= {HoldCode.STALE, HoldCode.POLICY}
    assert all(d.action is Action.HOLD for d in kept.decisions if d.at_s > 2 * HOUR)


def test_2_what_was_wanted_in_an_outage_confirms_nothing() -> None:
    """The first picture after it is one, however often the same was wanted on the last one before."""

    def aged(seen: Observation) -> Observation:
        signals = {name: replace(signal, age_s=HOUR) for name, signal in seen.snapshot.signals.items()}
        return replace(seen, snapshot=replace(seen.snapshot, signals=signals))

    _, kept = driven(Disturbed(FluidPlant(), lambda t: t < HOUR, aged), 1.5, rules(WantsThree()))
    assert HoldCode.STALE in kept.codes()
    assert all(d.code is not HoldCode.UNCONFIRMED for d in kept.decisions if d.at_s < HOUR)
    back = [d for d in kept.decisions if d.at_s >= HOUR]
    assert back[0].code is HoldCode.UNCONFIRMED
    assert Action.APPLY in {d.action for d in back}


def test_3_nan_becomes_an_integer() -> None:
    def poisoned(seen: Observation) -> Observation:
        bad = Row({"step_s": float("nan"), "trainer_wait_s": float("inf"), "batch_rollouts": -1.0}, 999, seen.time_s)
        return replace(seen, snapshot=replace(seen.snapshot, rows=(*seen.snapshot.rows, bad)))

    plant = FluidPlant()
    state, kept = driven(Disturbed(plant, from_the_start, poisoned), 2)
    assert plant.setpoints.gpus_trainer in (56, 64)
    assert all(belief.rate < 1e3 for belief in state.beliefs.rates.values())
    assert any("impossible-value" in {n.code for n in e.seen.snapshot.notes} for e in kept.entries)


def test_4_while_the_first_engine_loads_every_tick_orders_another() -> None:
    plant = FluidPlant(actuation_s=900.0)
    slow = rules(capabilities=(Capability(SPLIT, actuation_s=900.0, cost_s=60.0), Capability("max_in_flight")))
    _, kept = driven(plant, 2, slow)
    assert len(kept.moves) == 1
    assert {(o.setpoints.gpus_trainer, o.setpoints.gpus_generator) for o in plant.orders} == {(56, 192), (56, 200)}
    assert max(plant.totals) == 256


def test_4_a_start_that_its_actuator_still_waits_for_is_not_given_up_before_it() -> None:
    """Engines on a cluster take half an hour where nodes have to come first; the actuator itself knows for how long."""
    able = (Capability(SPLIT, actuation_s=60.0, cost_s=60.0), Capability("engines", gives_up_s=1800.0))
    plant = FluidPlant(actuation_s=900.0)
    _, kept = driven(plant, 3, rules(capabilities=able))
    assert plant.setpoints.gpus_trainer == 56
    assert len(kept.moves) == 1
    impatient = FluidPlant(actuation_s=900.0)
    driven(impatient, 3, rules(capabilities=able[:1]))
    assert impatient.setpoints == START


def test_4_a_start_that_never_ends_does_not_block_for_ever() -> None:
    plant = FluidPlant(actuation_s=1e9)
    state, kept = driven(plant, 2)
    assert state.move is None
    assert plant.setpoints == START
    assert {f.knob for f in state.freezes} == {SPLIT}
    assert HoldCode.FROZEN in kept.codes()


def test_5_dead_replicas_go_on_reporting() -> None:
    def phantoms(seen: Observation) -> Observation:
        signals = {**seen.snapshot.signals, "engines": Signal(24.0, "engines")}
        halved = replace(seen.in_force, gpus_generator=96)
        there = replace(seen.inventory, gpus_generator=96)
        return replace(seen, snapshot=replace(seen.snapshot, signals=signals), in_force=halved, inventory=there)

    _, kept = driven(Disturbed(FluidPlant(), from_the_start, phantoms), 2, rules(Threshold(persist_ticks=1)))
    assert kept.moves == set()
    assert any("there are 12" in d.reason for d in kept.decisions)


def test_6_one_replica_counted_as_many() -> None:
    """GPUs, engines and rollouts are never mixed: the wish says each in its own unit, and both sides add up."""
    now = replace(START, engines=24)
    wish = with_trainer(now, TOPOLOGY, 48)
    assert (wish.gpus_trainer, wish.gpus_generator, wish.engines, wish.max_in_flight) == (48, 208, 26, 1664)


@pytest.mark.parametrize(
    "unknown", [Setpoints(), Setpoints(gpus_trainer=0, gpus_generator=0), Setpoints(gpus_trainer=64)]
)
def test_8_at_zero_or_unknown_the_scaling_factor_runs_away(unknown: Setpoints) -> None:
    def lost(seen: Observation) -> Observation:
        return replace(seen, in_force=unknown)

    for law in (RateBalance(), Threshold(persist_ticks=1)):
        plant = FluidPlant()
        _, kept = driven(Disturbed(plant, from_the_start, lost), 1, rules(law))
        assert plant.orders == []
        assert all(d.reason for d in kept.decisions)


def test_9_a_sticky_gauge_is_believed_more_every_time_it_is_read() -> None:
    """The same steps, shown again and again, are one piece of evidence."""
    plant = FluidPlant()
    seen = plant.observe(HOUR)

    def stuck(now: Observation) -> Observation:
        return replace(seen, time_s=now.time_s)

    once, _ = driven(Disturbed(plant, from_the_start, stuck), 1 / 120)
    often, _ = driven(Disturbed(plant, from_the_start, stuck), 0.15)
    assert often.beliefs.rates.keys() == once.beliefs.rates.keys()
    for side, belief in often.beliefs.rates.items():
        assert belief.variance >= once.beliefs.rates[side].variance


@pytest.mark.slow
@pytest.mark.parametrize("policy", [RateBalance(), Threshold()], ids=lambda p: type(p).__name__)
def test_10_a_day_of_steady_noise_moves_nothing(policy: Policy) -> None:
    """Both sides equal, noise of 10 % a step."""
    plant = FluidPlant(trainer_per_gpu_s=4.4 / 64, generator_per_gpu_s=4.2 / 192, noise=0.1, seed=3)
    _, kept = driven(plant, 24, rules(policy), period_s=90.0)
    assert len(kept.moves) <= 1


@pytest.mark.slow
def test_10_a_load_that_swings_with_the_settling_time_makes_no_limit_cycle() -> None:
    plant = FluidPlant(generator_factor=lambda t: 1.6 if (t // 900) % 2 else 1.0)
    _, kept = driven(plant, 24, period_s=90.0)
    turns = [o.setpoints.gpus_trainer for o in plant.orders if o.setpoints.gpus_trainer is not None]
    directions = [b - a for a, b in pairwise(turns) if a != b]
    reversals = sum(a * b < 0 for a, b in pairwise(directions))
    assert reversals <= 2
    assert len(kept.moves) <= 6


def test_10_a_goal_out_of_reach_is_said_and_not_chased() -> None:
    plant = FluidPlant(trainer_per_gpu_s=100.0)
    held = rules(Threshold(persist_ticks=1), bounds=Bounds(gpus_trainer_min=64))
    _, kept = driven(plant, 3, held)
    assert kept.moves == set()
    assert "no legal split" in kept.decisions[-1].reason


def test_11_an_order_inside_a_weight_sync_aborts_rollouts() -> None:
    plant = FluidPlant(syncing=True)
    _, kept = driven(plant, 1)
    assert plant.orders == []
    assert any("weight sync" in d.reason for d in kept.decisions)


def test_11_a_sync_between_two_legs_makes_the_second_wait() -> None:
    plant = FluidPlant()
    state, _ = driven(plant, 0.1)
    for _ in range(240):  # one new tick each: the first repeats the last
        if state.move is not None:
            break
        state, _ = driven(plant, 60 / HOUR, state=state)
    assert state.move is not None
    assert plant.setpoints.gpus_trainer == 64
    plant.syncing, before = True, len(plant.orders)
    state, _ = driven(plant, 0.05, state=state)
    assert len(plant.orders) == before
    plant.syncing = False
    driven(plant, 0.5, state=state)
    assert (plant.setpoints.gpus_trainer, plant.setpoints.gpus_generator) == (56, 200)


def test_12_a_new_engine_never_gets_the_weights() -> None:
    plant = FluidPlant(never_serves=True)
    state, kept = driven(plant, 2)
    assert plant.setpoints == START
    assert any("24 of 25 engines serve the current version" in d.reason for d in kept.decisions)
    assert state.freezes


@pytest.mark.parametrize("foreign", list(Foreign))
def test_13_two_writers_fight(foreign: Foreign) -> None:
    """Somebody else's change is adopted, or the knob is left to them; it is never turned back at once."""
    plant = FluidPlant(trainer_per_gpu_s=4.4 / 64, generator_per_gpu_s=4.2 / 192)
    by = rules(foreign=foreign)
    state, _ = driven(plant, 1, by)
    plant.setpoints = replace(plant.setpoints, max_in_flight=1000)
    state, kept = driven(plant, 1, by, state)
    assert plant.orders == []
    assert plant.setpoints.max_in_flight == 1000
    assert state.accepted is not None
    assert state.accepted.max_in_flight == 1000
    assert any("max_in_flight went from 1536 to 1000 without us" in note for d in kept.decisions for note in d.notes)
    assert ("max_in_flight" in {p.knob for p in state.pauses}) is (foreign is Foreign.PAUSE)


def test_13_a_node_that_is_lost_is_adopted_and_the_controller_goes_on() -> None:
    plant = FluidPlant()
    state, _ = driven(plant, 2)
    plant.setpoints = replace(plant.setpoints, gpus_generator=(plant.setpoints.gpus_generator or 0) - 8)
    state, _ = driven(plant, 2, rules(foreign=Foreign.PAUSE), state)
    assert state.pauses == ()
    assert state.accepted is not None
    assert state.accepted.gpus_generator == plant.setpoints.gpus_generator
    assert max(plant.totals) <= 256


def test_14_a_move_is_judged_by_what_was_asked_not_by_what_was_done() -> None:
    """One step of three is predicted a third of the gain."""
    _, kept = driven(FluidPlant(), 0.3, rules(WantsThree()))
    begun = next(d for d in kept.decisions if d.action is Action.APPLY and d.proposed is not None)
    assert begun.proposed is not None
    assert begun.changes is not None
    assert (begun.proposed.gpus_trainer, begun.changes.gpus_trainer) == (40, 56)
    assert begun.gain_frac is not None
    assert begun.gain_frac.mean == pytest.approx(0.03)


def test_15_a_renamed_metric_is_silently_missing() -> None:
    def renamed(seen: Observation) -> Observation:
        rows = tuple(replace(r, values={"wait": 1.0}) for r in seen.snapshot.rows)
        return replace(seen, snapshot=Snapshot({}, rows))

    _, kept = driven(Disturbed(FluidPlant(), from_the_start, renamed), 0.5, rules(Threshold()))
    assert "trainer_wait_s" in kept.decisions[-1].reason


def test_16_the_measured_time_of_a_change_includes_the_time_nobody_looked() -> None:
    """From the order to in force, not from the end of a pause: 2 legs of 200 s."""
    plant = FluidPlant(actuation_s=200.0)
    state, _ = driven(plant, 1)
    assert state.actuation_s[SPLIT] == pytest.approx(400.0, abs=90.0)


@pytest.mark.parametrize(
    ("busy", "wait"), [(0.9, 0.9), (0.6, 3.0)], ids=["two shares of one step", "longer than the step"]
)
@pytest.mark.parametrize("policy", [RateBalance(), Threshold(persist_ticks=1)], ids=lambda p: type(p).__name__)
def test_signals_that_cannot_all_be_true_move_nothing(policy: Policy, busy: float, wait: float) -> None:
    """Which of them is wrong is not guessed: a hold with a reason of its own."""

    def twisted(seen: Observation) -> Observation:
        rows = tuple(replace(row, values=_twisted(row.values, busy, wait)) for row in seen.snapshot.rows)
        return replace(seen, snapshot=assemble(rows))

    plant = FluidPlant()
    _, kept = driven(Disturbed(plant, from_the_start, twisted), 2, rules(policy))
    assert plant.setpoints == START
    assert kept.codes() <= {HoldCode.POLICY, HoldCode.BLANKED, HoldCode.CONTRADICTORY}


def _twisted(values: Mapping[str, float], busy: float, wait: float) -> dict[str, float]:
    step = values.get("step_s", 0.0)
    return {**values, "trainer_busy_s": busy * step, "trainer_wait_s": wait * step}
