"""A decision that failed is refused again, in the same words, and only that one."""

from policies.control import Capability
from policies.settings import values
from simulators.plant import Inventory, Order, Outcome, Receipt, Setpoints, Status
from tests.unit.actuators.sites import PLAIN
from tuner.actuators.guarded import Failed, Guarded, Outcomes, alike

WHY = "the crane broke: back at 64"


class Crane:
    """A hand whose first lift breaks at the second look; later ones are done at once."""

    name = "crane"

    def __init__(self) -> None:
        self.at, self.lifts = 64, 0
        self._lifting: Order | None = None

    def capabilities(self) -> tuple[Capability, ...]:
        return (Capability("max_in_flight"),)

    def current(self) -> Setpoints:
        return Setpoints(max_in_flight=self.at)

    def inventory(self) -> Inventory:
        return Inventory()

    def seen_token(self) -> int:
        return 0

    def pending(self, now_s: float) -> Setpoints | Failed:
        lifting, self._lifting = self._lifting, None
        return Setpoints() if lifting is None else Failed(lifting.decision_id, WHY)

    def turn(self, order: Order, now_s: float) -> Outcomes:
        self.lifts += 1
        if self.lifts == 1:
            self._lifting = order
            return alike(order, Status.PENDING, "lifting")
        self.at = values(order.setpoints)["max_in_flight"]
        return alike(order, Status.APPLIED, "lifted", now_s)

    def close(self) -> None:
        return


def told(receipt: Receipt) -> Outcome:
    return receipt.outcomes["max_in_flight"]


def test_a_failed_decision_is_refused_again_in_the_same_words_until_another_one_is_made() -> None:
    crane = Crane()
    actuator = Guarded(crane, PLAIN)
    order = Order(Setpoints(max_in_flight=128), "d1", 1)
    assert told(actuator.apply(order, 1.0)).status is Status.PENDING
    for now_s in (2.0, 3.0):
        assert told(actuator.apply(order, now_s)) == Outcome(Status.REFUSED, WHY)
    assert crane.lifts == 1
    assert told(actuator.apply(Order(Setpoints(max_in_flight=128), "d2", 1), 4.0)).status is Status.APPLIED
    assert crane.at == 128


def test_what_is_in_force_already_is_applied_also_to_a_decision_that_failed() -> None:
    crane = Crane()
    actuator = Guarded(crane, PLAIN)
    actuator.apply(Order(Setpoints(max_in_flight=128), "d1", 1), 1.0)
    assert told(actuator.apply(Order(Setpoints(max_in_flight=64), "d1", 1), 2.0)).status is Status.APPLIED
