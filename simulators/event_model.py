"""A job as a running simulation, and the model on top of it: the same question as analytic.py, answered by events.

Numba takes half a second to load and seconds to compile: it is loaded in `_compiled` only, on first use.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from itertools import accumulate, pairwise, zip_longest
from math import inf, sqrt
from typing import Any

from simulators.event_state import BUFFER_CAP, DROP_OLDEST, NEVER, WIP_CAP, Job, Parameters, parameters
from simulators.model import Prediction, Staleness
from simulators.plant import Setpoints, Topology
from simulators.stations import Stations
from simulators.workload import Workload

CAUSES = ("filtered", "dropped", "stale", "oversampled", "pruned", "aborted", "failed")
"""Why a dispatched rollout was not trained."""
WINDOWS = 10
"""Parts of a run whose spread gives the standard error (batch means)."""
SEED_STEP = 1_000_003
"""Between the seeds of two replications."""


def _compiled() -> Any:
    from simulators import events_fast

    return events_fast


def use_cache(directory: str) -> None:
    """Keep compiled code in this directory. Call it before the first simulation; by default numba chooses one."""
    import numba

    numba.config.CACHE_DIR = directory


def is_warm() -> bool:
    """Whether the engine answers without compiling first. Loads it from the cache where it is there."""
    return bool(_compiled().is_warm())


def warm_up() -> None:
    """Compile what is not compiled yet; tens of seconds on a slow machine, nothing when warm."""
    _compiled().warm_up()


def multi_server(servers: int, arrivals_per_s: float, service_s: float, customers: int, seed: int = 0) -> float:
    """Mean wait of an M/M/c queue on the engine's own heap: two events a customer."""
    return float(_compiled().multi_server(servers, arrivals_per_s, service_s, customers, seed))


@dataclass(frozen=True, slots=True)
class Counters:
    """Sums since time 0. The difference of two is what happened between them."""

    now_s: float = 0.0
    step: int = 0
    version: int = 0
    events: int = 0
    turns: int = 0
    dispatched: int = 0
    """Rollouts started."""
    finished: int = 0
    finished_groups: int = 0
    trained: int = 0
    trained_groups: int = 0
    useful: int = 0
    """Trained rollouts in groups whose rewards differ."""
    trained_tokens: int = 0
    trained_response: int = 0
    trained_solved: int = 0
    attempted: int = 0
    attempted_response: int = 0
    attempted_solved: int = 0
    truncated: int = 0
    spanned: int = 0
    """Versions published during rollouts, summed over finished ones."""
    filtered: int = 0
    dropped: int = 0
    stale: int = 0
    oversampled: int = 0
    pruned: int = 0
    aborted: int = 0
    failed: int = 0
    trained_resumed: int = 0
    preempted: int = 0
    prefilled_tokens: int = 0
    prefix_tokens: int = 0
    """Context tokens found in the prefix cache."""
    boxes_started: int = 0
    boxes_failed: int = 0
    boxes_leaked: int = 0
    decoded_tokens: float = 0.0
    training_s: float = 0.0
    sync_s: float = 0.0
    """Trainer seconds spent on publications, validation and checkpoints."""
    engine_busy_s: float = 0.0
    area_in_flight: float = 0.0
    """Rollout-seconds; likewise the other areas (of the buffer: group-seconds)."""
    area_resident: float = 0.0
    area_outside: float = 0.0
    area_queued: float = 0.0
    area_ring: float = 0.0
    context_area: float = 0.0
    rollout_s: float = 0.0
    """Seconds of finished rollouts, summed; likewise the other stays."""
    stint_s: float = 0.0
    """In flight, ended or interrupted."""
    group_s: float = 0.0
    queue_age_s: float = 0.0
    """In the buffer, of trained groups; `ring_s` of all that left it."""
    ring_s: float = 0.0
    resident_s: float = 0.0
    outside_s: float = 0.0
    queued_s: float = 0.0
    box_wait_s: float = 0.0
    tenant_tokens: float = 0.0
    staleness: tuple[int, ...] = ()
    """Trained rollouts by staleness in versions."""
    latency: tuple[int, ...] = ()
    """Finished rollouts by time: eight bins to an octave, the first at 2^-16 s."""

    def __add__(self, other: "Counters") -> "Counters":
        return _combined(self, other, 1)

    def __sub__(self, earlier: "Counters") -> "Counters":
        return _combined(self, earlier, -1)

    @property
    def waste(self) -> dict[str, int]:
        return {cause: getattr(self, cause) for cause in CAUSES}


