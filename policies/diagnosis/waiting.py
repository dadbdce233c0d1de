"""Who waits for whom: the candidate causes of a job's wall time, each with the share it could give back at most."""

from statistics import stdev

from policies.base import Cause, Verdict
from policies.diagnosis.budget import Budget
from policies.diagnosis.generator import generator_cause
from policies.estimators import phase_s
from simulators.plant import Mode, Setpoints, Topology
from simulators.signals import TINY
from simulators.snapshot import Snapshot

WAITING_STEP = 0.05
"""A step waits when it spends more than this share on it."""
PERSISTENT_FRAC = 0.8
"""Waiting on this share of the steps: the trainer never finds a batch ready."""
PERSISTENT_STEPS = 5
"""Fewer steps than this say nothing about persistence."""
BALANCED_IDLE = 0.1
"""Idle under this on both sides is as good as it gets."""
BUSY_GENERATOR_IDLE = 0.05
"""A generator gated for less than this share is never the one that waits."""
ERROR_FLOOR = 0.02
"""Even exact seconds do not carry a share further than this."""


def coupling_idle_frac(run_ahead_batches: float) -> float:
    """Idle share that two *equally fast*, fully random stations still show: 1 / (N + 1), N batches in the loop.

    A closed cycle of two exponential servers with N jobs is busy N/(N + 1) of the time on each side (Buzacott and
    Shanthikumar 1993, section 3.2). N = 1 + the batches the generator may run ahead. Real batches vary less, so an
    idle share above this cannot come from coupling alone: the other side is slower.
    # run-ahead: 0 -> 50 % | 1 -> 33 % | 4 -> 17 % | 16 -> 6 %
    """
    return 1.0 / (run_ahead_batches + 2.0)


def causes_of(topology: Topology, setpoints: Setpoints, snapshot: Snapshot, budget: Budget) -> list[Cause]:
    """All candidates, largest recoverable share first."""
    if topology.mode is Mode.OVERLAPPED:
        sides = _overlapped(topology, setpoints, snapshot, budget)
    else:
        sides = _serial(setpoints, snapshot, budget)
    beside = [
        Cause(verdict, budget.frac(name), _error(snapshot, name), reason)
        for verdict, name, reason in (
            (Verdict.WEIGHT_SYNC_BOUND, "weight_sync_s", "publishing and loading weights"),
            (Verdict.REWARD_BOUND, "reward_s", "rewards computed after generation"),
            (Verdict.VALIDATION_BOUND, "validation_s", "evaluation inside the step"),
            (Verdict.CHECKPOINT_BOUND, "checkpoint_s", "saving checkpoints"),
        )
        if budget.frac(name) > 0.0 and name not in budget.unknown_period
    ]
    host = budget.frac("offload_s") + budget.frac("overhead_s")
    if host > 0.0:
        beside.append(
            Cause(Verdict.OVERHEAD_BOUND, host, _error(snapshot, "offload_s"), "offload, wake-up and host work")
        )
    return sorted((c for c in (*sides, *beside) if c), key=lambda c: -c.recoverable_frac)


def _serial(setpoints: Setpoints, snapshot: Snapshot, budget: Budget) -> list[Cause]:
    """Phases stand one after another: each could give back its own share at most."""
    sides = []
    gen, train = budget.frac("rollout_s") + budget.frac("trainer_wait_s"), budget.frac("trainer_busy_s")
    if gen > 0.0:
        inside = generator_cause(setpoints, snapshot)
        sides.append(Cause(inside.verdict, gen, _error(snapshot, "rollout_s"), inside.reason))
    if train > 0.0:
        sides.append(Cause(Verdict.TRAINER_BOUND, train, _error(snapshot, "trainer_busy_s"), "training and log-probs"))
    return sides


def _overlapped(topology: Topology, setpoints: Setpoints, snapshot: Snapshot, budget: Budget) -> list[Cause]:
    """Two stations and a buffer: a faster station gives back only what it makes the other wait."""
    wait, busy = budget.frac("trainer_wait_s"), budget.frac("trainer_busy_s")
    if wait <= 0.0 and "trainer_idle_frac" in snapshot.signals:
        wait = snapshot.get("trainer_idle_frac") or 0.0
    gated = snapshot.get("generator_idle_frac")
    error = _error(snapshot, "trainer_wait_s")
    inside = generator_cause(setpoints, snapshot)
    generator = Cause(inside.verdict, wait, error, inside.reason)
    if not _idle_is_known(snapshot):
        return _one_sided(snapshot, gated, inside.verdict, inside.reason, busy)
    if generator_is_slower(setpoints, snapshot, wait):
        return [generator]
    if gated is not None and gated > TINY:
        return [
            generator,
            Cause(Verdict.TRAINER_BOUND, gated, error, f"the generator is gated {gated:.0%} of the step"),
        ]
    reason = f"its own work fills {busy:.0%} of the step; what the generator waits is not logged"
    if gated is None and not _holds_a_batch(snapshot):
        error = max(error, wait)  # a trainer that waits would wait longer if it were faster
    return [generator, Cause(Verdict.TRAINER_BOUND, busy, error, reason)]


