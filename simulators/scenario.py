"""A scenario: one job, how it drifts, what happens to it, what its moves cost. Files are read at the rim.

`job_at` says what the job is at any step and second, whatever was ordered before: pure, so that a clairvoyant yardstick
and a simulated plant see the same world.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from simulators.drift import By, Drift, drifted, number_at, with_number
from simulators.event_state import Job
from simulators.fields import STRICT
from simulators.plant import Bounds, Change, Setpoints, Topology
from simulators.stations import Stations
from simulators.workload import Workload


class EventKind(StrEnum):
    """What happens to a job from outside."""

    NODE_LOSS = "node-loss"
    """`gpus` of the generator are gone; at `until` they are back."""
    SLOW_SANDBOX = "slow-sandbox"
    """Sandbox starts and tool calls take `factor` times as long."""
    TRAINER_SLOWDOWN = "trainer-slowdown"
    """A training step takes `factor` times as long."""
    METRICS_OUTAGE = "metrics-outage"
    """The job runs on, but nothing of it is seen, and never will be."""
    QUOTA_CHANGE = "quota-change"
    """The provider allows `limit` sandboxes alive."""
    KNOB_CHANGE = "knob-change"
    """Somebody else sets `knob` to `value`; it stays there until it is ordered otherwise."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happens to the job, from `at` until `until` (or for good)."""

    __pydantic_config__ = STRICT

    kind: EventKind
    """What happens."""
    at: float
    """Steps or seconds."""
    by: By = By.STEP
    """What `at` and `until` count."""
    until: float | None = None
    """Steps or seconds; absent: for good."""
    gpus: int | None = None
    """Of a node loss."""
    factor: float | None = None
    """Of a slowdown."""
    limit: int | None = None
    """Of a quota change."""
    knob: str | None = None
    """Of a knob change: a key of [setpoints]."""
    value: float | None = None
    """Of a knob change."""


@dataclass(frozen=True, slots=True)
class Move:
    """What it takes to turn a knob of this job. A knob without one cannot be turned."""

    __pydantic_config__ = STRICT

    knob: str
    """A key of [setpoints]."""
    change: Change = Change.HOT
    """hot: while it runs; boundary: at the next step; restart: all in flight and all waiting is lost, and nothing runs
    for `topology.restart_s`; external: by others, like a quota."""
    actuation_s: float = 0.0
    """From the order until it is in force. GPUs that change sides serve neither meanwhile."""
    failure_frac: float = 0.0
    """Share of orders that come to nothing: after `actuation_s` all is as before."""


MOST_STEPS = 100_000
"""Steps that a run keeps a record of, some kB each: there it ends."""


@dataclass(frozen=True, slots=True)
class Horizon:
    """How long the job runs: until one of these is reached."""

    __pydantic_config__ = STRICT

    steps: int | None = None
    """Trainer steps."""
    seconds: float | None = None
    """Seconds of the job's own time."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """What the job's own metrics show of it."""

    __pydantic_config__ = STRICT

    noise_sigma: float = 0.0
    """Standard deviation of the logarithm of a measured time or length; counts are exact."""
    hidden: tuple[str, ...] = ()
    """Signals that this job does not log (names of docs/signals.md)."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A job to simulate, and its story."""

    __pydantic_config__ = STRICT

    title: str
    """One sentence: what the scenario tells."""
    topology: Topology
    """Facts that no knob changes."""
    setpoints: Setpoints
    """The knobs at the start."""
    workload: Workload
    """What rollouts are like at the start."""
    stations: Stations
    """What serves them, and how fast."""
    horizon: Horizon
    """How long it is simulated."""
    bounds: Bounds = field(default_factory=Bounds)
    """How far a controller may go."""
    move: tuple[Move, ...] = ()
    """Which knobs can be turned, and what that costs."""
    drift: tuple[Drift, ...] = ()
    """Numbers that change by themselves."""
    event: tuple[Event, ...] = ()
    """Things that happen."""
    measurement: Measurement = field(default_factory=Measurement)
    """What is seen of it."""
    outside_class: bool = False
    """True for a job that the analytic model does not describe by design: reported apart."""


