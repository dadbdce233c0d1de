"""How much faster the generator could be than it is asked to: by what it waits, by its queue, or by belief.

A queue of finished rollouts that the trainer finds full holds the generator up; one that it finds with room did not.
The room W before a batch is taken, in batches, is a random walk that is reflected at 0: each step takes a batch and
the generator, were it not held up, makes 1 + d of one, with a relative scatter s. Kingman (1962) bounds its mean from
E[W'^2] - E[W^2] <= s^2 - 2 d E[W]; over N steps, from a room of W_0 to one of W_N, that is

    d <= s^2 / (2 W) + (W_0^2 - W_N^2) / (2 W N)
    d >= (W_0 - W_N) / N        (what is stored was made)

to a standard error of s / sqrt(N), the first one times the spread of W; a settled queue leaves its first term alone.
s^2 is that of a batch's tokens (groups of G, whose lengths share h of their variance) and of the step's time:

    s^2 = CV^2 (1 + (G - 1) h) / n + STEP_SCATTER^2

    # room for 0.2 batches, n 256, G 8, CV 0.8, h 0.5: s 0.15, headroom at most 1.05
    # the same of a queue that is read when its batch is gone (room 1.2): the same; read with room 0.9: nothing is told
    # room that shrinks from 8 batches to 2 within 20 steps, s 0.15: 1.23 to 1.37
"""

from dataclasses import dataclass
from math import expm1, sqrt

from simulators.calibration.priors import HEADROOM, STEP_SCATTER, Prior
from simulators.plant import Setpoints
from simulators.snapshot import Snapshot

STEPS_MIN = 5
"""Fewer steps than this do not tell a settled queue from one that fills."""
ERRORS = 2.0
"""Standard errors by which what so many steps tell may be off."""


@dataclass(frozen=True, slots=True)
class Room:
    """What the trainer finds free in the queue when it begins to take a batch, in batches; at least that much."""

    mean: float
    by_step: tuple[float, ...] = ()
    """Empty where only the average over a run is known, which is taken to be settled."""
    steps: int = 0
    """From the first of `by_step` to the last."""

    @property
    def spread(self) -> float:
        """Root of the mean square over the mean: 1 of a constant, 1.41 of a settled walk."""
        return sqrt(sum(room**2 for room in self.by_step) / len(self.by_step)) / self.mean


def queue_room(setpoints: Setpoints, snapshot: Snapshot) -> Room | None:
    """None where no bounded queue is logged, or where something else than its end may hold the generator up.

    A depth that is read while a batch is taken or after it lacks that much of the batch (`queue_taken_frac`; unknown:
    all of it), so that it may be one that was found full. Under a staleness bound the generator may stop before the
    queue is full: what is in flight and what is stored are at most one batch more than the bound.
    """
    depth, capacity, batch = (snapshot.get(name) for name in ("queue_depth", "queue_capacity", "batch_rollouts"))
    if depth is None or not capacity or not batch:
        return None
    if setpoints.staleness_bound is not None:
        in_flight = snapshot.get("inflight_rollouts") or setpoints.max_in_flight
        if in_flight is None:
            return None
        capacity = min(capacity, (setpoints.staleness_bound + 1.0) * batch - in_flight)
    taken = snapshot.get("queue_taken_frac")
    gone = 1.0 if taken is None else taken
    mean = (capacity - depth) / batch - gone
    if mean <= 0.0:
        return None
    if not (snapshot.rows or snapshot.engine_rows):
        return Room(mean)
    series = tuple(max(0.0, (capacity - at) / batch - gone) for at in _by_step(snapshot))
    return None if len(series) < STEPS_MIN else Room(mean, series, snapshot.signals["queue_depth"].n - 1)


def _by_step(snapshot: Snapshot) -> list[float]:
    """Depths of the trainer's steps; those of scrapes do not say how many steps lie between them."""
    stepped = any("queue_depth" in row.values for row in snapshot.rows)
    return snapshot.series("queue_depth") if stepped else []


def scatter_frac(sigma: float, between_prompt_frac: float, setpoints: Setpoints) -> float:
    """Relative deviation of what the generator makes while one batch is trained: lognormal lengths, and the step."""
    size, group = setpoints.batch_rollouts or 1, setpoints.group_size or 1
    lengths = expm1(sigma**2) * (1.0 + (group - 1) * between_prompt_frac) / size
    return sqrt(lengths + STEP_SCATTER**2)


def headroom_of(room: Room | None, scatter: float) -> Prior:
    """What is believed of the headroom, given the room that the trainer finds in the queue."""
    if room is None:
        return HEADROOM
    least, most = 0.0, 0.5 * scatter**2 / room.mean
    if room.by_step:
        first, last, error = room.by_step[0], room.by_step[-1], ERRORS * scatter / sqrt(room.steps)
        least = max(0.0, (first - last) / room.steps - error)
        most += max(0.0, first**2 - last**2) / (2.0 * room.mean * room.steps) + room.spread * error
    low = HEADROOM.low + least
    return Prior(low, max(low, min(HEADROOM.high, HEADROOM.low + most)))
