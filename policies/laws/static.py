"""Static: one setting for the whole run. The best one in hindsight is the yardstick that adaptation must beat."""

from dataclasses import dataclass

from policies.base import Interval
from policies.control import Hold, Proposal, View, split_to
from policies.settings import difference, merged, values
from simulators.plant import Setpoints


@dataclass(frozen=True, slots=True)
class Static:
    """Go to the stated setting once and stay; with nothing stated, stay."""

    gpus_trainer: int | None = None
    max_in_flight: int | None = None
    oversampling_ratio: float | None = None
    gain_frac: float = 0.05
    """What its author says the stated setting gains: a law without a model has nothing else to pay for the way."""

    def decide(self, view: View) -> Proposal | Hold:
        """
        # nothing stated -> hold | 48 stated, 64 : 192 in force -> 48 : 208 | 48 in force -> hold
        """
        wish = Setpoints(max_in_flight=self.max_in_flight, oversampling_ratio=self.oversampling_ratio)
        if self.gpus_trainer is not None:
            if view.in_force.gpus_trainer is None or view.in_force.gpus_generator is None:
                return Hold("the split in force is not known")
            wish = merged(split_to(view, self.gpus_trainer), wish)
        left = difference(view.in_force, merged(view.in_force, wish))
        if not values(left):
            return Hold("static: the stated setting is in force")
        stated = Interval(self.gain_frac, self.gain_frac, self.gain_frac)
        return Proposal(left, "static: go to the stated setting", stated)
