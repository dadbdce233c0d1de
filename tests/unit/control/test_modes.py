"""How far the controller goes: it watches, says, asks, or acts; people pause, approve and stop it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from policies.base import Direction, Interval
from policies.commands import Command, CommandKind, ControlMode
from policies.control import Action, Decision, Draw, HoldCode, Proposal, View, split_to
from policies.controller import tick
from policies.guardrails.case import Limits
from policies.laws.rate_balance import RateBalance
from policies.laws.static import Static
from policies.rules import Rules
from policies.scorecard import Scorecard, unlocked
from policies.settings import SPLIT
from policies.state import State
from simulators.clock import VirtualClock
from simulators.plant import Bounds, Observation, Receipt, Setpoints
from tests.plants import START, TOPOLOGY, FluidPlant
from tests.unit.control.conftest import CAPABILITIES
from tests.unit.control.test_gate import WORKLOAD, TwoRates, draws
from tuner.loop import Entry, Parts, step


class Person:
    """An inbox: what is put in is said once."""

    def __init__(self) -> None:
        self.said: list[Command] = []

    def drain(self) -> tuple[Command, ...]:
        said, self.said = tuple(self.said), []
        return said


class Heard:
    def __init__(self) -> None:
        self.decisions: list[Decision] = []

    def commit(self, entry: Entry) -> int:
        self.decisions.append(entry.decision)
        return 0

    def answer(self, tick_id: int, receipt: Receipt) -> None:
        return None


ANY_BIAS = Bounds(kept_over_attempted_min=0.0)
"""Whoever has no model of the job and starts more than is kept must not mind what that does."""


class Job:
    """A job, its controller and a person who may talk to it."""

    def __init__(self, mode: ControlMode, **changes: Any) -> None:
        base = Rules(RateBalance(), TOPOLOGY, capabilities=CAPABILITIES, gate=None, earn_auto=False)
        self.plant, self.person, self.heard = FluidPlant(), Person(), Heard()
        self.state, self.now_s, self.rules = State(mode=mode), 0.0, replace(base, **changes)

    def tick(self, *commands: Command) -> Decision:
        self.now_s += 30.0
        self.person.said.extend(commands)
        parts = Parts(self.plant, self.rules, VirtualClock(), self.heard, self.person)
        self.state = step(parts, self.state, self.now_s)
        return self.heard.decisions[-1]

    def until(self, action: Action, ticks: int = 200) -> Decision:
        for _ in range(ticks):
            decision = self.tick()
            if decision.action is action:
                return decision
        raise AssertionError(f"no {action} in {ticks} ticks: {self.heard.decisions[-1].reason}")


def test_observing_it_says_nothing_and_learns() -> None:
    job = Job(ControlMode.OBSERVE)
    for _ in range(60):
        assert job.tick().action is Action.HOLD
    assert job.plant.orders == []
    assert {d.code for d in job.heard.decisions} >= {HoldCode.OBSERVING}
    assert job.state.beliefs.rates.keys() == {"generator", "trainer"}


def test_advising_it_says_what_it_would_do() -> None:
    job = Job(ControlMode.ADVISE)
    advice = job.until(Action.ADVISE)
    assert advice.changes is not None
    assert advice.changes.gpus_trainer == 56
    assert "predict" in advice.reason
    assert job.plant.orders == []


def test_asking_it_waits_for_a_yes() -> None:
    job = Job(ControlMode.APPROVE)
    question = job.until(Action.ASK)
    assert job.tick().decision_id == question.decision_id
    assert job.plant.orders == []
    begun = job.tick(Command(CommandKind.APPROVE, decision_id=question.decision_id, author="a person"))
    assert begun.action is Action.APPLY
    assert begun.reason.startswith("approved")
    assert "is approved (a person)" in begun.notes[0]
    assert job.plant.orders


def test_a_question_expires() -> None:
    job = Job(ControlMode.APPROVE, approval_s=100.0)
    question = job.until(Action.ASK)
    for _ in range(5):
        job.tick()
    late = job.tick(Command(CommandKind.APPROVE, decision_id=question.decision_id))
    assert late.action is not Action.APPLY
    assert "nothing waits for an approval" in late.notes[0]


def test_an_approval_does_not_overrule_the_guardrails() -> None:
    job = Job(ControlMode.APPROVE)
    question = job.until(Action.ASK)
    held = job.tick(Command(CommandKind.PAUSE), Command(CommandKind.APPROVE, decision_id=question.decision_id))
    assert held.code is HoldCode.PAUSED
    assert job.plant.orders == []


def test_auto_is_earned_by_shadows() -> None:
    job = Job(ControlMode.AUTO, earn_auto=True)
    locked = job.until(Action.ADVISE)
    assert locked.code is HoldCode.LOCKED
    assert "not unlocked" in locked.notes[-1]
    assert job.plant.orders == []
    job.until(Action.APPLY, ticks=600)
    assert unlocked(job.state.scorecard, SPLIT)


def test_a_shadow_is_no_good_one_before_a_forecast_was_compared() -> None:
    job = Job(ControlMode.ADVISE)
    job.until(Action.ADVISE)
    due = tuple(replace(shadow, due_s=0.0) for shadow in job.state.scorecard.shadows)
    job.state = replace(job.state, scorecard=Scorecard(shadows=due))
    job.tick()
    assert job.state.scorecard.good == ()
    assert job.state.scorecard.shadows == due


@pytest.mark.parametrize("held", [True, False])
def test_a_shadow_whose_forecast_missed_is_no_good_one_though_the_same_is_wanted(held: bool) -> None:
    """What was wanted on a rate that did not come is not proved by being wanted still."""
    job = Job(ControlMode.ADVISE)
    job.until(Action.ADVISE)
    (shadow,) = job.state.scorecard.shadows
    job.state = replace(job.state, scorecard=Scorecard(shadows=(replace(shadow, due_s=job.now_s),), held=(held,)))
    assert job.tick().action is Action.ADVISE, "the same is wanted"
    assert job.state.scorecard.good == ((SPLIT, held),)


def test_a_shadow_is_kept_with_its_predicted_and_realised_rates() -> None:
    job = Job(ControlMode.ADVISE)
    advice = job.until(Action.ADVISE)
    while not job.state.scorecard.past:
        job.tick()
    past = job.state.scorecard.past[0]
    assert past.shadow.promised == advice.gain_frac
    assert past.shadow.rate_then == pytest.approx(4.0, rel=0.05)
    assert past.rate_since == pytest.approx(4.0, rel=0.05)


def test_forecasts_of_no_move_are_void_once_a_move_begins() -> None:
    """What they spoke of will never come: compared with the new setting's rate they would cost the right to act."""
    job = Job(ControlMode.ADVISE)
    job.until(Action.ADVISE)
    assert job.state.scorecard.open
    job.state = replace(job.state, mode=ControlMode.AUTO)
    job.until(Action.APPLY)
    assert job.state.scorecard.open == ()


