"""Another hand at a knob while a move of ours walks: what it set stays, and the walk ends. Adopt, never fight.

    a value that is none of the walk's  ->  nothing is ordered (policies/moves.py)
    the same at the next look           ->  the move goes home without that knob: what we took is given back as far as
                                            the GPUs allow
    fewer GPUs than any of the walk's   ->  the same, but only once the leg is late: engines that start anew and nodes
                                            that come back look so for a while

# 64 : 192 on the way to 48 : 208, somebody sets 1,000 in flight -> 64 : 192 with 1,000 in flight
# undone at 64 : 192, and then 48 : 192 is in force: that was we, and 64 : 192 is ordered again
# 48 : 192 on the way to 48 : 208, somebody gives the generator 216: with 64 for the trainer that were 280 of 256 GPUs,
#   so it ends at 48 : 216
"""

from collections.abc import Iterable
from dataclasses import replace
from math import inf
from typing import Any

from policies.between import SIDES, outside
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
    lowest = {name: min(values(settings).get(name, inf) for settings in move.path) for name in odd if name in GPUS_OF}
    return {name: value for name, value in odd.items() if value > lowest.get(name, -1.0)}


def let_go(move: Move, in_force: Setpoints, odd: dict[str, float], now_s: float) -> Move:
    """The move on its way home, with what is another's as they set it. Where that leaves no GPUs to go home with, home
    is what is in force: ordered once more, so that nothing of ours is on its way any longer."""
    names = POOL if any(name in POOL for name in odd) else ()
    theirs: dict[str, Any] = {name: values(in_force).get(name) for name in (*names, *odd)}
    why = f"{', '.join(f'{name} is {value:g}' for name, value in odd.items())}, set by another hand"
    if _most(move, theirs) > (gpus(move.origin) or 0):
        return back(replace(move, path=(in_force, move.goal), at=1), now_s, why)
    # What was not ordered of it is no part of the move from now on; what was may be on its way, and is called off.
    rest = {name: value for name, value in theirs.items() if not _ordered(move, name)}
    homeward = (replace(settings, **theirs) for settings in move.path[:-1])
    kept = replace(move, path=(*homeward, replace(move.goal, **rest)))
    return replace(kept, why_back=why) if move.stage in (Stage.BACK, Stage.STUCK) else back(kept, now_s, why)


def is_ours(move: Move, turned: Iterable[str], in_force: Setpoints) -> bool:
    """True where all that was turned since a move was undone is what it had ordered: a leg that came all the same."""
    known = [due(move, at) for at in range(len(move.path))]
    return set(turned) <= values(touched(move)).keys() and not outside(known, in_force)


def home_again(move: Move, now_s: float) -> Move:
    """A move that was undone, on its way home once more."""
    why = "an order of it came into force after it was undone"
    return replace(move, stage=Stage.BACK, at=0, since_s=now_s, why_back=why, confirmed=False, refusals=0)


def retried(move: Move) -> Move:
    """A stuck move that somebody wants to be tried again at once; any other as it is."""
    return replace(move, stuck=0) if move.stage is Stage.STUCK else move


def _ordered(move: Move, name: str) -> bool:
    """True where another value than before may have been ordered of it."""
    return len({values(settings).get(name) for settings in _so_far(move)}) > 1


def _so_far(move: Move) -> tuple[Setpoints, ...]:
    """The settings that were ordered, and the one before."""
    return move.path[: move.at + 1] if move.stage in (Stage.WALK, Stage.VERIFY) else move.path


def _most(move: Move, theirs: dict[str, Any]) -> int:
    """GPUs at home, should all that was ordered of the side that is another's come true yet; 0 for no split."""
    if gpus(move.origin) is None or not any(side in values(touched(move)) for side in SIDES):
        return 0
    most = {side: values(move.origin)[side] for side in SIDES}
    for side in (side for side in SIDES if theirs.get(side) is not None):
        most[side] = max(theirs[side], *(values(settings)[side] for settings in _so_far(move)))
    return sum(most.values())
