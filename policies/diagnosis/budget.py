"""Where the wall time of a step goes, rare events amortised over their period."""

from collections.abc import Sequence
from dataclasses import dataclass

from policies.base import Phase
from policies.estimators import phases_of
from simulators.plant import Mode, Setpoints
from simulators.signals import TINY
from simulators.snapshot import Row, Snapshot
from simulators.window import RARE

NAMES = {
    "rollout_s": "generation",
    "trainer_wait_s": "trainer waits",
    "trainer_busy_s": "training",
    "reward_s": "reward",
    "weight_sync_s": "weight sync",
    "validation_s": "validation",
    "checkpoint_s": "checkpoint",
    "offload_s": "offload",
    "overhead_s": "overhead",
}
"""What a reader calls each phase."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Mean seconds of one step and of its phases, over all steps read (none left out)."""

    step_s: float
    phases: tuple[Phase, ...]
    unknown_period: frozenset[str] = frozenset()
    """Rare phases whose period is unknown: their seconds are those of the one step that had them."""

    def frac(self, name: str) -> float:
        """Share of a phase by signal name; 0 when the job does not report it."""
        return next((p.frac for p in self.phases if p.name == NAMES[name]), 0.0)


def wall_time_budget(mode: Mode, setpoints: Setpoints, snapshot: Snapshot) -> Budget | None:
    """The budget of a step, or None when neither step_s nor a full set of phases is known."""
    names = phases_of(mode, snapshot.signals)
    usual = {n: snapshot.get(n) for n in names}
    seconds: dict[str, float] = {n: v for n, v in usual.items() if v is not None and n not in RARE}
    step = snapshot.get("step_s")
    rare, unknown = _amortised(setpoints, snapshot)
    if step is None:
        if not {"trainer_busy_s", names[0]} <= set(seconds):
            return None
        step = sum(seconds.values()) + sum(rare.values())
    else:
        step = step + sum(rare.values()) - sum(_inside(snapshot, name) for name in RARE)
    if step <= TINY:
        return None
    seconds |= rare
    phases = [Phase(NAMES[n], seconds[n], seconds[n] / step) for n in names if seconds.get(n, 0.0) > 0.0]
    rest = step - sum(p.seconds for p in phases)
    phases.append(Phase("unaccounted", rest, rest / step))
    return Budget(step, tuple(phases), frozenset(unknown))


def _inside(snapshot: Snapshot, name: str) -> float:
    """Seconds of a rare phase that the folded step_s holds."""
    dropped = {d.step for d in snapshot.window.dropped}
    kept = [row for row in snapshot.rows if row.step not in dropped and "step_s" in row.values]
    if not kept:
        return snapshot.get(name) or 0.0
    return _mean_over(kept, name)


def _mean_over(rows: Sequence[Row], name: str) -> float:
    steps = sum(row.weight for row in rows)
    return sum(row.values.get(name, 0.0) * row.weight for row in rows) / steps if steps else 0.0


def _amortised(setpoints: Setpoints, snapshot: Snapshot) -> tuple[dict[str, float], set[str]]:
    """Seconds per step of each rare phase, and which of them stand for one step only."""
    periods = {"validation_s": setpoints.validation_interval, "checkpoint_s": setpoints.checkpoint_interval}
    rare: dict[str, float] = {}
    unknown: set[str] = set()
    for name in RARE:
        hits = [row.values[name] for row in snapshot.rows if row.values.get(name, 0.0) > 0.0]
        single = snapshot.get(name) or 0.0
        if not hits and single <= 0.0:
            continue
        cost = sum(hits) / len(hits) if hits else single
        period = periods[name]
        if period:
            rare[name] = cost / period
        elif len(hits) >= 2:
            rare[name] = _mean_over(snapshot.rows, name)
        else:
            rare[name] = cost / max(1, len(snapshot.rows))
            unknown.add(name)
    return rare, unknown