def test_nothing_is_learned_from_steps_within_a_move() -> None:
    """They belong to neither setting: a side that drains would be believed slow."""
    job = Job(ControlMode.AUTO)
    job.until(Action.APPLY)
    known, steps = job.state.beliefs.rates, job.state.beliefs.used_step or 0
    for _ in range(200):
        job.tick()
        if job.state.move is None:
            break
        assert job.state.beliefs.rates == known
    assert (job.state.beliefs.used_step or 0) > steps, "steps ended within the move, and are counted as used"


def test_a_move_of_two_knobs_needs_both_to_have_earned_it() -> None:
    """A knob with good shadows does not take along one that has none; each is remembered by itself."""
    job = Job(ControlMode.AUTO, policy=Static(gpus_trainer=56, oversampling_ratio=1.2), earn_auto=True, bounds=ANY_BIAS)
    job.rules = replace(job.rules, limits=replace(job.rules.limits, auto_data_changing=("oversampling_ratio",)))
    job.state = replace(job.state, scorecard=Scorecard(good=((SPLIT, True),) * 5))
    advice = job.until(Action.ADVISE)
    assert "not unlocked for oversampling_ratio" in advice.notes[-1]
    assert {shadow.knob for shadow in job.state.scorecard.shadows} == {SPLIT, "oversampling_ratio"}
    assert job.until(Action.APPLY, ticks=600).changes == advice.changes


def test_auto_does_not_touch_the_data_unless_told() -> None:
    law = Static(oversampling_ratio=1.2)
    unlisted = Job(ControlMode.AUTO, policy=law, bounds=ANY_BIAS)
    assert "changes which rollouts are trained" in unlisted.until(Action.ADVISE).notes[-1]
    listed = Job(ControlMode.AUTO, policy=law, bounds=ANY_BIAS)
    listed.rules = replace(
        listed.rules, limits=replace(listed.rules.limits, auto_data_changing=("oversampling_ratio",))
    )
    assert listed.until(Action.APPLY).changes == Setpoints(oversampling_ratio=1.2)


