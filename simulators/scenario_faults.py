"""What makes a scenario impossible: its story may name nothing that is not there, and lead to no impossible job."""

from collections.abc import Iterator
from dataclasses import fields

from simulators.drift import By, Drift, Shape, number_at
from simulators.event_state import Job
from simulators.faults import SPLIT_KNOBS, Fault, job_faults, range_faults
from simulators.fields import LARGEST, range_of
from simulators.plant import Mode, Setpoints
from simulators.scenario import MOST_STEPS, REAL, SWITCHES, Event, EventKind, Horizon, Scenario, job_at
from simulators.signals import SIGNALS

KNOBS = tuple(f.name for f in fields(Setpoints))
"""What [setpoints] may hold, and so what may be moved."""
MOVED = ("workload.", "stations.")
"""Where a drift may reach."""
NEEDS = {
    EventKind.NODE_LOSS: ("gpus",),
    EventKind.SLOW_SANDBOX: ("factor",),
    EventKind.TRAINER_SLOWDOWN: ("factor",),
    EventKind.METRICS_OUTAGE: ("until",),
    EventKind.QUOTA_CHANGE: ("limit",),
    EventKind.KNOB_CHANGE: ("knob", "value"),
}
"""Keys without which an event says nothing."""
STATED_ELSEWHERE = {
    "overlap": "a simulated job keeps its topology.mode to the end",
    "packing": "what packing costs or saves is stations.trainer.gpu_s_per_token: a drift on it can say so",
    "activation_checkpointing": "what computing activations again costs is in stations.trainer.gpu_s_per_token as well",
    "in_flight_update": "how weights arrive is stations.sync.mode, to the end",
}
"""Knobs that no running simulation turns: an order for one would be met and change nothing."""


def faults_of(scenario: Scenario) -> list[Fault]:
    """Everything that is impossible; empty for a scenario that can be simulated."""
    job = Job(scenario.topology, scenario.stations, scenario.workload, scenario.setpoints)
    found = [*_horizon(scenario.horizon), *_rest(scenario), *job_faults(job)]
    found += [f for place, drift in enumerate(scenario.drift) for f in _drift(f"drift.{place}", drift, job)]
    found += [f for place, event in enumerate(scenario.event) for f in _event(f"event.{place}", event, scenario)]
    return found or list(_becomes(scenario))


def _horizon(horizon: Horizon) -> Iterator[Fault]:
    if horizon.steps is None and horizon.seconds is None:
        yield Fault("horizon", None, "is empty: write steps = 200, seconds = 86400, or both")
    if horizon.steps is not None and horizon.steps < 1:
        yield Fault("horizon.steps", horizon.steps, "must be at least 1")
    if horizon.steps is not None and horizon.steps > MOST_STEPS:
        yield Fault("horizon.steps", horizon.steps, f"must be at most {MOST_STEPS}: what a run keeps of its steps")
    if horizon.seconds is not None and horizon.seconds > LARGEST:
        yield Fault("horizon.seconds", horizon.seconds, f"must be at most {LARGEST:g}")
    if horizon.seconds is not None and horizon.seconds <= 0:
        yield Fault("horizon.seconds", horizon.seconds, "must be positive")


def _rest(scenario: Scenario) -> Iterator[Fault]:
    yield from range_faults("bounds", scenario.bounds)
    yield from range_faults("move", scenario.move)
    yield from range_faults("measurement", scenario.measurement)
    for place, move in enumerate(scenario.move):
        yield from _knob(f"move.{place}.knob", move.knob, scenario)
        if move.knob in [earlier.knob for earlier in scenario.move[:place]]:
            yield Fault(f"move.{place}.knob", move.knob, "has a move already: take one of the two out")
    if scenario.topology.queue_capacity is not None:
        why = 'ends no simulated queue: stations.admission with plug = "buffer-cap" does'
        yield Fault("topology.queue_capacity", scenario.topology.queue_capacity, why)
    boxes = scenario.stations.sandboxes
    if boxes is not None and boxes.start_timeout_s is not None and boxes.start_timeout_s < boxes.start_s:
        why = f"is under start_s={boxes.start_s:g}: no start would ever succeed; give it more, or leave it out"
        yield Fault("stations.sandboxes.start_timeout_s", boxes.start_timeout_s, why)
    for name in scenario.measurement.hidden:
        if name not in SIGNALS:
            yield Fault("measurement.hidden", name, "is no signal; docs/signals.md lists them")


def _drift(key: str, drift: Drift, job: Job) -> Iterator[Fault]:
    if not drift.path.startswith(MOVED):
        yield Fault(
            f"{key}.path", drift.path, "must start with workload. or stations.: knobs change by events or orders"
        )
        return
    try:
        base = number_at(job, drift.path)
    except ValueError as error:
        yield Fault(f"{key}.path", drift.path, str(error).partition("leads")[1] + str(error).partition("leads")[2])
        return
    if base is None:
        yield Fault(f"{key}.path", drift.path, "is no number in this scenario: give it a value first")
        return
    yield from _shape(key, drift, base)
    low, high = range_of(next(p for p in reversed(drift.path.split(".")) if not p.isdecimal()))
    ends = [("to", v) for v in (drift.to,) if v is not None] + [("points", v) for _, v in drift.points]
    yield from (
        Fault(f"{key}.{name}", value, f"leads out of the range of {drift.path}: {low:g} to {high:g}")
        for name, value in ends
        if not low <= value <= high
    )
    if drift.shape is Shape.SINE and drift.to is not None and 2 * base - drift.to < low:
        yield Fault(f"{key}.to", drift.to, f"swings {drift.path} down to {2 * base - drift.to:g}, under {low:g}")


