"""A climb along one knob's lattice, in steps that double and then close in: one hill is assumed."""

from collections.abc import Callable, Iterable, Mapping

FLAT = 0.005
"""Where more in flight brings no more than this, it only makes rollouts older; more oversampling only wastes them."""
CLIMB_MAX = 24
"""Steps of one climb: from one end of a lattice of 2,048 GPUs to the other by doubling."""
FINEST = 256
"""Parts of a lattice below which no climb looks: of thousands of places neighbours are worth the same."""


def climbed(
    sizes: list[int],
    start: int,
    ask: Callable[[int], float | None],
    looks: Iterable[int] = (),
    finest: int = FINEST,
) -> Mapping[int, float]:
    """Worths along a sorted lattice, from `start` uphill in steps that double, then closing in, first on the side
    that is higher further out. One hill is assumed; where there may be more, the climb is from the best of some places.

    The neighbours of the best, and of the start, are always among them, so that their sides are known; of the best
    those a `finest`-th of the lattice away.
    """
    known: dict[int, float | None] = {}

    def worth(spot: int) -> float:
        if not 0 <= spot < len(sizes):
            return float("-inf")
        if spot not in known:
            known[spot] = ask(sizes[spot])
        return told(spot)

    def told(spot: int) -> float:
        """Where nothing is known, nothing is promised."""
        found = known.get(spot)
        return float("-inf") if found is None else found

    least = max(1, len(sizes) // finest)
    best, stride, grown = max((sizes.index(start), *looks), key=worth), least, True
    for _ in range(CLIMB_MAX):
        sides = sorted((-stride, stride), key=lambda side: told(best + 2 * side), reverse=True)
        better = next((best + side for side in sides if worth(best + side) > worth(best)), None)
        if better is not None:
            best, stride = better, stride * 2 if grown else stride
        elif stride > least:
            stride, grown = max(least, stride // 2), False
        else:
            break
    return {sizes[spot]: found for spot, found in known.items() if found is not None}


def nearest_best(worths: Mapping[int, float], start: int) -> int:
    """As good as the best but for what is flat, and no further from `start` than it must be."""
    enough = (1.0 - FLAT) * max(worths.values())
    return min((spot for spot, worth in worths.items() if worth >= enough), key=lambda spot: abs(spot - start))