def _idle_is_known(snapshot: Snapshot) -> bool:
    return "trainer_idle_frac" in snapshot.signals


def _one_sided(snapshot: Snapshot, gated: float | None, verdict: Verdict, reason: str, busy: float) -> list[Cause]:
    """The trainer's wait is not logged: what the generator's own record still says."""
    if gated is not None and gated > BALANCED_IDLE:
        return [Cause(Verdict.TRAINER_BOUND, gated, 0.1, f"the generator is gated {gated:.0%} of the time")]
    making = snapshot.get("rollout_s"), snapshot.get("step_s")
    if making[0] is not None and making[1] and (gated is None or gated <= BUSY_GENERATOR_IDLE):
        share = min(1.0, making[0] / making[1])
        return [Cause(verdict, share, 0.2, f"the generator works {share:.0%} of the step and is never gated; {reason}")]
    if gated is not None and gated <= BUSY_GENERATOR_IDLE:
        return [Cause(verdict, 1.0 - gated, 0.3, f"the generator is never gated; {reason}")]
    if busy > 1.0 - BALANCED_IDLE:
        return [Cause(Verdict.TRAINER_BOUND, busy, 0.1, f"training fills {busy:.0%} of the step")]
    return []


def generator_is_slower(setpoints: Setpoints, snapshot: Snapshot, wait_frac: float) -> bool:
    """True when the trainer's wait cannot come from coupling: the generator is the slower side.

    Any of: idle above what two equal stations would show; waiting on nearly every step; a generator that is never
    gated; a queue that is known to hold less than a batch when one is taken. One that holds a batch says the opposite,
    whatever the wait.
    """
    if _holds_a_batch(snapshot):
        return False
    if wait_frac > WAITING_STEP and _lacks_a_batch(snapshot):
        return True
    if wait_frac <= BALANCED_IDLE:
        return False
    gated = snapshot.get("generator_idle_frac")
    if gated is not None:
        return gated < wait_frac
    ahead = setpoints.staleness_bound if setpoints.staleness_bound is not None else 1.0
    return wait_frac > coupling_idle_frac(ahead) or _waits_persistently(snapshot)


def _holds_a_batch(snapshot: Snapshot) -> bool:
    return (stored_batches(snapshot) or 0.0) >= 1.0


def _lacks_a_batch(snapshot: Snapshot) -> bool:
    """Only where it is known when the depth is read: one that is read late would lack what was just taken."""
    stored = stored_batches(snapshot)
    return stored is not None and stored < 1.0 and snapshot.get("queue_taken_frac") is not None


def stored_batches(snapshot: Snapshot) -> float | None:
    """Finished batches in the queue when the trainer begins to take one; at least that many.

    # depth 71, batches of 150, read while one is taken (0.5): 0.97
    """
    depth, batch = snapshot.get("queue_depth"), snapshot.get("batch_rollouts")
    if depth is None or not batch:
        return None
    return depth / batch + (snapshot.get("queue_taken_frac") or 0.0)


def _waits_persistently(snapshot: Snapshot) -> bool:
    dropped = {d.step for d in snapshot.window.dropped}
    shares = [
        row.values["trainer_wait_s"] / row.values["step_s"]
        for row in snapshot.rows
        if row.step not in dropped and row.values.get("step_s", 0.0) > TINY and "trainer_wait_s" in row.values
    ]
    waiting = sum(share > WAITING_STEP for share in shares)
    return len(shares) >= PERSISTENT_STEPS and waiting >= PERSISTENT_FRAC * len(shares)


def _error(snapshot: Snapshot, name: str) -> float:
    """Half width of a phase's share: what the steps scatter and what the step does not account for."""
    shares = [
        seconds / row.values["step_s"]
        for row in snapshot.rows
        if row.values.get("step_s", 0.0) > TINY and (seconds := phase_s(row.values, name)) is not None
    ]
    scatter = stdev(shares) / len(shares) ** 0.5 if len(shares) > 1 else 0.0
    rest = abs(snapshot.get("unaccounted_frac") or 0.0)
    return max(ERROR_FLOOR, scatter, rest / 2.0)