def test_a_shift_of_the_learning_reverts_what_changes_the_data() -> None:
    job = Job(ControlMode.AUTO, policy=Static(oversampling_ratio=1.2), bounds=ANY_BIAS)
    job.rules = replace(job.rules, limits=replace(job.rules.limits, auto_data_changing=("oversampling_ratio",)))
    job.plant.setpoints = replace(START, oversampling_ratio=1.0)
    inside = job.plant.observe

    def collapsing(now_s: float) -> Observation:
        seen = inside(now_s)
        moved = seen.in_force.oversampling_ratio == 1.2
        rows = tuple(
            replace(r, values={**r.values, "entropy": 0.2 if moved and r.time_s and r.time_s > 900 else 0.5})
            for r in seen.snapshot.rows
        )
        return replace(seen, snapshot=replace(seen.snapshot, rows=rows))

    job.plant.observe = collapsing  # type: ignore[method-assign]
    for _ in range(120):
        job.tick()
        if job.state.alarm and job.state.move is None:
            break
    assert any("is reverted: the entropy went from 0.5 to 0.2" in d.reason for d in job.heard.decisions)
    assert job.plant.setpoints.oversampling_ratio == 1.0
    assert job.state.alarm
    job.tick(Command(CommandKind.RESUME))
    assert not job.state.alarm


def test_a_pause_stops_new_moves_and_lets_one_under_way_arrive() -> None:
    job = Job(ControlMode.AUTO)
    job.until(Action.APPLY)
    for _ in range(30):
        job.tick(Command(CommandKind.PAUSE))
    assert (job.plant.setpoints.gpus_trainer, job.plant.setpoints.gpus_generator) == (56, 200)
    paused = Job(ControlMode.AUTO)
    paused.tick(Command(CommandKind.PAUSE, SPLIT, Direction.DOWN))
    for _ in range(60):
        paused.tick()
    assert paused.plant.orders == []
    assert paused.heard.decisions[-1].code is HoldCode.PAUSED
    paused.tick(Command(CommandKind.RESUME, SPLIT))
    paused.until(Action.APPLY)


def test_stopped_it_orders_nothing() -> None:
    job = Job(ControlMode.AUTO)
    job.until(Action.APPLY)
    before = len(job.plant.orders)
    assert job.tick(Command(CommandKind.STOP)).code is HoldCode.STOPPED
    assert job.state.stopped
    assert len(job.plant.orders) == before


@pytest.mark.parametrize("mode", list(ControlMode))
def test_a_person_changes_the_mode(mode: ControlMode) -> None:
    job = Job(ControlMode.ADVISE)
    job.tick(Command(CommandKind.MODE, mode=mode))
    assert job.state.mode is mode


@dataclass(frozen=True)
class Posterior:
    """Draws of a job of two rates, with a linear model beside."""

    generator: float = 4.0
    trainer: float = 5.6

    def central(self, seen: Observation) -> Draw | None:
        return Draw(TwoRates(self.generator, self.trainer), WORKLOAD)

    def why_not(self, seen: Observation) -> str:
        return ""

    def draws(self, seen: Observation, count: int, seed: int) -> Sequence[Draw]:
        linear = Draw(TwoRates(self.generator, self.trainer), WORKLOAD, "linear")
        return [*draws(count, self.generator, self.trainer), linear]


def test_without_a_model_of_the_job_the_gate_stays_shut() -> None:
    job = Job(ControlMode.AUTO)
    job.rules = replace(job.rules, gate=Rules(Static(), TOPOLOGY).gate)
    for _ in range(60):
        job.tick()
    assert job.plant.orders == []
    assert HoldCode.GATE in {d.code for d in job.heard.decisions}


@pytest.mark.parametrize(("posterior", "opens"), [(Posterior(), True), (Posterior(5.6, 4.0), False)])
def test_the_models_open_the_gate_or_keep_it_shut(posterior: Posterior, opens: bool) -> None:
    job = Job(ControlMode.AUTO, modeller=posterior)
    job.rules = replace(job.rules, gate=Rules(Static(), TOPOLOGY).gate)
    for _ in range(60):
        job.tick()
    begun = [d for d in job.heard.decisions if d.action is Action.APPLY and d.verdict is not None]
    assert bool(begun) is opens
    if opens:
        assert begun[0].verdict is not None
        assert begun[0].verdict.draws == 30
        told, drawn = begun[0].gain_frac, begun[0].verdict.gain_frac
        assert told is not None
        assert drawn is not None
        assert told.low < told.mean < told.high
        assert told.low <= drawn.low <= drawn.high <= told.high


