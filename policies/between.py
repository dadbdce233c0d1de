"""What may be in force between two settings of a move."""

from collections.abc import Sequence

from policies.settings import merged, values
from simulators.plant import Setpoints

SIDES = ("gpus_trainer", "gpus_generator")


def outside(ours: Sequence[Setpoints], seen: Setpoints) -> dict[str, float]:
    """What is in force and lies between none of these settings, in the fields that all of them name.

    Engines come and go one by one: whatever lies between two settings is on the way from one to the other.
    # 192 and 208 for the generator: 200 is none | 216 is | 184 too
    """
    known, there = [values(settings) for settings in ours], values(seen)
    names = [name for name in known[0] if name in there and all(name in settings for settings in known)]
    ends = {name: [settings[name] for settings in known] for name in names}
    return {name: there[name] for name in names if not min(ends[name]) <= there[name] <= max(ends[name])}


def peak(now: Setpoints, wish: Setpoints) -> int:
    """GPUs in use at most while a wish comes true, whichever half of it comes first; 0 where a side is not known.

    # 48 : 192, wish 64 : 192 -> 256 | 48 : 208, wish 64 : 192 -> 272
    """
    before, after = values(now), values(merged(now, wish))
    if any(side not in before for side in SIDES):
        return 0
    return sum(max(before[side], after[side]) for side in SIDES)
