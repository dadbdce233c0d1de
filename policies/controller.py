"""The controller: `tick` takes what was remembered and what is seen, and says what to do and what to remember. Pure.

sane observation -> commands, foreign changes, readings, forecasts        (noticing)
                 -> the move under way, or the one on probation           (conduct)
                 -> the policy's proposal -> guardrails -> gate -> mode   (here)
"""

from collections.abc import Iterable
from dataclasses import astuple, replace
from math import isfinite
from statistics import fmean

from policies.base import Interval
from policies.commands import Command, ControlMode
from policies.conduct import actuation_s, begun, held, on_probation, walked
from policies.control import Action, Decision, GateVerdict, Hold, HoldCode, Proposal, View
from policies.gate import Question, as_models_know, confirm
from policies.guardrails.case import Case, cost_s
from policies.guardrails.chain import guarded
from policies.noticing import FORECAST_STEPS, noticed
from policies.readings import ROWS_MIN, blank_reason, level, rate_series, settling_s
from policies.rules import Rules
from policies.sanity import aged, sane, unsettable
from policies.scorecard import Shadow, settled_shadow, shadowed, unlocked
from policies.settings import direction, knobs_of
from policies.state import Asked, State
from policies.unmodelled import with_quota
from policies.viewing import bare_view, view_of
from policies.wishes import refused, wanted
from simulators.plant import Observation, Setpoints


def tick(
    rules: Rules, state: State, seen: Observation, commands: Iterable[Command], now_s: float
) -> tuple[State, Decision]:
    """One decision. The same rules, state, observation, commands and time give the same answer, in any process."""
    return sane_tick(rules, state, sane(seen), commands, now_s)


def sane_tick(
    rules: Rules, state: State, seen: Observation, commands: Iterable[Command], now_s: float
) -> tuple[State, Decision]:
    """The same on an observation that is sane already (policies/sanity.py): whoever writes it down saw to that."""
    now_s = now_s if state.at_s is None else max(now_s, state.at_s)
    seen = aged(seen, now_s)
    state = replace(state, tick=state.tick + 1, at_s=now_s, stopped=False, cursors=seen.cursors or state.cursors)
    state, notes = noticed(rules, state, seen, commands)
    state, decision = _decided(rules, state, seen)
    if not all(isfinite(v) for v in state.memory.values() if isinstance(v, float)):
        state = replace(state, memory={})
    return state, replace(decision, notes=(*notes, *decision.notes))


def _decided(rules: Rules, state: State, seen: Observation) -> tuple[State, Decision]:
    if state.stopped:
        return state, held(state, seen.time_s, HoldCode.STOPPED, "stopped by command; a move under way waits")
    if state.move is not None:
        return walked(rules, state, seen, state.move)
    outcome = None
    if state.probation is not None:
        state, decision, outcome = on_probation(rules, state, bare_view(rules, state, seen), state.probation)
        if decision is not None:
            return state, replace(decision, outcome=outcome)
    # Models alone may speak for a job that is known to be young; of one that was met on its way nothing is known yet.
    done = seen.inventory.steps_done
    young = rules.gate is not None and done is not None and done < ROWS_MIN
    blanked = blank_reason(seen, 0 if young else ROWS_MIN)
    state, decision = _proposed(rules, state, view_of(rules, state, seen), blanked, seen)
    return state, replace(decision, outcome=outcome)


