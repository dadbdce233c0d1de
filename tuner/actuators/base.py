"""What an actuator is: a hand on some of a job's knobs. All are idempotent: the same order twice is one order."""

from typing import Protocol

from policies.control import Capability
from simulators.plant import Inventory, Order, Receipt, Setpoints


class Actuator(Protocol):
    """One way to turn knobs. It raises nothing but ActuationError; what it will not do it refuses, with a reason."""

    @property
    def name(self) -> str:
        """As in the job file's `[[actuator]] kind`."""
        ...

    def capabilities(self) -> tuple[Capability, ...]:
        """The knobs that it turns, with what a change takes and costs."""
        ...

    def current(self) -> Setpoints:
        """The knobs as they are in force, not as they were ordered; `None` where it cannot tell."""
        ...

    def inventory(self) -> Inventory:
        """What there is to work with, as far as it can see."""
        ...

    def apply(self, order: Order, now_s: float) -> Receipt:
        """One outcome for each ordered knob. A fencing token smaller than one it has seen is refused."""
        ...

    def close(self) -> None:
        """Lets go of connections and children; the job keeps the settings it has."""
        ...
