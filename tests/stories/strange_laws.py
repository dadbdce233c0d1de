"""Control laws of strangers: one that works, one that raises, one that never answers."""

import time
from dataclasses import dataclass

from policies.control import Hold, Proposal, View, split_to
from policies.laws.parameters import within


@dataclass(frozen=True)
class OneStep:
    """Gives the trainer one GPU more once it is busier than this; a stranger's law, and no good one."""

    busy_frac: float = within(0.9, 0.5, 0.99)

    def decide(self, view: View) -> Proposal | Hold:
        idle, now = view.snapshot.get("trainer_idle_frac"), view.in_force.gpus_trainer
        if idle is None or now is None:
            return Hold("not enough seen")
        if 1.0 - idle < self.busy_frac or now >= 3:
            return Hold(f"trainer busy {1.0 - idle:.0%}")
        return Proposal(split_to(view, now + 1), f"trainer busy {1.0 - idle:.0%}")


@dataclass(frozen=True)
class Raising:
    """Cannot stand half of its own interval."""

    nerve: float = within(0.9, 0.0, 1.0)

    def decide(self, view: View) -> Proposal | Hold:
        if self.nerve < 0.5:
            raise RuntimeError("lost its nerve")
        return Hold("calm")


@dataclass(frozen=True)
class Hanging:
    """Sleeps for ever unless it is quite rested, as it is by default."""

    energy: float = within(1.0, 0.0, 1.0)

    def decide(self, view: View) -> Proposal | Hold:
        if self.energy < 1.0:
            time.sleep(3600.0)
        return Hold("awake")
