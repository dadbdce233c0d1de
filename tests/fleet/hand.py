"""A hand on the emulated fleet's knobs, over its own HTTP: for tests of the whole loop."""

import json
from dataclasses import dataclass
from typing import Any
from urllib.request import Request, urlopen

from policies.control import Capability
from policies.settings import values
from simulators.plant import Inventory, Order, Outcome, Receipt, Setpoints, Status

TIMEOUT_S = 5.0


@dataclass(frozen=True)
class FleetHand:
    """An actuator (tuner/actuators/base.py) of `gpus_trainer` and what goes with it."""

    url: str
    actuation_s: float
    """Of the wall clock."""
    name: str = "fleet"

    def capabilities(self) -> tuple[Capability, ...]:
        return (Capability("gpus_trainer", actuation_s=self.actuation_s),)

    def current(self) -> Setpoints:
        return Setpoints(**{k: v for k, v in self._ask("/settings")["in_force"].items() if v is not None})

    def inventory(self) -> Inventory:
        return Inventory(**self._ask("/settings")["inventory"])

    def apply(self, order: Order, now_s: float) -> Receipt:
        """Moments of the answer are the fleet's own seconds, and are left out."""
        told = self._ask("/settings", {"setpoints": values(order.setpoints), "decision_id": order.decision_id})
        outcomes = {k: Outcome(Status(o["status"]), o["reason"]) for k, o in told["outcomes"].items()}
        return Receipt(order.decision_id, outcomes)

    def close(self) -> None:
        return None

    def _ask(self, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(self.url + path, data=data), timeout=TIMEOUT_S) as answer:
            return json.loads(answer.read())