def _shape(key: str, drift: Drift, base: float) -> Iterator[Fault]:
    """Whether a shape has what it needs."""
    if drift.start < 0:
        yield Fault(f"{key}.start", drift.start, "must not be negative")
    if drift.end is not None and drift.end <= drift.start:
        yield Fault(f"{key}.end", drift.end, f"must be after start={drift.start:g}")
    if drift.shape is Shape.POINTS:
        at = [x for x, _ in drift.points]
        if not at or at != sorted(set(at)) or at[0] < 0:
            yield Fault(f"{key}.points", at, "must be pairs of rising steps (or seconds), none negative, and values")
        return
    if drift.to is None:
        yield Fault(f"{key}.to", None, f"is needed: where {drift.path}={base:g} goes")
    if drift.shape in (Shape.LINEAR, Shape.EXPONENTIAL, Shape.LOGISTIC) and drift.end is None:
        yield Fault(f"{key}.end", None, f"is needed by shape = {drift.shape}: when it has arrived")
    if drift.shape is Shape.SINE and not (drift.period and drift.period > 0):
        yield Fault(f"{key}.period", drift.period, "is needed by shape = sine, and positive")
    if drift.shape is Shape.EXPONENTIAL and (base <= 0 or (drift.to is not None and drift.to <= 0)):
        yield Fault(f"{key}.shape", str(drift.shape), f"needs positive ends: {drift.path}={base:g}, to={drift.to}")


def _knob(key: str, knob: str, scenario: Scenario) -> Iterator[Fault]:
    """Whether turning it would change this job."""
    if knob not in KNOBS:
        yield Fault(key, knob, f"is no knob; known: {', '.join(KNOBS)}")
    elif knob in STATED_ELSEWHERE:
        yield Fault(key, knob, f"cannot be turned here: {STATED_ELSEWHERE[knob]}")
    elif knob in SPLIT_KNOBS and scenario.topology.mode is Mode.SERIAL:
        yield Fault(key, knob, "moves nothing in a serial job, where both sides use topology.gpus_total: take it out")
    elif knob == "sandbox_quota" and scenario.stations.sandboxes is None:
        yield Fault(key, knob, "bounds nothing here: give the job its stations.sandboxes")


def _event(key: str, event: Event, scenario: Scenario) -> Iterator[Fault]:
    given: dict[str, object] = {"gpus": event.gpus, "factor": event.factor, "limit": event.limit, "until": event.until}
    given |= {"knob": event.knob, "value": event.value}
    for name in NEEDS[event.kind]:
        if given[name] is None:
            yield Fault(f"{key}.{name}", None, f"is needed by kind = {event.kind}")
    for name, value in {k: v for k, v in given.items() if k not in (*NEEDS[event.kind], "until")}.items():
        if value is not None:
            yield Fault(f"{key}.{name}", value, f"means nothing to kind = {event.kind}: take it out")
    if event.at < 0:
        yield Fault(f"{key}.at", event.at, "must not be negative")
    if event.until is not None and event.until <= event.at:
        yield Fault(f"{key}.until", event.until, f"must be after at={event.at:g}")
    if (event.factor is not None and event.factor <= 0) or (event.gpus or 1) < 1 or (event.limit or 1) < 1:
        yield Fault(f"{key}.kind", str(event.kind), "needs a positive factor, gpus or limit")
    if event.knob is not None:
        yield from _knob(f"{key}.knob", event.knob, scenario)
    if event.knob in SWITCHES and event.value not in (0, 1, None):
        yield Fault(f"{key}.value", event.value, f"must be 0 or 1: {event.knob} is a switch")
    elif event.value is not None and event.knob not in REAL and event.value != int(event.value):
        yield Fault(f"{key}.value", event.value, f"must be a whole number: {event.knob} is a count")
    fleet, tool = scenario.stations.sandboxes, scenario.workload.tool
    if event.kind is EventKind.QUOTA_CHANGE and fleet is None:
        yield Fault(f"{key}.kind", str(event.kind), "bounds nothing here: give the job its stations.sandboxes")
    if event.kind is EventKind.SLOW_SANDBOX and fleet is None and tool is None:
        why = "slows nothing here: give the job its stations.sandboxes or workload.tool"
        yield Fault(f"{key}.kind", str(event.kind), why)


def _becomes(scenario: Scenario) -> Iterator[Fault]:
    """What drift and events make of the job: looked at where something begins or ends."""
    turns: dict[tuple[By, float], list[str]] = {}
    for i, drift in enumerate(scenario.drift):
        for moment in (drift.start, drift.end, *(x for x, _ in drift.points)):
            _add(turns, drift.by, moment, f"drift.{i}")
    for i, event in enumerate(scenario.event):
        for moment in (event.at, event.until):
            _add(turns, event.by, moment, f"event.{i}")
    for (by, at), names in sorted(turns.items()):
        step, now_s = (int(at), 0.0) if by is By.STEP else (0, at)
        faults = job_faults(job_at(scenario, step, now_s))
        if faults:
            when = f"after {at:g} {'s' if by is By.TIME else 'steps'}: see {', '.join(dict.fromkeys(names))}"
            yield Fault(faults[0].key, faults[0].value, f"{faults[0].why} ({when})")
            return


def _add(turns: dict[tuple[By, float], list[str]], by: By, at: float | None, name: str) -> None:
    if at is not None:
        turns.setdefault((by, at), []).append(name)
