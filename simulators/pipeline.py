"""SimulatedPlant: a whole job on the event engine, as a Plant. Orders take their time, may fail, and have their cost.

It keeps two records of the run: what truly happened (`log`), and what the job's own metrics show of it (`observe`).
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from math import inf
from typing import Any

from simulators.drift import By, Shape
from simulators.event_state import Job
from simulators.faults import setting_faults
from simulators.legality import refused_pools
from simulators.metering import Meter, measured, scraped, signals_of
from simulators.plant import Change, Inventory, Observation, Order, Outcome, Receipt, Setpoints, Status, TrainerResize
from simulators.scenario import MOST_STEPS, Event, EventKind, Move, Scenario, active, job_at, with_knob
from simulators.simulation import Simulation
from simulators.snapshot import Row, Snapshot
from simulators.step_log import StepLog, logged
from simulators.streams import seed_key, uniform
from simulators.window import Sources, assemble

MOVES = 64
"""Stream of what becomes of orders; the job's own streams are smaller."""
WINDOW_STEPS = 64
"""Steps that an observation shows; what came before, a controller has seen."""
DRIFT_GRAIN_S = 60.0
"""A drift by time is followed at every step, and at least this often."""
GPU_KNOBS = ("gpus_trainer", "gpus_generator", "gpus_prefill", "gpus_decode")


@dataclass(frozen=True, slots=True)
class Pending:
    """An order under way."""

    decision_id: str
    at_s: float
    wanted: Mapping[str, float]
    change: Change
    fails: bool