@dataclass(frozen=True)
class LosesSome(Posterior):
    """Two of its thirty jobs cannot run the new setting at all."""

    def draws(self, seen: Observation, count: int, seed: int) -> Sequence[Draw]:
        *own, linear = super().draws(seen, count, seed)
        return [*own[2:], *[Draw(TwoRates(5.6, 0.4), WORKLOAD)] * 2, linear]


def test_the_gain_that_is_told_lies_inside_its_interval_though_a_few_drawn_jobs_lose_all() -> None:
    job = Job(ControlMode.AUTO, modeller=LosesSome(), limits=Limits(auto_data_changing=("max_in_flight",)))
    job.rules = replace(job.rules, gate=Rules(Static(), TOPOLOGY).gate)
    job.until(Action.APPLY)
    decided = job.heard.decisions[-1]
    assert decided.verdict is not None
    for told in (decided.gain_frac, decided.verdict.gain_frac):
        assert told is not None
        assert told.low < told.mean < told.high


@dataclass(frozen=True)
class Wary:
    """Wants the whole way; once that is refused, half of it."""

    def decide(self, view: View) -> Proposal:
        far = 40 if view.refused is None else 56
        return Proposal(split_to(view, far), f"{far} GPUs", Interval(0.05, 0.1, 0.2))


def test_a_wish_on_the_way_to_what_the_models_refused_is_a_fresh_one() -> None:
    job = Job(ControlMode.AUTO, policy=Wary(), modeller=Posterior(5.6, 4.0), limits=Limits(trusted_moves=0))
    job.rules = replace(job.rules, gate=Rules(Static(), TOPOLOGY).gate)
    for _ in range(60):
        if job.tick().code is HoldCode.GATE:
            break
    refused = job.state.wanted
    assert refused is not None
    assert refused.refused is not None
    assert refused.refused.gpus_trainer == 40
    assert "wanted at 1 of the" in job.tick().reason  # and not: asked again in some ticks
    for _ in range(20):
        if job.tick().code is HoldCode.GATE:
            break
    nearer = job.state.wanted
    assert nearer is not None
    assert nearer.refused is not None
    assert nearer.refused.gpus_trainer == 56
    assert "asked again" in job.tick().reason


@pytest.mark.parametrize("tells_steps", [True, False])
def test_models_alone_speak_only_for_a_job_that_is_known_to_be_young(tells_steps: bool) -> None:
    """Whoever meets a job on its way has a file of it and four steps to see whether that is right."""
    job = Job(ControlMode.AUTO, modeller=Posterior())
    job.rules = replace(job.rules, gate=Rules(Static(), TOPOLOGY).gate)
    job.plant.tells_steps = tells_steps
    for _ in range(20):
        job.tick()
    waits = [d for d in job.heard.decisions if "steps are known, 4 needed" in d.reason]
    assert bool(waits) is not tells_steps


def test_a_job_that_says_it_is_old_shows_four_steps_too() -> None:
    job = Job(ControlMode.AUTO, modeller=Posterior())
    job.rules = replace(job.rules, gate=Rules(Static(), TOPOLOGY).gate)
    job.plant.tells_steps = True
    job.now_s = 7200.0
    job.plant.observe(job.now_s)
    job.plant.rows.clear()
    assert "steps are known, 4 needed" in job.tick().reason


def test_forecasts_that_fail_demote_to_advice() -> None:
    job = Job(ControlMode.AUTO)
    job.state = replace(job.state, scorecard=Scorecard(held=(False,) * 20, errors=(9.0,) * 20))
    decision = job.tick()
    assert job.state.mode is ControlMode.ADVISE
    assert any("demoted to advice" in note for note in decision.notes)


def test_tick_needs_no_loop() -> None:
    """The controller as a function: that is all there is to it."""
    rules = Rules(RateBalance(), TOPOLOGY)
    state, decision = tick(rules, State(), FluidPlant().observe(3600.0), (), 3600.0)
    assert (state.tick, decision.action) == (1, Action.HOLD)