def job_at(scenario: Scenario, step: int, now_s: float, ordered: Setpoints | None = None) -> Job:
    """The job after `step` trainer steps and `now_s` seconds, with the knobs as `ordered`.

    Without `ordered` the knobs are the scenario's own, with all changes by others up to now.
    """
    at = {By.STEP: float(step), By.TIME: now_s}
    knobs = ordered if ordered is not None else turned_by_others(scenario, scenario.setpoints, at)
    job = Job(scenario.topology, scenario.stations, scenario.workload, knobs)
    for drift in scenario.drift:
        base = number_at(job, drift.path)
        if base is not None:
            job = with_number(job, drift.path, drifted(drift, base, at[drift.by]))
    for event in active(scenario.event, at):
        job = _befallen(job, event)
    return job


def active(events: Iterable[Event], at: dict[By, float]) -> list[Event]:
    """Those that have begun and not ended."""
    return [e for e in events if e.at <= at[e.by] and (e.until is None or at[e.by] < e.until)]


def turned_by_others(scenario: Scenario, knobs: Setpoints, at: dict[By, float]) -> Setpoints:
    """The knobs after every change by others that is in force."""
    for event in active(scenario.event, at):
        if event.kind is EventKind.KNOB_CHANGE and event.knob is not None:
            knobs = with_knob(knobs, event.knob, event.value)
    return knobs


def with_knob(knobs: Setpoints, knob: str, value: float | None) -> Setpoints:
    """The setpoints with one changed; a whole number is a count, and a switch knows only 0 and 1.

    What the generator has in all goes with its two pools.
    """
    if value is None:
        return knobs
    whole: Any = bool(value) if knob in SWITCHES else value if knob in REAL else round(value)
    turned = replace(knobs, **{knob: whole})
    if knob not in POOLS or knobs.gpus_generator is None:
        return turned
    return replace(turned, gpus_generator=(turned.gpus_prefill or 0) + (turned.gpus_decode or 0))


SWITCHES = frozenset(
    ("overlap", "partial_rollout", "in_flight_update", "filter_zero_adv", "packing", "activation_checkpointing")
)
"""Knobs that are on or off."""
POOLS = frozenset({"gpus_prefill", "gpus_decode"})
"""The two halves of a disaggregated generator."""
REAL = frozenset({"oversampling_ratio", "staleness_bound"})
"""Knobs that need not be whole."""


def _befallen(job: Job, event: Event) -> Job:
    stations, factor = job.stations, 1.0 if event.factor is None else event.factor
    match event.kind:
        case EventKind.NODE_LOSS:
            return replace(job, setpoints=_without(job.setpoints, event.gpus or 0))
        case EventKind.SLOW_SANDBOX:
            return _slow_world(job, factor)
        case EventKind.TRAINER_SLOWDOWN:
            old = stations.trainer
            trainer = replace(old, base_s=old.base_s * factor, gpu_s_per_token=old.gpu_s_per_token * factor)
            return replace(job, stations=replace(stations, trainer=trainer))
        case EventKind.QUOTA_CHANGE if stations.sandboxes is not None:
            fleet = replace(stations.sandboxes, live_limit=event.limit)
            knobs = (
                job.setpoints
                if job.setpoints.sandbox_quota is None
                else replace(job.setpoints, sandbox_quota=event.limit)
            )
            return replace(job, stations=replace(stations, sandboxes=fleet), setpoints=knobs)
        case _:
            return job


def _without(knobs: Setpoints, gpus: int) -> Setpoints:
    """The generator without `gpus`; of a disaggregated one the decoders lose them."""
    total, decode = knobs.gpus_generator, knobs.gpus_decode
    return replace(
        knobs,
        gpus_generator=None if total is None else total - gpus,
        gpus_decode=None if decode is None else decode - gpus,
        engines=None,
    )


def _slow_world(job: Job, factor: float) -> Job:
    fleet, tool = job.stations.sandboxes, job.workload.tool
    if fleet is not None:
        job = replace(job, stations=replace(job.stations, sandboxes=replace(fleet, start_s=fleet.start_s * factor)))
    if tool is not None:
        job = replace(job, workload=replace(job.workload, tool=replace(tool, mean_s=tool.mean_s * factor)))
    return job