class SimulatedPlant:
    """Runs a scenario. Time moves when somebody looks (`observe`) or says so (`advance`)."""

    def __init__(self, scenario: Scenario, seed: int = 0) -> None:
        self.scenario = scenario
        self.log: list[StepLog] = []
        self._shown: list[Row] = []
        self._snapshot = assemble(())
        self._snapshot_steps = 0
        self.now_s = 0.0
        self.stopped: str | None = None
        """Why the job cannot go on, where it cannot."""
        self._seed = seed
        self._knobs = scenario.setpoints
        self._pending: tuple[Pending, ...] = ()
        self._token, self._orders, self._restarts = 0, 0, 0
        self._turned: set[Event] = set()
        self._steps_before, self._epoch_s, self._down_until_s = 0, 0.0, 0.0
        self._job = job_at(scenario, 0, 0.0, self._knobs)
        self._start(self._job)
        self._change_world()

    @property
    def step(self) -> int:
        """Trainer steps done, over all restarts."""
        return self._steps_before + self._simulation.step

    @property
    def done(self) -> bool:
        """True at the horizon, and when the job cannot go on."""
        steps, seconds = self.scenario.horizon.steps, self.scenario.horizon.seconds
        over = (steps is not None and self.step >= steps) or (seconds is not None and self.now_s >= seconds)
        return over or self.stopped is not None

    def observe(self, now_s: float) -> Observation:
        self.advance(now_s)
        there = self._job.setpoints
        inventory = Inventory(there.gpus_trainer, there.gpus_generator, steps_done=self.step)
        return Observation(now_s, self._measured(now_s), self._knobs, inventory)

    def _measured(self, now_s: float) -> Snapshot:
        """What the metrics show: each step is measured once, and folded anew only when one has been added."""
        if len(self.log) != self._snapshot_steps:
            known = self.scenario.measurement
            meter = Meter(seed_key(self._seed), known.noise_sigma, frozenset(known.hidden))
            fresh = [measured(log.row, meter) for log in self.log[self._snapshot_steps :] if log.seen]
            self._shown = [*self._shown, *fresh][-WINDOW_STEPS:]
            self._snapshot, self._snapshot_steps = assemble(self._shown), len(self.log)
        if not self.log:
            return self._scraped(now_s)
        last_s = self._shown[-1].time_s if self._shown else None
        age_s = None if last_s is None else max(0.0, now_s - last_s)
        signals = {name: replace(signal, age_s=age_s) for name, signal in self._snapshot.signals.items()}
        return replace(self._snapshot, signals=signals)

    def _scraped(self, now_s: float) -> Snapshot:
        """Before the first step ends the engines are all that shows: what they did since the start."""
        delta = self._simulation.counters_now() - self._counted
        if delta.now_s <= 0.0 or any(
            e.kind is EventKind.METRICS_OUTAGE for e in active(self.scenario.event, self._at())
        ):
            return self._snapshot
        known = self.scenario.measurement
        meter = Meter(seed_key(self._seed), known.noise_sigma, frozenset(known.hidden))
        row = measured(Row(scraped(delta, self._job), 0, now_s), meter)
        return assemble((), (replace(row, step=None),), sources=Sources(age_s=0.0))

    def advance(self, until_s: float = inf) -> None:
        """Lets the job run until then, or to its end."""
        while self.now_s < until_s and not self.done:
            self.run_step(until_s)

    def run_step(self, until_s: float = inf) -> None:
        """Runs to the end of the trainer step, at most to `until_s` or to the next change of the world."""
        until_s = min(until_s, self._next_change_s())
        if self._down_until_s > self.now_s:
            self.now_s = min(until_s, self._down_until_s)
        else:
            step = self._simulation.step
            self._simulation.advance(until_s - self._epoch_s, step + 1)
            self.now_s = self._epoch_s + self._simulation.now_s
            self.stopped = self._simulation.stopped
            if self._simulation.step > step:
                self._note_step()
            elif self.stopped is None:
                self.now_s = until_s
        self._change_world()

    # ---- the world ----

    def _start(self, job: Job) -> None:
        """A fresh process: nothing in flight, nothing waiting. After a restart it draws other groups."""
        self._simulation = Simulation(job, self._seed + 7919 * self._restarts)
        self._counted, self._paid_sync_s = self._simulation.counters(), 0.0
        self._step_began_s = self._epoch_s

    def _note_step(self) -> None:
        counters = self._simulation.counters()
        # The pause after a step is counted where it is decided, at the end of that step, and spent in the next one.
        delta = replace(counters - self._counted, sync_s=self._counted.sync_s - self._paid_sync_s)
        self._paid_sync_s = self._counted.sync_s
        self._counted, self._step_began_s = counters, self.now_s
        outages = [e for e in active(self.scenario.event, self._at()) if e.kind is EventKind.METRICS_OUTAGE]
        shown = signals_of(delta, self._job, self._simulation.step, self._simulation.longest_tokens)
        row = Row(shown, self.step, self.now_s)
        if len(self.log) + 1 >= MOST_STEPS:
            self.stopped = f"{MOST_STEPS:,} steps, all that one run keeps a record of: shorten horizon.seconds"
        self.log.append(logged(row, delta, self._job, not outages))

    def _at(self) -> dict[By, float]:
        return {By.STEP: float(self.step), By.TIME: self.now_s}

    def _next_change_s(self) -> float:
        """The next second at which something other than the job itself happens."""
        scenario = self.scenario
        times = [at for e in scenario.event if e.by is By.TIME for at in (e.at, e.until) if at is not None]
        times += [at for d in scenario.drift if d.by is By.TIME for at in (d.start, d.end) if at is not None]
        times += [p.at_s for p in self._pending]
        times += [scenario.horizon.seconds] if scenario.horizon.seconds is not None else []
        if any(d.by is By.TIME and d.shape is not Shape.STEP for d in scenario.drift):
            times.append(self.now_s + DRIFT_GRAIN_S)
        return min((at for at in times if at > self.now_s), default=inf)

    def _change_world(self) -> None:
        """Lands what is due, lets others turn their knobs, and tells the simulation if the job is another one now."""
        for pending in [p for p in self._pending if self._is_due(p)]:
            self._land(pending)
        for event in active(self.scenario.event, self._at()):
            if event.kind is EventKind.KNOB_CHANGE and event.knob is not None and event not in self._turned:
                self._turned.add(event)
                self._knobs = with_knob(self._knobs, event.knob, event.value)
        job = job_at(self.scenario, self.step, self.now_s, self._in_transit())
        if job != self._job and not self.done:
            self._job = job
            try:
                self._simulation.change(job)
            except ValueError as impossible:  # what befalls a job may leave one that cannot run: that is its end
                self.stopped = str(impossible)

    # ---- orders ----

    def apply(self, order: Order, now_s: float) -> Receipt:
        self.advance(now_s)
        asked = {k: float(v) for k, v in asdict(order.setpoints).items() if v is not None}
        outcomes = {knob: self._answer(knob, value, order) for knob, value in asked.items()}
        fresh = {knob: asked[knob] for knob, outcome in outcomes.items() if outcome is None}
        if fresh:
            outcomes |= self._begin(fresh, order)
        self._token = max(self._token, order.fencing_token)
        return Receipt(order.decision_id, {knob: o for knob, o in outcomes.items() if o is not None})

    def _answer(self, knob: str, value: float, order: Order) -> Outcome | None:
        """What can be said before anything is begun; None: it may begin."""
        if order.fencing_token < self._token:
            return Outcome(Status.REFUSED, f"a newer writer (token {self._token}) holds this job")
        under_way = next((p for p in self._pending if knob in p.wanted), None)
        if under_way is not None and under_way.wanted[knob] == value:
            return Outcome(Status.PENDING, f"under way since {under_way.decision_id}", under_way.at_s)
        if under_way is not None:
            return Outcome(Status.REFUSED, f"{under_way.decision_id} still moves {knob}, {self._until(under_way)}")
        if value == _value(self._knobs, knob):
            return Outcome(Status.APPLIED, "in force already", self.now_s)
        if self._move_of(knob) is None:
            return Outcome(Status.REFUSED, f"this job has no actuator for {knob}")
        if knob == "gpus_trainer" and self.scenario.topology.trainer_resize is TrainerResize.IMPOSSIBLE:
            return Outcome(Status.REFUSED, "its checkpoints cannot be loaded on another number of GPUs")
        return None

    def _until(self, pending: Pending) -> str:
        if pending.at_s > self.now_s:
            return f"until {pending.at_s:.0f} s"
        return f"due since {pending.at_s:.0f} s, at the end of the step under way"

    def _begin(self, wanted: Mapping[str, float], order: Order) -> dict[str, Outcome | None]:
        """Starts what may begin of an order as one move: it lands, or fails, as a whole."""
        sizes: dict[str, Any] = {knob: round(wanted[knob]) for knob in GPU_KNOBS if knob in wanted}
        pools = refused_pools(self.scenario.topology, self._knobs, replace(self._knobs, **sizes))
        if pools is not None:
            return dict.fromkeys(wanted, Outcome(Status.REFUSED, pools))
        faults = list(setting_faults(self.scenario.topology, _with_all(self._knobs, wanted)))
        if faults:
            return dict.fromkeys(wanted, Outcome(Status.REFUSED, f"{faults[0].key}={faults[0].value} {faults[0].why}"))
        moves = [move for knob in wanted if (move := self._move_of(knob)) is not None]
        change = Change.RESTART if any(m.change is Change.RESTART for m in moves) else moves[0].change
        down_s = (self.scenario.topology.restart_s or 0.0) if change is Change.RESTART else 0.0
        at_s = self.now_s + max(m.actuation_s for m in moves) + down_s
        self._orders += 1
        fails = uniform(seed_key(self._seed), MOVES, self._orders, 0, 0) < max(m.failure_frac for m in moves)
        pending = Pending(order.decision_id, at_s, wanted, change, fails)
        if at_s <= self.now_s and change is not Change.BOUNDARY:
            self._land(pending)
            self._change_world()
            return dict.fromkeys(wanted, Outcome(Status.APPLIED, f"{change}: in force", self.now_s))
        self._pending = (*self._pending, pending)
        if change is Change.RESTART:
            self._down_until_s = max(self._down_until_s, at_s)
        self._change_world()
        step = ", then the rest of a step" if change is Change.BOUNDARY else ""
        return dict.fromkeys(wanted, Outcome(Status.PENDING, f"{change}: takes {at_s - self.now_s:.0f} s{step}", at_s))

    def _is_due(self, pending: Pending) -> bool:
        at_boundary = self._step_began_s == self.now_s
        return pending.at_s <= self.now_s and (pending.change is not Change.BOUNDARY or at_boundary)

    def _land(self, pending: Pending) -> None:
        self._pending = tuple(p for p in self._pending if p is not pending)
        if not pending.fails:
            self._knobs = _with_all(self._knobs, pending.wanted)
        if pending.change is Change.RESTART:
            self._steps_before, self._epoch_s = self.step, self.now_s
            self._restarts += 1
            self._job = job_at(self.scenario, self._steps_before, self.now_s, self._knobs)
            self._start(self._job)

    def _in_transit(self) -> Setpoints:
        """The knobs with GPUs that change sides on neither."""
        knobs = self._knobs
        for pending in (p for p in self._pending if p.change in (Change.HOT, Change.EXTERNAL)):
            for knob in (k for k in GPU_KNOBS if k in pending.wanted):
                knobs = with_knob(knobs, knob, min(pending.wanted[knob], _value(knobs, knob) or 0.0))
        return knobs

    def _move_of(self, knob: str) -> Move | None:
        return next((move for move in self.scenario.move if move.knob == knob), None)


def _value(knobs: Setpoints, knob: str) -> float | None:
    value: float | None = asdict(knobs)[knob]
    return None if value is None else float(value)


def _with_all(knobs: Setpoints, wanted: Mapping[str, float]) -> Setpoints:
    for knob, value in wanted.items():
        knobs = with_knob(knobs, knob, value)
    return knobs


Tell = Callable[[int, int | None], None]
"""Called with what is done of the horizon and with all of it."""
PARTS = 1000
"""Of the horizon, for a progress line."""


def simulate(scenario: Scenario, seed: int = 0, tell: Tell | None = None) -> SimulatedPlant:
    """The scenario run to its end, nobody touching it."""
    plant = SimulatedPlant(scenario, seed)
    while not plant.done:
        plant.run_step()
        if tell is not None:
            tell(round(PARTS * progress_of(plant)), PARTS)
    return plant


def progress_of(plant: SimulatedPlant) -> float:
    """How much of the horizon is behind, from 0 to 1."""
    steps, seconds = plant.scenario.horizon.steps, plant.scenario.horizon.seconds
    shares = [plant.step / steps] if steps else []
    shares += [plant.now_s / seconds] if seconds else []
    return min(1.0, max(shares, default=1.0))
