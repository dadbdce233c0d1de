"""What becomes of a decided move: its legs while it walks, its probation once it has arrived, its undoing when bad."""

from collections.abc import Iterable
from dataclasses import replace
from math import ceil, isfinite

from policies.base import Direction, Interval
from policies.commands import ControlMode
from policies.control import Action, Capability, Decision, HoldCode, Outcome, View
from policies.guardrails.case import Freeze, PastMove, Pause
from policies.health import baseline, shifted
from policies.moves import (
    Move,
    Scene,
    Stage,
    advanced,
    answered,
    back,
    order_of,
    path_of,
    strange,
    touched,
    unused,
)
from policies.patience import leg_limit_s, verify_limit_s
from policies.probation import Judgement, Probation, judged, work_before
from policies.readings import ROWS_MIN, batches_in_flight, settling_s
from policies.rules import Rules
from policies.scorecard import void_forecasts
from policies.settings import ACTED, difference, direction, knobs_of, merged
from policies.state import RECENT_MOVES, State, Undertaking
from simulators.plant import Change, Observation, Receipt, Setpoints, Topology

ALARMS_MOST = 10
"""A knob rests no longer than so many doublings: an hour becomes six weeks."""

Conducted = tuple[State, Decision]


def begun(rules: Rules, state: State, view: View, changes: Setpoints, decision: Decision) -> Conducted:
    """The state with a new move, and the decision with its first order."""
    knobs = knobs_of(changes)
    actuation = max((actuation_s(rules, state, knob) for knob in knobs), default=0.0)
    path = path_of(view.in_force, changes, at_once=_restarts(view, knobs))
    move = Move(
        decision.decision_id,
        path,
        begun_s=view.now_s,
        since_s=view.now_s,
        leg_limit_s=leg_limit_s(view, knobs, path, actuation),
        settle_s=settling_s(view.snapshot, view.in_force, actuation),
        reason=decision.reason,
        actuation_s=actuation,
        gives_up_s=_gives_up_s(rules, knobs),
        verify_limit_s=verify_limit_s(view, knobs, path),
    )
    task = Undertaking(
        knobs,
        decision.gain_frac,
        work_before(view.snapshot, state.moved_s, view.now_s),
        baseline(view.snapshot, view.now_s, state.calm_s),
        any(c.change is Change.RESTART for c in rules.capabilities if c.knob in knobs),
    )
    state = replace(
        state,
        move=move,
        undertaking=task,
        undone=None,
        wanted=None,
        asked=None,
        scorecard=void_forecasts(state.scorecard),
        recent=(*state.recent, *_past(view, changes, knobs, move.settle_s))[-RECENT_MOVES:],
    )
    order = order_of(move, Scene(view.now_s, view.in_force))
    return state, replace(decision, action=Action.APPLY, decision_id=order_id(move), order=order, changes=changes)


def _restarts(view: View, knobs: Iterable[str]) -> bool:
    """True when the whole job stands still for these: nobody grows before everybody has stopped."""
    found = [view.capability(knob) for knob in knobs]
    return all(c is not None and c.change is Change.RESTART for c in found)


def walked(rules: Rules, state: State, seen: Observation, move: Move) -> Conducted:
    """One look at a move under way: its next order, or its end."""
    scene = Scene(seen.time_s, seen.in_force, seen.inventory.syncing, _unready(rules.topology, seen, move))
    if move.stage is Stage.STUCK and (leave := _no_leave(state, _knobs_back(move))):
        return state, held(state, scene.now_s, HoldCode.STRANDED, f"{_stranded(move, scene)}; {leave}")
    after = advanced(move, scene)
    state = _timed(state, move, after, scene.now_s)
    if after.ended:
        return _ended(rules, state, seen, after)
    state, order = replace(state, move=after), order_of(after, scene)
    if after.stage is Stage.STUCK:
        words = f"{_stranded(after, scene)}; {_next_try(after, scene)}"
        return state, held(state, scene.now_s, HoldCode.STRANDED, words)
    where = f"{after.stage} {after.at} of {len(after.path) - 1}"
    why = f"{where}: {after.why_back or after.reason}"
    if order is None:
        return state, held(state, seen.time_s, HoldCode.MOVING, f"{why}; waiting for {_awaited(after, scene)}")
    decision = Decision(order_id(after), seen.time_s, Action.APPLY, why, order=order)
    return state, replace(decision, changes=difference(after.origin, after.goal))


