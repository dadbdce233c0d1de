"""How many versions pass between the start of a rollout and its training.

Versions appear once per `sync_interval` steps, at the end of a training. In steps of T seconds:

    generator waits for nobody, trainer waits:    E[D]/T + rho                       (rho = trainer seconds / T)
    WIP cap of W groups that binds:               W/B - 1 freed at the end of training, W/B - 1 + rho at its start
    trainer behind a queue of Q groups on average: E[D]/T + Q/B + 1/2
    drop-oldest (Applied Compute):                E[D]/T + rho, or E[D]/T + (2 q + rho - 1) / (2 rho) at rho > 1

with D the time of a group, rho > 1 the generator's surplus, q the queue's room in batches. With k steps between
publications a version is k steps old on average before it is seen: divide by k. Only the order of admission (W/B) and
discarding (the bound) limit the maximum.
"""

from dataclasses import dataclass

from simulators.model import Staleness
from simulators.queueing.order_statistics import Curve


@dataclass(frozen=True, slots=True)
class Ages:
    """Of the groups that are trained."""

    group: Curve
    """Seconds from dispatch to the end of the last rollout."""
    queue_steps: float
    """Steps from there to the training, and the running one's share."""
    step_s: float
    sync_interval: int
    maximum: float | None = None


def staleness_of(ages: Ages) -> Staleness:
    """Mean; the 95 % quantile is that of the group's time, shifted by the queue and half a step of phase."""
    per = ages.step_s * ages.sync_interval
    queue = ages.queue_steps / ages.sync_interval
    mean = max(0.0, ages.group.mean / per + queue)
    high = ages.group.quantile(0.95) / per + queue + 0.25
    if ages.maximum is None:
        return Staleness(mean, max(mean, high))
    return Staleness(min(mean, ages.maximum), min(max(mean, high), ages.maximum), ages.maximum)
