"""Where a rising function passes zero: regula falsi in the form of Illinois, to rounding."""

from collections.abc import Callable

ROUNDS = 60
CLOSE = 1e-12
"""Of the width of the search: where two guesses in a row differ by less, the second stands."""


def crossing(excess: Callable[[float], float], low: float, high: float) -> float:
    """`excess` is not above zero at `low` and not below it at `high`.

    The end that stays twice in a row counts half, which brings the other one over.
    # x^2 - 2 between 0 and 2: 1, 1.333, 1.5, 1.412, 1.4142 ...
    """
    below, above = excess(low), excess(high)
    close, side, found = CLOSE * (high - low), 0, low
    for _ in range(ROUNDS):
        if above - below <= 0.0:
            return found
        before, found = found, low - (high - low) * below / (above - below)
        here = excess(found)
        if here == 0.0 or abs(found - before) < close:
            return found
        if here > 0.0:
            high, above, below, side = found, here, below * (0.5 if side > 0 else 1.0), 1
        else:
            low, below, above, side = found, here, above * (0.5 if side < 0 else 1.0), -1
    return found