def on_probation(
    rules: Rules, state: State, view: View, probation: Probation
) -> tuple[State, Decision | None, Outcome | None]:
    """One look at a move that is being judged; no decision when the judgement leaves room for a new proposal."""
    filling_steps = max(ROWS_MIN, ceil(batches_in_flight(view.snapshot, view.in_force)))
    alarm = shifted(probation.health, view.snapshot, probation.since_s, filling_steps) or ""
    if alarm:
        state = replace(state, alarm=alarm, alarmed_at=probation.health)
    changing = [k for k in probation.knobs if (c := view.capability(k)) is not None and c.data_changing]
    verdict, gain = judged(probation, view.snapshot, view.now_s)
    good = None if verdict is Judgement.UNSURE else verdict is Judgement.GOOD
    outcome = Outcome(probation.move.decision_id, good, probation.predicted, gain)
    if alarm and changing:
        rest_s = rules.freeze_s * 2.0 ** min(state.alarms, ALARMS_MOST)
        state = replace(state, alarms=state.alarms + 1)
        reverted = _reverted(replace(rules, freeze_s=rest_s), state, view, probation, alarm)
        return (*reverted, replace(outcome, good=False))
    if verdict is Judgement.BAD and gain is not None:
        state = replace(state, kept_moves=0)  # longer strides are earned anew
        return (*_reverted(rules, state, view, probation, f"realised gain {_words(gain)}"), outcome)
    if verdict is Judgement.WAIT:
        words = f"{probation.move.decision_id} is being judged for {view.now_s - probation.since_s:.0f} s"
        return state, held(state, view.now_s, HoldCode.PROBATION, words), None
    return replace(state, probation=None, kept_moves=state.kept_moves + (good is True)), None, outcome


def noted(state: State, receipt: Receipt) -> State:
    """The state after the plant's answer to an order of the move under way; other answers change nothing."""
    if state.move is None or receipt.decision_id != order_id(state.move):
        return state
    return replace(state, move=answered(state.move, receipt.status))


def held(state: State, now_s: float, code: HoldCode, reason: str) -> Decision:
    return Decision(f"d{state.tick}", now_s, Action.HOLD, reason, code)


def order_id(move: Move) -> str:
    """One name for each leg, the same however often it is ordered. On the way back another for each try: an actuator
    refuses for good what has failed."""
    return f"{move.decision_id}.{move.at}" + "b" * (1 + move.stuck if move.stage is Stage.BACK else 0)


def actuation_s(rules: Rules, state: State, knob: str) -> float:
    """What turning this knob takes: as measured, else the actuator's prior."""
    prior = next((c.actuation_s for c in _of(rules.capabilities, knob)), 0.0)
    return state.actuation_s.get(knob, prior)


def _gives_up_s(rules: Rules, knobs: Iterable[str]) -> float:
    """By the slowest of the actuators that turn these knobs or parts of them: both sides of a split may have one."""
    parts = {part for knob in knobs for part in (knob, *ACTED.get(knob, ()))}
    return max((c.gives_up_s for c in rules.capabilities if c.knob in parts), default=0.0)


def _ended(rules: Rules, state: State, seen: Observation, move: Move) -> Conducted:
    task = state.undertaking or Undertaking(())
    in_force_s = seen.time_s - (move.rest_s if move.stage is Stage.DONE else 0.0)
    state = replace(state, move=None, undertaking=None, moved_s=seen.time_s, in_force_s=in_force_s, wanted=None)
    base = state.accepted or seen.in_force
    match move.stage:
        case Stage.DONE:
            state = replace(state, accepted=merged(base, move.goal))
            if rules.probation:
                state = replace(state, probation=_probation(move, task, seen.time_s))
            return state, held(state, seen.time_s, HoldCode.PROBATION, f"{move.decision_id} is done: {move.reason}")
        case Stage.UNDONE:
            state = replace(state, accepted=merged(base, move.origin))
            words = f"{move.decision_id} is undone: {move.why_back}"
        case _:
            state = replace(state, accepted=seen.in_force)
            locks = (Pause(knob, None, f"{move.decision_id}, which could not be undone") for knob in task.knobs)
            state = replace(state, pauses=(*state.pauses, *locks))
            words = f"{move.decision_id} is stuck for good, and what is in force is adopted: {move.why_back}"
    state = _frozen(rules, replace(state, undone=move), task.knobs, seen.time_s, move.why_back or words)
    return state, held(state, seen.time_s, HoldCode.FROZEN, words)


def _probation(move: Move, task: Undertaking, now_s: float) -> Probation:
    return Probation(move, task.knobs, now_s, task.predicted, task.work, task.health, task.restarts)


