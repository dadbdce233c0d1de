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
    STUCK   -> BACK again after a rest that doubles each time; after TRIES of them a person is waited for where GPUs are
               unused in between, else LOST: what is in force is adopted

# 48:192 never in force -> BACK: order 64:192, UNDONE | VERIFY fails at 48:208 -> BACK: 48:192, then 64:192
# neither 48:208 in force nor 48:192 confirmed -> STUCK for 300 s, 16 GPUs unused; then BACK again

What turns at a step's end has some steps for it, and new engines have some for their weights (policies/patience.py).
Inside a weight sync nothing is ordered, and the leg's clock stands still. Nor is a knob that another hand is at, which
shows what is none of the walk's (policies/hands.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import inf

from policies.between import outside, peak
from policies.settings import SPLIT, difference, gpus, knobs_of, merged, met, values
from simulators.plant import Setpoints, Status

REFUSALS_MAX = 3
"""A leg that the plant refused so often has failed."""
SYNC_MOST_S = 1800.0
"""A weight sync is over by then; what still looks like one is an engine that hangs, and the leg's clock goes on."""
GIVEN_UP_S = 300.0
"""An actuator that gives up by itself is asked for so much longer: its own word of it, and that it took back its part,
is better than ours."""
SHRINK_WITH_GENERATOR = frozenset({"gpus_generator", "engines", "gpus_prefill", "gpus_decode", "max_in_flight"})
TRIES = 5
"""Rests of 1, 2, 4, 8 and 16 times as long as a leg may take: what a cluster repairs by itself is repaired by then, and
each try may cost a job that is ill already a restart."""


class Stage(StrEnum):
    WALK = "walk"
    VERIFY = "verify"
    SETTLE = "settle"
    BACK = "back"
    DONE = "done"
    UNDONE = "undone"
    STUCK = "stuck"
    LOST = "lost"


ENDED = (Stage.DONE, Stage.UNDONE, Stage.LOST)


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
    verify_limit_s: float = 0.0
    """Engines that do not serve after this never will; as a leg where that is longer."""
    syncing_s: float | None = None
    """Since when a weight sync is under way."""
    confirmed: bool = False
    """The plant has answered `applied` to an order of this setting."""
    taken: bool = False
    """The plant has not refused all orders so far: one may be on its way."""
    refusals: int = 0
    odd: Mapping[str, float] = field(default_factory=dict)
    """What the last look showed of another hand: one look may be garbage, two alike are not."""
    why_back: str = ""
    owed: int = 0
    """The leg that was late, until it is seen in force after all; 0: none."""
    stuck: int = 0
    """How often the way home has failed."""

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
        own_s = self.verify_limit_s if self.stage is Stage.VERIFY else 0.0
        return max(self.leg_limit_s, own_s, self.gives_up_s + GIVEN_UP_S if self.gives_up_s else 0.0)

    @property
    def retry_s(self) -> float:
        """How long a stuck move rests before its way home is tried again; for good after TRIES."""
        return inf if self.stuck > TRIES else self.late_s * (2.0 ** (self.stuck - 1) if self.stuck else 0.0)

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
    move = _paid(_clocked(move, scene), scene)
    late = is_late(move, scene)
    match move.stage:
        case Stage.WALK:
            return _walked(move, scene, late)
        case Stage.VERIFY:
            return _verified(move, scene, late)
        case Stage.SETTLE:
            return _to(move, scene, Stage.DONE) if scene.now_s - move.since_s >= move.rest_s else move
        case Stage.BACK:
            return _retraced(move, scene, late)
        case Stage.STUCK:
            return _to(move, scene, Stage.BACK) if scene.now_s - move.since_s >= move.retry_s else move
        case _:
            return move


def is_late(move: Move, scene: Scene) -> bool:
    return scene.now_s - _stood_s(move, scene) - move.since_s > move.late_s


def _paid(move: Move, scene: Scene) -> Move:
    """The move without the debt of a late leg once that is in force: it was slow, not dead."""
    return replace(move, owed=0) if move.owed and met(scene.in_force, due(move, move.owed)) else move


def _clocked(move: Move, scene: Scene) -> Move:
    """The move with its clock held while a weight sync lasts, and set on when it is over; settling goes on in one."""
    if move.ended or move.stage in (Stage.SETTLE, Stage.STUCK):
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
    if move.ended or scene.syncing or move.stage in (Stage.SETTLE, Stage.STUCK):
        return None
    wish = due(move)
    if strange(move, scene.in_force) or _over(move, scene.in_force):
        return None
    done = met(scene.in_force, wish) and (move.confirmed or move.stage is not Stage.BACK)
    return None if done else wish


def answered(move: Move, status: Status) -> Move:
    """The move after the plant's answer to its last order."""
    if status is Status.REFUSED:
        return replace(move, refusals=move.refusals + 1, confirmed=False)
    return replace(move, refusals=0, confirmed=status is Status.APPLIED, taken=True)


def back(move: Move, now_s: float, why: str) -> Move:
    """The same move walked back, from wherever it is: the setting before the one that is due comes next."""
    at, owed = max(0, move.at - 1), move.at if move.stage is Stage.WALK else 0
    found = replace(move, stage=Stage.BACK, at=at, since_s=now_s, syncing_s=None, why_back=why, owed=owed)
    return replace(found, confirmed=False, refusals=0)


def touched(move: Move) -> Setpoints:
    """The goal, in the fields that the move touches."""
    return difference(move.origin, move.goal)


def due(move: Move, at: int | None = None) -> Setpoints:
    """The setting at the move's place (or at another of its path), in the fields that it touches."""
    names = values(touched(move))
    return Setpoints(**{n: v for n, v in values(move.path[move.at if at is None else at]).items() if n in names})


def strange(move: Move, in_force: Setpoints) -> dict[str, float]:
    """What is in force of the fields that the move touches and can be none of its doing: on the way back all that was
    ordered since may show itself."""
    onward = move.stage in (Stage.WALK, Stage.VERIFY)
    shown = range(move.at - 1, move.at + 1) if onward else range(move.at, len(move.path))
    return outside([due(move, at) for at in shown], in_force)


def unused(move: Move, in_force: Setpoints) -> int:
    """GPUs that the job had before the move and has no more; 0 where that is not known."""
    before, now = gpus(move.origin), gpus(in_force)
    return 0 if before is None or now is None else max(0, before - now)


def _over(move: Move, in_force: Setpoints) -> bool:
    """True when the leg that is due would exceed all GPUs, should its halves come one after the other."""
    return len(move.path) > 2 and peak(in_force, due(move)) > max(gpus(move.origin) or 0, gpus(in_force) or 0)


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
    if move.at == 0 and _over(move, scene.in_force):  # a leg that had been called off came all the same
        return replace(_to(move, scene, Stage.BACK), at=1, since_s=move.since_s)
    if not late:
        return move
    if not move.taken and met(scene.in_force, due(move, 0)):  # whoever refused all that was ordered has nothing to undo
        return _to(move, scene, Stage.UNDONE)
    for_good = move.stuck >= TRIES and not unused(move, scene.in_force)
    return replace(_to(move, scene, Stage.LOST if for_good else Stage.STUCK), stuck=move.stuck + 1)
