"""Another hand at a knob while a move of ours walks: what it set stays, and the walk ends. Adopt, never fight.

    a value that is none of the walk's  ->  nothing is ordered (policies/moves.py); the move goes on without that knob,
                                            on its way home: what we took is given back as far as the GPUs allow
    fewer GPUs than any of the walk's   ->  the same, but only once the leg is late: engines that start anew and nodes
                                            that come back look so for a while

# 64 : 192 on the way to 48 : 208, somebody sets 1,000 in flight -> 64 : 192 with 1,000 in flight
# 48 : 192 on the way to 48 : 208, somebody takes 24 more for the generator: 48 : 216 is 264 of 256 with 64 for the
#   trainer, so the move ends there and then
"""

from dataclasses import replace
from typing import Any

from policies.between import SIDES
from policies.moves import Move, Scene, Stage, back, due, is_late, strange, touched
from policies.settings import GPUS_OF, gpus, values
from simulators.plant import Setpoints

POOL = ("gpus_generator", "engines", "gpus_prefill", "gpus_decode")
"""Who has a hand at one of these has it at all of them: they count the same engines."""


def foreign(move: Move, scene: Scene) -> dict[str, float]:
    """What somebody else turned of the knobs that the move touches."""
    odd = strange(move, scene.in_force)
    if is_late(move, scene):
        return odd
    lowest = {name: min(values(settings)[name] for settings in move.path) for name in odd if name in GPUS_OF}
    return {name: value for name, value in odd.items() if value > lowest.get(name, -1.0)}


def let_go(move: Move, in_force: Setpoints, odd: dict[str, float], now_s: float) -> Move | None:
    """The move without what is another's, on its way home; None where nothing of it is left, or no GPUs for it."""
    names = POOL if any(name in POOL for name in odd) else ()
    theirs: dict[str, Any] = {name: values(in_force).get(name) for name in (*names, *odd)}
    why = f"{', '.join(f'{name} is {value:g}' for name, value in odd.items())}, set by another hand"
    there = replace(move, path=tuple(replace(settings, **theirs) for settings in move.path))
    if touched(there) == Setpoints() or _most(move, theirs) > (gpus(move.origin) or 0):
        return None
    if move.stage in (Stage.BACK, Stage.STUCK):
        return replace(there, why_back=why)
    return back(there, now_s, why)


def _most(move: Move, theirs: dict[str, Any]) -> int:
    """GPUs at home, should all that was ordered of the side that is another's come true yet; 0 for no split."""
    if gpus(move.origin) is None or not any(side in values(touched(move)) for side in SIDES):
        return 0
    ordered = range(move.at + 1) if move.stage in (Stage.WALK, Stage.VERIFY) else range(len(move.path))
    most = {side: values(move.origin)[side] for side in SIDES}
    for side in (side for side in SIDES if theirs.get(side) is not None):
        most[side] = max(theirs[side], *(values(due(move, at)).get(side, 0) for at in ordered))
    return sum(most.values())
