"""A job as a running simulation: it goes on, is changed, is asked for its counters, and says why it stands still."""

from dataclasses import fields
from functools import cache
from math import inf
from typing import Any

from simulators.compiled import engine
from simulators.counters import Counters, Gauges
from simulators.distributions import NEVER
from simulators.event_parameters import parameters
from simulators.event_state import BUFFER_CAP, DROP_OLDEST, PER_SYNC, WIP_CAP, Job, Parameters


class Simulation:
    """One simulated job. It stands still until told to advance; everything it did is in its counters."""

    def __init__(self, job: Job, seed: int = 0, trace_rows: int = 0, wide: bool = False) -> None:
        """`wide` takes the engine's widest variant for a job that needs it not (the answers are the same)."""
        self._parameters: Parameters = parameters(job)
        self._state = engine().fresh(self._parameters, seed, trace_rows, wide)

    @property
    def now_s(self) -> float:
        return float(self._state.x[engine().X.now])

    @property
    def step(self) -> int:
        """Trainer steps finished."""
        return int(self._state.n[engine().N.step])

    @property
    def longest_tokens(self) -> int:
        """Response tokens of the longest rollout of the newest batch; 0 before the first."""
        return int(self._state.n[engine().N.trained_longest])

    @property
    def stopped(self) -> str | None:
        """Why the job cannot go on, where it cannot."""
        reason = int(self._state.n[engine().N.stopped])
        return None if reason == 0 else _why_stopped(self._parameters, reason, self.gauges())

    def advance(self, until_s: float = inf, until_step: int | None = None) -> None:
        """Go on until this time or until this many steps are finished, whichever comes first, or until it is stuck."""
        limit = NEVER if until_step is None else until_step
        self._state = engine().advanced(self._state, self._parameters, until_s, limit)

    def change(self, job: Job) -> None:
        """Other workload, stations or knobs from now on. Engines come at once, and leave when their rollouts are done;
        trainer GPUs count from its next step, a group's size from the next group."""
        self._parameters = parameters(job)
        self._state = engine().changed(self._state, self._parameters)

    def counters(self) -> Counters:
        """Up to each engine's last event: over a step or more that is all but the same."""
        return self._counted(self._state)

    def counters_now(self) -> Counters:
        """Up to now: where few events have been, most of what engines did was after their last one."""
        return self._counted(engine().up_to_now(self._state))

    def _counted(self, state: Any) -> Counters:
        whole, real = state.n.tolist(), state.x.tolist()
        counted, summed = _places()
        values: dict[str, Any] = {name: whole[place] for name, place in counted}
        values |= {name: real[place] for name, place in summed}
        values["now_s"] = self.now_s
        values["staleness"] = tuple(_trimmed(state.staleness))
        values["latency"] = tuple(_trimmed(state.latency))
        return Counters(**values)

    def gauges(self) -> Gauges:
        return Gauges(**engine().gauges(self._state))

    @property
    def memory_bytes(self) -> int:
        """Of all arrays (two may be views of the same lines): it follows what is in flight and in the buffer."""
        return sum({array.ctypes.data: int(array.nbytes) for array in self._state}.values())

    def trace(self) -> list[tuple[float, ...]]:
        """Rows of (time, kind, group, member or count, engine or count), as far as there was room for them."""
        rows = self._state.trace[: int(self._state.n[engine().N.traced])]
        return [tuple(row) for row in rows.tolist()]

    def broken_laws(self) -> tuple[str, ...]:
        """Laws that this run violates: always none, or the engine is wrong."""
        return _broken_flow(self.counters(), self.gauges()) + _broken_plug(self._parameters, self._state)


@cache
def _places() -> tuple[tuple[tuple[str, int], ...], tuple[tuple[str, int], ...]]:
    """Where the engine keeps each counter: (name, place) of the whole ones and of the real ones."""
    whole, real = engine().N._fields, engine().X._fields
    names = [part.name for part in fields(Counters)]
    counted = tuple((name, whole.index(name)) for name in names if name in whole)
    return counted, tuple((name, real.index(name)) for name in names if name in real and name not in whole)


def _trimmed(histogram: Any) -> list[int]:
    used = histogram.nonzero()[0]
    values: list[int] = histogram[: used[-1] + 1].tolist() if len(used) else []
    return values


NOT_LOSING = (
    "lower failure_frac, of the workload or its sandboxes, or what aborts it, or give sandboxes a longer time-out"
)


def _why_stopped(made: Parameters, reason: int, gauges: Gauges) -> str:
    module, counts = engine(), made.counts
    where = f"{gauges.buffered_groups} groups wait, a step needs {counts.batch_groups}"
    if reason == module.STARVED:
        return f"starved: {module.STARVED_BATCHES} batches of groups finished and none could be trained; {where}"
    if reason == module.NO_ROOM:
        return f"the buffer grows without bound: {where}"
    if reason == module.CONTEXT_TOO_LONG:
        pools = {"engine": made.rates.kv_tokens, "prefill": made.rates.pool_kv_tokens}
        told = " or ".join(f"stations.{name}.kv_tokens={kv:g}" for name, kv in pools.items() if kv < NEVER)
        return f"a rollout's context fits into no KV pool ({told}): enlarge it, or cap workload.max_context_tokens"
    if reason == module.THRASHING:
        return f"thrash: over {module.THRASH} preemptions for every finished turn"
    if reason == module.ALWAYS_FAILS:
        lost = f"one rollout was lost {module.MOST_ATTEMPTS} times running and never finished"
        return f"{lost}: {NOT_LOSING}"
    if reason == module.NONE_FINISHES:
        return f"{module.MOST_LOST_RUNNING:,} attempts were lost and no rollout finished in between: {NOT_LOSING}"
    if counts.plug == WIP_CAP and counts.plug_limit < counts.batch_groups:
        return f"deadlock: at most {counts.plug_limit} groups may be started and untrained; {where}"
    if counts.plug == BUFFER_CAP and counts.plug_limit < counts.batch_groups:
        return f"deadlock: no group starts while {counts.plug_limit} wait; {where}"
    if counts.plug == PER_SYNC:
        return f"deadlock: at most {counts.plug_limit} groups start between two publications; {where}"
    if counts.sandboxed and made.rates.sandbox_leak_frac > 0.0 and made.rates.sandbox_lifetime_s >= NEVER:
        quota = f"the quota of {counts.sandbox_limit}"
        return f"deadlock: leaked sandboxes hold {quota} for ever: give stations.sandboxes.lifetime_s; {where}"
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
    names, counts = engine().N, made.counts
    peaks = {
        WIP_CAP: ("started and untrained", int(state.n[names.peak_wip])),
        BUFFER_CAP: ("waiting as a group started", int(state.n[names.peak_ring_at_open]) + 1),
        DROP_OLDEST: ("finished and waiting", int(state.n[names.peak_ring])),
    }
    what, peak = peaks.get(counts.plug, ("", 0))
    return () if peak <= counts.plug_limit else (f"plug: {peak} groups {what}, the limit is {counts.plug_limit}",)
