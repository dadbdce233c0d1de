"""A move as a walk along a path of settings that can fail halfway: a saga, as a pure state machine.

GPUs change sides in two legs: the donor drains and shrinks, then the receiver grows. So the path is

    origin (64 : 192)  ->  between (48 : 192)  ->  goal (48 : 208)

and a leg is ordered only when the setting before it is in force: the total never exceeds the larger of both ends.
Each tick orders the setting that is due, again and again until it is seen in force: the actuators are idempotent, and a
controller that was killed anywhere goes on from its last written state.

    WALK    -> next setting when this one is in force; VERIFY at the goal; BACK when a leg takes too long or is refused
    VERIFY  -> SETTLE when the engines are healthy *and* serve the current version; BACK when that takes too long
    SETTLE  -> DONE after the settling time
    BACK    -> the setting before when this one is in force *and* the plant confirms that nothing else is on its way
               (a late leg must not arrive after its GPUs were given back); UNDONE at the origin; STUCK when too late
    STUCK   -> ends the move: what is in force is adopted, the knob is frozen, a person is told

# 48:192 never in force -> BACK: order 64:192, UNDONE | VERIFY fails at 48:208 -> BACK: 48:192, then 64:192

Inside a weight sync nothing is ordered, and the leg's clock stands still.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from policies.settings import SPLIT, difference, knobs_of, merged, met, values
from simulators.plant import Setpoints, Status

REFUSALS_MAX = 3
"""A leg that the plant refused so often has failed."""
SYNC_MOST_S = 1800.0
"""A weight sync is over by then; what still looks like one is an engine that hangs, and the leg's clock goes on."""
GIVEN_UP_S = 300.0
"""An actuator that gives up by itself is asked for so much longer: its own word of it, and that it took back its part,
is better than ours."""
SHRINK_WITH_GENERATOR = frozenset({"gpus_generator", "engines", "gpus_prefill", "gpus_decode", "max_in_flight"})


class Stage(StrEnum):
    WALK = "walk"
    VERIFY = "verify"
    SETTLE = "settle"
    BACK = "back"
    DONE = "done"
    UNDONE = "undone"
    STUCK = "stuck"


ENDED = (Stage.DONE, Stage.UNDONE, Stage.STUCK)


@dataclass(frozen=True, slots=True)
class Move:
    decision_id: str
    path: tuple[Setpoints, ...]
    """Whole settings from the origin to the goal; neighbours differ by one leg."""
    begun_s: float
    leg_limit_s: float
    """A leg that is not in force after this has failed."""
    settle_s: float
    """From an order until signals may be trusted: actuation, and what was started under the old setting."""
    reason: str
    actuation_s: float = 0.0
    """The part of `settle_s` that is over once the new setting is in force."""
    at: int = 1
    """The setting that is being ordered."""
    stage: Stage = Stage.WALK
    since_s: float = 0.0
    """When this leg or stage began; later by the weight syncs since."""
    gives_up_s: float = 0.0
    """After this an actuator itself takes back what has not come true; 0: none does."""
    syncing_s: float | None = None
    """Since when a weight sync is under way."""
    confirmed: bool = False
    """The plant has answered `applied` to an order of this setting."""
    refusals: int = 0
    why_back: str = ""

    @property
    def origin(self) -> Setpoints:
        return self.path[0]

    @property
    def goal(self) -> Setpoints:
        return self.path[-1]

    @property
    def rest_s(self) -> float:
        """Settling that is left once the new setting is in force."""
        return max(0.0, self.settle_s - self.actuation_s)

    @property
    def late_s(self) -> float:
        """How long a leg or stage may take."""
        return max(self.leg_limit_s, self.gives_up_s + GIVEN_UP_S if self.gives_up_s else 0.0)

    @property
    def ended(self) -> bool:
        return self.stage in ENDED


@dataclass(frozen=True, slots=True)
class Scene:
    """What a move needs to see of the plant."""

    now_s: float
    in_force: Setpoints
    syncing: bool = False
    """A weight sync is under way: nothing is ordered inside one."""
    unready: str = ""
    """Why the receiver does not serve yet; empty: engines healthy, with the current version."""


def path_of(origin: Setpoints, changes: Setpoints, at_once: bool = False) -> tuple[Setpoints, ...]:
    """The settings to walk through: where GPUs change sides the donor shrinks first, all the rest is the second leg.

    `at_once`: one restart of the whole job carries it all; two legs would be two restarts.
    """
    goal = merged(origin, changes)
    if at_once or SPLIT not in knobs_of(difference(origin, goal)):
        return (origin, goal)
    if None in (origin.gpus_trainer, origin.gpus_generator):
        raise ValueError("a split cannot move while gpus_trainer or gpus_generator in force is unknown")
    between = merged(origin, _smaller(origin, goal))
    return (origin, goal) if between in (origin, goal) else (origin, between, goal)


