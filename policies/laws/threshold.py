"""Threshold: the rule of thumb that people write first. Whoever waits too long gets one step of GPUs from the other.

States: calm -> (a side idles over `high_frac` for `persist_ticks`) -> one step; the count starts anew as soon as that
side idles under `low_frac` (hysteresis), and holds in between. Another split starts both counts anew.

# high 0.20, low 0.10, persist 3; trainer idle 0.30, 0.15, 0.25, 0.22 -> count 1, 1, 2, 3: one step to the generator
#                                 trainer idle 0.30, 0.05, 0.25, 0.22 -> count 1, 0, 1, 2: hold
"""

from dataclasses import dataclass, replace

from policies.base import Interval
from policies.control import Hold, Memory, Proposal, View, split_to
from policies.laws.parameters import demand_bounds, within
from policies.settings import gpus
from simulators.legality import legal_sizes
from simulators.plant import Mode
from simulators.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Threshold:
    high_frac: float = within(0.2, 0.05, 0.6)
    """Idle share over which a side has waited one tick more."""
    low_frac: float = within(0.1, 0.0, 0.5)
    """Idle share under which its waiting is forgotten."""
    persist_ticks: int = within(3, 1, 20)
    """Ticks of waiting before a step."""

    def __post_init__(self) -> None:
        demand_bounds(self)
        if self.low_frac > self.high_frac:
            raise ValueError(f"Threshold.low_frac={self.low_frac} must not exceed high_frac={self.high_frac}")

    def decide(self, view: View) -> Proposal | Hold:
        if view.topology.mode is Mode.SERIAL:
            return Hold("a serial job has no split to move: overlap is its first lever")
        trainer = idle_frac(view.snapshot, "trainer_idle_frac", "trainer_wait_s")
        generator = idle_frac(view.snapshot, "generator_idle_frac", "generator_wait_s")
        if trainer is None and generator is None:
            return Hold("neither side's idle share is known (trainer_wait_s, generator_wait_s)", memory=view.memory)
        split = float(view.in_force.gpus_trainer or 0)
        past: Memory = view.memory if view.memory.get("split") == split else {}
        waits = {
            "trainer": self._count(past, "trainer", trainer),
            "generator": self._count(past, "generator", generator),
        }
        memory: Memory = {**waits, "split": split}
        waiting = max(waits, key=lambda side: waits[side])
        idle = (trainer if waiting == "trainer" else generator) or 0.0
        if waits[waiting] < self.persist_ticks:
            return Hold(f"the {waiting} idles {idle:.0%} and waited at {waits[waiting]:.0f} ticks", memory=memory)
        step = _step(view, towards_generator=waiting == "trainer")
        if isinstance(step, Hold):
            return replace(step, memory=memory)
        gain = one_step_gain(view, step, idle)
        return replace(step, gain_frac=gain, memory=memory)

    def _count(self, memory: Memory, side: str, idle: float | None) -> float:
        before = float(memory.get(side, 0.0))
        if idle is None or self.low_frac <= idle <= self.high_frac:
            return before
        return min(before + 1.0, float(self.persist_ticks)) if idle > self.high_frac else 0.0


def idle_frac(snapshot: Snapshot, share: str, seconds: str) -> float | None:
    """A side's idle share: as derived, else its waiting over the step."""
    known = snapshot.get(share)
    wait, step = snapshot.get(seconds), snapshot.get("step_s")
    if known is None and wait is not None and step:
        known = wait / step
    return known


def _step(view: View, towards_generator: bool) -> Proposal | Hold:
    """One step on the lattice of legal splits."""
    now = view.in_force.gpus_trainer
    if now is None or view.in_force.gpus_generator is None:
        return Hold("the split in force is not known")
    sizes = legal_sizes(view.topology, view.in_force, view.bounds)
    near = max((t for t in sizes if t < now), default=None) if towards_generator else None
    if not towards_generator:
        near = min((t for t in sizes if t > now), default=None)
    if near is None:
        return Hold(f"no legal split beyond {now} trainer GPUs that way")
    to, waiting = ("generator", "trainer") if towards_generator else ("trainer", "generator")
    words = f"the {waiting} waits too long: {abs(near - now)} GPUs to the {to}"
    return Proposal(split_to(view, near), words)


def one_step_gain(view: View, step: Proposal, idle: float) -> Interval:
    """The receiver grows by its new GPUs at most, and no further than the idle share allows: from half of it to all.

    # trainer idle 29 % of the step, generator 192 -> 208 -> at most min(8.3 %, 40.8 %): 4.2..8.3 %
    """
    was, now, total = view.in_force.gpus_trainer or 1, step.changes.gpus_trainer or 1, gpus(view.in_force) or 1
    growth = (total - now) / max(1, total - was) - 1.0 if now < was else now / was - 1.0
    most = min(growth, idle / max(1e-3, 1.0 - idle))
    return Interval(most / 2.0, 0.75 * most, most)