def _reverted(rules: Rules, state: State, view: View, probation: Probation, why: str) -> Conducted:
    """Back to where the move came from. Where that way is paused, or a mode was set meanwhile that gives no orders, the
    knob only rests."""
    state = _frozen(rules, replace(state, probation=None), probation.knobs, view.now_s, why)
    kept = _no_leave(state, _knobs_back(probation.move))
    if kept:
        words = f"{probation.move.decision_id} failed and stays, since {kept}: {why}"
        return state, held(state, view.now_s, HoldCode.FROZEN, words)
    move, words = back(probation.move, view.now_s, why), f"{probation.move.decision_id} is reverted: {why}"
    task = Undertaking(probation.knobs)
    state = replace(state, move=move, undertaking=task, scorecard=void_forecasts(state.scorecard))
    order = order_of(move, Scene(view.now_s, view.in_force, view.inventory.syncing))
    if order is None:
        return state, held(state, view.now_s, HoldCode.MOVING, f"{words}; waiting for the end of a weight sync")
    return state, Decision(order_id(move), view.now_s, Action.APPLY, words, order=order)


def _no_leave(state: State, turns: Iterable[tuple[str, Direction]]) -> str:
    """Why these knobs may not be turned this way now, whatever speaks for it; empty where they may."""
    if any(pause.stops(*turn) for pause in state.pauses for turn in turns):
        return "its way back is paused"
    orders = state.mode not in (ControlMode.OBSERVE, ControlMode.ADVISE)
    return "" if orders else f"{state.mode} gives no orders"


def _knobs_back(move: Move) -> list[tuple[str, Direction]]:
    return [(knob, direction(move.goal, move.origin, knob)) for knob in knobs_of(touched(move))]


def _stranded(move: Move, scene: Scene) -> str:
    gpus = unused(move, scene.in_force)
    lacks = f", {gpus} GPUs are unused" if gpus else ""
    return f"{move.decision_id} could be neither finished nor undone{lacks}: {move.why_back}"


def _next_try(move: Move, scene: Scene) -> str:
    rest_s = move.retry_s - (scene.now_s - move.since_s)
    if not isfinite(rest_s):
        return f"its way home failed {move.stuck} times, and is tried again when told to resume"
    return f"its way home is tried again in {rest_s:.0f} s"


def _frozen(rules: Rules, state: State, knobs: Iterable[str], now_s: float, why: str) -> State:
    live = tuple(f for f in state.freezes if f.until_s > now_s)
    return replace(state, freezes=(*live, *(Freeze(knob, now_s + rules.freeze_s, why) for knob in knobs)))


def _timed(state: State, before: Move, after: Move, now_s: float) -> State:
    """Remember what the way took to the goal, or to a leg that came late: from the order, not from a pause's end."""
    arrived = before.stage is Stage.WALK and after.stage is Stage.VERIFY
    if not (arrived or before.owed > after.owed) or state.undertaking is None:
        return state
    took = now_s - before.begun_s
    known = {knob: max(took, state.actuation_s.get(knob, 0.0)) for knob in state.undertaking.knobs}
    return replace(state, actuation_s={**state.actuation_s, **known})


def _unready(topology: Topology, seen: Observation, move: Move) -> str:
    """Why the engines do not all serve the current version; empty where they do, or where nobody counts them."""
    serving, wanted = seen.inventory.engines_current, move.goal.engines
    if wanted is None and move.goal.gpus_generator is not None and topology.gpus_per_engine:
        wanted = move.goal.gpus_generator // topology.gpus_per_engine
    if serving is None or wanted is None or serving >= wanted:
        return ""
    return f"{serving} of {wanted} engines serve the current version"


def _awaited(move: Move, scene: Scene) -> str:
    if scene.syncing:
        return "the end of a weight sync"
    odd = strange(move, scene.in_force)
    if odd:
        return f"{', '.join(f'{name} {value:g}' for name, value in odd.items())} to be gone, which is not ours"
    if move.stage is Stage.SETTLE:
        return f"{max(0.0, move.rest_s - (scene.now_s - move.since_s)):.0f} s of settling"
    return scene.unready or "the new setting"


def _past(view: View, changes: Setpoints, knobs: Iterable[str], settle_s: float) -> list[PastMove]:
    turned = [(knob, direction(view.in_force, changes, knob)) for knob in knobs]
    return [PastMove(view.now_s, knob, way, settle_s) for knob, way in turned if way is not Direction.SET]


def _of(capabilities: Iterable[Capability], knob: str) -> list[Capability]:
    return [c for c in capabilities if c.knob == knob]


def _words(gain: Interval) -> str:
    return f"{gain.mean:+.1%} ({gain.low:+.1%}..{gain.high:+.1%})"