def _proposed(rules: Rules, state: State, view: View, blanked: str, seen: Observation) -> tuple[State, Decision]:
    """The policy's word (or a person's approval of an earlier one) through guardrails, gate and mode."""
    asked = _open_question(state, view.now_s)
    state = replace(state, asked=asked)
    approved = asked is not None and asked.approved
    answer = _answer(rules, view)
    state = replace(state, memory=answer.memory)
    if approved and asked is not None:
        answer = Proposal(asked.changes, f"approved: {asked.reason}", asked.gain_frac)
    if isinstance(answer, Hold):
        state = _settled_shadows(replace(state, wanted=None), view, Setpoints())
        return state, held(state, view.now_s, answer.code, answer.reason)
    state = replace(state, wanted=wanted(state.wanted, view.in_force, answer.changes))
    state = _settled_shadows(state, view, answer.changes)
    case = _case(rules, state, view, answer, blanked)
    case, ruling, trail = guarded(replace(case, agreed=max(case.agreed, 10**6)) if approved else case)
    if ruling.code is not None:
        if ruling.code is HoldCode.STALE:  # what is wanted on old evidence, tick after tick, is wanted once
            state = replace(state, wanted=None)
        hold = held(state, view.now_s, ruling.code, ruling.reason)
        return state, replace(hold, proposed=answer.changes, trail=trail)
    verdict = _gated(rules, state, view, case.changes, seen)
    decision = Decision(
        asked.decision_id if approved and asked is not None else f"d{state.tick}",
        view.now_s,
        Action.ADVISE,
        answer.reason,
        proposed=answer.changes,
        changes=case.changes,
        gain_frac=_gain(answer, case, verdict),
        trail=trail,
        verdict=verdict,
    )
    if verdict is not None and not verdict.passed:
        hold = held(state, view.now_s, HoldCode.GATE, verdict.reason)
        state = replace(state, wanted=refused(state.wanted, case.changes, begins=view.begins))
        return state, replace(hold, proposed=answer.changes, trail=trail, verdict=verdict)
    return _by_mode(rules, state, view, decision, approved)


def _by_mode(rules: Rules, state: State, view: View, decision: Decision, approved: bool) -> tuple[State, Decision]:
    """How far the controller may go with a confirmed proposal."""
    changes = decision.changes or Setpoints()
    if approved:
        return begun(rules, state, view, changes, decision)
    if state.mode is ControlMode.OBSERVE:
        quiet = replace(decision, action=Action.HOLD, code=HoldCode.OBSERVING)
        return _shadowed(rules, state, view, decision), quiet
    if state.mode is ControlMode.ADVISE:
        return _shadowed(rules, state, view, decision), decision
    if state.mode is ControlMode.APPROVE:
        return _asked(rules, state, view, decision)
    locked = _locked(rules, state, view, knobs_of(changes))
    if locked:
        advice = replace(decision, code=HoldCode.LOCKED, notes=(locked,))
        return _shadowed(rules, state, view, decision), advice
    return begun(rules, state, view, changes, decision)


def _answer(rules: Rules, view: View) -> Proposal | Hold:
    """The policy's word. A law that fails is a hold: it may be a user's, and the job must not suffer for it."""
    try:
        answer = rules.policy.decide(view)
    except Exception as error:
        return Hold(f"the policy failed: {type(error).__name__}: {error}", HoldCode.FAULT, view.memory)
    # A count of another type would be written into the state, and could not be read back from it.
    wrong = "" if isinstance(answer, Hold) else unsettable(answer.changes)
    said = f"the policy failed: it proposes {wrong}, which cannot be set"
    return Hold(said, HoldCode.FAULT, view.memory) if wrong else answer


def _case(rules: Rules, state: State, view: View, answer: Proposal, blanked: str) -> Case:
    knobs = knobs_of(answer.changes)
    actuation = max((actuation_s(rules, state, knob) for knob in knobs), default=0.0)
    return Case(
        view,
        answer.changes,
        answer.gain_frac,
        rules.limits,
        settle_s=settling_s(view.snapshot, view.in_force, actuation),
        agreed=state.wanted.ticks if state.wanted is not None else 1,
        in_force_s=state.in_force_s,
        recent=state.recent,
        freezes=state.freezes,
        pauses=state.pauses,
        kept_moves=state.kept_moves,
        alarm=state.alarm,
        blanked=blanked,
    )


def _gated(rules: Rules, state: State, view: View, changes: Setpoints, seen: Observation) -> GateVerdict | None:
    """The models' word on it; None where no gate is asked for."""
    if rules.gate is None:
        return None
    if rules.modeller is None:
        return GateVerdict(False, "there is no calibrated model of this job to confirm a move")
    question = question_of(view, changes)
    return confirm(question, rules.modeller.draws(seen, rules.gate.draws_min, rules.seed + state.tick), rules.gate)


