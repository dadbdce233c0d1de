"""/metrics: what the loop did, under the prefix `equipoise_`. Set at each tick; labels from small closed sets."""

from collections.abc import Iterable
from math import nan

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from policies.commands import ControlMode
from policies.control import Decision
from policies.guardrails.seeing import stale_after_s
from policies.moves import Move, Stage
from policies.scorecard import bias, conformal_scale, coverage, unlocked
from policies.settings import ACTED, difference, knobs_of, values
from policies.state import State
from simulators.plant import Setpoints
from tuner.loop import Ticked
from tuner.server.board import About, has_evidence
from tuner.version import VERSION

NO_KNOB, NO_REASON = "none", "none"
ACTUATION_BUCKETS = (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 3600.0)
TICK_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """A watcher of the loop with a registry of its own."""

    def __init__(self, about: About) -> None:
        self._about, self._registry = about, CollectorRegistry()
        self._state: State | None = None
        self._signals: set[str] = set()
        ProcessCollector(registry=self._registry)
        self._define()
        self._build.labels(VERSION).set(1)
        for mode in ControlMode:
            self._mode.labels(mode.value).set(0)
        for knob in ACTED:  # from 0 on, or the first refusals would be no increase
            self._refused.labels(knob)
        for unknown in (self._error, self._coverage, self._bias, self._scale, self._success, self._last):
            unknown.set(nan)

    def _define(self) -> None:
        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"equipoise_{name}", text, labels, registry=self._registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"equipoise_{name}", text, labels, registry=self._registry)

        def histogram(name: str, text: str, buckets: Iterable[float], *labels: str) -> Histogram:
            return Histogram(f"equipoise_{name}", text, labels, buckets=tuple(buckets), registry=self._registry)

        self._build = gauge("build_info", "1; the version is a label", "version")
        self._desired = gauge("setpoint_desired", "What the control law wants, before any guardrail", "setpoint")
        self._target = gauge("setpoint_target", "What we stand by: the goal of the move under way", "setpoint")
        self._actual = gauge("setpoint_actual", "What is in force, as the job shows it", "setpoint")
        self._decisions = counter("decisions", "Ticks by knob, action and reason", "knob", "action", "reason")
        self._age = gauge("signal_age_seconds", "Age of each signal at the last tick", "signal")
        self._valid = gauge("signal_valid", "1 while a signal is there and recent", "signal")
        self._error = gauge("prediction_error_ratio", "Last due forecast: log error over its interval's half-width")
        self._coverage = gauge("prediction_coverage_ratio", "Share of the 80 % intervals that held")
        self._bias = gauge("prediction_bias_ratio", "Mean signed error in half-widths")
        self._scale = gauge("prediction_scale_ratio", "What interval half-widths are multiplied by to hold 80 %")
        self._actuation = histogram(
            "actuation_duration_seconds", "From an order until all of it is in force", ACTUATION_BUCKETS, "knob"
        )
        self._refused = counter("orders_refused", "Orders that the plant refused", "knob")
        self._duration = histogram("tick_duration_seconds", "One tick, reading and acting included", TICK_BUCKETS)
        self._lag = gauge("tick_lag_seconds", "How much later than due the last tick began")
        self._mode = gauge("mode", "1 for the mode in force", "mode")
        self._frozen = gauge("frozen", "1 while a knob rests after a failed move", "knob")
        self._paused = gauge("paused", "1 while a person paused a knob", "knob")
        self._unlocked = gauge("auto_unlocked", "1 once a knob has earned auto", "knob")
        self._moving = gauge("moving", "1 while a move is under way")
        self._stranded = gauge("stranded", "1 while a move can be neither finished nor undone")
        self._success = gauge("last_success_timestamp_seconds", "Last tick that was written with evidence in view")
        self._last = gauge("last_tick_timestamp_seconds", "Last tick")
        self._failures = counter("journal_failures", "Ticks or receipts that could not be written")

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def ticked(self, ticked: Ticked) -> None:
        entry, state = ticked.entry, ticked.state
        self._duration.observe(ticked.seconds)
        self._lag.set(ticked.lag_s)
        self._last.set(entry.at_s)
        if ticked.failure:
            self._failures.inc()
        if ticked.tick_id is None:
            return
        stale_s = self._about.rules.limits.stale_s
        if has_evidence(ticked, stale_s):
            self._success.set(entry.at_s)
        self._decisions.labels(*labels_of(entry.decision)).inc()
        self._set_signals(ticked, stale_s)
        self._set_points(ticked)
        self._set_state(state, entry.at_s)
        self._note_moves(ticked)
        self._state = state

    def _set_signals(self, ticked: Ticked, stale_s: float) -> None:
        snapshot = ticked.entry.seen.snapshot
        signals = snapshot.signals
        by_step = {name for row in snapshot.rows[-1:] for name in row.values}
        step_stale_s = stale_after_s(snapshot, stale_s)
        for name in self._signals - set(signals):
            self._valid.labels(name).set(0)
        for name, signal in signals.items():
            self._age.labels(name).set(signal.age_s or 0.0)
            limit = step_stale_s if name in by_step else stale_s
            self._valid.labels(name).set(float((signal.age_s or 0.0) <= limit))
        self._signals |= set(signals)

    def _set_points(self, ticked: Ticked) -> None:
        decision, seen = ticked.entry.decision, ticked.entry.seen
        told: list[tuple[Gauge, Setpoints | None]] = [
            (self._actual, seen.in_force),
            (self._target, target_of(ticked.state)),
            (self._desired, decision.proposed or decision.changes),
        ]
        for gauge, settings in told:
            gauge.clear()
            for name, value in ({} if settings is None else values(settings)).items():
                gauge.labels(name).set(float(value))

    def _set_state(self, state: State, now_s: float) -> None:
        for mode in ControlMode:
            self._mode.labels(mode.value).set(float(state.mode is mode))
        frozen = {f.knob for f in state.freezes if f.until_s > now_s}
        for knob in ACTED:
            self._frozen.labels(knob).set(float(knob in frozen))
            self._paused.labels(knob).set(float(any(p.knob in (None, knob) for p in state.pauses)))
            self._unlocked.labels(knob).set(float(unlocked(state.scorecard, knob)))
        self._moving.set(float(state.move is not None))
        self._stranded.set(float(state.move is not None and state.move.stuck > 0))
        card = state.scorecard
        told = [(self._coverage, coverage(card)), (self._bias, bias(card)), (self._scale, conformal_scale(card))]
        told += [(self._error, card.errors[-1] if card.errors else None)]
        for gauge, value in told:
            if value is not None:
                gauge.set(value)

    def _note_moves(self, ticked: Ticked) -> None:
        before = self._state.move if self._state is not None else None
        after = ticked.state.move
        if before is not None and after is not None and _arrived(before, after):
            for knob in knobs_of(difference(after.origin, after.goal)):
                self._actuation.labels(knob).observe(max(0.0, ticked.entry.at_s - after.begun_s))
        if ticked.receipt is not None and ticked.receipt.status.value == "refused" and ticked.entry.decision.order:
            for knob in knobs_of(ticked.entry.decision.order):
                self._refused.labels(knob).inc()


def _arrived(before: Move, after: Move) -> bool:
    return before.decision_id == after.decision_id and (before.stage, after.stage) == (Stage.WALK, Stage.VERIFY)


def labels_of(decision: Decision) -> tuple[str, str, str]:
    """Knob, action and reason of a decision, each from a closed set."""
    wish = decision.order or decision.changes or decision.proposed
    knobs = () if wish is None else knobs_of(wish)
    reason = NO_REASON if decision.code is None else decision.code.value
    return (knobs[0] if knobs else NO_KNOB), decision.action.value, reason


def target_of(state: State) -> Setpoints | None:
    """The setting we stand by: where the move under way leads, else what is accepted."""
    return state.accepted if state.move is None else state.move.goal
