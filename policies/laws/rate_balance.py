"""Rate balance: Flink's and DS2's law. Give each side the GPUs at which both serve at the same rate.

    mu_g(g) = mu_g g/g0,  mu_t(t) = mu_t t/t0;   choose the legal t that maximises min(mu_g(total - t), mu_t(t))

with service rates (per second of busy time, never throughput: that is capped by the other side), and act only when the
two rates differ by more than a band: DS2's one-shot step, in its usual band of hysteresis. Linear in GPUs is DS2's own
assumption; the claimed gain carries the spread of exponents from 1/2 to 1.

# mu_g 4.0/s on 192, mu_t 5.6/s on 64 (ratio 0.71): 48 : 208 -> min(4.33, 4.2) = 4.2, the best of the lattice of 16
"""

from dataclasses import dataclass
from math import exp, sqrt

from policies.base import Interval
from policies.beliefs import CENTRAL_80, Belief
from policies.control import Hold, Proposal, View, split_to
from policies.laws.parameters import demand_bounds, within
from policies.settings import gpus
from simulators.legality import legal_sizes
from simulators.plant import Mode

EXPONENT_SHARE = 0.75
"""The claimed gain: what of a linear gain a mean exponent leaves, 1/2 at its low end and all at its high end."""


@dataclass(frozen=True, slots=True)
class RateBalance:
    """Move GPUs from the faster side to the slower until both serve at the same rate."""

    deadband_frac: float = within(0.1, 0.02, 0.5)
    """Do nothing while the two service rates differ by less than this."""
    generator_headroom_frac: float = within(0.0, 0.0, 0.3)
    """How much faster than the trainer the generator is wanted: a waiting trainer is the dearer waste."""

    def __post_init__(self) -> None:
        demand_bounds(self)

    def decide(self, view: View) -> Proposal | Hold:
        if view.topology.mode is Mode.SERIAL:
            return Hold("a serial job has no split to move: overlap is its first lever")
        rates, now, total = view.beliefs.rates, view.in_force, gpus(view.in_force)
        if not {"generator", "trainer"} <= rates.keys():
            return Hold("the service rates of both sides are not known yet")
        if total is None or not now.gpus_trainer or not now.gpus_generator:
            return Hold("the split in force is not known")
        generator, trainer = rates["generator"], rates["trainer"]
        gap = generator.rate / (trainer.rate * (1.0 + self.generator_headroom_frac)) - 1.0
        if abs(gap) < self.deadband_frac:
            return Hold(f"balanced: the generator serves {gap:+.0%} against the trainer, inside the deadband")
        best = max(
            [now.gpus_trainer, *legal_sizes(view.topology, now, view.bounds)],
            key=lambda t: (self._slower(view, t), -abs(t - (now.gpus_trainer or 0))),
        )
        if best == now.gpus_trainer:
            return Hold(f"gap {gap:+.0%}, but no legal split is better than {now.gpus_trainer} : {now.gpus_generator}")
        linear = self._slower(view, best) / self._slower(view, now.gpus_trainer) - 1.0
        words = f"generator over trainer rate {gap:+.0%}: {best} GPUs for the trainer predict {linear:+.0%}"
        return Proposal(split_to(view, best), words, claimed(linear, generator, trainer))

    def _slower(self, view: View, gpus_trainer: int) -> float:
        """The job's rate at a split, were both sides linear."""
        now, rates = view.in_force, view.beliefs.rates
        total, trainer, generator = gpus(now) or 0, now.gpus_trainer or 1, now.gpus_generator or 1
        return min(
            rates["generator"].rate * (total - gpus_trainer) / generator / (1.0 + self.generator_headroom_frac),
            rates["trainer"].rate * gpus_trainer / trainer,
        )


def claimed(linear: float, generator: Belief, trainer: Belief) -> Interval:
    """80 % interval of a gain: exponents from 1/2 to 1, and the error of the ratio of both rates.

    # linear +5 %, rates known to 2 % each -> 3.6 % either way: -1.1..+3.8..+8.9 %
    """
    half = CENTRAL_80 * sqrt(generator.variance + trainer.variance)
    low, high = (1.0 + linear / 2.0) * exp(-half) - 1.0, (1.0 + linear) * exp(half) - 1.0
    return Interval(low, EXPONENT_SHARE * linear, high)