def _combined(a: Counters, b: Counters, sign: int) -> Counters:
    values: dict[str, Any] = {}
    for part in fields(Counters):
        left, right = getattr(a, part.name), getattr(b, part.name)
        if isinstance(left, tuple):
            values[part.name] = tuple(x + sign * y for x, y in zip_longest(left, right, fillvalue=0))
        else:
            values[part.name] = left + sign * right
    return Counters(**values)


@dataclass(frozen=True, slots=True)
class Gauges:
    """What is where at one moment, and for how long it has been there (summed seconds)."""

    in_flight: int
    resident: int
    outside: int
    """In a tool call, starting a sandbox, with the verifier."""
    queued: int
    paused: int
    """Stopped, to be resumed."""
    waiting: int
    """Finished members of unfinished groups."""
    buffered: int
    """Rollouts of finished groups that wait for the trainer."""
    buffered_groups: int
    ages_s: Mapping[str, float] = field(default_factory=dict)


class Simulation:
    """One simulated job. It stands still until told to advance; everything it did is in its counters."""

    def __init__(self, job: Job, seed: int = 0, trace_rows: int = 0, wide: bool = False) -> None:
        """`wide` takes the engine's widest variant for a job that needs it not (the answers are the same)."""
        self._parameters: Parameters = parameters(job)
        self._state = _compiled().fresh(self._parameters, seed, trace_rows, wide)

    @property
    def now_s(self) -> float:
        return float(self._state.x[_compiled().X.now])

    @property
    def step(self) -> int:
        """Trainer steps finished."""
        return int(self._state.n[_compiled().N.step])

    @property
    def stopped(self) -> str | None:
        """Why the job cannot go on, where it cannot."""
        reason = int(self._state.n[_compiled().N.stopped])
        return None if reason == 0 else _why_stopped(self._parameters, reason, self.gauges())

    def advance(self, until_s: float = inf, until_step: int | None = None) -> None:
        """Go on until this time or until this many steps are finished, whichever comes first, or until it is stuck."""
        limit = NEVER if until_step is None else until_step
        self._state = _compiled().advanced(self._state, self._parameters, until_s, limit)

    def change(self, job: Job) -> None:
        """Other workload, stations or knobs from now on. Engines come at once, and leave when their rollouts are done;
        trainer GPUs count from its next step, a group's size from the next group."""
        self._parameters = parameters(job)
        self._state = _compiled().changed(self._state, self._parameters)

    def counters(self) -> Counters:
        engine, state = _compiled(), self._state
        values: dict[str, Any] = {}
        for part in fields(Counters):
            if part.name in engine.N._fields:
                values[part.name] = int(state.n[engine.N._fields.index(part.name)])
            elif part.name in engine.X._fields:
                values[part.name] = float(state.x[engine.X._fields.index(part.name)])
        values["now_s"] = self.now_s
        values["staleness"] = tuple(_trimmed(state.staleness))
        values["latency"] = tuple(_trimmed(state.latency))
        return Counters(**values)

    def gauges(self) -> Gauges:
        return Gauges(**_compiled().gauges(self._state))

    @property
    def memory_bytes(self) -> int:
        """Of all arrays (two may be views of the same lines): it follows what is in flight and in the buffer."""
        return sum({array.ctypes.data: int(array.nbytes) for array in self._state}.values())

    def trace(self) -> list[tuple[float, ...]]:
        """Rows of (time, kind, group, member or count, engine or count), as far as there was room for them."""
        rows = self._state.trace[: int(self._state.n[_compiled().N.traced])]
        return [tuple(row) for row in rows.tolist()]

    def broken_laws(self) -> tuple[str, ...]:
        """Laws that this run violates: always none, or the engine is wrong."""
        return _broken_flow(self.counters(), self.gauges()) + _broken_plug(self._parameters, self._state)


