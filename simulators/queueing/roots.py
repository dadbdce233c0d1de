"""Where a rising function passes zero: regula falsi in the form of Illinois, to rounding."""

from collections.abc import Callable

ROUNDS = 120
CLOSE = 1e-12
"""Of the width of the search: so near to each other are the ends when it is over."""
HALVED = 4
"""Every so manyth guess is the middle, where the ends came no nearer than by half since the last one."""


def crossing(excess: Callable[[float], float], low: float, high: float) -> float:
    """`excess` is not above zero at `low` and not below it at `high`.

    The end that stays twice in a row counts half, which brings the other one over.
    # x^2 - 2 between 0 and 2: 1, 1.333, 1.4545, 1.4130, 1.41420 ...
    """
    below, above = excess(low), excess(high)
    close, width, side = CLOSE * (high - low), high - low, 0
    for turn in range(1, ROUNDS):
        if above - below <= 0.0 or high - low <= close:
            break
        found = low - (high - low) * below / (above - below)
        if turn % HALVED == 0:
            found, width = (found if high - low < 0.5 * width else 0.5 * (low + high)), high - low
        here = excess(found)
        if here == 0.0:
            return found
        if here > 0.0:
            high, above, below, side = found, here, below * (0.5 if side > 0 else 1.0), 1
        else:
            low, below, above, side = found, here, above * (0.5 if side < 0 else 1.0), -1
    return 0.5 * (low + high)