def _smaller(origin: Setpoints, goal: Setpoints) -> Setpoints:
    """The part of a split that takes GPUs away."""
    before, after = values(origin), values(difference(origin, goal))
    shrinking: set[str] = set()
    if after.get("gpus_trainer", before["gpus_trainer"]) < before["gpus_trainer"]:
        shrinking |= {"gpus_trainer"}
    if after.get("gpus_generator", before["gpus_generator"]) < before["gpus_generator"]:
        shrinking |= SHRINK_WITH_GENERATOR
    return Setpoints(**{n: v for n, v in after.items() if n in shrinking})


def advanced(move: Move, scene: Scene) -> Move:
    """The move after one look at the plant. Every stage ends, by success or in time."""
    move = _clocked(move, scene)
    late = scene.now_s - _stood_s(move, scene) - move.since_s > move.late_s
    match move.stage:
        case Stage.WALK:
            return _walked(move, scene, late)
        case Stage.VERIFY:
            return _verified(move, scene, late)
        case Stage.SETTLE:
            return _to(move, scene, Stage.DONE) if scene.now_s - move.since_s >= move.rest_s else move
        case Stage.BACK:
            return _retraced(move, scene, late)
        case _:
            return move


def _clocked(move: Move, scene: Scene) -> Move:
    """The move with its clock held while a weight sync lasts, and set on when it is over; settling goes on in one."""
    if move.ended or move.stage is Stage.SETTLE:
        return move
    if scene.syncing:
        return move if move.syncing_s is not None else replace(move, syncing_s=scene.now_s)
    if move.syncing_s is None:
        return move
    return replace(move, since_s=move.since_s + _stood_s(move, scene), syncing_s=None)


def _stood_s(move: Move, scene: Scene) -> float:
    """How long the clock has been held by the sync under way."""
    return 0.0 if move.syncing_s is None else min(scene.now_s - move.syncing_s, SYNC_MOST_S)


def order_of(move: Move, scene: Scene) -> Setpoints | None:
    """What is to be ordered now: the setting that is due, in the fields that the move touches; None while waiting."""
    if move.ended or scene.syncing or move.stage is Stage.SETTLE:
        return None
    wish = due(move)
    done = met(scene.in_force, wish) and (move.confirmed or move.stage is not Stage.BACK)
    return None if done else wish


def answered(move: Move, status: Status) -> Move:
    """The move after the plant's answer to its last order."""
    if status is Status.REFUSED:
        return replace(move, refusals=move.refusals + 1, confirmed=False)
    return replace(move, refusals=0, confirmed=status is Status.APPLIED)


def back(move: Move, now_s: float, why: str) -> Move:
    """The same move walked back, from wherever it is: the setting before the one that is due comes next."""
    at = max(0, move.at - 1)
    return replace(
        move, stage=Stage.BACK, at=at, since_s=now_s, syncing_s=None, why_back=why, confirmed=False, refusals=0
    )


def due(move: Move) -> Setpoints:
    """The setting at the move's place, in the fields that it touches at all."""
    touched = values(difference(move.origin, move.goal))
    return Setpoints(**{n: v for n, v in values(move.path[move.at]).items() if n in touched})


def _to(move: Move, scene: Scene, stage: Stage) -> Move:
    return replace(move, stage=stage, since_s=scene.now_s, syncing_s=None, confirmed=False, refusals=0)


def _walked(move: Move, scene: Scene, late: bool) -> Move:
    if met(scene.in_force, due(move)):
        if move.at == len(move.path) - 1:
            return _to(move, scene, Stage.VERIFY)
        return replace(_to(move, scene, Stage.WALK), at=move.at + 1)
    if move.refusals >= REFUSALS_MAX:
        return back(move, scene.now_s, f"leg {move.at} was refused {move.refusals} times")
    if late:
        return back(move, scene.now_s, f"leg {move.at} was not in force after {move.late_s:.0f} s")
    return move


def _verified(move: Move, scene: Scene, late: bool) -> Move:
    why = scene.unready if met(scene.in_force, due(move)) else "the new setting did not stay in force"
    if not why:
        return _to(move, scene, Stage.SETTLE)
    return back(move, scene.now_s, why) if late else move


def _retraced(move: Move, scene: Scene, late: bool) -> Move:
    if met(scene.in_force, due(move)) and move.confirmed:
        if move.at == 0:
            return _to(move, scene, Stage.UNDONE)
        return replace(_to(move, scene, Stage.BACK), at=move.at - 1)
    return _to(move, scene, Stage.STUCK) if late else move