def _trimmed(histogram: Any) -> list[int]:
    used = histogram.nonzero()[0]
    values: list[int] = histogram[: used[-1] + 1].tolist() if len(used) else []
    return values


def _why_stopped(made: Parameters, reason: int, gauges: Gauges) -> str:
    engine, counts = _compiled(), made.counts
    where = f"{gauges.buffered_groups} groups wait, a step needs {counts.batch_groups}"
    if reason == engine.STARVED:
        return f"starved: {engine.STARVED_BATCHES} batches of groups finished and none could be trained; {where}"
    if reason == engine.NO_ROOM:
        return f"the buffer grows without bound: {where}"
    if reason == engine.CONTEXT_TOO_LONG:
        pools = f"{made.rates.kv_tokens:g} tokens (prefill pool: {made.rates.pool_kv_tokens:g})"
        return f"a rollout's context does not fit into a KV pool of {pools}"
    if reason == engine.THRASHING:
        return f"thrash: over {engine.THRASH} preemptions for every finished turn"
    if reason == engine.ALWAYS_FAILS:
        return f"one rollout was lost {engine.MOST_ATTEMPTS} times running and never finished"
    if counts.plug == WIP_CAP and counts.plug_limit < counts.batch_groups:
        return f"deadlock: at most {counts.plug_limit} groups may be started and untrained; {where}"
    if counts.plug == BUFFER_CAP and counts.plug_limit < counts.batch_groups:
        return f"deadlock: no group starts while {counts.plug_limit} wait; {where}"
    return f"deadlock: nothing in flight can go on; {where}"


