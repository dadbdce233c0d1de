"""Rollouts that wait for a sandbox: how many, how long each time, and how much later their groups are for it."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from simulators.analytic.case import Case
from simulators.analytic.supply import Supply
from simulators.queueing.order_statistics import harmonic

THIRDS = (1.0 / 6.0, 0.5, 5.0 / 6.0)
"""Middles of the thirds of a range."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Rollouts that wait for a sandbox, as the starts find them: anything between two numbers, or none."""

    share: float = 0.0
    """Starts that find any."""
    least: float = 0.0
    most: float = 0.0

    @property
    def mean(self) -> float:
        """Of starts."""
        return self.share * 0.5 * (self.least + self.most)

    def found(self) -> Iterator[tuple[float, float]]:
        """(weight, number)"""
        if self.share < 1.0:
            yield 1.0 - self.share, 0.0
        if self.share > 0.0:
            yield from ((self.share / len(THIRDS), self.least + (self.most - self.least) * x) for x in THIRDS)


NONE_WAITS = Waiting()


def waiting_between(least: float, most: float, share: float = 1.0) -> Waiting:
    return Waiting(min(1.0, share), max(0.0, min(least, most)), most) if most > 0.0 and share > 0.0 else NONE_WAITS


def _attempts(case: Case, members: int) -> tuple[float, float]:
    """Starts until one succeeds: on average, and how many more the last of a group needs.

    Their sum is the mean maximum of geometric numbers, half more than that of exponential ones with their tail.
    # of 8 members, a share of starts that fails, here and exactly: none 1, 1 | .1 1.68, 1.66 | .2 2.19, 2.19
    """
    failed = case.start_failed_frac
    mean = 1.0 / (1.0 - failed)
    return mean, max(0.0, 0.5 - harmonic(members) / math.log(failed) - mean) if failed > 0.0 else 0.0


def wait_s_of(case: Case, members: int, group: tuple[float, float], more_s: float) -> float:
    """Seconds of one wait, where groups whose (member, last member) takes so long take so much more by waiting.

    Whose start of S seconds fails waits anew behind all others. With a attempts on average and h more for the last of a
    group, and d from a member to the last one without all that, spreads add by their squares:

        more + S a = (w + S) a + sqrt(d^2 + (w + S)^2 h^2) - d
    """
    d, (mean, last) = max(0.0, group[1] - group[0]), _attempts(case, members)
    whole = more_s + case.start_s * mean + d
    square = whole**2 - d**2
    each = square / max(1e-300, whole * mean + math.sqrt(last**2 * square + d**2 * mean**2))
    return max(0.0, each - case.start_s)


def more_s_of(case: Case, members: int, group: tuple[float, float], wait_s: float) -> float:
    """The other way round."""
    d, (mean, last) = max(0.0, group[1] - group[0]), _attempts(case, members)
    return max(0.0, wait_s * mean + math.hypot(d, (wait_s + case.start_s) * last) - d)


def with_those_that_wait(case: Case, supply: Supply, waiting: Waiting) -> Supply:
    """For a sandbox, at all times: they are in flight too, and as old. A backlog is in the groups' times already."""
    if waiting.share < 1.0:
        return supply
    kept, made = supply.kept, supply.made
    wait_s = waiting.mean / supply.started_per_s  # of all starts of a rollout
    one_s = wait_s * (1.0 - case.start_failed_frac)
    more_s = more_s_of(case, case.layout.members, (kept.rollout.mean, kept.group.mean), one_s)
    there = made.in_flight + waiting.mean
    return replace(
        supply,
        made=made._replace(in_flight=there, rollout_s=made.rollout_s + wait_s, wait_s=made.wait_s + wait_s),
        kept=replace(
            kept, rollout=kept.rollout.later(wait_s), group=kept.group.later(more_s), stay_s=kept.stay_s + wait_s
        ),
    )
