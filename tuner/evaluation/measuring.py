"""What an evaluation counts of a run: when it was through, what it broke, how it went."""

from collections.abc import Sequence
from math import inf
from statistics import fmean

from policies.base import Direction
from policies.control import Action
from policies.settings import SPLIT, difference, direction
from simulators.pipeline import SimulatedPlant
from simulators.plant import Receipt
from simulators.signals import TINY
from simulators.step_log import StepLog
from tuner.evaluation.breaking import excesses
from tuner.evaluation.counterfactual import Turned
from tuner.evaluation.tasks import Judged, Point, Run, Task, Turn
from tuner.journal import Entry, Ledger

POINTS = 120
"""Of a trajectory, for pictures."""


class Tally:
    """A ledger that keeps what an evaluation counts, and hands each tick on to another where there is one."""

    def __init__(self, journal: Ledger | None = None) -> None:
        self.journal = journal
        self.turns: list[Turn] = []
        self.moves: set[str] = set()
        self.holds: dict[str, int] = {}
        self.gains: list[tuple[Turned, Judged]] = []
        self._open: dict[str, Turned] = {}

    def commit(self, entry: Entry) -> int:
        decision, move = entry.decision, entry.state.move
        if decision.code is not None:
            self.holds[decision.code] = self.holds.get(decision.code, 0) + 1
        told = decision.outcome
        if told is not None and told.predicted is not None and told.decision_id in self._open:
            p, r = told.predicted, told.realised
            seen = (None, None, None) if r is None else (r.low, r.mean, r.high)
            self.gains.append((self._open.pop(told.decision_id), Judged(p.low, p.mean, p.high, *seen)))
        if decision.action is Action.APPLY and move is not None:
            self._begun(entry, move.decision_id, move.stage == "back", move.settle_s)
        return 0 if self.journal is None else self.journal.commit(entry)

    def answer(self, tick_id: int, receipt: Receipt) -> None:
        if self.journal is not None:
            self.journal.answer(tick_id, receipt)

    def _begun(self, entry: Entry, ident: str, reverting: bool, settle_s: float) -> None:
        move = entry.state.move
        name = ident + ("b" if reverting else "")
        if move is None or name in self.moves:
            return
        self.moves.add(name)
        if not reverting:
            self._open[ident] = Turned(entry.seen.inventory.steps_done or 0, entry.at_s, move.origin, move.goal)
        way = direction(move.origin, difference(move.origin, move.goal), SPLIT)
        if way in (Direction.UP, Direction.DOWN):
            self.turns.append(Turn(entry.at_s, (way is Direction.UP) != reverting, settle_s, reverting))


def run_of(task: Task, plant: SimulatedPlant, goal: float) -> Run:
    seconds = reached_s(plant.log, goal)
    useful = sum(log.useful for log in plant.log)
    short = None if seconds is not None else plant.stopped or "the goal was not reached in time"
    if seconds is None:
        seconds = plant.now_s * goal / useful if useful > 0.0 else inf
    broken = excesses(task.scenario, plant.log)
    return Run(
        task.name,
        task.policy,
        task.seed,
        seconds,
        goal,
        steps=plant.step,
        unfinished=short,
        violations={name: len(found) for name, found in broken.items()},
        excess=broken,
        points=points_of(plant.log, goal),
    )


def reached_s(log: Sequence[StepLog], goal: float) -> float | None:
    """When `goal` useful rollouts were trained, straight between steps; None: never."""
    made, before_s = 0.0, 0.0
    for entry in log:
        at_s = entry.row.time_s or before_s
        if made + entry.useful >= goal - 0.5:
            share = (goal - made) / entry.useful if entry.useful else 1.0
            return before_s + min(1.0, max(0.0, share)) * (at_s - before_s)
        made, before_s = made + entry.useful, at_s
    return None


def points_of(log: Sequence[StepLog], goal: float) -> tuple[Point, ...]:
    """The trajectory, thinned; each point the mean of its steps."""
    size = max(1, -(-len(log) // POINTS))
    made, found = 0.0, []
    for start in range(0, len(log), size):
        part = log[start : start + size]
        useful = sum(entry.useful for entry in part)
        seconds = max(TINY, sum(entry.row.values.get("step_s", 0.0) for entry in part))
        idle = sum(entry.row.values.get("trainer_wait_s", 0.0) for entry in part) / seconds
        made += useful
        knobs, last = part[-1].job.setpoints, part[-1].row
        found.append(
            Point(
                made / goal,
                last.time_s or 0.0,
                last.step or 0,
                knobs.gpus_trainer,
                knobs.max_in_flight,
                knobs.max_in_flight_per_engine,
                knobs.oversampling_ratio,
                knobs.gpus_prefill,
                useful / seconds,
                idle,
                fmean(entry.row.values.get("generator_util_frac", 0.0) for entry in part),
                fmean(entry.row.values.get("staleness_mean", 0.0) for entry in part),
            )
        )
    return tuple(found)
