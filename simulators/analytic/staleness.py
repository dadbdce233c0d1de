"""How many versions pass between the start of a rollout and its training.

Versions appear once per `sync_interval` steps, at the end of a training. Counted in batches of T seconds:
    free generator, trainer waits:   E[D]/T + rho                     (rho = trainer seconds / T)
    WIP cap of W, freed at the end:  W/B - 1     freed at the start: W/B - (1 - rho) ... at most W/B
    trainer behind a buffer of Q:    E[D]/T + Q/B + share of the running batch
    drop-oldest (Applied Compute):   C M / (B max(1, rho)) + IQS,  IQS = rho (rho < 1) or (2 q + rho - 1)/(2 rho)
with D the time of a group. Only admission order and discarding give a hard bound.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ages:
    """Seconds, and the period they are counted in."""

    group_s: float
    queue_s: float
    train_s: float
    period_s: float
    sync_interval: int


def mean_versions(ages: Ages) -> float:
    """E[publications between dispatch and start of training] of a generator that starts groups evenly in time.

    The training starts train_s before its end, where the next publication is; a start at a random moment of the
    period sees half a period less than the age on average, and the share rho of the running training on top.
    """
    per = ages.period_s * ages.sync_interval
    age = ages.group_s + ages.queue_s
    return max(0.0, age / per + (ages.train_s / ages.period_s - 0.5) / ages.sync_interval)