def _close(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-6 + 1e-9 * max(abs(a), abs(b))


def _broken_flow(c: Counters, g: Gauges) -> tuple[str, ...]:
    """Flow conservation by cause, and Little's law at every station as an identity of one path:
    the area under a count is the sum of all stays, ended or not."""
    spent = c.trained + sum(c.waste.values())
    kept = g.in_flight + g.paused + g.waiting + g.buffered
    broken = [] if c.dispatched == spent + kept else [f"flow: {c.dispatched} dispatched, {spent} spent, {kept} kept"]
    stays = {
        "in_flight": (c.area_in_flight, c.stint_s),
        "resident": (c.area_resident, c.resident_s),
        "outside": (c.area_outside, c.outside_s),
        "queued": (c.area_queued, c.queued_s),
        "ring": (c.area_ring, c.ring_s),
    }
    for station, (area, stayed) in stays.items():
        if not _close(area, stayed + g.ages_s[station]):
            broken.append(f"Little at {station}: area {area}, stays {stayed} + {g.ages_s[station]}")
    return tuple(broken)


def _broken_plug(made: Parameters, state: Any) -> tuple[str, ...]:
    """Each plug keeps the bound it states (stations.Plug)."""
    names, counts = _compiled().N, made.counts
    peaks = {
        WIP_CAP: ("started and untrained", int(state.n[names.peak_wip])),
        BUFFER_CAP: ("waiting as a group started", int(state.n[names.peak_ring_at_open]) + 1),
        DROP_OLDEST: ("finished and waiting", int(state.n[names.peak_ring])),
    }
    what, peak = peaks.get(counts.plug, ("", 0))
    return () if peak <= counts.plug_limit else (f"plug: {peak} groups {what}, the limit is {counts.plug_limit}",)


# ---- the model ----


@dataclass(frozen=True, slots=True)
class EventModel:
    """Steady state by simulation: warm-up, then `batches` trainer steps, in each of `replications` seeds.

    Two settings with the same seed see the same prompts, lengths and rewards.
    """

    stations: Stations
    seed: int = 0
    batches: int = 100
    replications: int = 1
    warm_up_batches: int = 20

    def predict(self, topology: Topology, workload: Workload, setpoints: Setpoints) -> Prediction:
        job = Job(topology, self.stations, workload, setpoints)
        windows: list[Counters] = []
        for replication in range(self.replications):
            simulation = Simulation(job, self.seed + SEED_STEP * replication)
            windows += _measured(simulation, self.warm_up_batches, self.batches)
            if simulation.stopped:
                return _standing(simulation.stopped)
        return predicted(parameters(job), windows)


def _measured(simulation: Simulation, warm_up: int, batches: int) -> list[Counters]:
    simulation.advance(until_step=simulation.step + warm_up)
    start, parts = simulation.step, min(WINDOWS, batches)
    marks = [simulation.counters()]
    for part in range(1, parts + 1):
        simulation.advance(until_step=start + batches * part // parts)
        marks.append(simulation.counters())
    return [late - early for early, late in pairwise(marks)]


def _standing(reason: str) -> Prediction:
    return Prediction(0.0, 0.0, 0.0, inf, 1.0, 0.0, stopped=reason)


def _mean(total: float, count: float) -> float | None:
    return total / count if count else None


def capacity_tokens_per_s(made: Parameters, context_tokens: float) -> float:
    """What the engines would decode with every slot taken, at this context per resident."""
    slots = made.counts.slots
    step = made.step_s[slots] + made.rates.per_context_token_s * slots * context_tokens
    return sum(slots / (step * slow) for slow in made.slowness)


def predicted(made: Parameters, windows: list[Counters]) -> Prediction:
    """One prediction from the windows of one or several runs."""
    c, counts = sum(windows, Counters()), made.counts
    seconds = c.now_s
    context = c.context_area / c.area_resident if c.area_resident else 0.0
    rates = [w.trained / w.now_s for w in windows if w.now_s > 0.0]
    busy = c.decoded_tokens / seconds / capacity_tokens_per_s(made, context)
    return Prediction(
        rollouts_per_s=c.trained / seconds,
        useful_rollouts_per_s=c.useful / seconds,
        tokens_per_s=c.trained_tokens / seconds,
        step_s=seconds / c.step,
        trainer_idle_frac=max(0.0, 1.0 - (c.training_s + c.sync_s) / seconds),
        generator_busy_frac=min(1.0, busy),
        staleness=_staleness(c.staleness),
        token_staleness_mean=_mean(c.spanned, c.finished),
        resumed_frac=_mean(c.trained_resumed, c.trained) if counts.partial else None,
        queue_groups=c.area_ring / seconds,
        queue_age_s=_mean(c.queue_age_s, c.trained_groups),
        in_flight=c.area_in_flight / seconds,
        rollout_s=_mean(c.rollout_s, c.finished),
        group_s=_mean(c.group_s, c.finished_groups),
        waste={cause: count / c.dispatched for cause, count in c.waste.items() if count},
        kept_length_ratio=_ratio(c.trained_response, c.trained, c.attempted_response, c.attempted),
        kept_solve_ratio=_ratio(c.trained_solved, c.trained, c.attempted_solved, c.attempted),
        sandbox_wait_s=_mean(c.box_wait_s, c.boxes_started) if counts.sandboxed else None,
        sandbox_failed_frac=_mean(c.boxes_failed, c.boxes_started) if counts.sandboxed else None,
        preemptions_per_rollout=_mean(c.preempted, c.finished) if made.rates.kv_tokens < NEVER else None,
        prefix_hit_frac=_mean(c.prefix_tokens, c.prefix_tokens + c.prefilled_tokens),
        tenant_tokens_per_s=c.tenant_tokens / seconds if counts.tenant else None,
        standard_error_frac=_standard_error_frac(rates),
    )


def _ratio(kept_sum: float, kept: int, all_sum: float, attempted: int) -> float | None:
    if not kept or not attempted or not all_sum:
        return None
    return (kept_sum / kept) / (all_sum / attempted)


def _standard_error_frac(rates: list[float]) -> float | None:
    if len(rates) < 2:
        return None
    mean = sum(rates) / len(rates)
    variance = sum((rate - mean) ** 2 for rate in rates) / (len(rates) - 1)
    return sqrt(variance / len(rates)) / mean if mean else None


def _staleness(histogram: tuple[int, ...]) -> Staleness | None:
    total = sum(histogram)
    if not total:
        return None
    below = list(accumulate(histogram))
    p95 = next(age for age, count in enumerate(below) if count >= 0.95 * total)
    oldest = max(i for i, count in enumerate(histogram) if count)
    return Staleness(sum(i * n for i, n in enumerate(histogram)) / total, float(p95), float(oldest))
