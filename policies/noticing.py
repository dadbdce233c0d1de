"""What a tick takes note of before it decides: commands, foreign changes, new readings, forecasts that came due."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import exp, log, sqrt
from typing import Any

from policies.base import Direction, Interval
from policies.beliefs import CENTRAL_80, WALK_PER_S, Belief, Beliefs, Reading, forgotten, rescaled, updated
from policies.change_tests import Cusum, summed, threshold_for
from policies.commands import Command, CommandKind, ControlMode
from policies.guardrails.case import Pause
from policies.hands import foreign, home_again, is_ours, let_go, retried
from policies.health import recovered
from policies.moves import Move, Scene, Stage, due, touched, unused
from policies.readings import Level, kept_rows, level, noise_variance, rate_series, readings, settling_s
from policies.rules import Foreign, Rules
from policies.scorecard import Forecast, conformal_scale, demoted, forecasted, scored
from policies.settings import ACTED, GPUS_OF, knobs_of, merged, missing_of, values
from policies.state import State, Undertaking
from simulators.plant import Observation, Setpoints
from simulators.snapshot import Row

MEMORY_STEPS = 50
"""Steps over which a belief remembers: its change tests raise at most one false alarm in ten times as many."""
ALARM_AT = threshold_for(MEMORY_STEPS)
FORECAST_STEPS = 8
"""Steps whose mean is the forecast."""
TREND_BEYOND_NOISE = 2.0
"""Standard errors that a trend must exceed."""
LONE_WINDOW_S = 60.0
"""Signals without rows count once in so many seconds."""

Noticed = tuple[State, tuple[str, ...]]


def noticed(rules: Rules, state: State, seen: Observation, commands: Iterable[Command]) -> Noticed:
    """The state after all that is not a decision, and what a person should read of it."""
    state, told = commanded(state, commands)
    state, foreign = _adopted(rules, state, seen)
    state, learnt = _learned(rules, state, seen)
    state, calm = _calmed(state, seen)
    state, honest = _judged_forecasts(state, seen)
    return state, (*told, *foreign, *learnt, *calm, *honest)


def commanded(state: State, commands: Iterable[Command]) -> Noticed:
    """The state after what people said. A command that makes no sense is noted and changes nothing."""
    notes = []
    for command in commands:
        state, note = _one_command(state, command)
        notes.append(f"{note} ({command.author})" if command.author else note)
    return state, tuple(notes)


def _one_command(state: State, command: Command) -> tuple[State, str]:
    what = command.knob or "every knob"
    match command.kind:
        case CommandKind.STOP:
            return replace(state, stopped=True), "told to stop"
        case CommandKind.PAUSE:
            pause = Pause(command.knob, command.direction, command.author)
            return replace(state, pauses=(*(p for p in state.pauses if p != pause), pause)), f"told to pause {what}"
        case CommandKind.RESUME:
            return _resumed(state, command.knob), f"told to resume {what}"
        case CommandKind.MODE if command.mode is not None:
            return replace(state, mode=command.mode, asked=None), f"mode {state.mode} -> {command.mode}"
        case CommandKind.APPROVE if state.asked is not None and state.asked.decision_id == command.decision_id:
            return replace(state, asked=replace(state.asked, approved=True)), f"{command.decision_id} is approved"
        case CommandKind.APPROVE:
            return state, f"nothing waits for an approval of {command.decision_id}"
        case _:
            return state, f"a {command.kind} command without what it needs"


def _resumed(state: State, knob: str | None) -> State:
    """Pauses, freezes and alarms of that knob are over, and what is stuck is tried again; of no knob, all."""
    move = state.move
    if move is not None and knob in (None, *knobs_of(touched(move))):
        move = retried(move)
    return replace(
        state,
        stopped=False,
        move=move,
        alarm="",
        alarms=0,
        pauses=tuple(p for p in state.pauses if knob is not None and p.knob != knob),
        freezes=tuple(f for f in state.freezes if knob is not None and f.knob != knob),
    )


def _adopted(rules: Rules, state: State, seen: Observation) -> Noticed:
    """Adopt what somebody else turned, or what was lost: the setting in force is the one we stand by. Never fight."""
    if state.accepted is None:
        return replace(state, accepted=seen.in_force), ()
    if state.move is not None and state.move.stage is not Stage.SETTLE:
        return _met_on_the_way(rules, state, seen, state.move)
    expected = state.accepted if state.move is None else merged(state.accepted, state.move.goal)
    known, now = values(expected), values(seen.in_force)
    turned = {n: v for n, v in now.items() if n in known and known[n] != v and not _breathes(rules, n)}
    gone = missing_of(seen.in_force, seen.inventory)
    came = gone - state.missing if not turned else 0
    state = replace(state, accepted=merged(expected, seen.in_force), missing=gone)
    if not turned and not came:
        return state, ()
    ours = bool(turned) and _came_late(rules, state, seen, turned)
    notes = _without_us(known, turned, state.undone if ours else None)
    if came:
        notes = (*notes, f"{abs(came)} generator GPUs are {'gone' if came > 0 else 'back'}")
    state = replace(state, move=None, undertaking=None, probation=None, asked=None)
    if ours and state.undone is not None and unused(state.undone, seen.in_force):
        home = home_again(state.undone, seen.time_s)
        return replace(state, move=home, undertaking=Undertaking(knobs_of(touched(home)))), notes
    state = replace(state, moved_s=seen.time_s, in_force_s=seen.time_s)
    return state if ours else _left_to_them(rules, state, seen, turned), notes


def _came_late(rules: Rules, state: State, seen: Observation, turned: Mapping[str, Any]) -> bool:
    """True of what a move had ordered that was undone a short while ago."""
    if state.undone is None or state.moved_s is None or seen.time_s - state.moved_s > rules.freeze_s:
        return False
    return is_ours(state.undone, turned, seen.in_force)


def _met_on_the_way(rules: Rules, state: State, seen: Observation, move: Move) -> Noticed:
    """The same while a move walks: of the knobs that it touches, what is none of its doing."""
    scene = Scene(seen.time_s, seen.in_force, seen.inventory.syncing)
    turned = foreign(move, scene)
    if not turned or turned != move.odd:
        return replace(state, move=replace(move, odd=turned)), ()
    notes = _without_us(values(due(move)), turned)
    state = replace(state, move=let_go(move, seen.in_force, turned, seen.time_s))
    return _left_to_them(rules, state, seen, turned), notes


def _without_us(known: Mapping[str, Any], turned: Mapping[str, Any], ours: Move | None = None) -> tuple[str, ...]:
    how = "without us: adopted" if ours is None else f"by a late order of {ours.decision_id}"
    return tuple(f"{n} went from {known[n]} to {v} {how}" for n, v in turned.items())


def _left_to_them(rules: Rules, state: State, seen: Observation, turned: Mapping[str, Any]) -> State:
    """Where the rules say so, knobs that somebody turned are paused; a lost node turned none."""
    lost = set(turned) <= {"gpus_trainer", "gpus_generator", "engines"} and _lost(seen)
    if rules.foreign is not Foreign.PAUSE or lost:
        return state
    pauses = (Pause(knob, None, "a foreign change") for knob in knobs_of(Setpoints(**turned)) if knob in ACTED)
    return replace(state, pauses=(*state.pauses, *(p for p in pauses if p not in state.pauses)))


def _breathes(rules: Rules, name: str) -> bool:
    """A limit that the framework moves all the time (prime-rl's AIMD) is part of the job, and its moves are no events;
    else nothing would ever settle. GPUs that it moves are: what was measured before no longer counts."""
    return name not in GPUS_OF and name in rules.topology.self_tuned


def _lost(seen: Observation) -> bool:
    """True when what is in force is all there is: nobody turned a knob, a node is gone."""
    there, now = seen.inventory, seen.in_force
    return (there.gpus_trainer, there.gpus_generator) == (now.gpus_trainer, now.gpus_generator)


def _learned(rules: Rules, state: State, seen: Observation) -> Noticed:
    """The beliefs after the steps that are new and belong to the setting in force."""
    fresh = _new_rows(state, seen)
    used = _mark(state.beliefs, fresh)
    if state.move is not None or not fresh:
        return replace(state, beliefs=used), ()
    batch = seen.in_force.batch_rollouts
    noise = _noise(rules, seen, batch)
    sizes = {"trainer": seen.in_force.gpus_trainer, "generator": seen.in_force.gpus_generator}
    rates = {side: rescaled(belief, sizes.get(side)) for side, belief in used.rates.items()}
    tests, notes = dict(state.tests), list[str]()
    for row in fresh:
        at_s = row.time_s if row.time_s is not None else seen.time_s
        for side, reading in readings(row.values, rules.topology, batch).items():
            reading = replace(reading, variance=noise.get(side, reading.variance))
            belief, tests[side], alarm = _one_reading(rates.get(side), tests.get(side, Cusum()), reading, at_s)
            if belief is not None:
                rates[side] = replace(belief, gpus=sizes.get(side))
            if alarm is not None:
                notes.append(f"the {side}'s service rate went {alarm}: its memory is cut")
    return replace(state, beliefs=replace(used, rates=rates), tests=tests), tuple(notes)


def _noise(rules: Rules, seen: Observation, batch: float | None) -> dict[str, float]:
    """Of one reading of each side, from all of them in view."""
    shown = [readings(row.values, rules.topology, batch) for row in kept_rows(seen.snapshot)]
    sides = {side for found in shown for side, reading in found.items() if not reading.at_least}
    return {side: noise_variance([found[side].per_s for found in shown if side in found]) for side in sides}


def _one_reading(
    belief: Belief | None, test: Cusum, reading: Reading, at_s: float
) -> tuple[Belief | None, Cusum, Direction | None]:
    after, z = updated(belief, reading, at_s)
    if belief is None or after is None:
        return after, test, None
    test, alarm = summed(test, z, ALARM_AT)
    if alarm is not None:
        after, _ = updated(forgotten(after), reading, at_s)
    return after, test, alarm


def _calmed(state: State, seen: Observation) -> Noticed:
    """An alarm of the model's learning ends when learning has, after all moves have settled."""
    if not state.alarm or state.move is not None or state.probation is not None:
        return state, ()
    since_s = (state.moved_s or 0.0) + settling_s(seen.snapshot, seen.in_force, 0.0)
    why = recovered(state.alarmed_at, seen.snapshot, since_s)
    if why is None:
        return state, ()
    return replace(state, alarm="", alarmed_at={}, calm_s=since_s), (f"{why}, so this is over: {state.alarm}",)


def _new_rows(state: State, seen: Observation) -> list[Row]:
    """Kept rows that were not used and are of the setting in force. Without rows the signals are one, once a window."""
    used, rows = state.beliefs, kept_rows(seen.snapshot)
    if not seen.snapshot.rows and seen.snapshot.signals:
        wait = seen.snapshot.window.seconds or LONE_WINDOW_S
        due = used.used_s is None or seen.time_s >= used.used_s + wait
        return [Row({n: s.value for n, s in seen.snapshot.signals.items()}, time_s=seen.time_s)] if due else []
    newest = max((row.step for row in rows if row.step is not None), default=None)
    restarted = newest is not None and used.used_step is not None and newest < used.used_step
    return [row for row in rows if restarted or _is_new(row, used, state.moved_s)]


def _is_new(row: Row, used: Beliefs, moved_s: float | None) -> bool:
    if row.time_s is not None:
        return row.time_s > max(used.used_s or 0.0, moved_s or 0.0)
    return row.step is not None and (used.used_step is None or row.step > used.used_step)


def _mark(beliefs: Beliefs, rows: Iterable[Row]) -> Beliefs:
    """The beliefs with these rows counted as used."""
    steps = [row.step for row in rows if row.step is not None]
    times = [row.time_s for row in rows if row.time_s is not None]
    return replace(
        beliefs,
        used_step=max(steps, default=beliefs.used_step),
        used_s=max([*times, *([beliefs.used_s] if beliefs.used_s is not None else [])], default=None),
    )


def _judged_forecasts(state: State, seen: Observation) -> Noticed:
    """Forecasts that came due are scored, a new one is made while nothing moves; too many wrong ones demote."""
    card = scored(state.scorecard, seen.time_s, seen.snapshot)
    if state.move is None and state.probation is None:
        forecast = _forecast(state, seen)
        card = forecasted(card, forecast) if forecast is not None else card
    state = replace(state, scorecard=card)
    why = demoted(card) if state.mode in (ControlMode.AUTO, ControlMode.APPROVE) else None
    if why is None:
        return state, ()
    return replace(state, mode=ControlMode.ADVISE, asked=None), (f"demoted to advice: {why}",)


def _forecast(state: State, seen: Observation) -> Forecast | None:
    """The mean rate over a settling time, if nothing is done: that of the last steps, with the error of both means.

    Half of a trend goes on, and its other half is doubt (a damped trend: Gardner and McKenzie 1985).
    # 16 steps falling from 2.2 to 2.0 (mean of either half), 8 ahead -> 2.0 x 0.953 = 1.91, doubt 4.8 % and noise
    """
    rates = rate_series(seen.snapshot, state.moved_s)
    now, before = level(rates[-FORECAST_STEPS:]), level(rates[-2 * FORECAST_STEPS : -FORECAST_STEPS])
    step = seen.snapshot.get("step_s")
    if now is None or not now.mean > 0.0 or not step:
        return None
    ahead = max(settling_s(seen.snapshot, seen.in_force, longest(state.actuation_s)), FORECAST_STEPS * step)
    spread = (now.sigma / now.mean) ** 2 * (1.0 / now.n + step / ahead) + WALK_PER_S * ahead
    trend = _trend(before, now) * (ahead / step + FORECAST_STEPS) / (2.0 * FORECAST_STEPS)
    mean, half = now.mean * exp(trend), CENTRAL_80 * sqrt(spread + trend**2)
    scale = conformal_scale(state.scorecard)
    rate = Interval(mean * exp(-half), mean, mean * exp(half))
    return Forecast(seen.time_s, seen.time_s + ahead, rate, scale)


def _trend(before: Level | None, now: Level) -> float:
    """Half of the change of the logarithm over FORECAST_STEPS steps, where it exceeds its noise; else 0."""
    if before is None or not before.mean > 0.0:
        return 0.0
    noise = sqrt((before.sigma / before.mean) ** 2 / before.n + (now.sigma / now.mean) ** 2 / now.n)
    change = log(now.mean / before.mean)
    return change / 2.0 if abs(change) > TREND_BEYOND_NOISE * noise else 0.0


def longest(seconds: Mapping[str, float]) -> float:
    return max(seconds.values(), default=0.0)
