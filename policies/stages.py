"""Moves are staged: how far the first step of a split goes, before any move of it has proved itself.

One lattice step, if it can prove anything; on a fine lattice as many as can, as long as they take no more than an
eighth from the side that gives. Throughput is concave in the split, so the first n of k steps gain n/k of the whole.

# 52 : 76, lattice of 2, to 118 with +21 % (k = 33), 2 % to be proved: n = 4; an eighth of 76 is 9, so 4 steps: to 60
# 64 : 192, lattice of 8, to 32 with +2.6 % (k = 4): n = 4, but an eighth of 64 is one step: to 56, which gains 0.7 %
"""

from collections.abc import Iterable, Sequence
from math import ceil

from simulators.plant import Setpoints

FIRST_FRAC = 1.0 / 8.0
"""Of the GPUs of the side that gives."""


def way(sizes: Iterable[int], now: int, then: int) -> list[int]:
    """Trainer sizes from the one after `now` to `then`, in the order in which they are passed."""
    low, high = min(now, then), max(now, then)
    return sorted({then, *[t for t in sizes if low < t < high]}, reverse=then < now)


def nearer(in_force: Setpoints, changes: Setpoints, refused: Setpoints | None) -> bool:
    """True of a split on the way to one that was refused."""
    now, then = in_force.gpus_trainer, changes.gpus_trainer
    limit = None if refused is None else refused.gpus_trainer
    return now is not None and then is not None and limit is not None and min(now, limit) < then < max(now, limit)


def first_most(passed: Sequence[int], now: int, total: int) -> int:
    """How many of the steps on the way the first one may take: 1 at least."""
    giving = now if passed[0] < now else total - now
    return max(1, sum(abs(t - now) <= FIRST_FRAC * giving for t in passed))


def first_step(passed: Sequence[int], now: int, total: int, proving_frac: float) -> int:
    """The trainer size that the first step goes to; `proving_frac` of the whole gain is what it has to show."""
    steps = min(first_most(passed, now, total), ceil(len(passed) * proving_frac))
    return passed[max(1, steps) - 1]
