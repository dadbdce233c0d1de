"""What counters of sandboxes say: how many live, which share fails, and whether some are never ended."""

from collections.abc import Mapping

from simulators.plant import Mode
from simulators.snapshot import Note, Snapshot
from tuner.records import Record

STARTED, ENDED, FAILED = "sandboxes_started_total", "sandboxes_ended_total", "sandboxes_failed_total"
"""Running totals, as a client of a sandbox provider counts them; a failed start counts as started and as ended."""
TOTALS = (STARTED, ENDED, FAILED)
PREFIX = "rl_"
"""Before each, where they are Prometheus metrics."""
SERVED = tuple(PREFIX + name for name in TOTALS)
LEAK_FRAC = 0.25
"""Beyond the rollouts in flight: sandboxes that start ahead or end late."""
LEAK_MIN = 16
"""Fewer are no leak: whatever is being started or cleared away."""


def counted(record: Record, found: Mapping[str, float], mode: Mode) -> Mapping[str, float]:
    """Alive: started minus ended. Failing: failed over started, since the counters began."""
    del mode
    started, ended, failed = (_total(record.values, name) for name in TOTALS)
    extra: dict[str, float] = {}
    if started is None:
        return extra
    if ended is not None and "sandbox_active" not in found:
        extra["sandbox_active"] = max(0.0, started - ended)
    if failed is not None and started > 0.0 and "sandbox_fail_frac" not in found:
        extra["sandbox_fail_frac"] = min(1.0, failed / started)
    return extra


def _total(values: Mapping[str, float], name: str) -> float | None:
    return values.get(name, values.get(PREFIX + name))


def leak(snapshot: Snapshot) -> Note | None:
    """More sandboxes alive than rollouts in flight, each of which holds one from its start to its end.

    # 512 in flight: 520 alive -> nothing | 700 alive -> 188 are held by nobody, and count against the quota
    """
    alive, busy = _newest(snapshot, "sandbox_active"), _newest(snapshot, "inflight_rollouts")
    if alive is None or busy is None or alive - busy <= max(LEAK_MIN, LEAK_FRAC * busy):
        return None
    detail = (
        f"{alive:.0f} sandboxes are alive and {busy:.0f} rollouts in flight: {alive - busy:.0f} are held by nobody "
        "and count against the quota; end them when a rollout is cancelled, and give each a lifetime."
    )
    return Note("sandbox-leak", detail, {"alive": alive, "in_flight": busy})


def _newest(snapshot: Snapshot, name: str) -> float | None:
    rows = (*snapshot.engine_rows, *snapshot.rows)
    return next((row.values[name] for row in reversed(rows) if name in row.values), None)
