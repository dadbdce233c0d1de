"""Where a job works now: the seconds of its step, told apart as far as it logs them."""

from dataclasses import dataclass

from simulators.calibration.estimates import Estimate, mean_of
from simulators.plant import Mode, Setpoints, Topology
from simulators.signals import TINY
from simulators.snapshot import Snapshot

RARE = ("validation_s", "checkpoint_s")


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """One trained batch, in seconds of wall time. Generation is a phase of its own in a serial job only."""

    step_s: Estimate
    sync_s: float
    """Publishing weights, amortised over its interval."""
    rare_s: float
    """Evaluation and checkpoints, amortised."""
    generation_s: Estimate | None
    """Serial: the phase in which rollouts are made."""
    trainer_s: Estimate | None
    """All that the trainer's side does of a step, its waiting for rollouts and for weights left out."""

    @property
    def rest_s(self) -> float:
        """The step without publications and rare events: what generation and training share."""
        return max(TINY, self.step_s.value - self.sync_s - self.rare_s)


def operating_point(topology: Topology, setpoints: Setpoints, snapshot: Snapshot) -> OperatingPoint | None:
    """None where no step time is known, or the job is no trainer's."""
    step = _step(setpoints, snapshot)
    if step is None or topology.mode not in (Mode.SERIAL, Mode.OVERLAPPED):
        return None
    sync = min(snapshot.get("weight_sync_s") or 0.0, 0.9 * step.value)
    rare = sum(snapshot.get(name) or 0.0 for name in RARE)
    inside = min(rare, 0.9 * (step.value - sync)) if _measured_inside(snapshot) else 0.0
    point = OperatingPoint(step, sync, inside, None, None)
    return _serial(point, snapshot) if topology.mode is Mode.SERIAL else _overlapped(point, snapshot)


def _measured_inside(snapshot: Snapshot) -> bool:
    """Whether the folded step_s holds the rare phases: not when the steps that had them were left out."""
    return not any(d.why in ("evaluation", "checkpoint") for d in snapshot.window.dropped)


def _step(setpoints: Setpoints, snapshot: Snapshot) -> Estimate | None:
    value = snapshot.get("step_s")
    if value is not None and value > TINY:
        return mean_of("step", snapshot.series("step_s") or [value], "s", "mean over steps")
    rate = snapshot.get("gen_samples_per_s")
    batch = snapshot.get("batch_rollouts") or setpoints.batch_rollouts
    if not rate or rate <= TINY or not batch:
        return None
    series = [batch / r for r in snapshot.series("gen_samples_per_s") if r > TINY] or [batch / rate]
    return mean_of("step", series, "s", "batch over accepted rollouts per second")


def _serial(point: OperatingPoint, snapshot: Snapshot) -> OperatingPoint:
    making, busy = snapshot.get("rollout_s"), snapshot.get("trainer_busy_s")
    if making is None and busy is not None and busy < point.rest_s:
        making = point.rest_s - busy
    if making is None or not 0.0 < making < point.rest_s:
        return point
    generation = mean_of("generation", snapshot.series("rollout_s") or [making], "s", "mean over steps")
    rest = point.rest_s - making
    error = max(point.step_s.standard_error, generation.standard_error) * rest / point.step_s.value
    training = Estimate("training and what goes with it", rest, error, "s", "step less generation and weight sync")
    return _with(point, generation, training)


def _overlapped(point: OperatingPoint, snapshot: Snapshot) -> OperatingPoint:
    wait, idle, busy = (snapshot.get(name) for name in ("trainer_wait_s", "trainer_idle_frac", "trainer_busy_s"))
    if wait is None and idle is not None:
        wait = idle * point.step_s.value
    if wait is not None and 0.0 <= wait < point.rest_s:
        own, source = point.rest_s - wait, "step less waiting and weight sync"
    elif busy is not None and busy > 0.0:
        own, source = min(busy, point.rest_s), "update and log-prob passes"
    else:
        return point
    error = own * point.step_s.standard_error / point.step_s.value
    return _with(point, None, Estimate("trainer's own work", own, error, "s", source))


def _with(point: OperatingPoint, generation: Estimate | None, training: Estimate) -> OperatingPoint:
    return OperatingPoint(point.step_s, point.sync_s, point.rare_s, generation, training)