def question_of(view: View, changes: Setpoints) -> Question:
    """What the gate is asked of a change."""
    return Question(
        view.topology,
        with_quota(view.in_force, view.snapshot),
        changes,
        cost_s(view, changes),
        view.horizon_s,
        view.bounds,
        view.objective,
        view.missing,
    )


def _gain(answer: Proposal, case: Case, verdict: GateVerdict | None) -> Interval | None:
    """What the move as narrowed is predicted to gain: a judgement must not ask of one step what three were to bring.

    Law and draws doubt different things, and each has a middle and an 80 % interval: middle and ends are the means of
    theirs (quantile averaging: Lichtendahl, Grushka-Cockayne and Winkler 2013). An interval that held both would be
    wider than either, and hold more than 80 %.
    What no model knows better comes to it.
    # law +8 % (+4..+12), draws +10 % (+8..+11) -> +9 % (+6..+11.5), +5.9..+11.6 with it
    """
    whole, share = answer.gain_frac, case.step_frac
    law = None if whole is None else Interval(whole.low * share, whole.mean * share, whole.high * share)
    drawn = None if verdict is None else verdict.gain_frac
    both = [gain for gain in (law, drawn) if gain is not None]
    if not both:
        return None
    return as_models_know(Interval(*(fmean(part) for part in zip(*map(astuple, both), strict=True))))


def _open_question(state: State, now_s: float) -> Asked | None:
    return state.asked if state.asked is not None and now_s < state.asked.expires_s else None


def _asked(rules: Rules, state: State, view: View, decision: Decision) -> tuple[State, Decision]:
    """A question to a person; the same one while it is open, so that an approval still finds it."""
    changes = decision.changes or Setpoints()
    if state.asked is not None and state.asked.changes == changes:
        again = replace(decision, decision_id=state.asked.decision_id, expires_s=state.asked.expires_s)
        return state, replace(again, action=Action.ASK)
    expires_s = view.now_s + rules.approval_s
    asked = Asked(decision.decision_id, changes, decision.reason, expires_s, decision.gain_frac)
    return replace(state, asked=asked), replace(decision, action=Action.ASK, expires_s=expires_s)


def _locked(rules: Rules, state: State, view: View, knobs: tuple[str, ...]) -> str:
    """Why `auto` may not turn these; empty where it may."""
    for knob in knobs:
        if knob in view.locked:
            return f"{knob} changes which rollouts are trained: in auto only where limits.auto_data_changing lists it"
        if rules.earn_auto and not unlocked(state.scorecard, knob):
            return f"auto is not unlocked for {knob}: too few of its shadow moves have proved good"
    return ""


def _shadowed(rules: Rules, state: State, view: View, decision: Decision) -> State:
    """A move that was not made, knob by knob, to be looked at again after one settling time."""
    changes, card = decision.changes or Setpoints(), state.scorecard
    rate = level(rate_series(view.snapshot, state.moved_s)[-FORECAST_STEPS:])
    for knob in knobs_of(changes):
        due_s = view.now_s + settling_s(view.snapshot, view.in_force, actuation_s(rules, state, knob))
        way = direction(view.in_force, changes, knob)
        known = (view.now_s, decision.gain_frac, None if rate is None else rate.mean)
        card = shadowed(card, Shadow(decision.decision_id, knob, way, due_s, *known))
    return replace(state, scorecard=card)


def _settled_shadows(state: State, view: View, now_wanted: Setpoints) -> State:
    """Shadows that came due: good when the same is wanted still, and the forecast for no move held. While no forecast
    was ever compared with what came, nobody can tell, and they wait."""
    card = state.scorecard
    if not card.held:
        return state
    for shadow in (s for s in card.shadows if s.due_s <= view.now_s):
        same = (
            shadow.knob in knobs_of(now_wanted)
            and direction(view.in_force, now_wanted, shadow.knob) is shadow.direction
        )
        card = settled_shadow(card, shadow, same and card.held[-1], view.snapshot)
    return replace(state, scorecard=card)
