"""Each guardrail holds what it is for, lets the rest pass, and always says why."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from policies.base import Direction, Interval
from policies.control import Capability, HoldCode, View
from policies.guardrails.case import Case, Freeze, Limits, PastMove, Pause, cost_s
from policies.guardrails.chain import CHAIN, guarded
from policies.settings import SPLIT, with_trainer
from simulators.plant import Bounds, Change, Inventory, Setpoints, TrainerResize
from simulators.snapshot import Signal, Snapshot
from tests.plants import START, TOPOLOGY
from tests.unit.control.conftest import CAPABILITIES, view_after

GAIN = Interval(0.03, 0.06, 0.09)
TO_GENERATOR = with_trainer(START, TOPOLOGY, 56)


def case(**changes: Any) -> Case:
    """A proposal that every guardrail lets pass, but for `changes` to it or to its view."""
    of_view = {name: changes.pop(name) for name in list(changes) if name in View.__dataclass_fields__}
    base = Case(view_after(**of_view), TO_GENERATOR, GAIN, settle_s=600.0, agreed=10)
    return replace(base, **changes)


def with_signals(**values: float) -> Snapshot:
    snapshot = view_after().snapshot
    extra = {n: Signal(v, "1") for n, v in values.items()}
    return replace(snapshot, signals={**snapshot.signals, **extra})


def with_rows(**values: float) -> Snapshot:
    """The same job with these in each of its steps."""
    snapshot = view_after().snapshot
    return replace(snapshot, rows=tuple(replace(row, values={**row.values, **values}) for row in snapshot.rows))


def aged(seconds: float) -> Snapshot:
    snapshot = view_after().snapshot
    return replace(snapshot, signals={n: replace(s, age_s=seconds) for n, s in snapshot.signals.items()})


def test_a_good_proposal_passes_all() -> None:
    _, ruling, trail = guarded(case())
    assert ruling.code is None
    assert [step.guard for step in trail] == list(CHAIN)
    assert all(step.passed for step in trail)


AT_MOST_1 = Bounds(staleness_max=1.0)
MORE, FEWER = Setpoints(max_in_flight=1600), Setpoints(max_in_flight=1400)
OVER = Setpoints(gpus_trainer=64, gpus_generator=192)


def divided(changes: Setpoints, **now: Any) -> Case:
    """The same of a generator with pools for prefill and decode."""
    there = replace(START, **{"gpus_prefill": 64, "gpus_decode": 128, **now})
    able = (*CAPABILITIES, Capability("prefill_decode_split", cost_s=5.0))
    return case(changes=changes, in_force=there, capabilities=able)


HELD: dict[str, tuple[Callable[[], Case], HoldCode]] = {
    "nothing is known": (lambda: case(snapshot=Snapshot({})), HoldCode.STALE),
    "the evidence is old": (lambda: case(snapshot=aged(601.0)), HoldCode.STALE),
    "the trainer works and waits for longer than its steps": (
        lambda: case(snapshot=with_rows(trainer_busy_s=90.0, trainer_wait_s=90.0, step_s=100.0)),
        HoldCode.CONTRADICTORY,
    ),
    "half of the engines report": (lambda: case(snapshot=with_signals(engines=12.0)), HoldCode.STALE),
    "dead engines still report": (lambda: case(snapshot=with_signals(engines=40.0)), HoldCode.STALE),
    "an evaluation is in the picture": (lambda: case(blanked="the newest step holds evaluation"), HoldCode.BLANKED),
    "a move is under way": (lambda: case(pending=TO_GENERATOR), HoldCode.MOVING),
    "the model collapsed": (lambda: case(snapshot=with_signals(entropy=0.001)), HoldCode.UNHEALTHY),
    "learning shifted and the knob changes the data": (
        lambda: case(alarm="the entropy fell", changes=Setpoints(oversampling_ratio=1.5)),
        HoldCode.UNHEALTHY,
    ),
    "all is paused": (lambda: case(pauses=(Pause(),)), HoldCode.PAUSED),
    "this direction is paused": (lambda: case(pauses=(Pause(SPLIT, Direction.DOWN),)), HoldCode.PAUSED),
    "the knob is frozen": (lambda: case(freezes=(Freeze(SPLIT, 1e9, "it failed"),)), HoldCode.FROZEN),
    "nothing changes": (lambda: case(changes=Setpoints()), HoldCode.ILLEGAL),
    "no such lever": (lambda: case(changes=Setpoints(group_size=16)), HoldCode.ILLEGAL),
    "no actuator": (lambda: case(capabilities=()), HoldCode.ILLEGAL),
    "the framework tunes it": (lambda: case(topology=replace(TOPOLOGY, self_tuned=(SPLIT,))), HoldCode.ILLEGAL),
    "off the lattice": (
        lambda: case(changes=Setpoints(gpus_trainer=57, gpus_generator=199)),
        HoldCode.ILLEGAL,
    ),
    "a batch that the ranks do not divide": (
        lambda: case(topology=replace(TOPOLOGY, batch_must_divide=True)),
        HoldCode.ILLEGAL,
    ),
    "a checkpoint that does not open": (
        lambda: case(topology=replace(TOPOLOGY, trainer_resize=TrainerResize.IMPOSSIBLE)),
        HoldCode.ILLEGAL,
    ),
    "GPUs out of nowhere": (lambda: case(changes=Setpoints(gpus_trainer=72)), HoldCode.ILLEGAL),
    "pools of more GPUs than the generator has": (
        lambda: divided(Setpoints(gpus_prefill=128, gpus_decode=128)),
        HoldCode.ILLEGAL,
    ),
    "pools of fewer GPUs": (lambda: divided(Setpoints(gpus_prefill=32)), HoldCode.ILLEGAL),
    "half an engine of prefill": (lambda: divided(Setpoints(gpus_prefill=68, gpus_decode=124)), HoldCode.ILLEGAL),
    "a split that leaves nothing to decode": (
        lambda: divided(Setpoints(gpus_trainer=192, gpus_generator=64, gpus_decode=0)),
        HoldCode.ILLEGAL,
    ),
    "pools of an unknown generator that grow": (
        lambda: divided(Setpoints(gpus_prefill=72), gpus_generator=None),
        HoldCode.ILLEGAL,
    ),
    "a sandbox quota": (
        lambda: case(in_force=replace(START, sandbox_quota=1550)),
        HoldCode.BOUND,
    ),
    "a sandbox quota that is measured": (
        lambda: case(snapshot=with_signals(sandbox_quota=1550.0)),
        HoldCode.BOUND,
    ),
    "the donor would be the slower side": (
        lambda: case(changes=with_trainer(START, TOPOLOGY, 16), kept_moves=9),
        HoldCode.DONOR,
    ),
    "a gain inside its doubt": (lambda: case(gain_frac=Interval(-0.01, 0.05, 0.11)), HoldCode.DEADBAND),
    "a gain too small": (lambda: case(gain_frac=Interval(0.005, 0.01, 0.015)), HoldCode.DEADBAND),
    "wanted for the first time": (lambda: case(agreed=1), HoldCode.UNCONFIRMED),
    "the last move was just now": (lambda: case(in_force_s=3500.0), HoldCode.SETTLING),
    "no time to earn it": (lambda: case(horizon_s=600.0), HoldCode.PAYBACK),
    "no gain to pay with": (lambda: case(gain_frac=None), HoldCode.PAYBACK),
    "back and forth": (
        lambda: case(
            recent=(
                PastMove(1000.0, SPLIT, Direction.DOWN),
                PastMove(2000.0, SPLIT, Direction.UP),
            )
        ),
        HoldCode.OSCILLATION,
    ),
    "a staleness that is seen to be broken already": (
        lambda: case(snapshot=with_signals(staleness_mean=6.0), bounds=AT_MOST_1, changes=MORE),
        HoldCode.BOUND,
    ),
    "a staleness that nobody can tell": (lambda: case(bounds=AT_MOST_1, changes=MORE), HoldCode.BOUND),
    "a split that nobody can tell the staleness of": (lambda: case(bounds=AT_MOST_1), HoldCode.BOUND),
    "more started than is kept, and nobody can tell what is kept": (
        lambda: case(changes=Setpoints(oversampling_ratio=1.5)),
        HoldCode.BOUND,
    ),
    "over the budget": (
        lambda: case(in_force=replace(START, gpus_generator=184), changes=OVER, bounds=Bounds(gpus_total_max=250)),
        HoldCode.ILLEGAL,
    ),
    "under the floor": (
        lambda: case(changes=Setpoints(max_in_flight=0), gain_frac=None),
        HoldCode.BOUND,
    ),
}


@pytest.mark.parametrize("story", HELD)
def test_it_is_held_for_its_reason(story: str) -> None:
    make, code = HELD[story]
    _, ruling, trail = guarded(make())
    assert ruling.code is code, trail[-1]
    assert trail[-1].reason
    assert not trail[-1].passed


def test_a_long_way_is_narrowed_to_one_step() -> None:
    narrowed, ruling, trail = guarded(case(changes=with_trainer(START, TOPOLOGY, 40)))
    assert ruling.code is None
    assert narrowed.changes.gpus_trainer == 56
    assert narrowed.step_frac == pytest.approx(8 / 24)
    assert "one step" in next(step.reason for step in trail if step.guard == "one-step")


def test_before_the_first_step_there_is_nothing_to_be_compared_with_and_nothing_to_wait_for() -> None:
    at_work, fresh = replace(with_signals(tpot_s=0.02), rows=()), Inventory(steps_done=0)
    wish = {"changes": with_trainer(START, TOPOLOGY, 48), "snapshot": at_work}
    whole, ruling, _ = guarded(case(**wish, inventory=fresh, agreed=1))
    assert ruling.code is None
    assert whole.changes.gpus_trainer == 48


@pytest.mark.parametrize("there", [Inventory(), Inventory(steps_done=40)], ids=["unknown", "forty steps"])
def test_a_silent_trainer_does_not_say_that_the_job_begins(there: Inventory) -> None:
    """Whoever attaches in the middle of a job, or loses its log, goes step by step."""
    at_work = replace(with_signals(tpot_s=0.02), rows=())
    narrowed, _, _ = guarded(case(changes=with_trainer(START, TOPOLOGY, 48), snapshot=at_work, inventory=there))
    assert narrowed.changes.gpus_trainer == 56


def test_after_moves_that_stood_the_way_is_not_narrowed() -> None:
    free, _, _ = guarded(case(changes=with_trainer(START, TOPOLOGY, 48), kept_moves=3))
    assert free.changes.gpus_trainer == 48


def test_a_starving_trainer_is_relieved_sooner_than_a_generator_is_shrunk() -> None:
    relieve = guarded(case(agreed=2))[1]
    shrink = guarded(case(agreed=2, changes=with_trainer(START, TOPOLOGY, 72), gain_frac=GAIN))[1]
    assert relieve.code is None
    assert shrink.code in (HoldCode.UNCONFIRMED, HoldCode.DONOR)


def test_a_restart_goes_the_whole_way_at_once() -> None:
    dear = (Capability(SPLIT, Change.RESTART, actuation_s=60.0, cost_s=60.0),)
    whole, ruling, _ = guarded(case(changes=with_trainer(START, TOPOLOGY, 48), capabilities=dear))
    assert ruling.code is None
    assert whole.changes.gpus_trainer == 48


def test_a_first_step_ends_on_a_size_that_the_batch_divides() -> None:
    """Of the lattice of 8 below 64 only 32 and 16 divide 512: 56 would be refused by the framework, leg after leg."""
    strict = replace(TOPOLOGY, batch_must_divide=True)
    narrowed, _, trail = guarded(case(changes=with_trainer(START, TOPOLOGY, 16), topology=strict))
    assert "one-step" in [step.guard for step in trail]
    assert narrowed.changes.gpus_trainer == 32


def test_no_knob_turns_back_while_it_settles() -> None:
    now_s = case().view.now_s
    turned = PastMove(now_s - 1700.0, SPLIT, Direction.UP, 600.0)
    assert guarded(case(recent=(turned,)))[1].code is HoldCode.OSCILLATION
    assert guarded(case(recent=(replace(turned, at_s=now_s - 1900.0),)))[1].code is None


def test_a_restart_loses_what_is_in_flight_and_a_larger_limit_takes_work_into_stock() -> None:
    view = case(snapshot=with_signals(inflight_rollouts=1200.0, gen_samples_per_s=3.0, zero_adv_frac=0.0)).view
    hot = cost_s(view, TO_GENERATOR)
    restart = replace(view, capabilities=(Capability(SPLIT, Change.RESTART, cost_s=60.0),))
    assert hot == pytest.approx(60.0 + (1600 - 1536) / 2.0 / 3.0)
    assert cost_s(restart, TO_GENERATOR) == pytest.approx(60.0 + 1600 / 2.0 / 3.0), (
        "what was in flight is lost, and the new stock is larger"
    )
    more = replace(view, in_force=replace(START, max_in_flight=1200))
    assert cost_s(more, Setpoints(max_in_flight=1500)) == pytest.approx(300.0 / 2.0 / 3.0)
    assert cost_s(more, Setpoints(max_in_flight=900)) == 0.0


def test_groups_that_teach_nothing_take_no_longer_to_be_made() -> None:
    made = {"inflight_rollouts": 1200.0, "gen_samples_per_s": 3.0}
    half, none = (case(snapshot=with_signals(**made, zero_adv_frac=share)).view for share in (0.5, 0.0))
    assert cost_s(half, TO_GENERATOR) == pytest.approx(cost_s(none, TO_GENERATOR))


def test_a_paused_direction_leaves_the_other() -> None:
    assert guarded(case(pauses=(Pause(SPLIT, Direction.UP),)))[1].code is None


def test_a_freeze_ends() -> None:
    assert guarded(case(freezes=(Freeze(SPLIT, 3000.0, "it failed"),)))[1].code is None


def test_every_hold_code_of_a_guardrail_is_in_the_closed_set() -> None:
    assert {code for _, code in HELD.values()} <= set(HoldCode)


@pytest.mark.parametrize(
    "wrong", [{"stale_s": 0.0}, {"payback_ratio": 0.5}, {"confirm_shrink": 1}, {"memory_settles": 1.0}]
)
def test_limits_that_would_let_it_swing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"guardrails.{next(iter(wrong))}="):
        Limits(**wrong)


def test_before_the_first_step_engines_at_work_are_evidence_and_afterwards_not() -> None:
    rows = view_after().snapshot.rows
    engines = {"tpot_s": Signal(0.02, "s"), "running": Signal(100.0, "1")}
    assert guarded(case(snapshot=Snapshot(engines)))[1].code is None
    silent = tuple(replace(row, values={"reward_mean": 0.5}) for row in rows)
    ruling = guarded(case(snapshot=Snapshot(engines, silent)))[1]
    assert ruling.code is HoldCode.STALE
    assert "step_s" in ruling.reason


def test_a_wish_that_the_models_refused_says_when_they_are_asked_again() -> None:
    _, ruling, _ = guarded(case(agreed=-3))
    assert ruling.code is HoldCode.UNCONFIRMED
    assert "refused" in ruling.reason


# ---- worth it ----


def payback(share: float, **changes: Any) -> HoldCode | None:
    """With a horizon in which the whole gain is so many times the cost; it may be none."""
    made = case(**{"gain_frac": Interval(0.0, GAIN.mean, GAIN.high), **changes})
    horizon_s = share * cost_s(made.view, made.changes) / GAIN.mean
    return CHAIN["pays-back"](replace(made, view=replace(made.view, horizon_s=horizon_s))).code


@pytest.mark.parametrize(("ratio", "step_frac"), [(2.0, 1.0), (3.0, 1.0), (1.0, 1.0), (2.0, 0.25)])
def test_a_gain_pays_for_its_cost_so_often_and_a_step_wins_its_share_of_it(ratio: float, step_frac: float) -> None:
    limits = Limits(payback_ratio=ratio)
    just = ratio / step_frac
    assert payback(1.01 * just, limits=limits, step_frac=step_frac) is None
    assert payback(0.99 * just, limits=limits, step_frac=step_frac) is HoldCode.PAYBACK


def test_what_surely_pays_need_not_pay_twice() -> None:
    surely = Interval(0.8 * GAIN.mean, GAIN.mean, GAIN.high)
    assert payback(1.26, gain_frac=surely) is None
    assert payback(1.24, gain_frac=surely) is HoldCode.PAYBACK
    assert payback(1.26) is HoldCode.PAYBACK


def test_the_first_step_of_a_long_way_has_to_pay_by_its_own_share() -> None:
    """A third of the way to 40 wins a third of 6 %: what pays for the whole does not pay for that."""
    long = {"changes": with_trainer(START, TOPOLOGY, 40), "kept_moves": 0}
    first = case(changes=TO_GENERATOR)
    horizon_s = 4.0 * cost_s(first.view, TO_GENERATOR) / GAIN.mean
    assert guarded(case(horizon_s=horizon_s))[1].code is None
    _, ruling, trail = guarded(case(horizon_s=horizon_s, **long))
    assert trail[-1].guard == "pays-back"
    assert ruling.code is HoldCode.PAYBACK
    assert guarded(case(horizon_s=2.0 * horizon_s, **long))[1].code is None


@pytest.mark.parametrize(
    ("past", "most", "code"),
    [
        ((Direction.UP,), 1, None),
        ((Direction.UP,), 0, HoldCode.OSCILLATION),
        ((Direction.DOWN, Direction.UP), 1, HoldCode.OSCILLATION),
        ((Direction.DOWN, Direction.UP), 2, None),
        ((Direction.DOWN, Direction.DOWN), 0, None),
    ],
)
def test_a_knob_changes_its_direction_so_often_within_its_memory(
    past: tuple[Direction, ...], most: int, code: HoldCode | None
) -> None:
    """All of them long settled, and not yet forgotten."""
    now_s = case().view.now_s
    moves = tuple(PastMove(now_s - 3000.0 + 100.0 * i, SPLIT, way) for i, way in enumerate(past))
    assert CHAIN["steady"](case(recent=moves, limits=Limits(reversals_max=most))).code is code
    forgotten = tuple(replace(move, at_s=now_s - 7300.0) for move in moves)
    if past[-1] is Direction.UP and most:
        assert CHAIN["steady"](case(recent=forgotten, limits=Limits(reversals_max=most))).code is None
